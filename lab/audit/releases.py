"""Audits of a whole central release from a subsample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import chain, islice
from typing import Any

import numpy as np

from dpicl.accounting.guarantee import amplified_epsilon
from dpicl.contract import Contract
from dpicl.ground.randomness import Draws, Stream
from dpicl.ground.types import PrivateTable
from dpicl.mechanisms.noisy_count import noisy_modes
from dpicl.mechanisms.poisson_subsample import poisson_subsample
from dpicl.methods import Options, unit_of
from dpicl.methods.gdp_tabicl import GdpTabicl
from lab import in_memory
from lab.audit.case import AuditCase, Mutant, Trial
from lab.audit.counts import PRESENT_ONLY, present_only
from lab.audit.neighbours import CATEGORIES, SHOTS, category, in_every_group


def _in_runs(count: int, release: Callable[[], Sequence[Any]]) -> np.ndarray:
    """So many runs, of which every release makes `SHOTS`."""
    released = chain.from_iterable(release() for _ in range(-(-count // SHOTS)))
    return np.array(list(islice(released, count)))


RATE, NOMINAL = Fraction(1, 2), 2.0
"""Sampling rate, and epsilon before amplification."""


def _by_method(contract: Contract, epsilon: float, tables: dict[bool, PrivateTable]) -> Trial:
    """Whether the last category is released in a group; bounded, subsampled, grouped and averaged
    by the method itself.
    """
    nominal = Options.model_validate({GdpTabicl.name: {"epsilon_is": "nominal"}})
    unit = unit_of(GdpTabicl.name, contract.name, 0, (epsilon,), (SHOTS,), (), False, nominal)

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        def release() -> list[bool]:
            draws = Draws(stream.below(1 << 64), contract.name, simulated=True)
            (released,) = in_memory.of_table(
                GdpTabicl(), tables[which], contract, unit, draws
            ).draws.values()
            return [group.values["kind"] == CATEGORIES[-1] for group in released.groups]

        return _in_runs(count, release)

    return Trial(draw, {"the last": lambda hits: hits})


def _modes(modes: Callable[..., list[int]], rate: Fraction) -> Trial:
    """Mutants: the mode of the first group, with a rate and a histogram of one's own."""

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        sampled = np.zeros(count, dtype=int)
        sampled[poisson_subsample(count, sampling_rate=rate, stream=stream)] = int(which)
        histograms = [[0] * (len(CATEGORIES) - 1) + [row] for row in sampled.tolist()]
        return (
            np.array(modes(histograms, epsilon=Fraction(NOMINAL), stream=stream))
            == len(CATEGORIES) - 1
        )

    return Trial(draw, {"the last": lambda hits: hits})


_ONE_ROW = {
    which: in_every_group(category(), {"kind": CATEGORIES[-1]}, int(which))
    for which in (False, True)
}
"""No row at all, and one of the last category in every group."""
CASES = (
    AuditCase(
        "gdp-release-subsampled",
        "whole central release of one category from a subsample",
        amplified_epsilon(NOMINAL, RATE),
        _by_method(category(sampling_rate=str(RATE)), NOMINAL, _ONE_ROW),
    ).with_mutants(
        Mutant(
            "no-subsample",
            "every row takes part, yet amplification is claimed",
            _modes(noisy_modes, Fraction(1)),
        ),
        Mutant(*PRESENT_ONLY, _modes(present_only, RATE)),
    ),
)
