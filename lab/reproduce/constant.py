"""A number beside a constant answer to the same queries: always the majority label, or, of texts of
their own, an answer that was shown nothing.

A number that such an answer has too says nothing of demonstrations, however near the printed one it
comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpicl.report import words
from lab.compare.sides import Side
from lab.published.cells import FITTED, PrintedCell
from lab.reproduce.made import Measured, is_of
from lab.reproduce.meanings import WIDEST

MAJORITY, NOTHING_SHOWN = "the majority label", "no demonstrations"
METRICS = ("accuracy", "rouge1", "bleu", "levenshtein", "rouge2", "rougeL")


@dataclass(frozen=True)
class Beside:
    """A constant answer's number on the same queries, whether ours is told apart from it, and how
    it would stand beside the printed one.
    """

    name: str
    value: float
    ours: float
    is_apart: bool
    reproduces: bool
    """Whether the constant answer is within noise of the printed number, or too near to tell."""
    is_wide: bool

    @property
    def text(self) -> str:
        """Such as `not told apart from the majority label, 0.762`."""
        told = (
            "not told apart from"
            if not self.is_apart
            else "above"
            if self.ours > self.value
            else "below"
        )
        return f"{told} {self.name}, {words.number(self.value)}"


def beside_constant(cell: PrintedCell, ours: Measured, side: Side) -> Beside | None:
    """None where there is nothing constant to compare with: counts, seconds, and an answer without
    demonstrations itself.
    """
    found = _constant(cell, side) if cell.metric in METRICS else None
    if found is None:
        return None
    name, value = found
    constant = Measured(value, 0.0, ours.seeds, ours.queries, name)
    half = constant.half(cell.deviation or 0.0)
    reproduces = abs(value - cell.value) <= half
    return Beside(
        name,
        value,
        ours.mean,
        abs(ours.mean - value) > ours.apart(value),
        reproduces,
        reproduces and half > WIDEST,
    )


def _constant(cell: PrintedCell, side: Side) -> tuple[str, float] | None:
    """Its name and value. Baselines are tested on all held-out rows, of which the manifest has
    it.
    """
    if cell.system in FITTED:
        value = side.run.manifest.majority.get(cell.dataset)
        return None if value is None else (MAJORITY, value)
    for system, name in (("majority", MAJORITY), ("zero-shot", NOTHING_SHOWN)):
        values = side.run.results.loc[
            is_of(side, cell.method, cell.dataset, system), cell.metric
        ].dropna()
        if len(values) and cell.system != system:
            return name, float(values.mean())
    return None


def is_answer(cell: PrintedCell) -> bool:
    """Whether a language model answers, so that a constant answer could stand in for it."""
    return cell.metric in METRICS and cell.system not in FITTED


def first_line(found: Sequence[Beside]) -> str:
    """What a table says before its numbers, of its answers that were run; empty where no constant
    answer has a number of them. A table is reproduced where it is within noise of half the numbers
    of which that can be told; of less than half of them told, nothing is concluded.
    """
    near = [one for one in found if one.reproduces]
    if not near:
        return ""
    wide, names = sum(one.is_wide for one in near), dict.fromkeys(one.name for one in near)
    within = len(near) - wide
    answer = words.listing(
        [f"always {name}" if name == MAJORITY else f"an answer with {name}" for name in names]
    )
    count = f"{answer} is within noise of {within} of {len(found)} printed numbers of answers" + (
        f", and too near to tell in {wide}" if wide else ""
    )
    told = sum(one.is_apart for one in found)
    apart = f"{told} of ours {'is' if told == 1 else 'are'} told apart from it"
    if 2 * wide > len(found):
        lead = "Whether a constant answer reproduces this table, these runs cannot tell"
        so = " More queries would tell."
    elif 2 * within >= len(found) - wide:
        lead = "A constant answer reproduces this table, as far as these runs can tell"
        so = " That numbers agree says nothing here of a model or of demonstrations."
    else:
        lead, so = "Beside a constant answer", ""
    return f"{lead}: {count}; {apart}.{so}"
