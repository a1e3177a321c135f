"""What `dpicl budget` and `forecast`, and dry runs, print with --json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SpentAccount:
    """One account, after the ledger's chain was verified."""

    account: str
    """Name of the account."""
    unit: str
    """What is protected: `row` or `person`."""
    neighbours: str
    """Relation of neighbouring tables."""
    benchmark: bool
    """Whether its rows are public; such an account has no cap."""
    epsilon_spent: float | None
    """Of all releases together, as the ledger composes them."""
    epsilon_cap: float | None
    """What may be spent at most."""
    epsilon_left: float | None
    """The cap less what is spent."""
    delta_cap: float
    """Largest δ of all releases together."""
    releases: int
    """Number of releases."""


@dataclass(frozen=True)
class ChargedRelease:
    """One release of the account, in the order in which they were charged."""

    release: str
    """Name of the release."""
    mechanism: str
    """Mechanism that it is charged for."""
    parameters: Mapping[str, Any]
    """Public facts that it is charged for."""
    charged_utc: str
    """When it was charged."""
    state: str
    """`reserved` until something was published, then `published`."""
    epsilon: float | None
    """Of this release alone."""
    delta: float
    """Of this release alone."""
    epsilon_total: float | None
    """Of all releases up to this one."""


@dataclass(frozen=True)
class PlannedCharge:
    """One account that would be charged. Of texts whose release a run has paid for, the list is
    empty.
    """

    account: str
    """Name of the account."""
    releases: int
    """Number of releases."""
    charged_before: int
    """How many of them exist already and cost nothing."""
    epsilon: float | None
    """Of the new releases alone."""
    delta: float
    """Of the new releases alone."""
    epsilon_spent: float | None
    """What is spent before."""
    epsilon_cap: float | None
    """The account's cap."""
    epsilon_left: float | None
    """What would be left after."""
    allowed: bool
    """False where the cap refuses it."""


@dataclass(frozen=True)
class ForecastAccount:
    """One account of a scheduled pipeline that has a cap."""

    pipeline: str
    """Name of the pipeline."""
    account: str
    """Name of the account."""
    cost: float
    """ε of one run in a new period."""
    left: float
    """ε that is left."""
    affordable: int
    """New periods that fit in it, of those that are due."""
    due: int
    """New periods that are due within `horizon_days`."""
    lasts_until: str | None
    """Day of the last period that fits, null if none does."""
    horizon_days: int
    """How long the budget should last."""
    is_enough: bool
    """Whether all periods fit."""
