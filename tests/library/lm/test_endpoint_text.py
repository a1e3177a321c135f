"""Texts of a served model are what it wrote up to the stop, whatever happens on the way, and none
is asked for twice.
"""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.ground.errors import ModelError
from dpicl.models.endpoint import protocol
from dpicl.models.endpoint.protocol import GarbledError, Outcome, read_reply
from dpicl.models.endpoint.scorer import EndpointScorer
from dpicl.models.endpoint.ways import MOST_STOPS, read_text
from dpicl.models.kinds.fake import HashScorer
from dpicl.models.requests import Sampling, Tallying, before_stop
from dpicl.report.sentences import ANSWERS, answers
from tests.library.endpoint_server import EndpointServer, Habits, serving, text_of, writing
from tests.library.lm.test_endpoint import spec_of

BLANKED = [" No", " Yes"]
PROMPTS = [f"Row {number}. Who directed it? Answer:" for number in (3, 1, 2, 1)]
MANY = [f"Row {number}. Who directed it? Answer:" for number in range(40)]
LINE: Any = {"new_tokens": 16, "stop": ("\n",)}
FAULTS = ("429", "500", "502", "503", "408", "truncate", "cut", "close", "abort")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "BACKOFF_SECONDS", 0.01)


def opened(server: EndpointServer, **more: object) -> EndpointScorer:
    """A model of a running server, opened for texts."""
    return EndpointScorer(spec_of(server, **more), wanted="text")


def said(prompt: str, place: int | None = None, *, temperature: float = 0.0, seed: int = 0) -> str:
    """The truth: what the server writes up to the end of the line."""
    return writing(prompt, temperature, seed + (place or 0)).partition("\n")[0]


@pytest.mark.parametrize("api, lead", [("completions", " "), ("chat", "")])
def test_a_text_is_what_the_server_writes_up_to_the_stop(api: str, lead: str) -> None:
    with serving(Habits(writes=True)) as server:
        writer = opened(server, api=api)
        assert (writer.description.mode, writer.description.note) == (
            f"{api} text",
            "context length not stated; repeats agree",
        )
        probed = len(server.requests)
        assert writer.generate(PROMPTS, Sampling(**LINE)) == [
            lead + said(prompt) for prompt in PROMPTS
        ]
        asked = server.requests[probed:]
    assert sorted(map(text_of, asked)) == sorted(set(PROMPTS))
    assert all(
        one["max_tokens"] == 16 and one["temperature"] == 0 and "seed" not in one for one in asked
    )


@pytest.mark.parametrize("apis", [("completions", "chat"), ("chat",)])
def test_completions_come_first_because_they_go_on_as_a_local_model_does(
    apis: tuple[str, ...],
) -> None:
    with serving(Habits(writes=True, apis=apis)) as server:
        assert opened(server).description.mode == f"{apis[0]} text"


def test_texts_need_no_log_probabilities_and_scores_still_do() -> None:
    with serving(Habits(logprobs="none", writes=True)) as server:
        writer = opened(server)
        assert not any({"logprobs", "echo"} & set(asked) for asked in server.requests)
        with pytest.raises(ModelError, match="cannot score No and Yes"):
            writer.score(PROMPTS, BLANKED)
        assert writer.generate(PROMPTS[:1], Sampling(**LINE)) == [" " + said(PROMPTS[0])]


def test_what_was_opened_for_scores_writes_the_same_texts() -> None:
    with serving(Habits(writes=True)) as server:
        scorer, writer = EndpointScorer(spec_of(server)), opened(server)
        assert scorer.description.mode == "completions top-20 logprobs, else echo"
        assert scorer.generate(PROMPTS, Sampling(**LINE)) == writer.generate(
            PROMPTS, Sampling(**LINE)
        )
        for one in (scorer, writer):
            assert np.array_equal(one.score(PROMPTS, BLANKED), HashScorer().score(PROMPTS, BLANKED))


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_all_faults_together_change_no_sample(api: str) -> None:
    with serving(Habits(writes=True, faults=FAULTS, fault_every=5)) as server:
        writer = opened(server, api=api)
        texts = writer.generate(MANY, Sampling(**LINE, temperature=0.8, seed=5))
    assert [text.strip() for text in texts] == [
        said(prompt, place, temperature=0.8, seed=5) for place, prompt in enumerate(MANY)
    ]


def test_samples_of_equal_prompts_differ_and_a_seed_repeats_them() -> None:
    wish: Any = {**LINE, "temperature": 1.0}
    with serving(Habits(writes=True)) as server:
        first, again, other = (
            opened(server).generate(PROMPTS[:1] * 6, Sampling(**wish, seed=seed))
            for seed in (3, 3, 9)
        )
        assert sorted(asked["seed"] for asked in server.requests if asked["temperature"]) == sorted(
            [*range(3, 9)] * 2 + [*range(9, 15)]
        )
    assert (
        first
        == again
        == [" " + said(PROMPTS[0], place, temperature=1.0, seed=3) for place in range(6)]
    )
    assert len(set(first)) == 6 and not set(first) & set(other)


@pytest.mark.parametrize("unknown", [("seed",), ("stop",), ("seed", "stop")])
def test_a_server_that_knows_no_seed_or_stop_is_asked_without_and_writes_the_same(
    unknown: tuple[str, ...],
) -> None:
    with serving(Habits(writes=True, rejects=unknown)) as server:
        writer = opened(server)
        assert writer.description.mode == "completions bare-text"
        assert writer.description.note.endswith(
            "repeats agree; neither seed nor stop strings are sent"
        )
        assert writer.generate(PROMPTS, Sampling(**LINE)) == [
            " " + said(prompt) for prompt in PROMPTS
        ]
        samples = writer.generate(PROMPTS[:1] * 6, Sampling(**LINE, temperature=1.0))
    assert len(set(samples)) == 6


@pytest.mark.parametrize("stops", [True, False])
@pytest.mark.parametrize("api", ["completions", "chat"])
def test_a_text_ends_before_its_first_stop_whether_or_not_the_server_knows_any(
    api: str, stops: bool
) -> None:
    marks = ["never", *(letter * 9 for letter in "bcdef"), " so", "\nAnd"]
    with serving(Habits(writes=True, stops=stops)) as server:
        texts = opened(server, api=api).generate(PROMPTS, Sampling(new_tokens=16, stop=marks))
        assert all(len(asked.get("stop", ())) <= MOST_STOPS for asked in server.requests)
    assert [text.strip() for text in texts] == [said(prompt) for prompt in PROMPTS]


def test_blanks_before_a_chat_s_answer_are_not_its_end() -> None:
    with serving(Habits(writes=True, leads="\n\n ")) as server:
        assert opened(server, api="chat").generate(PROMPTS, Sampling(**LINE)) == [
            said(prompt) for prompt in PROMPTS
        ]
        assert opened(server, api="completions").generate(PROMPTS, Sampling(**LINE)) == [""] * 4


@pytest.mark.parametrize(
    "api, counts",
    [
        ("completions", {"filtered": 2, "rejected": 1, "empty": 1, "generated": 5}),
        ("chat", {"filtered": 2, "rejected": 1, "refused": 1, "empty": 1, "generated": 4}),
    ],
)
def test_what_a_server_will_not_write_is_an_empty_text_at_the_first_try_and_counted(
    api: str, counts: dict[str, int]
) -> None:
    special = [
        f"{word}. Answer:" for word in ("FILTERED", "CENSORED", "REJECTED", "WORDLESS", "REFUSED")
    ]
    with serving(Habits(writes=True, leads="")) as server:
        writer = opened(server, api=api)
        assert isinstance(writer, Tallying)
        before, _ = len(server.requests), writer.tally([], ())
        texts = writer.generate([*special, *PROMPTS], Sampling(**LINE))
        tally = writer.tally([*special, *PROMPTS], ())
        assert len(server.requests) - before == len(set(special + PROMPTS))
    assert {name: tally[name] for name in ANSWERS if name in tally} == counts and tally[
        "repeated_calls"
    ] == 0
    assert texts[:4] == [""] * 4
    assert texts[5:] == [said(prompt) for prompt in PROMPTS]
    assert (texts[4] == "") == (api == "chat")


def test_a_report_has_words_for_every_way_to_an_answer() -> None:
    assert set(ANSWERS) == set(get_args(Outcome))
    shown = answers({"generated": 980, "empty": 3, "filtered": 17, "calls": 1000})
    assert "980 as the text that the model wrote, 3 empty because" in shown
    assert "17 fixed because of a content filter" in shown


def test_a_text_is_asked_for_once_in_a_process_and_anew_where_it_is_another() -> None:
    with serving(Habits(writes=True)) as server:
        writer = opened(server)
        first, asked = writer.generate(PROMPTS, Sampling(**LINE)), len(server.requests)
        assert writer.generate(PROMPTS[::-1], Sampling(**LINE, seed=8)) == first[::-1]
        assert len(server.requests) == asked
        whole = writer.generate(PROMPTS, Sampling(new_tokens=16))
        assert whole[0] == f" {said(PROMPTS[0])}\nAnd so on." and len(server.requests) == asked + 3
        assert writer.generate(PROMPTS, Sampling(new_tokens=1)) == first
        assert len(server.requests) == asked + 6
        assert writer.generate([], Sampling(**LINE)) == [] and len(server.requests) == asked + 6


def test_a_server_that_writes_nothing_at_all_is_refused_with_every_reason() -> None:
    with serving(Habits(model="other")) as server, pytest.raises(ModelError) as refused:
        opened(server)
    assert str(refused.value) == (
        "model 'far' cannot write (completions text, completions bare-text, chat text, chat "
        "bare-text: status 404); "
        "expected a server that gives text"
    )


def test_prompt_and_text_must_fit_the_context_together() -> None:
    with serving(Habits(writes=True, context=30)) as server:
        writer = opened(server)
        fits = "secret " * 13 + "Answer:"
        assert writer.generate([fits], Sampling(**LINE)) == [" " + said(fits)]
        with pytest.raises(ModelError) as refused:
            writer.generate([f"secret {fits}"], Sampling(**LINE))
    assert str(refused.value) == (
        "model 'far': a prompt and 16 new tokens do not fit its context of 30 tokens together: it "
        "has 105 characters; "
        "expected fewer demonstrations or a longer context"
    )


@pytest.mark.parametrize(
    "choice",
    [
        {},
        {"text": "Par", "finish_reason": "abort"},
        {"message": {"content": "Par"}, "finish_reason": "error"},
        {"text": ""},
    ],
)
def test_a_text_that_the_server_broke_off_is_no_text(choice: dict[str, object]) -> None:
    with pytest.raises(GarbledError, match="no whole text"):
        read_text(read_reply({"choices": [choice]}), "completions", ())


@given(st.text("ab\n", max_size=12), st.lists(st.text("ab\n", min_size=1, max_size=3), max_size=6))
def test_what_stands_before_a_stop_holds_none_and_is_followed_by_one(
    text: str, stop: list[str]
) -> None:
    kept = before_stop(text, stop)
    assert text.startswith(kept) and not any(mark in kept for mark in stop)
    assert kept == text or any(text[len(kept) :].startswith(mark) for mark in stop)


def test_a_fake_text_is_the_same_on_every_machine_and_a_sample_differs_by_place() -> None:
    assert HashScorer().generate(["Is it?"], Sampling(new_tokens=8)) == ["otshrvhz"]
    drawn = HashScorer().generate(["Is it?"] * 50, Sampling(new_tokens=8, temperature=1.0, seed=1))
    assert len(set(drawn)) == 50
    assert (
        HashScorer().generate(["Is it?"] * 49, Sampling(new_tokens=8, temperature=1.0, seed=2))
        == drawn[1:]
    )
    assert HashScorer().generate(["Is it?"], Sampling(new_tokens=8, stop=["x"])) == [
        "otshrvhz".partition("x")[0]
    ]
