"""What commands print with --json: one value of a type in this package, whose keys
`docs/reference/json.md` lists.
"""

from __future__ import annotations

from typing import Any

from dpicl.cli.json_output import budgets, plans, reports, states
from dpicl.cli.json_output.budgets import (
    ChargedRelease,
    ForecastAccount,
    PlannedCharge,
    SpentAccount,
)
from dpicl.cli.json_output.plans import CheckedContract, Listing, Plan
from dpicl.cli.json_output.reports import CountedReports
from dpicl.cli.json_output.states import (
    CheckedModel,
    CleanedState,
    RestoredState,
    StateFinding,
    WrittenBackup,
)

COMMANDS: dict[str, Any] = {
    "dpicl budget": list[SpentAccount],
    "dpicl budget ACCOUNT": list[ChargedRelease],
    "dpicl run PIPELINE --dry-run": list[PlannedCharge],
    "dpicl protect CONTRACT --dry-run": list[PlannedCharge],
    "dpicl synth CONTRACT --dry-run": list[PlannedCharge],
    "dpicl collect CONTRACT REPORTS": CountedReports,
    "dpicl forecast": list[ForecastAccount],
    "dpicl list": Listing,
    "dpicl plan CONTRACT": Plan,
    "dpicl contract check NAME": CheckedContract,
    "dpicl model check MODEL": CheckedModel,
    "dpicl state check": list[StateFinding],
    "dpicl state clean": CleanedState,
    "dpicl state backup FILE": WrittenBackup,
    "dpicl state restore FILE": RestoredState,
}
"""What each command prints, with --json after it."""
MODULES = (budgets, plans, reports, states)
"""Where the types are."""
