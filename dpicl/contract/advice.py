"""What to think over in a contract before it is released by: public facts only, and nothing is
refused.

Guarantee   none spent: no row is seen.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpicl.contract.models import Contract

_PARTS, _CLASSES = 30, 20
_SPAN = 10_000
_ROWS = 1000
"""Sampled rows below which noise on their averages is large."""


def advice(contract: Contract) -> Iterator[str]:
    """One sentence on everything that usually buys noise, by the key that it is about."""
    for one in contract.attributes:
        if one.part_count > _PARTS:
            yield (
                f"columns.{one.column}: clients report one of {one.part_count} values, of which "
                f"randomised reports tell little; "
                f"expected at most {_PARTS} for local methods: put values together under `local`"
            )
    yield from _bins(contract)
    if contract.target.kind == "classes" and contract.target.count > _CLASSES:
        yield (
            f"label: has {contract.target.count} classes, and noise enters the counts of each; "
            f"expected at most {_CLASSES}: "
            "put classes together with `parts` and `answers`"
        )
    rate, population = contract.privacy.sampling_rate, contract.population
    if (
        population is not None
        and contract.releases.horizon is None
        and rate < 1
        and population * rate < _ROWS
    ):
        yield (
            f"privacy.sampling_rate: {rate} of about {population:,} rows leaves "
            f"{float(population * rate):,.0f}, whose averages are "
            f"mostly noise; expected 1, or a rate that leaves at least {_ROWS:,}"
        )


def _bins(contract: Contract) -> Iterator[str]:
    cut = {one.column for one in contract.local}
    for name, column in contract.numbers.items():
        if (
            not column.plain
            or column.bins is not None
            or name in cut
            or name == contract.split_column
        ):
            continue
        low, high = column.bounds
        # How much greater a value can be than another that matters.
        span = high / low if low > 0 else low / high if high < 0 else high - low
        if (
            span > _SPAN
            and len(column.edges()) > 1
            and not (name == contract.label_column and contract.target.kind != "number")
        ):
            edges = [
                edge
                for edge in (10.0**power for power in range(-6, 16))
                if max(low, high / _SPAN) <= edge < high and edge > low
            ]
            such = (
                f", such as `bins: [{', '.join(f'{edge:.12g}' for edge in edges)}]`"
                if edges
                else " under `bins`"
            )
            yield (
                f"columns.{name}: bounds from {low:.12g} to {high:.12g} make eight equal bins; if "
                f"most values lie in one of them, "
                f"state edges between bins{such}"
            )
