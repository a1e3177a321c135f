"""DP-ICL: one record changes one prompt, votes are kept and stand, and what leaves is what the
noise elected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.contract import TextContract
from dpicl.contract.pipeline import Cell, Unit
from dpicl.ground.errors import ModelError, PrivacyError, TooLongError
from dpicl.ground.types import PrivateTable, QueryTable, SplitTable
from dpicl.mechanisms.private_token import UNITS
from dpicl.methods.base import ZERO_SHOT, draws_for
from dpicl.methods.dp_icl import AnsweringJob, DpIcl, answer, consult, real_rows
from dpicl.methods.ensemble_plan import EnsembleShape, plan_release
from dpicl.methods.ensemble_voting import Placement, Public, Voters, words_of
from dpicl.methods.text_method import Memory
from dpicl.models.embedding import HashedNGrams
from dpicl.models.kinds.fake import HashScorer
from dpicl.models.requests import ModelDescription, Sampling
from tests.direct import points_of, run_texts
from tests.library.text_contracts import as_ensemble, as_free_text, text_contract
from tests.library.units import unit_for

SHAPE = EnsembleShape("votes", True, 3, 2, 5.0, 2, 3)
ALONE = EnsembleShape("soft-votes", False, 3, 2, 5.0, 2, 3)
KEY = bytes(range(32))
ICL = "icl,epsilon=inf,shots=1"
TEXTS = st.lists(st.text("abc ", min_size=1, max_size=6), min_size=1, max_size=25)


def table(texts: Sequence[str], label: str = "good") -> PrivateTable:
    columns = {"label": [label] * len(texts), "text": [*texts]}
    return PrivateTable(
        pa.table({name: pa.array(column, pa.string()) for name, column in columns.items()})
    )


def people(rows: Sequence[tuple[str, str]]) -> PrivateTable:
    """Persons with a text each."""
    who = pa.array([person for person, _ in rows], pa.string())
    return PrivateTable(table([text for _, text in rows]).data.append_column("person", who))


def contract(*, free: bool = False, private: bool = False) -> TextContract:
    def change(content: dict[str, Any]) -> None:
        (as_free_text if free else as_ensemble)(content)
        if free:
            content["task"]["min_rows"] = 40
        if private:
            content["privacy"] = {"budget": {"epsilon": 1000, "delta": 0.5}}

    return text_contract(change)


def unit(*epsilons: float, **variants: dict[str, Any]) -> Unit:
    return unit_for("dp_icl", "mail", epsilons=epsilons, shots=(1,), variants=variants)


@dataclass
class Reader:
    """Answers with the text of a prompt's first example; cannot read prompts beyond a length."""

    longest: int = 10_000
    asked: list[str] = field(default_factory=list)

    @property
    def description(self) -> ModelDescription:
        return ModelDescription("reader", "fake", "1", "", False, "local")

    def _read(self, prompts: Sequence[str]) -> list[str]:
        if max(map(len, prompts), default=0) > self.longest:
            raise TooLongError("too long")
        self.asked += prompts
        return [prompt.split("Letter: ")[1].split("\n")[0] for prompt in prompts]

    def score(
        self, prompts: Sequence[str], continuations: Sequence[str], *, progress: Any = None
    ) -> np.ndarray:
        """The second label after a text that holds `b`."""
        return np.array(
            [[0.0, -1.0] if "b" not in text else [-1.0, 0.0] for text in self._read(prompts)]
        )

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[str]:
        return self._read(prompts)


def job(declared: TextContract, asked: Unit, memory: Memory | None = None) -> AnsweringJob:
    draws = draws_for(declared, asked.seed)
    memory = memory or Memory(draws)
    plans = {one.key: plan_release(declared, one) for one in points_of(asked).values()}
    return AnsweringJob(declared, plans, draws, memory, memory)


def shown(
    private: PrivateTable,
    shape: EnsembleShape = SHAPE,
    query: int = 0,
    rate: Fraction = Fraction(3, 4),  # noqa: B008
    most_rows: int | None = None,
) -> list[str]:
    """The prompts of a query."""
    placement = Placement(private, KEY, rate, shape, most_rows)
    return Voters(contract(), Reader()).prompts(placement, query, "?")


def changed(one: Sequence[str], other: Sequence[str]) -> int:
    return sum(before != after for before, after in zip(one, other, strict=True))


@given(
    TEXTS,
    st.text("abc ", min_size=1, max_size=6),
    st.integers(0, 25),
    st.sampled_from([SHAPE, ALONE]),
    st.integers(0, 3),
)
def test_one_record_changes_one_prompt_of_a_query_wherever_it_stands(
    texts: list[str], new: str, place: int, shape: EnsembleShape, query: int
) -> None:
    more = [*texts[:place], new, *texts[place:]]
    before, after = (shown(table(rows), shape, query) for rows in (texts, more))
    if shape.alone:
        assert len(after) - len(before) in (0, 1) and not set(before) - set(after)
    else:
        assert len(before) == shape.subsets and changed(before, after) <= 1


@given(
    st.lists(
        st.tuples(st.sampled_from("pqrs"), st.text("abc ", min_size=1, max_size=6)), max_size=25
    ),
    st.integers(1, 5),
    st.integers(0, 3),
)
def test_all_rows_of_a_person_change_one_prompt_and_are_no_more_than_the_contract_says(
    others: list[tuple[str, str]], count: int, query: int
) -> None:
    own = [("own", f"own {number}") for number in range(count)]
    before, after = (
        shown(people(rows), query=query, most_rows=2)
        for rows in (others, [*others[:3], *own, *others[3:]])
    )
    assert changed(before, after) <= 1 and all(text.count("Letter: own") <= 2 for text in after)


def test_a_person_who_writes_what_another_wrote_moves_nobody_else() -> None:
    rows = [(name, text) for name in "pqrst" for text in ("same", "same", f"own {name}")]
    for query in range(20):
        before, after = (
            shown(people(held), query=query, most_rows=2)
            for held in (rows, [("new", "same"), ("new", "same"), *rows])
        )
        assert changed(before, after) <= 1


@given(TEXTS, st.randoms())
def test_the_order_of_the_rows_changes_nothing(texts: list[str], dice: Any) -> None:
    shuffled = dice.sample(texts, len(texts))
    assert shown(table(texts), rate=Fraction(1)) == shown(table(shuffled), rate=Fraction(1))


def test_a_prompt_holds_no_more_than_twice_its_rows() -> None:
    placement = Placement(table([*map(str, range(500))]), KEY, Fraction(1), SHAPE)
    assert [len(group) for group in placement.groups(0)] == [4, 4, 4]


def test_a_prompt_that_is_too_long_votes_for_nothing_and_leaves_the_others_alone() -> None:
    shape = EnsembleShape("soft-votes", False, 2, 1, 5.0, 1, 3)
    placement = Placement(table(["a", "b" * 200, "c"]), KEY, Fraction(1), shape)
    (all_fit,), (one_not,) = (
        Voters(contract(), Reader(longest)).votes(placement, [(0, "?")])
        for longest in (10_000, 150)
    )
    sure, less = UNITS, int(0.8 * UNITS)
    assert (all_fit, one_not) == ([3 * sure + less, sure + 3 * less], [3 * sure, 3 * less])


def test_votes_that_are_kept_are_not_cast_again_and_the_first_stand() -> None:
    declared, asked, rows = contract(), unit(math.inf), table(["a", "b", "bb", "c"])
    memory, first, second = Memory(draws_for(contract(), 0)), Reader(), Reader()
    one = consult(rows, [(0, "x"), (1, "y")], first, job(declared, asked, memory))
    two = consult(
        table(["b"]), [(0, "x"), (1, "y"), (2, "z")], second, job(declared, asked, memory)
    )
    assert two[ICL][:2] == one[ICL] and len(first.asked) == 4
    assert len(second.asked) == 2 and all(prompt.endswith("z\nKind:") for prompt in second.asked)


def test_epsilons_of_a_benchmark_share_their_votes_and_those_of_private_rows_do_not() -> None:
    rows, reader, private = table(["a", "b", "bb", "c"]), Reader(), Reader()
    consult(rows, [(0, "x")], reader, job(contract(), unit(5.0, 20.0)))
    consult(rows, [(0, "x")], private, job(contract(private=True), unit(5.0, 20.0)))
    assert (len(reader.asked), len(private.asked)) == (2, 4)


def answered(
    declared: TextContract,
    asked: Unit,
    rows: PrivateTable,
    queries: list[Any],
    public: Public,
    model: Any = None,
) -> Any:
    one = job(declared, asked)
    return answer(one, consult(rows, queries, model or Reader(), one), queries, public)


def test_without_noise_the_answer_is_the_most_frequent_one() -> None:
    declared, asked = contract(), unit(math.inf, soft={"aggregation": "soft-votes"})
    rows, queries = table(["b"] * 200), [(0, "x"), (1, "y")]
    found = answered(declared, asked, rows, queries, Public({}, None))
    assert found == {ICL: ["bad", "bad"], "icl-soft,epsilon=inf,shots=1": ["bad", "bad"]}
    cells = {Cell(key): answers for key, answers in found.items()}
    assert DpIcl().final_answers(cells, declared)[Cell(ICL)].tolist() == [1, 1]


def test_without_noise_texts_become_the_nearest_candidate_or_their_words() -> None:
    asked = unit(
        math.inf,
        ptr={"aggregation": "keywords-ptr", "subsets": 20},
        joint={"aggregation": "keywords-joint"},
    )
    public = Public({"zebra quick lion": ["left", "zebra quick", "right", "up"]}, HashedNGrams())
    rows, queries = table(["zebra quick"] * 600, "ann"), [(0, "zebra quick lion")]
    found = answered(contract(free=True), asked, rows, queries, public)
    assert found[ICL] == ["zebra quick"]
    assert found["icl-ptr,epsilon=inf,shots=1"] == [["quick", "zebra"]]
    (words,) = found["icl-joint,epsilon=inf,shots=1"]
    assert sorted(words) == ["lion", "quick", "zebra"]


def test_released_keywords_are_asked_with_and_answers_are_not() -> None:
    declared, asked = contract(free=True), unit(5.0)
    queries = QueryTable(pa.table({"label": ["ann"], "text": ["who"]}))
    released = {
        Cell("icl", 5.0, 1): ["ann"],
        Cell("icl-ptr", 5.0, 1): [["zebra"]],
        Cell("icl-joint", 5.0, 1): [[]],
    }
    prompts = DpIcl().prompts(released, {}, table(["secret"]), queries, declared, asked)
    assert prompts == {
        ZERO_SHOT: ["Letter: who\nHead:"],
        Cell("icl-ptr", 5.0, 1): ["Letter: who\nUse these words: zebra\nHead:"],
        Cell("icl-joint", 5.0, 1): ["Letter: who\nHead:"],
    }


def test_real_rows_are_shown_where_no_privacy_is_asked_for_only() -> None:
    rows = table(["secret"])
    assert real_rows(rows, contract(), unit(5.0)) == {}
    ((cell, (shown,)),) = real_rows(rows, contract(), unit(math.inf)).items()
    assert (cell.system, shown.text) == ("few-shot", "secret")


def test_words_are_small_distinct_and_say_something() -> None:
    assert words_of("The Zebra and the zebra of 12 hats") == ["zebra", "12", "hats"]


@pytest.mark.quick("False")
@pytest.mark.parametrize("free", [False, True])
def test_the_whole_method_repeats_itself_on_a_benchmark(free: bool) -> None:
    name, way = ("ptr", "keywords-ptr") if free else ("soft", "soft-votes")
    queries = pa.table({"label": ["good", "bad", "good"], "text": ["one", "two", "three"]})
    rows = table([f"text {number}" for number in range(30)])
    split = SplitTable(rows, QueryTable(queries), np.array([0, 2]))
    asked, scorer = unit(3.0, math.inf, **{name: {"aggregation": way}}), HashScorer()
    one, again = (
        run_texts(split, contract(free=free), asked, scorer, scorer, HashedNGrams())
        for _ in range(2)
    )
    assert one == again and {result.query_count for result in one} == {2}
    named = {("icl", 3.0), ("icl", math.inf), (f"icl-{name}", 3.0), ("zero-shot", None)}
    assert named | {("few-shot", math.inf)} <= {(each.system, each.epsilon) for each in one}


def test_what_cannot_be_answered_is_refused() -> None:
    none = QueryTable(pa.table({"label": [], "text": []}))
    split, scorer = SplitTable(table([]), none, np.array([], int)), HashScorer()
    with pytest.raises(PrivacyError, match="mail: epsilon=inf"):
        run_texts(split, contract(private=True), unit(math.inf), scorer, scorer, None)
    own = {"description": Reader().description, "score": Reader.score}
    with pytest.raises(ModelError, match="writes no text"):
        consult(
            table(["a"]),
            [(0, "x")],
            type("ScorerOnly", (), own)(),
            job(contract(free=True), unit(math.inf)),
        )
