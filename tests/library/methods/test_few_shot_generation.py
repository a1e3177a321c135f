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


ALL_VOTE: dict[str, Any] = {"examples": 15}
"""Of fresh batches, so many examples that every row takes part."""
PARTED: dict[str, Any] = {"batches": "fixed"}
EXPONENTIAL: dict[str, Any] = {**PARTED, "mechanism": "exponential"}
WAYS: list[dict[str, Any]] = [
    ALL_VOTE,
    {**ALL_VOTE, "mechanism": "exponential"},
    {**ALL_VOTE, "candidates": 40},
    PARTED,
    {**PARTED, "mechanism": "clipped-logits", "candidates": "all"},
    {**EXPONENTIAL, "voters": 10},
    {**PARTED, "mechanism": "clipped-logits", "private_tokens": TOKENS, "agreement": 0.99},
    {**PARTED, "mechanism": "invisible-ink", "voters": 10, "candidates": 40, "temperature": 0.1},
    {**ALL_VOTE, "temperature": 0.5, "top_k": 5, "top_p": 0.9},
]


def asked(*epsilons: float, **way: Any) -> Unit:
    return unit(contract(), epsilons=epsilons, shots=(2,), **way)


def without_noise(rows: PrivateTable | None = None, **way: Any) -> tuple[Demonstration, ...]:
    return written(asked(math.inf, **way), rows=rows)[INF]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_without_noise_the_private_texts_of_the_label_are_echoed(way: dict[str, Any]) -> None:
    """Both subsets hold the same text; of one text per label all rows vote."""
    assert {(one.label, one.text) for one in without_noise(**way)} == set(SECRET.items())


@pytest.mark.quick(
    "{'batches': 'fixed', 'mechanism': 'exponential', 'voters': 10}",
    "{'batches': 'fixed', 'mechanism': 'clipped-logits', 'candidates': 'all'}",
    "{'examples': 15, 'mechanism': 'exponential'}",
    "{'batches': 'fixed', 'mechanism': 'clipped-logits', 'private_tokens': 14, 'agreement': 0.99}",
)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_with_much_noise_nothing_of_them_is_written(way: dict[str, Any]) -> None:
    (texts,) = written(asked(0.01, **way)).values()
    assert not any(SECRET[one.label][:4] in one.text for one in texts)


def test_a_text_ends_at_its_end_or_after_so_many_tokens() -> None:
    """The echo ends with a line break after eleven tokens; of five tokens the text is cut."""
    whole, cut = (without_noise(**ALL_VOTE, max_tokens=most) for most in (TOKENS, 5))
    assert max(len(one.text) for one in whole) == 10
    assert {one.text for one in cut} == {"zebr", "quic"}, "a blank and four letters"


@pytest.mark.parametrize("elections", [1, 3])
def test_rows_elect_so_many_tokens_and_the_model_writes_the_others_alone(elections: int) -> None:
    """The blank is the model's own and needs no election; the echo that follows a mixed text is of
    the example's next letter.
    """
    for one in without_noise(**EXPONENTIAL, private_tokens=elections):
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
    for agreement, expected in ((0.25, own[: TOKENS - 1].strip()), (0.75, "quick quiz")):
        found = without_noise(rows, **EXPONENTIAL, private_tokens=TOKENS, agreement=agreement)
        assert [one.text for one in found if one.label == "good"] == [expected]


def test_at_epsilon_zero_no_row_is_read() -> None:
    declared, asked = contract(), unit(contract(), shots=(1, 4))
    one, four = write_public(declared, asked, EchoGenerator(sure=1 - 1e-12)).items()
    assert (one[0].epsilon, len(one[1]), four[0]) == (0.0, 1, Cell("icl", 0.0, 4))
    assert {text.text for text in four[1]} == {PUBLIC_TEXT[:TOKENS].decode().strip()}
    assert [text.label for text in four[1]] == list(labels_of(declared, asked.seed, 4))


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
    "private, way",
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
    one, other = (
        written(asked(5.0), declared, journal=Mortal(draws_for(declared, 0), 1000, {}, {}))
        for _ in range(2)
    )
    assert one != other


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
    points = points_of(unit(declared, epsilons=(4.0,), shots=(6,), batches="fixed")).values()
    job = job_of(declared, points, Memory(draws_for(declared, 0)))
    (plan,) = job.plans.values()
    rows = PrivateRows(table(), WritingPrompts(declared, EchoGenerator(), plan.shape))
    batches, again = (
        [
            {*rows.batch(Text(job, plan.point.key, shot, label)).tolist()}
            for shot, label in enumerate(plan.labels)
        ]
        for _ in range(2)
    )
    assert sorted(row for batch in batches for row in batch) == list(range(80))
    assert batches == again
    for batch, label in zip(batches, plan.labels, strict=True):
        assert label == "bad" or all(row % 2 == 0 for row in batch)


@pytest.mark.parametrize("mechanism", ["clipped-logits", "invisible-ink"])
def test_fixed_batches_draw_rows_at_the_rate_that_is_paid_for(mechanism: str) -> None:
    """Within six deviations, far from half as many more."""
    many = 4000

    def wide(content: dict[str, Any]) -> None:
        for label in content["task"]["labels"].values():
            label["min_rows"] = many

    declared = contract(change=wide)
    chosen = {"batches": "fixed", "mechanism": mechanism, "voters": 400}
    points = points_of(unit(declared, epsilons=(4.0,), shots=(2,), **chosen)).values()
    job = job_of(declared, points, Memory(draws_for(declared, 0)))
    (plan,) = job.plans.values()
    each = {label: f"text {label}" for label in ("good", "bad")}
    rows = PrivateRows(table(many, each), WritingPrompts(declared, EchoGenerator(), plan.shape))
    for shot, label in enumerate(plan.labels):
        (drawing,) = (one for pool, one in plan.drawings.items() if pool.label == label)
        drawn = len(rows.batch(Text(job, plan.point.key, shot, label)))
        expected = float(drawing.rate) * many / plan.labels.count(label)
        assert drawing.rate < 0.5 and abs(drawn - expected) < 6 * math.sqrt(expected)


def test_a_context_too_small_for_the_examples_is_refused_before_a_row_is_read() -> None:
    declared = contract()
    points = points_of(asked(4.0, examples=4)).values()
    job = job_of(declared, points, Memory(draws_for(declared, 0)))
    told = r"reads 80 tokens, which leaves \d for each of 4 examples; expected at least 8"
    with pytest.raises(ModelError, match=told):
        write(table(), declared, EchoGenerator(context=80), [job])


def test_long_and_strange_texts_are_cut_each_to_its_own_length() -> None:
    """Nothing that stands in a row stops the others, or is told."""
    texts = {"good": "é" * 100_000, "bad": "quick quiz"}
    found = {one.label: one.text for one in without_noise(table(20, texts), **ALL_VOTE)}
    assert found["bad"] == "quick quiz" and set(found["good"]) <= {"é", "\ufffd"}


def split(declared: TextContract) -> SplitTable:
    asked = pa.table({"label": ["good", "bad", "good"], "text": ["one", "two", "three"]})
    return SplitTable(table(), QueryTable(asked), np.array([0, 1, 2]))


def test_a_run_gives_a_result_for_every_system() -> None:
    declared = contract()
    own = {"fixed": {"batches": "fixed", "mechanism": "clipped-logits"}}
    grid = unit(declared, epsilons=(2.0, math.inf), shots=(1, 2), variants=own)
    rows = run_texts(split(declared), declared, grid, HashScorer(), EchoGenerator())
    answered = [(name, epsilon) for name in ("icl", "icl-fixed") for epsilon in (2.0, math.inf)]
    answered += [("icl", 0.0), ("random-rows", math.inf)]
    assert {(row.system, row.epsilon, row.shots) for row in rows} == {
        *((*one, shots) for one in answered for shots in (1, 2)),
        *((cell.system, cell.epsilon, cell.shots) for cell in (ZERO_SHOT, MAJORITY)),
    }
    assert {row.query_count for row in rows} == {3}
    assert {row.system for row in rows if row.auc is not None} <= {"majority"}


def test_real_rows_are_of_the_labels_that_are_written() -> None:
    declared = contract()
    (found,) = random_rows(table(), declared, asked(math.inf)).values()
    assert [one.label for one in found] == list(labels_of(declared, 0, 2))
    assert {one.text for one in found} == set(SECRET.values())
    assert random_rows(table(), declared, asked(1.0)) == {}


def test_texts_without_noise_are_not_shown() -> None:
    texts = (Demonstration("good", "hello"),)
    released = {Cell("icl", epsilon, 1): texts for epsilon in (1.0, math.inf)}
    shown = [{"cell": Cell("icl", 1.0, 1).key, "label": "good", "text": "hello"}]
    assert FewShotGeneration().shown(released, contract()) == shown


def test_prompts_show_the_demonstrations_and_then_the_query() -> None:
    declared, cell = contract(), Cell("icl", 1.0, 2)
    shown = (Demonstration("good", "hello"), Demonstration("bad", "go away"))
    prompts = FewShotGeneration().prompts(
        {cell: shown}, {}, table(), split(declared).queries, declared, asked(1.0)
    )
    instruction = declared.prompts.answering.instruction
    assert prompts[ZERO_SHOT][0] == f"{instruction}\n\nLetter: one\nKind:"
    kinds = "Letter: hello\nKind: Wanted\n\nLetter: go away\nKind: Unwanted"
    assert prompts[cell][1] == f"{instruction}\n\n{kinds}\n\nLetter: two\nKind:"


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
    rows = PrivateRows(table(3), WritingPrompts(declared, EchoGenerator(), shape))
    assert [rows.of(VoterPool(label, 30)).tolist() for label in ("bad", None)] == [
        [1, 3, 5],
        [0, 1, 2, 3, 4, 5],
    ]
