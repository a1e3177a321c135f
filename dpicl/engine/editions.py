"""Where a run's texts are fewer than were published, which makes it another experiment: the noise
that each size takes at the same epsilon.

Guarantee   none spent: of contracts alone; no text is counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from dpicl.contract import Declared, TextContract
from dpicl.contract.editions import edition
from dpicl.contract.text_source import PUBLISHED
from dpicl.methods import on_texts
from dpicl.pipeline import Cell, Unit


def smaller_than_published(
    units: Iterable[Unit], contracts: Mapping[str, Declared]
) -> list[dict[str, Any]]:
    """For every data set of which a smaller slice is at hand: bounds on its texts and on the
    published ones, for a label where there are labels; and by method, at the most shots of its
    first unit, the noise here and that of the published set.
    """
    found: dict[str, dict[str, Any]] = {}
    for unit in units:
        contract = contracts[unit.dataset]
        if (
            not isinstance(contract, TextContract)
            or contract.edition_of is None
            or contract.edition_of.name == PUBLISHED
        ):
            continue
        whole = edition(contract.edition_of.stated, PUBLISHED)
        here, published = (min(one.row_bounds.values()) for one in (contract, whole))
        if here >= published:
            continue
        named = {
            "dataset": unit.dataset,
            "slice": contract.edition_of.name,
            "of_label": contract.is_classification,
            "here": here,
            "published": published,
            "noise": [],
        }
        noise = found.setdefault(unit.dataset, named)["noise"]
        if not any(one["method"] == unit.method for one in noise):
            noise += _noise(unit, contract, whole)
    return list(found.values())


def _noise(unit: Unit, contract: TextContract, whole: TextContract) -> list[dict[str, Any]]:
    """At the least and the greatest epsilon."""
    method, finite = (
        on_texts(unit.method),
        sorted(epsilon for epsilon in unit.epsilons if 0 < epsilon < math.inf),
    )
    cells = [
        Cell("icl", epsilon, max(unit.shots))
        for epsilon in dict.fromkeys([*finite[:1], *finite[-1:]])
    ]
    return [
        {
            "method": unit.method,
            "epsilon": cell.epsilon,
            "here": method.noise(contract, unit, cell),
            "published": method.noise(whole, unit, cell),
        }
        for cell in cells
    ]
