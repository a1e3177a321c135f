"""p-values beside printed ones: of DP-TabICL's paired t-tests between two models (Table IV), and
against baselines (V-F1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.special import stdtr

from dpicl.methods import METHODS
from dpicl.report import words
from lab.compare.sides import Side
from lab.published.cells import PrintedCell
from lab.reproduce.known import another_model
from lab.reproduce.made import Made, results_at
from lab.reproduce.meanings import DIFFERS, NOT_RUN, SAME, SIGNIFICANT
from lab.reproduce.verdict import Verdict

_PAPER_EPSILONS, _PAPER_SETS = 6, 8


def against_baseline(cell: PrintedCell, model: str, side: Side) -> Verdict:
    """The probability of so large a lead over a baseline, mean over seeds and paired over data
    sets, if there were none.
    """
    results = side.run.results
    at = results[(results["method"] == cell.method) & (results["epsilon"] == cell.epsilon)]
    own = (
        at[(at["system"] == "icl") & (at["shots"] == cell.shots)]
        .groupby("dataset")["accuracy"]
        .mean()
    )
    lead = (own - at[at["system"] == cell.system].groupby("dataset")["accuracy"].mean()).dropna()
    if len(lead) < 2:
        return Verdict(
            cell, model, NOT_RUN, ("two data sets are needed, at this epsilon and number of shots",)
        )
    error = float(lead.std(ddof=1)) / math.sqrt(len(lead))
    p = (
        float(stdtr(len(lead) - 1, -float(lead.mean()) / error))
        if error
        else float(lead.mean() <= 0)
    )
    known = [another_model(cell, side), _fewer(len(lead), _PAPER_SETS, "data sets")]
    return _concluded(cell, model, p, known)


def between_models(cell: PrintedCell, made: Made) -> Verdict:
    """Table IV: p of a paired t-test over the epsilons of one data set, between the first two
    models.
    """
    if len(made.models) < 2:
        return Verdict(cell, "", NOT_RUN, ("it compares two models; expected --model A,B",))
    pipeline = (
        "table-2-as-printed" if METHODS[cell.method].trust == "local" else "table-3-as-printed"
    )
    sides = [
        side for model in made.models[:2] if (side := made.runs.get((pipeline, model))) is not None
    ]
    means = _by_epsilon(cell, sides) if len(sides) == 2 else None
    if means is None:
        return Verdict(
            cell,
            "",
            NOT_RUN,
            (made.missing.get(cell.dataset) or "both runs are needed, at two epsilons or more",),
        )
    differences = means[0] - means[1]
    error = float(differences.std(ddof=1)) / math.sqrt(len(differences))
    p = (
        2 * float(stdtr(len(differences) - 1, -abs(float(differences.mean())) / error))
        if error
        else (0.0 if differences.any() else 1.0)
    )
    others = words.listing(list(made.models[:2]))
    known = [
        f"{others} were compared and not {cell.model}",
        _fewer(len(differences), _PAPER_EPSILONS, "epsilons"),
    ]
    return _concluded(cell, others, p, known)


def _fewer(here: int, printed: int, what: str) -> str:
    return f"{here} {what} were compared and not {printed}" if here < printed else ""


def _concluded(cell: PrintedCell, model: str, p: float, known: Sequence[str]) -> Verdict:
    """Whether both p-values lie on the same side of 0.05."""
    same = (p < SIGNIFICANT) == (cell.value < SIGNIFICANT)
    side = (
        f"{'both' if same else 'not both'} {'below' if cell.value < SIGNIFICANT else 'at least'} "
        f"{SIGNIFICANT:g}"
    )
    return Verdict(
        cell, model, SAME if same else DIFFERS, (side,), p, 0.0, tuple(filter(None, known))
    )


def _by_epsilon(cell: PrintedCell, sides: Sequence[Side]) -> np.ndarray | None:
    """Mean accuracies of both models, shape (2, epsilons), at those that both have."""
    tables = [results_at(cell, side).groupby("epsilon")["accuracy"].mean() for side in sides]
    both = pd.concat(tables, axis=1, join="inner").dropna()
    return both.to_numpy().T if len(both) > 1 else None
