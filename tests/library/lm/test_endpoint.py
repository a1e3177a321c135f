"""A served model's scores are what its log-probabilities say, whichever of them the server
gives.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpicl.ground.errors import ModelError
from dpicl.methods.evaluation import answers
from dpicl.models.endpoint.client import in_order
from dpicl.models.endpoint.protocol import GarbledError, Reply, read_reply
from dpicl.models.endpoint.scorer import EndpointScorer
from dpicl.models.endpoint.ways import TextRequest, floor, parsed_answer
from dpicl.models.kinds.fake import HashScorer
from dpicl.models.requests import Tallying
from dpicl.models.spec import ModelSpec
from tests.library.endpoint_server import (
    LABELS,
    WORDS,
    EndpointServer,
    Habits,
    Hashes,
    Json,
    Pairs,
    beginnings,
    serving,
    truth,
)

PROMPTS = [f"Row {number}. Cold? Answer:" for number in (3, 1, 2, 1)]
BLANKED = [" " + label for label in LABELS]


class Sure(Hashes):
    """Knows that a label comes next, but for what is UNSURE."""

    @staticmethod
    def logprob(text: str, token: str) -> float:
        """Of one token after a text."""
        return truth(text, token) / (100 if token.strip() in LABELS and "UNSURE" not in text else 1)

    def read(self, text: str) -> Pairs:
        return [
            (token, None if value is None else self.logprob(text[: text.find(token)], token))
            for token, value in super().read(text)
        ]

    def next(self, text: str, blank: str) -> Pairs:
        return [(token, self.logprob(text, token)) for token, _ in super().next(text, blank)]


class Warm(Hashes):
    """Lists other log-probabilities than it echoes, as after a temperature."""

    def next(self, text: str, blank: str) -> Pairs:
        return [(token, (value or 0.0) / 2) for token, value in super().next(text, blank)]


def spec_of(server: EndpointServer, **more: object) -> ModelSpec:
    """The entry of a running server."""
    return ModelSpec.model_validate(
        {"name": "far", "kind": "endpoint", "id": "m", "url": server.url, **more}
    )


def opened(server: EndpointServer, **more: object) -> EndpointScorer:
    """A scorer for a running server."""
    return EndpointScorer(spec_of(server, **more))


@pytest.mark.parametrize(
    "habits",
    [Habits(), Habits(logprobs="content"), Habits(blanks=False), Habits(calls_itself="m-2")],
)
def test_a_label_of_one_token_gets_exactly_its_log_probability(habits: Habits) -> None:
    with serving(habits) as server:
        scorer = opened(server)
        assert scorer.description.mode == (
            "completions top-20 logprobs, else echo" if habits.blanks else "completions echo"
        )
        assert np.array_equal(scorer.score(PROMPTS, BLANKED), HashScorer().score(PROMPTS, BLANKED))


@pytest.mark.parametrize(
    "text, said",
    [
        ("1.5 kg", "1.5"),
        ("1", "1"),
        ("-5.", "-5"),
        ("**5**", "5"),
        ("15", None),
        ("New York!", "new york"),
        ("new", "new"),
    ],
)
def test_of_labels_that_begin_alike_the_longest_was_said(text: str, said: str | None) -> None:
    labels = (" 1", " 1.5", " -5", " 5", " new", " new york")
    answer = parsed_answer(Reply(text, "stop", False, (), (), (), 0, "", ""), labels)
    assert answer.outcome == ("unparsed" if said is None else "parsed")
    assert said is None or labels[int(np.argmax(answer.scores))] == f" {said}"


@pytest.mark.parametrize(
    "habits",
    [
        Habits(),
        Habits(blanks=False),
        Habits(echo="refuses", most_top=5),
        Habits(apis=("chat",)),
        Habits(apis=("chat",), logprobs="none"),
    ],
)
def test_a_worker_asks_a_server_in_the_manner_of_the_run_first(habits: Habits) -> None:
    with serving(habits) as server:
        first = opened(server, allow_fallback=True)
        found, (mode, digest) = (
            len(server.requests),
            (first.description.mode, first.description.digest),
        )
        again = EndpointScorer(spec_of(server, allow_fallback=True), mode=mode)
        assert (again.description.mode, again.description.digest) == (mode, digest)
        assert len(server.requests) - found <= found / 2
        assert np.array_equal(
            again.score(PROMPTS, BLANKED), first.score(PROMPTS, BLANKED), equal_nan=True
        )


def test_where_a_server_no_longer_answers_so_another_manner_is_found() -> None:
    with serving(Habits(echo="refuses")) as server:
        scorer = EndpointScorer(spec_of(server), mode="completions echo")
        assert scorer.description.mode == "completions top-20 logprobs"


@pytest.mark.parametrize("status", [404, 500])
def test_a_server_without_a_list_of_models_is_asked_all_the_same(status: int) -> None:
    with serving(Habits(lists=status)) as server:
        assert opened(server).description.mode == "completions top-20 logprobs, else echo"


def test_labels_that_begin_alike_are_summed_over_all_their_tokens_and_others_scored_by_their_first() -> (  # noqa: E501
    None
):
    with serving(Habits()) as server:
        scorer, prompt = opened(server), PROMPTS[0]
        alike, apart = (
            scorer.score([prompt], [" Yes it is", other])[0].tolist()
            for other in (" Yes so", " No")
        )
    yes, no = (truth(prompt, label) for label in (" Yes", " No"))
    it_is = truth(prompt + " Yes", " it") + truth(prompt + " Yes it", " is")
    assert alike == pytest.approx([yes + it_is, yes + truth(prompt + " Yes", " so")])
    assert apart == [yes, no]


def test_where_the_server_lists_and_echoes_a_query_is_one_request_and_its_beginnings_are_read_once() -> (  # noqa: E501
    None
):
    shown = [
        " ".join(f"word{number}" for number in range(start, start + 60)) for start in (0, 100, 200)
    ]
    kinds = [
        " ".join(f"kind{number}" for number in range(start, start + 15))
        for start in range(0, 100, 20)
    ]
    prompts = [
        f"{shown[number % 3]} {kinds[number % 5]} query {number} is it? Answer:"
        for number in range(90)
    ]
    with serving(Habits(delay_seconds=0.005), speaker=Sure()) as server:
        scorer = opened(server)
        opening, server.prefilled = len(server.requests), 0
        scores = scorer.score(prompts, BLANKED)
        asked = len(server.requests) - opening
        least = len(
            {beginning for prompt in prompts for beginning in beginnings(prompt)[:-1]}
        ) + len(prompts)
        # 4: how the labels are cut
        assert (asked - 4, server.prefilled / least) == (len(prompts), pytest.approx(1, abs=0.05))
        assert np.array_equal(
            scores, [[Sure.logprob(prompt, label) for label in BLANKED] for prompt in prompts]
        )


def test_a_label_that_is_not_listed_is_scored_by_an_echo_of_its_own() -> None:
    prompts = [
        f"Row {number}. {'UNSURE' if number % 2 else 'Sure'}? Answer:" for number in range(40)
    ]
    with serving(Habits(most_top=5), speaker=Sure()) as server:
        scorer = opened(server)
        opening = len(server.requests)
        assert np.array_equal(
            scorer.score(prompts, BLANKED),
            [[Sure.logprob(prompt, label) for label in BLANKED] for prompt in prompts],
        )
        assert scorer.description.mode == "completions top-5 logprobs, else echo"
        echoes = sum(bool(asked.get("echo")) for asked in server.requests[opening:])
        assert 0 < echoes < 2 * len(prompts)


def test_a_server_whose_lists_are_not_its_echo_s_is_asked_by_echo_alone() -> None:
    with serving(Habits(), speaker=Warm()) as server:
        scorer = opened(server)
        assert scorer.description.mode == "completions echo"
        assert np.array_equal(scorer.score(PROMPTS, BLANKED), HashScorer().score(PROMPTS, BLANKED))


@pytest.mark.parametrize("echo", ["ignores", "refuses", "breaks", "again"])
@pytest.mark.parametrize("shape", ["lists", "content"])
def test_without_an_echo_the_listed_first_tokens_are_scored(echo: str, shape: str) -> None:
    with serving(Habits(echo=echo, logprobs=shape)) as server:
        scorer = opened(server)
        assert scorer.description.mode == "completions top-20 logprobs"
        assert np.array_equal(scorer.score(PROMPTS, BLANKED), HashScorer().score(PROMPTS, BLANKED))


@pytest.mark.parametrize("more", [{}, {"api": "chat"}])
def test_a_chat_s_tokens_have_no_blank(more: dict[str, str]) -> None:
    with serving(Habits(apis=("chat",))) as server:
        scorer = opened(server, **more)
        assert scorer.description.mode == "chat top-20 logprobs"
        asked = [f"Answer with one word: No or Yes.\n\n{prompt}" for prompt in PROMPTS]
        assert np.array_equal(scorer.score(PROMPTS, BLANKED), HashScorer().score(asked, LABELS))


def test_a_label_that_is_not_listed_gets_no_more_than_any_listed_one() -> None:
    prompts = [f"Row {number}. Cold? Answer:" for number in range(60)]
    with serving(Habits(apis=("completions",), echo="ignores", most_top=5)) as server:
        scorer = opened(server, allow_fallback=True)
        assert scorer.description.mode == "completions top-5 logprobs"
        scores, counts = scorer.score(prompts, BLANKED), scorer.tally(prompts, BLANKED)
    whole, seen = HashScorer().score(prompts, BLANKED), []
    for prompt, row, true in zip(prompts, scores, whole, strict=True):
        fifth = sorted((truth(prompt, " " + word) for word in (*LABELS, *WORDS)), reverse=True)[4]
        listed = true >= fifth
        seen.append(int(listed.sum()))
        assert np.array_equal(row[listed], true[listed]) or not listed.any()
        assert (row[~listed] <= fifth).all() if listed.any() else row[0] == row[1]
    assert [counts.get(name, 0) for name in ("no-label", "one-label", "scored")] == [
        seen.count(number) for number in (0, 1, 2)
    ]
    assert min(seen.count(number) for number in (0, 1)) > 0


@pytest.mark.parametrize(
    "listed, least", [([-3.0, -4.0], -4.0), ([math.log(0.9), math.log(0.08)], math.log(0.02))]
)
def test_what_is_not_listed_has_what_the_list_leaves_and_no_more_than_its_last(
    listed: list[float], least: float
) -> None:
    assert floor(listed) == pytest.approx(least)


def test_a_chat_that_lists_first_tokens_is_not_asked_for_labels_that_begin_one_another() -> None:
    with serving(Habits(echo="ignores")) as server:
        scorer = opened(server, api="chat")
        with pytest.raises(
            ModelError,
            match="for labels of which one begins another; expected a server that has completions, "
            "a local model",
        ):
            scorer.score(PROMPTS, [" 2", " 2.5"])


def test_what_lists_no_label_gets_the_fixed_answer_and_is_counted() -> None:
    prompts = ["SILENT one. Answer:", *PROMPTS]
    with serving(Habits(echo="ignores")) as server:
        scorer = opened(server)
        scores = scorer.score(prompts, BLANKED)
        counts = scorer.tally(prompts, BLANKED)
    assert scores[0].tolist() == [-math.log(2)] * 2 and answers(scores)[0] == 1
    assert (counts["no-label"], counts["scored"]) == (1, 4)


@pytest.mark.exhaustive
def test_text_is_parsed_only_where_the_entry_allows_it() -> None:
    with serving(Habits(logprobs="none")) as server:
        with pytest.raises(ModelError) as refused:
            opened(server)
        scorer = opened(server, allow_fallback=True)
        assert scorer.description.mode == "completions choice"
        assert scorer.score(PROMPTS, BLANKED).tolist() == [[-1.0, 0.0]] * 4
        assert scorer.tally(PROMPTS, BLANKED)["parsed"] == 4
    assert str(refused.value) == (
        "model 'far' cannot score No and Yes (completions echo, completions top-20 logprobs, "
        "completions top-5 logprobs, "
        "chat top-20 logprobs, chat top-5 logprobs: the reply has no log-probabilities); "
        "expected a server that gives log-probabilities, or `allow_fallback: true` to parse its "
        "text"
    )


@pytest.mark.quick("**No.**-0")
@pytest.mark.parametrize(
    "text, label",
    [
        ("**No.**", 0),
        (" yes", 1),
        ("\n\nYes, it is", 1),
        ("Nothing", None),
        ("Maybe no", None),
        ("", None),
    ],
)
def test_an_answer_is_the_label_that_the_text_starts_with(text: str, label: int | None) -> None:
    with serving(Habits(apis=("chat",), logprobs="none", text=text)) as server:
        if label is None:
            with pytest.raises(ModelError, match="chat generated: the text starts with no label"):
                opened(server, allow_fallback=True)
        else:
            assert (
                opened(server, allow_fallback=True).score(PROMPTS, BLANKED).argmax(1).tolist()
                == [label] * 4
            )


@pytest.mark.parametrize(
    "api, counts",
    [
        ("completions", {"filtered": 1, "rejected": 1, "scored": 5}),
        ("chat", {"filtered": 1, "rejected": 1, "refused": 1, "scored": 4}),
    ],
)
def test_what_a_server_will_not_answer_gets_the_fixed_answer_at_the_first_try(
    api: str, counts: dict[str, int]
) -> None:
    prompts = [f"{word}. Answer:" for word in ("FILTERED", "REFUSED", "REJECTED")] + PROMPTS
    with serving(Habits(echo="ignores")) as server:
        scorer = opened(server, api=api)
        before, _ = len(server.requests), scorer.tally([], BLANKED)
        scores, tally = scorer.score(prompts, BLANKED), scorer.tally(prompts, BLANKED)
        assert len(server.requests) - before == len(set(prompts))
    assert {name: tally[name] for name in counts} == counts and tally["repeated_calls"] == 0
    fixed = (scores == -math.log(2)).all(1)
    assert fixed.sum() == len(prompts) - counts["scored"] and (answers(scores)[fixed] == 1).all()


def test_a_server_that_rejects_everything_stops_the_run() -> None:
    with serving(Habits()) as server:
        scorer = opened(server)
        server.habits = Habits(rejects=("model",))
        with pytest.raises(
            ModelError,
            match=r"rejects a public question too \(status 400\); expected a server that still "
            r"answers completions",
        ):
            scorer.score([f"Row {number}. Answer:" for number in range(60)], BLANKED)


@pytest.mark.quick("REJECTED")
@pytest.mark.parametrize("word", ["REJECTED", "FILTERED"])
def test_however_many_prompts_are_rejected_in_a_row_the_others_are_answered(word: str) -> None:
    prompts = [*[f"{word} {number}. Answer:" for number in range(120)], *PROMPTS]
    with serving(Habits()) as server:
        scorer = opened(server)
        opening = len(server.requests)
        scores, sent = scorer.score(prompts, BLANKED), len(server.requests) - opening
        tally = scorer.tally(prompts, BLANKED)
    assert np.array_equal(scores[120:], HashScorer().score(PROMPTS, BLANKED))
    assert (scores[:120] == -math.log(2)).all()
    assert (tally[word.lower()], tally["scored"]) == (120, 4) and sent < 120 + 20


def listed(no: float, yes: float) -> Json:
    """One token, with what else might have stood there."""
    return {"tokens": [" No"], "token_logprobs": [no], "top_logprobs": [{" No": no, " Yes": yes}]}


@pytest.mark.parametrize(
    "spoilt",
    [
        {"logprobs": listed(900.0, -1.0)},
        {"logprobs": listed(-1.0, 900.0)},
        {"usage": {"prompt_tokens": -5}},
        {"usage": {"prompt_tokens": 10**4000}},
        {"usage": {"completion_tokens": 1e300}},
    ],
)
def test_numbers_that_cannot_be_are_no_answer(spoilt: Json) -> None:
    fine = {"text": " No", "finish_reason": "length", "logprobs": listed(1e-6, -1.0)}
    wrong = fine | {"logprobs": spoilt.get("logprobs", fine["logprobs"])}
    with pytest.raises(GarbledError):
        read_reply({"choices": [wrong], "usage": spoilt.get("usage")})
    assert read_reply({"choices": [fine]}).top == ((" No", 0.0), (" Yes", -1.0))


@pytest.mark.parametrize("stated", [True, False])
def test_a_prompt_that_is_too_long_stops_the_run_and_is_not_quoted(stated: bool) -> None:
    long = "secret " * 40 + "Answer:"
    with serving(Habits(context=30, states_context=stated)) as server:
        scorer = opened(server)
        assert (
            ("context 30 tokens" if stated else "context length not stated") + "; repeats agree"
        ) == scorer.description.note
        with pytest.raises(ModelError) as refused:
            scorer.score([*PROMPTS, long], BLANKED)
    assert str(refused.value) == (
        "model 'far': a prompt does not fit its context of 30 tokens (status 400): it has 287 "
        "characters; "
        "expected fewer demonstrations or a longer context"
    )


def test_a_reply_to_a_prompt_that_fills_the_context_is_not_believed() -> None:
    with (
        serving(Habits(context=30, echo="ignores")) as server,
        pytest.raises(ModelError, match="fills its context of 30 tokens"),
    ):
        opened(server).score(["word " * 29 + "Answer:"], BLANKED)


def test_an_answer_is_asked_for_once_in_a_process() -> None:
    with serving(Habits()) as server:
        scorer, seen = opened(server), []
        first = scorer.score(PROMPTS, BLANKED, progress=seen.append)
        asked = len(server.requests)
        again = scorer.score(PROMPTS[::-1], BLANKED, progress=seen.append)
        assert np.array_equal(again, first[::-1]) and len(server.requests) == asked
    assert sorted(seen) == seen and seen[-1] == 4 and len(seen) == 3


def test_what_was_spent_is_told_once_and_priced() -> None:
    with serving(Habits()) as server:
        scorer = opened(server, price_per_million_tokens=2.0)
        assert isinstance(scorer, Tallying)
        scorer.score(PROMPTS, BLANKED)
        first, second = scorer.tally(PROMPTS, BLANKED), scorer.tally(PROMPTS, BLANKED)
        assert first["calls"] == len(server.requests) + 1  # and the list of models
    assert first["cost"] == pytest.approx(
        (first["prompt_tokens"] + first["completion_tokens"]) * 2e-6
    )
    assert first["prompt_tokens"] > 0
    assert (second["scored"], second["calls"], second["cost"]) == (4, 0, 0)


def test_repeats_that_differ_and_another_name_are_told() -> None:
    with serving(
        Habits(echo="ignores", drifts=True, calls_itself="other-model", usage=False)
    ) as server:
        scorer = opened(server)
    assert (
        scorer.description.note
        == "context length not stated; repeats differ by up to 0.0002 nats; the server calls it "
        "other-model"
    )
    assert (scorer.description.revision, scorer.description.trust, scorer.description.kind) == (
        "f1",
        "remote",
        "endpoint",
    )


def test_copies_of_a_prompt_wait_for_the_first_alone() -> None:
    prompt = "word " * 40
    ordered = in_order([TextRequest(prompt, 5, (), 1.0, seed) for seed in range(2000)], 32)
    assert len({first for _, first in ordered}) <= 2 and len(ordered) == 2000


def test_how_labels_are_cut_is_asked_once_whatever_stands_before_the_answer() -> None:
    prompts = [f"Article: {word} film\nAnswer:" for word in WORDS]
    with serving(Habits(), speaker=Sure()) as server:
        scorer = opened(server)
        opening = len(server.requests)
        for prompt in prompts:  # one by one, as private ones are asked
            scorer.score([prompt], BLANKED)
        assert len(server.requests) - opening == len(prompts) + 4
