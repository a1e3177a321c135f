"""What an attacker makes of releases: one number for each, that is larger where the planted record
is in.

    likelihood ratio   of all released counts, or of what a client sent, under the known law of the
                       noise; of votes, whose teachers' rows nobody knows, the votes for the
                       record's label on queries like it
    best number        the released number that tells most
    shadow model       logistic regression on all released numbers, fitted on releases of tables of
                       the attacker's own
    nearest record     how near the nearest derived row is to the record, and how many are
    shadow model, rows the same on shares of derived rows that are as the record

    (1)  advantage  =  P[said in | in] - P[said in | not in]  <=  (e^epsilon - 1 + 2 delta) /
         (e^epsilon + 1)

    (1b) area under the curve of true over false positives   <=  that of the curve  min(e^epsilon f
         + delta, 1 - e^-epsilon (1 - delta - f))
    (1c) true positives where there are f false ones         <=  that curve

The rule (its number, coefficients and threshold) is chosen on one half of the releases, or on a
fifth where it is no more than a threshold of the likelihood ratio; (1) and (1c) are bounded on the
others (Clopper and Pearson 1934), (1b) by Hoeffding 1963 for two samples, at once for all that is
tried.

    (2)  ratio of counts with discrete Laplace noise of scale b    sum over counts c of  (|c -
         c_out| - |c - c_in|) / b
    (3)  of what a client sent, by a law that keeps epsilon_q      sum of epsilon_q (names the
         record's answer - names the other's)

Symbols     c_in, c_out exact counts with and without the record. (2) leaves out which pairs were
            chosen to be counted.
Paper       (1) [KOV15] Kairouz, Oh and Viswanath 2015; shadow models: Shokri, Stronati, Song and
            Shmatikov 2017.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import stats

from dpicl.data.central.evolution import DistinctRows, Space
from dpicl.data.central.exact_counts import ExactCounts
from dpicl.data.central.graphical_model import NoisyCounts
from dpicl.data.local.observed import Reported
from dpicl.data.local.questions import Tally
from dpicl.ground.types import PrivateCodes, ReleasedGroups
from dpicl.methods.tab_pate import Labelled
from dpicl.methods.tab_pe import Votes

SURE = 0.01
"""How often one right method or more is called wrong, all epsilons and attacks together."""
_OF_ADVANTAGE, _OF_OTHERS = 0.9, 0.05
"""Shares of `SURE`: of (1), and of (1b) and (1c) each."""
FOR_RATIO = 5
"""One of so many releases is for the threshold of a likelihood ratio: it is one number, and the
bound gains from all others.
"""
FEW = 0.05
"""False positives, at most so many of the first half, where (1c) is looked at."""

_CERTAIN = 1e6
"""In place of the ratio of a count without noise."""
Numbers = tuple[tuple[str, ...], np.ndarray]
"""Numbers of one release, each with a name."""


def allowed(epsilon: float, delta: float = 0.0) -> float:
    """The most that equation (1) allows."""
    return min(1.0, math.tanh(epsilon / 2) + 2 * delta / (math.exp(min(epsilon, 500.0)) + 1))


def most_true(false: float, epsilon: float, delta: float) -> float:
    """The most true positives that equation (1c) allows."""
    return float(
        min(
            math.exp(min(epsilon, 500.0)) * false + delta,
            1 - math.exp(-epsilon) * (1 - delta - false),
            1.0,
        )
    )


def most_area(epsilon: float, delta: float) -> float:
    """The most that equation (1b) allows: three straight pieces."""
    bend = (1 - delta) / (math.exp(min(epsilon, 500.0)) + 1)
    return delta * (1 + bend) + (1 - delta - bend) * (1 - bend / 2) + bend * (1 - bend - delta) / 2


def advantage_at_least(said_in: tuple[int, int], runs: tuple[int, int], sure: float) -> float:
    """A lower bound of equation (1); both bounds in it hold at once except with probability `sure`.

    Args:
        said_in: how often the attacker says so where the record is in, and where it is not; of so
            many `runs`.
    """
    (hits, alarms), (inside, outside) = said_in, runs
    return _from_below(hits, inside, sure) - _from_above(alarms, outside, sure)


def _from_below(said: int, runs: int, sure: float) -> float:
    return 0.0 if said == 0 else float(stats.beta.ppf(sure / 2, said, runs - said + 1))


def _from_above(said: int, runs: int, sure: float) -> float:
    return 1.0 if said == runs else float(stats.beta.ppf(1 - sure / 2, said + 1, runs - said))


@dataclass(frozen=True)
class Attacked:
    """What one attack said of the releases that chose no rule: where the record is in, and where it
    is not.

    Attributes:
        said_in: at the threshold of the largest advantage.
        sharp: at the threshold that few releases without the record reach.
        area: under the curve of all thresholds.
    """

    attack: str
    said_in: tuple[int, int]
    runs: tuple[int, int]
    sharp: tuple[int, int]
    area: float

    @property
    def seen(self) -> float:
        """The advantage as it is seen."""
        return self.said_in[0] / self.runs[0] - self.said_in[1] / self.runs[1]

    def at_least(self, tried: int) -> float:
        """The advantage, bounded at once with so many others."""
        return advantage_at_least(self.said_in, self.runs, SURE * _OF_ADVANTAGE / tried)

    def area_at_least(self, tried: int) -> float:
        """The area of (1b), bounded likewise."""
        return self.area - math.sqrt(math.log(tried / (SURE * _OF_OTHERS)) / (2 * min(self.runs)))

    def sharp_at_least(self, tried: int) -> tuple[float, float]:
        """True positives of (1c) from below and the false ones that go with them from above,
        bounded likewise.
        """
        return _from_below(
            self.sharp[0], self.runs[0], sure := SURE * _OF_OTHERS / tried
        ), _from_above(self.sharp[1], self.runs[1], sure)

    def holds(self, epsilon: float, delta: float, tried: int) -> bool:
        """Whether all three are within what is allowed."""
        true, false = self.sharp_at_least(tried)
        return (
            self.at_least(tried) <= allowed(epsilon, delta)
            and self.area_at_least(tried) <= most_area(epsilon, delta)
            and true <= most_true(false, epsilon, delta)
        )


def by_score(
    attack: str, inside: np.ndarray, outside: np.ndarray, *, for_rule: int = 2
) -> Attacked:
    """Say "in" from a threshold on that the first of `for_rule` parts chooses; scores of shape
    (releases,) of both tables.
    """
    ends = len(inside) // for_rule, len(outside) // for_rule
    first, second = (inside[: ends[0]], outside[: ends[1]]), (inside[ends[0] :], outside[ends[1] :])
    few = np.sort(first[1])[::-1][int(FEW * ends[1])]

    def said(threshold: float, strict: bool = False) -> tuple[int, int]:
        counts = [
            int(np.count_nonzero(scores > threshold if strict else scores >= threshold))
            for scores in second
        ]
        return counts[0], counts[1]

    return Attacked(
        attack,
        said(_best(*first)[1]),
        (len(second[0]), len(second[1])),
        said(few, strict=True),
        _area(*second),
    )


def _area(inside: np.ndarray, outside: np.ndarray) -> float:
    """How often a release with the record has the larger score; of equal ones half (Mann and
    Whitney 1947).
    """
    below, up_to = (
        np.searchsorted(np.sort(outside), inside, side=side) for side in ("left", "right")
    )
    return float((below + up_to).sum() / (2 * len(inside) * len(outside)))


def by_best_number(attack: str, inside: np.ndarray, outside: np.ndarray) -> Attacked:
    """The column of numbers, or its negative, that tells the first halves apart best; of shape
    (releases, numbers).
    """
    halves = len(inside) // 2, len(outside) // 2
    best = max(
        ((sign, place) for place in range(inside.shape[1]) for sign in (1, -1)),
        key=lambda one: _best(
            one[0] * inside[: halves[0], one[1]], one[0] * outside[: halves[1], one[1]]
        )[0],
    )
    return by_score(attack, best[0] * inside[:, best[1]], best[0] * outside[:, best[1]])


def by_shadows(attack: str, inside: np.ndarray, outside: np.ndarray) -> Attacked:
    """Logistic regression on the first halves, whose odds are the score."""
    # a second to import: only where it is called
    from sklearn.linear_model import (
        LogisticRegression,
    )

    halves = len(inside) // 2, len(outside) // 2
    seen = np.vstack([inside[: halves[0]], outside[: halves[1]]])
    centre, width = seen.mean(axis=0), seen.std(axis=0) + 1e-9
    model = LogisticRegression(max_iter=500).fit((seen - centre) / width, np.repeat([1, 0], halves))
    return by_score(
        attack, *(model.decision_function((part - centre) / width) for part in (inside, outside))
    )


def _best(inside: np.ndarray, outside: np.ndarray) -> tuple[float, float]:
    """The largest difference between the shares at or above a threshold, and that threshold."""
    thresholds = np.unique(np.concatenate([inside, outside]))
    above = [
        1 - np.searchsorted(np.sort(scores), thresholds, side="left") / len(scores)
        for scores in (inside, outside)
    ]
    place = int((above[0] - above[1]).argmax())
    return float(above[0][place] - above[1][place]), float(thresholds[place])


def numbers(drawn: Any) -> Numbers:
    """All released numbers; which ones there are may differ from release to release."""
    if isinstance(drawn, ReleasedGroups):
        found: dict[str, float] = {}
        for place, group in enumerate(drawn.groups):
            for name, value in (*group.values.items(), ("label", float(group.label))):
                found[
                    f"{place} {name}" if isinstance(value, float) else f"{place} {name} {value}"
                ] = value if isinstance(value, float) else 1
        return tuple(found), np.array(list(found.values()))
    if isinstance(drawn, Reported):
        sent = drawn.stored.ravel().tolist()
        return tuple(f"{place} {code}" for place, code in enumerate(sent)), np.ones(len(sent))
    if isinstance(drawn, Tally):
        return _named(("",), (len(drawn.stored),)), drawn.stored
    if isinstance(drawn, Labelled):
        queries, labels = drawn.votes.shape
        names = _named((*map(str, range(queries)), "labels"), (labels,) * (queries + 1))
        return names, np.concatenate([drawn.votes.ravel(), drawn.label_counts])
    # of which candidates are the same from release to release: those of columns, and every row
    if isinstance(drawn, Votes):
        votes = [one.votes for one in drawn.histograms[:-1] or drawn.histograms]
        return _named(tuple(map(str, range(len(votes)))), tuple(map(len, votes))), np.concatenate(
            votes
        )
    times, tables = dict[tuple[int, ...], int](), []
    for one in drawn.marginals:
        times[one.columns] = times.get(one.columns, 0) + 1
        tables.append(f"{one.columns} {times[one.columns]}")
    counts = [one.counts.ravel() for one in drawn.marginals]
    names = (*tables, *_named(tuple(tables), tuple(map(len, counts))))
    return names, np.concatenate([np.ones(len(tables)), *counts])  # that it was chosen, and counts


@lru_cache(1 << 10)
def _named(tables: tuple[str, ...], sizes: tuple[int, ...]) -> tuple[str, ...]:
    """Of every number in tables of so many each."""
    return tuple(
        f"{table} {place}"
        for table, size in zip(tables, sizes, strict=True)
        for place in range(size)
    )


def matrices(released: Sequence[Sequence[Numbers]]) -> list[np.ndarray]:
    """Of each of these lists of releases one row per release; what it does not hold is 0. All have
    the same columns, by name.
    """
    known = {names for some in released for names, _ in some}
    columns = {
        name: place
        for place, name in enumerate(sorted({name for names in known for name in names}))
    }
    places = {names: np.array([columns[name] for name in names]) for names in known}
    filled = []
    for some in released:
        filled.append(np.zeros((len(some), len(columns))))
        for row, (names, values) in zip(filled[-1], some, strict=True):
            row[places[names]] = values
    return filled


def of_counts(drawn: NoisyCounts, exact: Mapping[bool, ExactCounts]) -> float:
    """Equation (2)."""
    ratio = 0.0
    for one in drawn.marginals:
        away, near = (
            np.abs(one.counts - exact[which].of_columns(one.columns)).sum()
            for which in (False, True)
        )
        ratio += (
            float(away - near) / one.scale if one.scale else _CERTAIN * float(np.sign(away - near))
        )
    return ratio


def of_votes(drawn: Labelled, record: np.ndarray) -> float:
    """Votes for the record's label on the queries that are most like it, the mean."""
    agree = (drawn.queries == record[:-1]).sum(axis=1)
    return float(drawn.votes[agree == agree.max(), record[-1]].mean())


def of_candidates(drawn: Votes, voters: Mapping[bool, DistinctRows], space: Space) -> float:
    """Equation (2) of all histograms."""
    ratio = 0.0
    for one in drawn.histograms:
        whole = len(one.columns) < len(space.sizes) or len(one.candidates) == space.cells
        exact = {
            which: some.over(one.columns, space.sizes)
            if whole
            else some.votes(one.candidates, space)
            for which, some in voters.items()
        }
        away, near = (np.abs(one.votes - exact[which]).sum() for which in (False, True))
        ratio += (
            float(away - near) / one.scale if one.scale else _CERTAIN * float(np.sign(away - near))
        )
    return ratio


def of_reports(drawn: Reported | Tally, record: PrivateCodes, other: PrivateCodes) -> float:
    """Equation (3)."""
    if isinstance(drawn, Reported):
        weights = np.array(
            [math.log(law.truth_probability / law.lie_probability) for law in drawn.laws]
        )
        return float(
            (
                (drawn.stored[-1] == record.codes[0]) * weights
                - (drawn.stored[-1] == other.codes[0]) * weights
            ).sum()
        )
    ratio = 0.0
    for question, counts in zip(drawn.questionnaire.questions, drawn.counts, strict=True):
        mine, theirs = (int(question.cells_of(one.codes)[0]) for one in (record, other))
        ratio += question.law.guarantee().epsilon * float(counts[mine] - counts[theirs])
    return ratio


def near(bins: np.ndarray, record: np.ndarray) -> tuple[float, Numbers]:
    """How near derived rows come to the record; and shares of rows that are as it in a column, in a
    column and the label, and in all.
    """
    same = bins == record
    agree, last = same.sum(axis=1), bins.shape[1] - 1
    shares = [
        *same.mean(axis=0),
        *(same[:, :-1] & same[:, -1:]).mean(axis=0),
        (agree == bins.shape[1]).mean(),
    ]
    names = (*map(str, range(last + 1)), *(f"{column} label" for column in range(last)), "all")
    return float(agree.max()) + float((agree == agree.max()).mean()), (names, np.array(shares))
