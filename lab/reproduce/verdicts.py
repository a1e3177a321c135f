"""A verdict on every printed number, by what kind of number it is; `meanings.py` says what each
verdict means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dpicl.report import words
from lab.compare.sides import Side
from lab.published.cells import ALL_SETS, PrintedCell, PrintedTable
from lab.reproduce.computed import COMPUTED
from lab.reproduce.conclusions import against_baseline, between_models
from lab.reproduce.constant import beside_constant
from lab.reproduce.known import known_differences
from lab.reproduce.made import Made, measured, results_at
from lab.reproduce.meanings import (
    BOUNDED,
    DIFFERS,
    EQUAL,
    MISPRINTED,
    NOT_RUN,
    UNCLEAR,
    WIDEST,
    WITHIN,
)
from lab.reproduce.verdict import Verdict

DECIMALS = {"queries": 0, "seconds": 2}
"""How many are printed; of all others three are shown."""


def judged(table: PrintedTable, made: Made) -> list[Verdict]:
    """A verdict per cell, and per model that was asked."""
    if table.name in COMPUTED:
        return [_computed(cell, COMPUTED[table.name](cell)) for cell in table.cells]
    if table.pipeline is None:
        return [between_models(cell, made) for cell in table.cells]
    return [
        _of_run(cell, table.pipeline, model, made) for model in made.models for cell in table.cells
    ]


def is_equal(ours: float, printed: float, decimals: int = 3) -> bool:
    """To the last digit that is printed."""
    return abs(ours - printed) <= 0.5 * 10**-decimals + 1e-9


def _computed(cell: PrintedCell, ours: float) -> Verdict:
    """Of what is arithmetic: the same digits; or, of noise that meets a target, no more than the
    target.
    """
    if cell.system.startswith("sigma"):
        kind, less = (BOUNDED if ours <= cell.value else DIFFERS), abs(1 - ours / cell.value)
        return Verdict(
            cell, "", kind, (f"{less:.1%} {'less' if ours <= cell.value else 'more'}",), ours, 0.0
        )
    return _corrected(
        Verdict(cell, "", EQUAL if is_equal(ours, cell.value) else DIFFERS, (), ours, 0.0),
        fits=is_equal,
        fitting=EQUAL,
    )


def _of_run(cell: PrintedCell, pipeline: str, model: str, made: Made) -> Verdict:
    side = made.runs.get((pipeline, model))
    why = (
        made.missing.get(made.here(cell).dataset)
        or made.missing.get(pipeline)
        or made.missing.get(f"{pipeline} {model}")
    )
    if side is None or why:
        return Verdict(cell, model, NOT_RUN, (why or "this part was not chosen",))
    if cell.dataset == ALL_SETS:
        return against_baseline(cell, model, side)
    if cell.metric in DECIMALS:
        return _counted(cell, model, side, made)
    return _mean(cell, model, side, made)


def _mean(cell: PrintedCell, model: str, side: Side, made: Made) -> Verdict:
    """Of a mean over queries and seeds."""
    here = made.here(cell)
    ours = measured(here, side)
    if ours is None:
        return Verdict(cell, model, NOT_RUN, (_left_out(here, side),))
    half = ours.half(cell.deviation or 0.0)
    close = abs(ours.mean - cell.value) <= half
    kind = DIFFERS if not close else WITHIN if half <= WIDEST else UNCLEAR
    known, beside = known_differences(cell, side, made, ours), beside_constant(here, ours, side)
    found = Verdict(cell, model, kind, (), ours.mean, half, known, beside)
    return _corrected(
        found,
        fits=lambda mean, meant: abs(mean - meant) <= half,
        fitting=WITHIN if half <= WIDEST else UNCLEAR,
    )


def _counted(cell: PrintedCell, model: str, side: Side, made: Made) -> Verdict:
    """Of queries and seconds: their digits."""
    ours = _queries(cell, side) if cell.metric == "queries" else _seconds(cell, side)
    if isinstance(ours, str):
        return Verdict(cell, model, NOT_RUN, (ours,))
    decimals = DECIMALS[cell.metric]
    kind = EQUAL if is_equal(ours, cell.value, decimals) else DIFFERS
    found = Verdict(cell, model, kind, (), ours, 0.0, known_differences(cell, side, made))
    return _corrected(found, fits=lambda own, meant: is_equal(own, meant, decimals), fitting=EQUAL)


def _queries(cell: PrintedCell, side: Side) -> float | str:
    """How many were asked, or why that is not known."""
    here = results_at(cell, side)
    return _left_out(cell, side) if here.empty else float(here["query_count"].iloc[0])


def _seconds(cell: PrintedCell, side: Side) -> float | str:
    """Of one answer on a data set, in the stage that asks the model, or why that is not known: it
    is timed for all numbers of shots together.
    """
    timings, results = side.run.timings, side.run.results
    of_set = results[(results["method"] == cell.method) & (results["dataset"] == cell.dataset)]
    shots = sorted(of_set.loc[of_set["system"] == "icl", "shots"].dropna().unique())
    if cell.shots not in shots:
        return _left_out(cell, side)
    if len(shots) > 1:
        together = words.listing([f"{shot:g}" for shot in shots])
        return (
            f"a run times {together} shots together; expected one with --shots {cell.shots:g} alone"
        )
    asked = of_set[of_set["system"].isin(["icl", "zero-shot"])]["query_count"].sum()
    timed = timings[
        (timings["method"] == cell.method)
        & (timings["dataset"] == cell.dataset)
        & (timings["stage"] == "score")
    ]
    return (
        float(timed["seconds"].sum() / asked)
        if asked and timed["seconds"].sum()
        else "nothing was timed"
    )


def _corrected(found: Verdict, *, fits: Callable[[float, float], bool], fitting: str) -> Verdict:
    """Of a number that the paper misprints: whether ours is what is meant. Where it is what is
    printed, or neither, that stays the verdict.
    """
    misprint = found.cell.misprint
    if misprint is None or found.kind == NOT_RUN:
        return found
    if misprint.corrected is None:
        return replace(found, kind=MISPRINTED, reasons=(f"misprinted: {misprint.why}",))
    meant = words.number(misprint.corrected, DECIMALS.get(found.cell.metric, 3))
    if found.kind == DIFFERS and fits(found.ours, misprint.corrected):
        return replace(
            found,
            kind=MISPRINTED,
            reasons=(
                f"differs because the paper misprints: {misprint.why}",
                f"{fitting} beside {meant}, which is meant",
            ),
        )
    return replace(
        found, known=(f"the paper misprints, and means {meant}: {misprint.why}", *found.known)
    )


def _left_out(cell: PrintedCell, side: Side) -> str:
    """Why a run has no such cell."""
    grid = side.plan.pipeline
    for name, value, chosen in (
        ("data set", cell.dataset, grid.datasets),
        ("epsilon", cell.epsilon, grid.epsilons),
        ("shots", cell.shots, grid.shots),
    ):
        if value not in (None, 0.0) and value not in chosen:
            return (
                f"{name} {value if isinstance(value, str) else format(value, 'g')} was not chosen"
            )
    return (
        "the run is not finished"
        if not side.is_done
        else f"{cell.system} is not among what dpicl measures there"
    )
