"""Methods with one mistake each, which transcripts must find; sampling sees few of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np

from dpicl.data.central import adaptive, chosen_bins, spanning_tree
from dpicl.data.local import questions
from dpicl.mechanisms import noisy_count, noisy_mean, two_levels
from dpicl.mechanisms.continual_counts import ContinualCounts
from dpicl.mechanisms.noisy_count import LaplaceCounts
from dpicl.mechanisms.noisy_embedding import EmbeddingNoise
from dpicl.mechanisms.noisy_mean import Grid
from dpicl.mechanisms.private_token import TokenNoise
from dpicl.mechanisms.randomised_response import response
from dpicl.mechanisms.stable_top import StableTop
from dpicl.methods import dp_icl, ensemble_voting, mst_series, tab_pate
from dpicl.methods.aim_tabicl import AimTabicl
from dpicl.methods.ensemble_voting import RetrievalSpending, asked_of_each
from dpicl.methods.few_shot_voting import Text
from lab.audit.end_to_end.stand_ins import everywhere, replaced
from lab.audit.transcripts.cases import every_case
from lab.audit.transcripts.record import HeardMemory
from lab.audit.transcripts.run import Tally, audit_transcripts


@dataclass(frozen=True)
class Mutant:
    """A mistake, and the kind of worlds in which it is looked for."""

    name: str
    what_is_wrong: str
    case: str
    made: Callable[[], AbstractContextManager[Any]]

    def tally(self, *, seed: int, count: int) -> Tally:
        """Transcripts of the mutant, up to the first that finds it."""
        (case,) = (case for case in every_case() if case.name == self.case)
        with self.made():
            return audit_transcripts(case, seed=seed, count=count)


def _constant(owner: Any, name: str, value: Any) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: patch.object(owner, name, value)


def _property(owner: Any, name: str, made: Callable[[Any], Any]) -> Any:
    """Another value of a property, made from the right one."""
    right = vars(owner)[name].fget
    return lambda: patch.object(owner, name, property(lambda self: made(right(self))))


def _unheard(_: Any) -> Any:
    def noisy_counts(
        counts: Sequence[int],
        *,
        epsilon: Fraction,
        stream: Any,
        sensitivity: int = 1,
    ) -> list[int]:
        return LaplaceCounts(epsilon, sensitivity).draw(counts, stream)

    return noisy_counts


def _twice(noisy_counts: Any) -> Any:
    return lambda counts, *, epsilon, **how: noisy_counts(counts, epsilon=2 * epsilon, **how)


def _half_bounds(noisy_counts: Any) -> Any:
    return lambda counts, *, sensitivity=1, **how: noisy_counts(
        counts, sensitivity=-(-sensitivity // 2), **how
    )


def _by_parity(measure: Any) -> Any:
    def measured(self: Any, exact: Any, budget: Any, stream: Any) -> Any:
        odd = int(exact.over(()).sum()) % 2
        return measure(self, exact, budget.times(Fraction(1, 1 + odd)), stream)

    return measured


def _louder(randomise: Any) -> Any:
    def randomised(codes: np.ndarray, law: Any, stream: Any) -> np.ndarray:
        louder = response(epsilon=law.epsilon * 1.25, categories=law.categories)
        return np.asarray(randomise(codes, louder, stream))

    return randomised


def _unclipped(_: Any) -> Any:
    def units(self: Any, values: np.ndarray) -> np.ndarray:
        far = np.clip(np.nan_to_num(values), -1e12, 1e12)  # as far as whole numbers go
        return np.asarray(np.rint((far - self.zero) / self.step).astype(np.int64))

    return units


def _dealt(_: Any) -> Any:
    return lambda codes, persons, *, teachers, key: np.arange(len(codes)) % teachers


def _exact_votes(noisy_votes: Any) -> Any:
    return lambda exact, *, epsilon, stream: noisy_votes(exact, epsilon=None, stream=stream)


def _kept_noise(release: Any) -> Any:
    """The noise of the first period is added in all of them."""
    first: dict[bool, np.ndarray] = {}

    def released(self: Any, history: Any, *, period: int, stream: Any) -> np.ndarray:
        nights = list(history)
        exact = replace(self, variance=None)
        counts = release(exact, nights, period=period, stream=stream)
        if period == 1:
            first[True] = np.asarray(release(self, nights, period=1, stream=stream)) - counts
        return np.asarray(counts + first[True])

    return released


def _staying(contribution_of: Any) -> Any:
    return lambda contract, **how: replace(contribution_of(contract, **how), signed=0)


def _of_one_name(stream: Any) -> Any:
    return lambda self, key, name: stream(self, key, name.partition(" ")[0])


def _of_one_number(stream: Any) -> Any:
    return lambda self, purpose, number: stream(self, purpose, 0)


def _quieter(decide: Any) -> Any:
    def decided(plan: Any, *others: Any) -> Any:
        half = replace(plan.noise, amount=plan.noise.amount / 2)
        return decide(replace(plan, noise=half), *others)

    return decided


def _one_way(joint_top: Any) -> Any:
    return lambda counts, *, sensitivity, **how: joint_top(counts, sensitivity=1, **how)


def _nearest(near: Any) -> Any:
    def is_near(records: np.ndarray, query: np.ndarray, *, similarity: float) -> np.ndarray:
        products = records.astype(np.float64) @ query.astype(np.float64)
        return (
            np.asarray(np.arange(len(records)) == products.argmax())
            if len(records)
            else (near(records, query, similarity=similarity))
        )

    return is_near


def pooled(counted: Any) -> Any:
    """Every voter is calibrated by the mean of what all say to texts without content."""

    def votes(scores: np.ndarray, shape: Any) -> Any:
        each = scores.reshape(-1, asked_of_each(shape), scores.shape[1]).copy()
        each[:, 1:] = each[:, 1:].mean(axis=0)
        return counted(each.reshape(scores.shape), shape)

    return votes


def _unnoted(_: Any) -> Any:
    return lambda self, number, units, is_near: is_near


def _one_too_far(stability: Any) -> Any:
    return lambda self, counts, size: stability(self, counts, size + 1)


def _every_row(_: Any) -> Any:
    return lambda train, contract, draws: np.arange(train.row_count)


def _added(select: Any) -> Any:
    return lambda self, sums, stream: select(replace(self, row_is_voter=True), sums, stream)


_HALF_SPREAD = "the noise of a choice is for half of what a row moves it by"
MUTANTS = (
    Mutant(
        "shares",
        "parts of the budget add up to 7/6",
        "mst_tabicl: laplace",
        _constant(spanning_tree, "SECOND", spanning_tree.SECOND + Fraction(1, 6)),
    ),
    Mutant(
        "pair-spread", _HALF_SPREAD, "mst_tabicl: laplace", _constant(spanning_tree, "_SPREAD", 1)
    ),
    Mutant(
        "bins-spread",
        _HALF_SPREAD,
        "mst_tabicl: laplace, open bins",
        _constant(chosen_bins, "_SPREAD", chosen_bins._SPREAD // 2),
    ),
    Mutant("scope-spread", _HALF_SPREAD, "aim_tabicl: laplace", _constant(adaptive, "_SPREAD", 1)),
    Mutant(
        "parity",
        "the budget depends on the parity of the rows",
        "aim_tabicl: laplace",
        lambda: replaced(AimTabicl, "measure", _by_parity),
    ),
    Mutant(
        "gaussian-spread",
        _HALF_SPREAD,
        "mst_tabicl: gaussian",
        _constant(spanning_tree, "_SPREAD", 1),
    ),
    Mutant(
        "unheard",
        "noise is drawn beside the interface",
        "tab_pe: histograms",
        lambda: replaced(noisy_count, "noisy_counts", _unheard),
    ),
    Mutant(
        "votes",
        "a vote that moves from label to label is paid as one that is added",
        "tab_pate: public",
        _constant(tab_pate, "moved_by_one", lambda labels: 1),
    ),
    Mutant(
        "sums",
        "the noise of sums is for half of the bounds",
        "gdp_tabicl: paid columns",
        lambda: replaced(noisy_mean, "noisy_counts", _half_bounds),
    ),
    Mutant(
        "persons",
        "all rows of a person enter",
        "gdp_tabicl: shared count, persons",
        lambda: everywhere("contributing_rows", _every_row),
    ),
    Mutant(
        "agreement",
        "noise of 0.8 times the scale",
        "ldp_tabicl: agreement",
        lambda: replaced(questions, "randomise", _louder),
    ),
    Mutant(
        "one-period",
        "the noise is for half of what a person moves all periods by",
        "mst_tabicl: series, add-or-remove-one",
        _property(ContinualCounts, "squared_sensitivity", lambda right: -(-right // 2)),
    ),
    Mutant(
        "added-vote",
        "the noise is for an added vote, where one row changes a vote",
        "few_shot_generation: fresh, exponential",
        lambda: replaced(TokenNoise, "select", _added),
    ),
    Mutant(
        "pooled",
        "votes are calibrated by all prompts together",
        "dp_icl: votes, calibrated",
        lambda: replaced(ensemble_voting, "counted", pooled),
    ),
    Mutant(
        "unnoted",
        "a row takes part in every query it is near to",
        "dp_icl: retrieved",
        lambda: replaced(RetrievalSpending, "admit", _unnoted),
    ),
    Mutant(
        "one-too-far",
        "the gap that is tested lies one position behind the set",
        "dp_icl: keywords, stable",
        lambda: replaced(StableTop, "stability", _one_too_far),
    ),
    Mutant(
        "no-clip",
        "numbers are not clipped to their bounds",
        "gdp_tabicl: paid columns",
        lambda: replaced(Grid, "units", _unclipped),
    ),
    Mutant(
        "dealt-in-turn",
        "rows are dealt to teachers in turn, so that one inserted changes many",
        "tab_pate: public",
        lambda: replaced(tab_pate, "teachers_of", _dealt),
    ),
    Mutant(
        "exact-votes",
        "votes are released without noise",
        "tab_pate: public",
        lambda: replaced(tab_pate, "noisy_votes", _exact_votes),
    ),
    Mutant(
        "labels-twice",
        "counts of labels are released at twice what they cost",
        "tab_pate: public",
        lambda: replaced(tab_pate, "label_counts", _twice),
    ),
    Mutant(
        "kept-noise",
        "every period has the noise of the first one",
        "gdp_tabicl: series, add-or-remove-one",
        lambda: replaced(ContinualCounts, "release", _kept_noise),
    ),
    Mutant(
        "unpriced-corrections",
        "the noise is for rows that stay",
        "mst_tabicl: series, replace-one, corrections",
        lambda: replaced(mst_series, "contribution_of", _staying),
    ),
    Mutant(
        "one-radius",
        "the noise is for a movement of one radius, where an answer may move by two",
        "dp_icl: embedding",
        _property(EmbeddingNoise, "squared_movement", lambda right: right // 4),
    ),
    Mutant(
        "one-way",
        "the noise is for counts that all move the same way",
        "dp_icl: keywords, joint",
        lambda: replaced(ensemble_voting, "joint_top", _one_way),
    ),
    Mutant(
        "by-rank",
        "the nearest row takes part, so that one that is added displaces it to a later query",
        "dp_icl: retrieved",
        lambda: replaced(ensemble_voting, "near", _nearest),
    ),
    Mutant(
        "less-noise",
        "sendings have 0.8 times the noise",
        "ldp_tabicl: sendings",
        lambda: replaced(two_levels, "randomise", _louder),
    ),
    Mutant(
        "half-noise",
        "counts of right answers have half the noise",
        "gdp_tabicl: held-out answers",
        lambda: replaced(noisy_count, "noisy_counts", _twice),
    ),
    Mutant(
        "same-noise",
        "every query's noise is of the same bits",
        "dp_icl: votes, gaussian",
        lambda: replaced(HeardMemory, "stream", _of_one_name),
    ),
    Mutant(
        "same-noise-of-tokens",
        "every token's noise is of the same bits",
        "few_shot_generation: fresh, exponential",
        lambda: replaced(Text, "stream", _of_one_number),
    ),
    Mutant(
        "half-deviation",
        "votes are drawn with half of the deviation that is paid for",
        "dp_icl: votes, gaussian",
        lambda: replaced(dp_icl, "decide", _quieter),
    ),
)
