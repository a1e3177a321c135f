"""DP few-shot generation: texts are written as the paper says, kept token by token, and asked
with.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpicl.contract import TextContract
from dpicl.contract.pipeline import Cell, Unit
from dpicl.ground.errors import ModelError
from dpicl.ground.types import Demonstration, PrivateTable, QueryTable, SplitTable
from dpicl.methods.base import MAJORITY, ZERO_SHOT, draws_for
from dpicl.methods.few_shot_generation import (
    FewShotGeneration,
    job_of,
    random_rows,
    write,
    write_public,
)
from dpicl.methods.few_shot_plan import GenerationShape, VoterPool, labels_of
from dpicl.methods.few_shot_voting import PrivateRows, Text, WritingPrompts
from dpicl.methods.options import FewShotOptions
from dpicl.methods.text_method import Memory
from dpicl.models.kinds.fake import PUBLIC_TEXT, EchoGenerator, HashScorer
from dpicl.models.requests import Sampling
from lab.benchmarks.guarantees.subset_prompts import moved
from tests.direct import points_of, run_texts
from tests.library.methods.test_few_shot_plan import unit
from tests.library.text_contracts import as_extraction, text_contract

SECRET = {"good": "zebra zulu", "bad": "quick quiz"}
"""Every private text of a label is the same, so that an echo is easy to know."""
TOKENS = 14
INF = Cell("icl", math.inf, 2)


def contract(*, private: bool = False, change: Any = lambda content: None) -> TextContract:
    def small(content: dict[str, Any]) -> None:
        content["generation"] = {**content["generation"], "max_tokens": TOKENS}
        content["text"] = "{body}"
        for label in content["task"]["labels"].values():
            label["min_rows"] = 30
        if private:
            content["privacy"] = {"budget": {"epsilon": 1000, "delta": 0.5}}
        change(content)

    return text_contract(small)


def table(rows: int = 40, texts: dict[str, str] = SECRET) -> PrivateTable:
    labels = [("good", "bad")[number % 2] for number in range(2 * rows)]
    return PrivateTable(pa.table({"label": labels, "text": [texts[label] for label in labels]}))


def written(
    asked: Unit,
    declared: TextContract | None = None,
    rows: PrivateTable | None = None,
    journal: Any = None,
) -> dict[Cell, tuple[Demonstration, ...]]:
    declared = declared or contract()
    journal = journal or Memory(draws_for(declared, asked.seed))
    (texts,) = write(
        rows or table(),
        declared,
        EchoGenerator(),
        [job_of(declared, points_of(asked).values(), journal)],
    )
    return {cell: texts[asked_for.key] for cell, asked_for in points_of(asked).items()}


WAYS: list[dict[str, Any]] = [
    {"examples": 15},
    {"examples": 15, "mechanism": "exponential"},
    {"examples": 15, "candidates": 40},
    {"batches": "fixed"},
    {"batches": "fixed", "mechanism": "clipped-logits", "candidates": "all"},
    {"batches": "fixed", "mechanism": "exponential", "voters": 10},
    {
        "batches": "fixed",
        "mechanism": "clipped-logits",
        "private_tokens": TOKENS,
        "agreement": 0.99,
    },
    {
        "batches": "fixed",
        "mechanism": "invisible-ink",
        "voters": 10,
        "candidates": 40,
        "temperature": 0.1,
    },
    {"examples": 15, "temperature": 0.5, "top_k": 5, "top_p": 0.9},
]
"""Of fresh batches, so many examples that every row takes part."""


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_without_noise_the_private_texts_of_the_label_are_echoed(way: dict[str, Any]) -> None:
    """Both subsets hold the same text; of one text per label all rows vote."""
    texts = written(unit(contract(), epsilons=(math.inf,), shots=(2,), **way))[INF]
    assert {(one.label, one.text) for one in texts} == set(SECRET.items())


@pytest.mark.quick(
    "{'batches': 'fixed', 'mechanism': 'exponential', 'voters': 10}",
    "{'batches': 'fixed', 'mechanism': 'clipped-logits', 'candidates': 'all'}",
    "{'examples': 15, 'mechanism': 'exponential'}",
    "{'batches': 'fixed', 'mechanism': 'clipped-logits', 'private_tokens': 14, 'agreement': 0.99}",
)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_with_much_noise_nothing_of_them_is_written(way: dict[str, Any]) -> None:
    for one in written(unit(contract(), epsilons=(0.01,), shots=(2,), **way))[Cell("icl", 0.01, 2)]:
        assert SECRET[one.label][:4] not in one.text


def test_a_text_ends_at_its_end_or_after_so_many_tokens() -> None:
    """The echo ends with a line break after eleven tokens; of five tokens the text is cut."""
    asked, shorter = (
        unit(contract(), epsilons=(math.inf,), shots=(2,), examples=15, max_tokens=most)
        for most in (TOKENS, 5)
    )
    assert max(len(one.text) for one in written(asked)[INF]) == 10
    cut = written(shorter)[INF]
    assert {one.text for one in cut} == {"zebr", "quic"}, "a blank and four letters"


@pytest.mark.parametrize("elections", [1, 3])
def test_rows_elect_so_many_tokens_and_the_model_writes_the_others_alone(elections: int) -> None:
    """The blank is the model's own and needs no election; the echo that follows a mixed text is of
    the example's next letter.
    """
    asked = unit(
        contract(),
        epsilons=(math.inf,),
        shots=(2,),
        batches="fixed",
        mechanism="exponential",
        private_tokens=elections,
    )
    for one in written(asked)[INF]:
        assert one.text[:elections] == SECRET[one.label][:elections]
        assert one.text[elections:] == PUBLIC_TEXT[1 + elections : TOKENS].decode().rstrip()


def test_where_enough_rows_agree_with_the_model_no_election_is_spent() -> None:
    """A third of the rows' texts are the model's own: agreement of a quarter leaves it alone, of
    three quarters does not.
    """
    own = PUBLIC_TEXT.decode().strip()
    rows = PrivateTable(
        pa.table({"label": ["good"] * 60, "text": [own, "quick quiz", "quick quiz"] * 20})
    )
    way: dict[str, Any] = {"batches": "fixed", "mechanism": "exponential", "private_tokens": TOKENS}
    for agreement, expected in ((0.25, own[: TOKENS - 1].strip()), (0.75, "quick quiz")):
        found = written(
            unit(contract(), epsilons=(math.inf,), shots=(2,), agreement=agreement, **way),
            rows=rows,
        )
        assert [one.text for one in found[INF] if one.label == "good"] == [expected]


def test_at_epsilon_zero_no_row_is_read() -> None:
    declared, asked = contract(), unit(contract(), shots=(1, 4))
    texts = write_public(declared, asked, EchoGenerator(sure=1 - 1e-12))
    assert {cell.epsilon for cell in texts} == {0.0} and [len(one) for one in texts.values()] == [
        1,
        4,
    ]
    assert {one.text for one in texts[Cell("icl", 0.0, 4)]} == {
        PUBLIC_TEXT[:TOKENS].decode().strip()
    }
    assert [one.label for one in texts[Cell("icl", 0.0, 4)]] == list(
        labels_of(
            declared,
            asked.seed,
            4,
        )
    )


class Dies(Exception):
    """What a killed worker looks like from inside."""


class Mortal(Memory):
    """A journal whose process dies when it has kept so many steps; what it has kept, and its seeds,
    are left.
    """

    def __init__(self, draws: Any, left: int, kept: dict[Any, Any], keys: dict[Any, Any]) -> None:
        super().__init__(draws)
        self._kept, self._keys, self.left = kept, keys, left

    def keep(self, key: str, step: int, tokens: tuple[int, ...]) -> tuple[int, ...]:
        if self.left == 0:
            raise Dies
        self.left -= 1
        return super().keep(key, step, tokens)


@pytest.mark.quick("False-{'examples': 15, 'mechanism': 'exponential'}")
@pytest.mark.parametrize(
    ("private", "way"),
    [
        pytest.param(
            private,
            way,
            marks=() if number % len(WAYS) in (1, 3) else pytest.mark.exhaustive,
            id=f"{private}-{way}",
        )
        for number, (private, way) in enumerate(product((False, True), WAYS))
    ],
)
def test_a_killed_generation_goes_on_at_the_token_that_it_lost(
    way: dict[str, Any], private: bool
) -> None:
    """With seeded and with real noise: what was kept stands, and the end is that of a generation
    that nobody killed.
    """
    declared = contract(private=private)
    asked = unit(declared, epsilons=(30.0, 60.0), shots=(2,), **way)
    draws, keys = draws_for(declared, asked.seed), dict[Any, bytes]()
    whole = written(asked, declared, journal=Mortal(draws, 1000, {}, keys))
    for step in range(1, 2 * TOKENS, 11):
        kept: dict[Any, tuple[int, ...]] = {}
        with suppress(Dies):
            written(asked, declared, journal=Mortal(draws, step, kept, keys))
        before = dict(kept)
        assert len(before) <= step
        assert written(asked, declared, journal=Mortal(draws, 1000, kept, keys)) == whole
        assert before.items() <= kept.items()


def test_a_generation_whose_seed_is_lost_draws_otherwise() -> None:
    """Else the test above would pass on noise that is always the same."""
    declared = contract(private=True)
    asked = unit(declared, epsilons=(5.0,), shots=(2,))
    draws = draws_for(declared, asked.seed)
    assert written(asked, declared, journal=Mortal(draws, 1000, {}, {})) != written(
        asked, declared, journal=Mortal(draws, 1000, {}, {})
    )


def test_twins_write_one_text() -> None:
    """Real noise, one journal, two threads side by side: the texts are one text, and so is what
    each returns.
    """
    declared = contract(private=True)
    asked = unit(declared, epsilons=(5.0,), shots=(2,))
    journal = Memory(draws_for(declared, asked.seed))
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: written(asked, declared, journal=journal), range(2))
    assert one == other


@pytest.mark.exhaustive
def test_jobs_side_by_side_write_what_each_would_alone() -> None:
    declared = contract()
    asked = [
        replace(unit(declared, epsilons=(2.0, 40.0), shots=(1, 2)), seed=seed) for seed in (0, 1, 2)
    ]
    jobs = [
        job_of(declared, points_of(one).values(), Memory(draws_for(declared, one.seed)))
        for one in asked
    ]
    together = write(table(), declared, EchoGenerator(), jobs)
    assert [{*texts.values()} for texts in together] == [{*written(one).values()} for one in asked]
    assert len({tuple(texts.items()) for texts in together}) == 3


def test_a_record_changes_one_voter_s_prompt_at_most() -> None:
    """And the sums by no more than the noise is for; somewhere by nearly as much. The benchmark
    takes 10,000 sets.
    """
    found = [moved(seed) for seed in range(200)]
    assert {one.voters for one in found} == {0, 1}
    assert 0.9 < max(one.share for one in found) <= 1


def test_fixed_batches_part_the_rows_of_a_label_among_its_texts() -> None:
    """Every row votes on one text at most, the same for all its tokens; one voter knows no row."""
    declared = contract()
    asked = unit(declared, epsilons=(4.0,), shots=(6,), batches="fixed")
    job = job_of(declared, points_of(asked).values(), Memory(draws_for(declared, 0)))
    (plan,) = job.plans.values()
    prompts = WritingPrompts(declared, EchoGenerator(), plan.shape)
    rows = PrivateRows(table(), prompts)
    batches = {
        shot: set(rows.batch(Text(job, plan.point.key, shot, label)).tolist())
        for shot, label in enumerate(plan.labels)
    }
    assert sorted(row for batch in batches.values() for row in batch) == list(range(80))
    assert batches == {
        shot: set(rows.batch(Text(job, plan.point.key, shot, label)).tolist())
        for shot, label in enumerate(plan.labels)
    }
    mine = {shot for shot, label in enumerate(plan.labels) if label == "good"}
    assert all(row % 2 == 0 for shot in mine for row in batches[shot])


def test_a_context_too_small_for_the_examples_is_refused_before_a_row_is_read() -> None:
    declared = contract()
    asked = unit(declared, epsilons=(4.0,), shots=(2,), examples=4)
    journal = Memory(draws_for(declared, 0))
    with pytest.raises(
        ModelError,
        match=r"reads 80 tokens, which leaves \d for each of 4 examples; expected at least 8",
    ):
        write(
            table(),
            declared,
            EchoGenerator(context=80),
            [job_of(declared, points_of(asked).values(), journal)],
        )


def test_long_and_strange_texts_are_cut_each_to_its_own_length() -> None:
    """Nothing that stands in a row stops the others, or is told."""
    texts = {"good": "é" * 100_000, "bad": "quick quiz"}
    asked = unit(contract(), epsilons=(math.inf,), shots=(2,), examples=15)
    found = {one.label: one.text for one in written(asked, rows=table(20, texts))[INF]}
    assert found["bad"] == "quick quiz" and set(found["good"]) <= {"é", "\ufffd"}


def split(declared: TextContract) -> SplitTable:
    asked = pa.table({"label": ["good", "bad", "good"], "text": ["one", "two", "three"]})
    return SplitTable(table(), QueryTable(asked), np.array([0, 1, 2]))


def test_a_run_gives_a_result_for_every_system() -> None:
    declared = contract()
    asked = unit(
        declared,
        epsilons=(2.0, math.inf),
        shots=(1, 2),
        variants={"fixed": {"batches": "fixed", "mechanism": "clipped-logits"}},
    )
    rows = run_texts(split(declared), declared, asked, HashScorer(), EchoGenerator())
    cells = {(row.system, row.epsilon, row.shots) for row in rows}
    icl = {
        (system, epsilon, shots)
        for system in ("icl", "icl-fixed")
        for epsilon in (2.0, math.inf)
        for shots in (1, 2)
    }
    others = {
        ("icl", 0.0, 1),
        ("icl", 0.0, 2),
        ("random-rows", math.inf, 1),
        ("random-rows", math.inf, 2),
    }
    assert cells == icl | others | {
        (cell.system, cell.epsilon, cell.shots) for cell in (ZERO_SHOT, MAJORITY)
    }
    assert {row.query_count for row in rows} == {3} and all(
        row.auc is None or row.system == "majority" for row in rows
    )


def test_real_rows_are_of_the_labels_that_are_written() -> None:
    declared, asked = contract(), unit(contract(), epsilons=(math.inf,), shots=(2,))
    found = random_rows(table(), declared, asked)[Cell("random-rows", math.inf, 2)]
    assert [one.label for one in found] == list(
        labels_of(
            declared,
            asked.seed,
            2,
        )
    ) and {one.text for one in found} == set(SECRET.values())
    assert random_rows(table(), declared, unit(declared, epsilons=(1.0,))) == {}


def test_texts_without_noise_are_not_shown() -> None:
    texts = (Demonstration("good", "hello"),)
    released = {Cell("icl", epsilon, 1): texts for epsilon in (1.0, math.inf)}
    shown = [{"cell": Cell("icl", 1.0, 1).key, "label": "good", "text": "hello"}]
    assert FewShotGeneration().shown(released, contract()) == shown


def test_prompts_show_the_demonstrations_and_then_the_query() -> None:
    declared = contract()
    shown = (Demonstration("good", "hello"), Demonstration("bad", "go away"))
    released, asked = {Cell("icl", 1.0, 2): shown}, unit(declared, epsilons=(1.0,), shots=(2,))
    prompts = FewShotGeneration().prompts(
        released, {}, table(), split(declared).queries, declared, asked
    )
    instruction = declared.prompts.answering.instruction
    assert prompts[ZERO_SHOT][0] == f"{instruction}\n\nLetter: one\nKind:"
    assert (
        prompts[Cell("icl", 1.0, 2)][1]
        == f"{instruction}\n\nLetter: hello\nKind: Wanted\n\nLetter: go away\nKind: "
        f"Unwanted\n\nLetter: two\nKind:"
    )


def test_open_answers_match_exactly_or_not_at_all() -> None:
    declared = contract(
        change=lambda content: (as_extraction(content), content["task"].update(min_rows=30))
    )
    rows = pa.table({"label": ["ann", "bob"] * 30, "text": ["of ann", "of bob"] * 30})
    queries = QueryTable(pa.table({"label": ["ann", "bob"], "text": ["1", "2"]}))
    both = SplitTable(PrivateTable(rows), queries, np.array([0, 1]))

    class Knows(HashScorer):
        def generate(self, prompts: Any, sampling: Sampling) -> list[str]:
            assert sampling.stop == ("\n",)
            return [
                " ann" if "Letter: 1\n" in prompt.rpartition("\n\n")[2] + "\n" else "bobby"
                for prompt in prompts
            ]

    found = run_texts(
        both, declared, unit(declared, epsilons=(math.inf,), shots=(2,)), Knows(), EchoGenerator()
    )
    assert {row.accuracy for row in found if row.system != "majority"} == {0.5}
    assert all(row.balanced_accuracy is None for row in found)


def test_a_pool_s_rows_are_those_of_its_label() -> None:
    declared = contract()
    shape = GenerationShape.of(declared, FewShotOptions())
    prompts = WritingPrompts(declared, EchoGenerator(), shape)
    rows = PrivateRows(table(3), prompts)
    assert rows.of(VoterPool("bad", 30)).tolist() == [1, 3, 5] and rows.of(
        VoterPool(None, 30)
    ).tolist() == list(range(6))
