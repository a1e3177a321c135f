"""What a release holds as numbers, whatever its method: counts, averages or reports; and the likelihood ratio of them.

    (1)  counts with discrete Laplace noise of scale b:   sum over counts c of  (|c - c_out| - |c - c_in|) / b
    (2)  what a client sent, by a law that keeps epsilon_q:   sum of epsilon_q (names the record's answer - names the other's)

Symbols     c_in, c_out exact counts with and without the record. (1) leaves out which pairs were chosen to be counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpicl.tabular.central.spanning_tree import ExactCounts, NoisyMarginal
from dpicl.tabular.local.observed import Reported
from dpicl.tabular.local.tally import Tally
from dpicl.types import PrivateCodes, ReleasedGroups

_CERTAIN = 1e6
"""In place of the ratio of a count without noise."""
Numbers = Mapping[str, float]


def numbers(drawn: Any) -> Numbers:
    """All released numbers by a name; which ones there are may differ from release to release."""
    if isinstance(drawn, ReleasedGroups):
        found: dict[str, float] = {}
        for place, group in enumerate(drawn.groups):
            for name, value in (*group.values.items(), ("label", float(group.label))):
                found[f"{place} {name}" if isinstance(value, float) else f"{place} {name} {value}"] = (
                    value if isinstance(value, float) else 1
                )
        return found
    if isinstance(drawn, Reported):
        return {f"{place} {code}": 1.0 for place, code in enumerate(drawn.stored.ravel().tolist())}
    if isinstance(drawn, Tally):
        return {str(place): float(count) for place, count in enumerate(drawn.stored.tolist())}
    found, times = {}, dict[tuple[int, ...], int]()
    for one in drawn:
        times[one.columns] = times.get(one.columns, 0) + 1
        name = f"{one.columns} {times[one.columns]}"
        found[name] = 1.0  # that it was chosen
        found |= {f"{name} {place}": float(count) for place, count in enumerate(one.counts.ravel().tolist())}
    return found


def matrix(releases: list[Numbers], names: list[str]) -> np.ndarray:
    """One row per release; what it does not hold is 0."""
    return np.array([[one.get(name, 0.0) for name in names] for one in releases])


def of_counts(drawn: list[NoisyMarginal], exact: Mapping[bool, ExactCounts]) -> float:
    """Equation (1)."""
    ratio = 0.0
    for one in drawn:
        away, near = (np.abs(one.counts - exact[which].tables[one.columns]).sum() for which in (False, True))
        ratio += float(away - near) / one.scale if one.scale else _CERTAIN * float(np.sign(away - near))
    return ratio


def of_reports(drawn: Reported | Tally, record: PrivateCodes, other: PrivateCodes) -> float:
    """Equation (2)."""
    if isinstance(drawn, Reported):
        weights = np.array([math.log(law.truth_probability / law.lie_probability) for law in drawn.laws])
        return float(((drawn.stored[-1] == record.codes[0]) * weights - (drawn.stored[-1] == other.codes[0]) * weights).sum())
    ratio = 0.0
    for question, counts in zip(drawn.questionnaire.questions, drawn.counts, strict=True):
        mine, theirs = (int(question.cells_of(one.codes)[0]) for one in (record, other))
        ratio += question.law.guarantee().epsilon * float(counts[mine] - counts[theirs])
    return ratio


def near(bins: np.ndarray, record: np.ndarray) -> tuple[float, Numbers]:
    """How near derived rows come to the record; and shares of rows that are as it in a column, in a column and the label, and in all."""
    same = bins == record
    agree = same.sum(axis=1)
    joint = {f"{column} label": float((same[:, column] & same[:, -1]).mean()) for column in range(bins.shape[1] - 1)}
    shares = {
        **{str(column): float(same[:, column].mean()) for column in range(bins.shape[1])},
        **joint,
        "all": float((agree == bins.shape[1]).mean()),
    }
    return float(agree.max()) + float((agree == agree.max()).mean()), shares
