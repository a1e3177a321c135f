"""The one sentence that answers what a run was made for: whom its first release at the least
epsilon helps, with the number of each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from dpicl.pipeline import asked_by
from dpicl.report import words
from dpicl.report.decision import BESIDE, IN_CONTEXT, leading
from dpicl.report.gains import Gain
from dpicl.report.load import Run
from dpicl.report.tables import is_queried, main_metrics, of_part, parts

_VERDICTS = {1: "helps", 0: "makes no difference beyond noise to", -1: "is worse than nothing for"}


@dataclass(frozen=True)
class Answerer:
    """Who answers from one method's release of a data set at one epsilon: a model or a classifier,
    how good it is with the release and without any private data, and the difference.
    """

    method: str
    dataset: str
    epsilon: float
    name: str
    accuracy: float
    without: float
    gain: Gain


def answerers(run: Run, gains: pd.DataFrame) -> tuple[Answerer, ...]:
    """Of every method, data set and finite epsilon: the models first, with all draws averaged where
    there are several, then logistic regression. None where accuracy is not what a run is judged by.
    """
    shown = leading(gains)
    return tuple(
        one
        for part in parts(run.results)
        if main_metrics(run.results)[part.index[0]] == "accuracy"
        for one in _of(run, part, shown)
    )


def _of(run: Run, part: pd.DataFrame, gains: pd.DataFrame) -> Iterator[Answerer]:
    own = of_part(gains, part)
    systems = [
        system for system in own["system"].unique() if is_queried(system) or system == BESIDE[0]
    ]
    several = {asked_by(system)[1] for system in systems if asked_by(system)[0] == "averaged"}
    main = run.manifest.model.name if run.manifest.model else ""
    order = [
        *(system for system in systems if is_queried(system)),
        *(system for system in systems if not is_queried(system)),
    ]
    for epsilon in sorted(one for one in own["epsilon"].unique() if 0 < one < math.inf):
        for system in order:
            asked, model = asked_by(system)
            if asked == IN_CONTEXT[0] and model in several:
                continue
            rows = own[(own["system"] == system) & (own["epsilon"] == epsilon)]
            for gain, (_, bar) in zip(rows["gain"][:1], rows["over"][:1], strict=True):
                name = (model or main) if is_queried(system) else words.SYSTEMS[system]
                first = part.iloc[0]
                yield Answerer(
                    first["method"],
                    first["dataset"],
                    float(epsilon),
                    name,
                    bar + gain.mean,
                    bar,
                    gain,
                )


def answer(run: Run, gains: pd.DataFrame) -> str:
    """Of the pipeline's first method on its first data set, at the least epsilon; empty where
    nothing was measured by accuracy.
    """
    every = answerers(run, gains)
    first = [
        one
        for one in every
        if (one.method, one.dataset, one.epsilon)
        == (every[0].method, every[0].dataset, every[0].epsilon)
    ]
    said = []
    for sign, verdict in _VERDICTS.items():
        alike = [
            f"{one.name} ({words.number(one.accuracy)} against {words.number(one.without)})"
            for one in first
            if one.gain.sign == sign
        ]
        said += [f"{verdict} {words.listing(alike)}"] if alike else []
    if not said:
        return ""
    where = (
        f"{words.method_name(first[0].method)} releases of {first[0].dataset} at ε = "
        f"{words.epsilon(first[0].epsilon)}"
    )
    return (
        f"What {where} {' and '.join(said)}: accuracy with it against the best without private "
        f"data, by the majority label or by the model "
        "without demonstrations."
    )
