"""Certificates priced again by `dpicl.recompute`: of every kind of event that can be charged, and
of every release of the shipped pipelines; and how many prices stated a hundredth too small are
caught.

    python -m lab.benchmarks.referee_parts.recompute
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator

from dpicl.accounting.guarantee import Guarantee
from dpicl.contract.load import load_contract
from dpicl.methods import METHODS
from dpicl.methods.grid import prices as prices_of
from dpicl.recompute.prices import Price, prices
from dpicl.recompute.stated import stated_of
from dpicl.release.pipelines import load_pipelines, units_of
from lab.benchmarks.figures import Figures, sized
from lab.benchmarks.house import ROOT
from tests.library.certificates import certificate_for
from tests.oracles.test_recompute import APPROXIMATE, CAUGHT, PURE

EVERY = sized(1, 40)
"""Of the shipped pipelines' releases, one of so many."""
MOST_DIFFERENT = 0.01
"""Of a stated epsilon: two tight accountants are closer."""


def shipped() -> Iterator[Guarantee]:
    """What each distinct release of the shipped pipelines is charged, of the first seed."""
    contracts = {
        path.stem: load_contract(path) for path in sorted((ROOT / "data_contracts").rglob("*.yaml"))
    }
    releases: dict[Guarantee, None] = {}
    for pipeline in load_pipelines(ROOT / "pipelines.yaml").pipelines.values():
        for unit in units_of(pipeline):
            if unit.seed == pipeline.seeds[0]:
                costs = prices_of(METHODS[unit.method], contracts[unit.dataset], unit).values()
                releases |= dict.fromkeys(cost.charged for cost in costs)
    yield from (release for release in releases if math.isfinite(release.epsilon))


def second_prices(releases: Iterable[Guarantee], lowered: float = 1.0) -> list[Price]:
    """Of their certificates, as read from bytes."""
    certificates = (certificate_for(release, lowered=lowered) for release in releases)
    return [prices(stated_of(json.loads(made.to_json())))[0] for made in certificates]


def measure(figures: Figures) -> None:
    """How many prices hold, the largest difference, and how many small ones are caught."""
    kinds = [*PURE.values(), *APPROXIMATE.values()]
    found = second_prices([*kinds, *list(shipped())[::EVERY]])
    for price in found:
        if not price.holds:
            print(f"{price.stated}: {price.recomputed} {price.reason}", flush=True)
    figures.exactly(
        "prices recomputed",
        f"{sum(bool(price.holds) for price in found)} of {len(found)}",
        f"{len(found)} of {len(found)}",
    )
    different = [
        abs(price.stated.epsilon - price.recomputed) / price.stated.epsilon
        for price in found
        if price.recomputed is not None and price.stated.epsilon
    ]
    figures.at_most("largest difference of two prices", max(different), MOST_DIFFERENT)
    lowered = second_prices([kind for kind in kinds if kind.epsilon], CAUGHT)
    caught = sum(price.holds is False for price in lowered)
    figures.exactly(
        "prices stated a hundredth too small, caught",
        f"{caught} of {len(lowered)}",
        f"{len(lowered)} of {len(lowered)}",
    )


if __name__ == "__main__":
    _figures = Figures()
    measure(_figures)
    _figures.finish()
