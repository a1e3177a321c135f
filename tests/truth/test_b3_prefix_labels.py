"""B3: of answers that are compared only one can be said, also where the tokens of one begin
another's, however a model is read.

The oracle is transformers alone, one forward pass a token, on a model whose right answers are known
(`prefix_model`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dpicl.ground.errors import ModelError
from dpicl.mechanisms.private_token import UNITS
from dpicl.methods.ensemble_plan import EnsembleShape
from dpicl.methods.ensemble_voting import Placement, Voters
from dpicl.models.endpoint import ways as endpoint_labels
from dpicl.models.endpoint.protocol import Reply
from dpicl.models.endpoint.scorer import EndpointScorer
from dpicl.models.endpoint.ways import parsed_answer
from dpicl.models.local import loading, transformers_backend, tree_reader
from dpicl.models.local.padded_reader import ReadingMode, rows_of
from dpicl.models.local.transformers_backend import TransformersScorer
from dpicl.models.requests import CONTINUATIONS, Scorer, overlap
from dpicl.models.spec import ModelSpec
from tests.harness import said
from tests.library.endpoint_server import Habits, serving
from tests.library.methods.test_dp_icl import KEY, table
from tests.library.served_model import Local
from tests.library.text_contracts import as_ensemble, text_contract
from tests.truth import prefix_model
from tests.truth.prefix_model import SETS, Plain, continuations, lines, texts

torch.set_num_threads(1)
Score = Callable[[Sequence[str], Sequence[str]], np.ndarray]
CLOSE = 5e-4
"""Nats that rounding in float32 may make."""
LAYOUTS = ("padded", "unplaced", "equal", "alone")
ECHOING = {
    Habits(): "completions top-20 logprobs, else echo",
    Habits(most_top=1): "completions echo",
    Habits(blanks=False): "completions echo",
}
LISTING = (
    Habits(echo="ignores"),
    Habits(echo="refuses", logprobs="content"),
    Habits(echo="ignores", most_top=5),
)
"""What servers do of which the first echo, and the others only list the likeliest tokens."""
SERVED = ("A", "B", "F", "N")
"""Sets that a server is asked for, each request of which is a pass of the model."""
HARD, SOFT = (
    EnsembleShape("votes", True, 3, 2, 5.0, 2, 3),
    EnsembleShape("soft-votes", False, 3, 2, 5.0, 2, 3),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prefix_model.build(tmp_path_factory.mktemp("models") / "prefix")


@pytest.fixture(scope="module")
def truth(folder: Path) -> Callable[[str, str], np.ndarray]:
    """Of a form and a set the exact log-probabilities of all labels with what ends them, shape
    (kinds, labels).
    """
    plain = Plain(folder)
    return lru_cache(
        lambda form, name: {"line": plain.line, "text": plain.text, "chat": plain.chat}[form](name)
    )


@pytest.fixture(scope="module")
def scorer(folder: Path) -> TransformersScorer:
    return TransformersScorer(str(folder), device="cpu")


@pytest.fixture
def served(folder: Path) -> Callable[..., Any]:
    """A server with the model, and what asks it."""
    speaker = Kept(folder)

    @contextmanager
    def open_server(habits: Habits, **more: Any) -> Iterator[EndpointScorer]:
        with serving(habits, speaker=speaker) as server:
            entry = {"name": "far", "kind": "endpoint", "id": "m", "url": server.url, **more}
            yield EndpointScorer(ModelSpec.model_validate(entry))

    return open_server


class Kept(Local):
    """Remembers what it read."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.read, self.next = lru_cache(super().read), lru_cache(super().next)  # type: ignore[method-assign]


def read_as(folder: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> TransformersScorer:
    """A scorer that reads in one of all ways."""
    shares = how.startswith("shared")
    scorer = TransformersScorer(str(folder), device="cpu", share=shares, token_budget=300)
    assert scorer.shares == shares
    if how == "shared, by mask":
        monkeypatch.setattr(tree_reader, "ENGINES", {"cpu": "mask"})
    if how != "shared, own pass":
        scorer._pass = None
    if not shares:
        scorer.mode = replace(scorer.mode, layout=how)
    return scorer


def wrong(
    score: Score,
    truth: Callable[[str, str], np.ndarray],
    forms: Sequence[str] = ("line", "text"),
    sets: Sequence[str] = tuple(SETS),
) -> list[str]:
    """What does not hold of a way of scoring, by form and set."""
    faults = []
    for name in sets:
        for form in forms:
            scores, exact = (
                score(texts(name) if form == "text" else lines(name), continuations(name)),
                truth(form, name),
            )
            if not np.abs(scores - exact).max() < CLOSE:
                faults.append(f"{form} {name}: apart by {np.abs(scores - exact).max():.2g} nats")
            if scores.argmax(1).tolist() != [0, 1, 2]:
                faults.append(f"{form} {name}: answers {scores.argmax(1).tolist()}")
            if not (np.exp(scores).sum(1) <= 1 + 1e-6).all():
                faults.append(f"{form} {name}: more than one can be said")
    return faults


def test_the_sets_are_of_the_kind_and_the_model_tells_them_apart(
    truth: Callable[[str, str], np.ndarray],
) -> None:
    assert len(SETS) >= 10 and all(overlap(labels) for labels in SETS.values())
    for name in SETS:
        for form in ("line", "text", "chat"):
            assert (
                truth(form, name).argmax(1).tolist() == [0, 1, 2]
                and np.exp(truth(form, name)).sum(1).max() <= 1
            )


@pytest.mark.quick("shared, own pass", "padded")
@pytest.mark.parametrize("how", ["shared, own pass", "shared", "shared, by mask", *LAYOUTS])
def test_a_local_model_says_one_label_however_it_is_read(
    how: str, folder: Path, truth: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not wrong(read_as(folder, how, monkeypatch).score, truth)


def test_a_chat_ends_a_label_with_its_turn(folder: Path, truth: Any) -> None:
    assert not wrong(
        TransformersScorer(str(folder), device="cpu", chat=True).score, truth, ("chat",)
    )


def test_prompts_of_all_sets_and_forms_at_once_change_no_score(scorer: TransformersScorer) -> None:
    """What is asked beside, also with other ends, moves a prompt's scores by rounding only."""
    prompts = [prompt for name in SETS for prompt in (*lines(name), *texts(name))]
    for name in SETS:
        own = [*lines(name), *texts(name)]
        together = scorer.score(prompts, continuations(name))[
            [prompts.index(prompt) for prompt in own]
        ]
        assert np.abs(together - scorer.score(own, continuations(name))).max() < CLOSE


def test_labels_of_which_none_begins_another_are_scored_as_ever(
    scorer: TransformersScorer, folder: Path
) -> None:
    plain = Plain(folder)
    for labels in (CONTINUATIONS, (" cold", " warm front"), (" 2", " 30"), (" no", " yes")):
        exact = [
            [plain.said(f"<s>{prompt}", label, "") for label in labels] for prompt in lines("C")
        ]
        assert np.abs(scorer.score(lines("C"), labels) - exact).max() < CLOSE


def test_a_label_costs_no_row_of_its_own_where_it_begins_another() -> None:
    assert [
        row.tokens for row in rows_of(0, (7,), [(1, 9), (1, 0, 9), (1, 0, 0, 9)], ReadingMode())
    ] == [(7, 1, 0, 0)]


def test_a_server_that_echoes_says_what_the_same_model_says_in_this_process(
    truth: Any, served: Any
) -> None:
    for habits, mode in ECHOING.items():
        with served(habits) as scorer:
            assert scorer.description.mode == mode
            assert not wrong(scorer.score, truth, sets=SERVED)


def test_a_server_that_lists_is_asked_piece_by_piece(truth: Any, served: Any) -> None:
    """What is said is scored exactly, and what is not listed gets less."""
    for habits in LISTING:
        with served(habits) as scorer:
            assert scorer.description.mode == f"completions top-{habits.most_top} logprobs"
            for name in SERVED:
                scores, exact = scorer.score(texts(name), continuations(name)), truth("text", name)
                assert scores.argmax(1).tolist() == [0, 1, 2]
                assert np.abs(scores - exact).diagonal().max() < CLOSE


def test_a_chat_that_lists_is_refused_and_the_refusal_says_what_helps(served: Any) -> None:
    with served(Habits(apis=("chat",))) as scorer:
        for name in SETS:
            with pytest.raises(
                ModelError,
                match="expected a server that has completions, a local model, or labels of which "
                "none begins",
            ):
                scorer.score(lines(name), continuations(name))
        assert np.isfinite(scorer.score(lines("C"), [" cold", " warm front"])).all()


def test_a_text_is_the_longest_label_that_it_starts_with() -> None:
    for name, labels in SETS.items():
        for place, label in enumerate(labels):
            reply = Reply(f" {label}\nAnd so on.", "stop", False, (), (), (), 0, "", "")
            assert np.argmax(parsed_answer(reply, continuations(name)).scores) == place


def test_a_text_is_read_far_enough_for_the_longest_label() -> None:
    labels = [" heart failure with preserved ejection fraction", " heart failure"]
    with serving(Habits(logprobs="none")) as server:
        entry = {
            "name": "far",
            "kind": "endpoint",
            "id": "m",
            "url": server.url,
            "allow_fallback": True,
        }
        EndpointScorer(ModelSpec.model_validate(entry)).score(lines("A"), labels)
        assert server.requests[-1]["max_tokens"] >= len(labels[0])


def ballots(scorer: Scorer, name: str, shape: EnsembleShape) -> list[list[int]]:
    """Votes of DP-ICL on the set's texts; every prompt is a text as the model has learnt it."""

    def change(content: dict[str, Any]) -> None:
        as_ensemble(content)
        content["task"]["labels"] = {
            f"l{place}": {"text": label, "min_rows": 4} for place, label in enumerate(SETS[name])
        }
        content["prompts"]["answering"] = {
            "instruction": "Grade each text.",
            "text": "Text",
            "answer": "Grade",
        }

    queries = [(place, f"Case {name} {kind}.") for place, kind in enumerate(prefix_model.KINDS)]
    placement = Placement(table([]), KEY, Fraction(1), shape)
    return Voters(text_contract(change), scorer).votes(placement, queries)  # type: ignore[return-value]


@pytest.mark.quick("padded", "echo")
@pytest.mark.parametrize("how", ["shared, own pass", "padded", "alone", "echo", "lists"])
def test_every_voter_of_dp_icl_votes_for_one_label(
    how: str, folder: Path, served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vote stays one: `UNITS` for one label, or of soft votes from 0 to `UNITS` for each, the
    most for what the model says.
    """

    def check(scorer: Scorer, sets: Sequence[str]) -> None:
        for name in sets:
            assert ballots(scorer, name, HARD) == [
                [HARD.subsets * UNITS * (place == answer) for place in range(3)]
                for answer in range(3)
            ]
            for answer, sums in enumerate(ballots(scorer, name, SOFT)):
                assert (
                    np.argmax(sums) == answer
                    and sums[answer] == UNITS
                    and all(0 <= one <= UNITS for one in sums)
                )

    if how in ("echo", "lists"):
        with served(
            Habits(echo="repeats" if how == "echo" else "ignores"), trust="local"
        ) as scorer:
            check(scorer, SERVED)
    else:
        check(read_as(folder, how, monkeypatch), tuple(SETS))


def test_labels_that_a_tokenizer_tells_apart_by_nothing_are_refused(
    folder: Path, tmp_path: Path
) -> None:
    """One that drops what differs, as capitals, would give two labels one score, or a part and its
    whole.
    """
    cased = json.loads((folder / "tokenizer.json").read_text())
    cased["normalizer"] = {"type": "Lowercase"}
    shutil.copytree(folder, tmp_path / "lower")
    (tmp_path / "lower" / "tokenizer.json").write_text(json.dumps(cased))
    for is_chat in (False, True):
        scorer = TransformersScorer(str(tmp_path / "lower"), device="cpu", chat=is_chat)
        for labels in ([" art", " ART"], [" New", " new", " x"]):
            with pytest.raises(
                ModelError,
                match="one label begins another or is it, whatever ends them; expected labels that "
                "differ",
            ):
                scorer.score(lines("A"), labels)
        assert np.exp(scorer.score(lines("A"), [" ART history", " art"])).sum(1).max() <= 1, (
            "no text begins the other, but tokens do"
        )


def test_model_check_tries_labels_of_which_one_begins_another(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "scores labels of which one begins another" in said(
        capsys, "model", "check", str(folder)
    )


FORGOTTEN = (transformers_backend, loading, endpoint_labels)
"""Modules that ask whether a label begins another."""


@pytest.mark.quick("local", "votes")
@pytest.mark.parametrize("way", ["local", "chat", "echo", "votes"])
def test_without_what_ends_a_label_the_shorter_is_answered(
    way: str, folder: Path, truth: Any, served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant: the fault comes back, and is caught in every set."""
    for module in FORGOTTEN:
        monkeypatch.setattr(module, "overlap", lambda _: False)
    if way == "votes":
        scorer = TransformersScorer(str(folder), device="cpu")
        assert all(ballots(scorer, name, HARD)[-1][0] for name in ("A", "C", "D", "E"))
        return
    form = "chat" if way == "chat" else "text"
    with served(Habits(most_top=1)) as far:
        scorer = (
            far
            if way == "echo"
            else TransformersScorer(str(folder), device="cpu", chat=way == "chat")
        )
        for name in SERVED[:2] if way == "echo" else SETS:
            assert wrong(scorer.score, truth, (form,), (name,))
