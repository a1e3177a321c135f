"""How many rows of a step's output one row of its input moves: every step between a source and a
mechanism.

Guarantee   none spent. Where every step has stability 1, neighbouring sources reach a mechanism as
            neighbouring tables, and what its sensitivity says of rows is true of rows of the
            source.
Paper       [MS09] McSherry 2009 (PINQ): stability of transformations.

    (1)  |T(D) - T(D')| <= c |D - D'|,  differences counted as multisets;  c the step's stability

A row that is refused, and all others with it, is no step: the contract says where one is
(`invalid`), and neighbours are then those without.

A step that places a row by what other rows there are (a permutation, a rank, a quantile, "the first
n") has no bound, and is used on public benchmarks only. Where a row is replaced, it goes and
another comes: both are moved by (1), so that a split may lose a row on one side and gain one on the
other.

Not covered what an SQL statement does inside the database, and what a program did to a data frame
before it handed it over, such as
            a library's guess of a column's type from all rows: neighbours are those of the rows
            that are given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpicl.contract.declared import Declared
from dpicl.contract.models import Contract


@dataclass(frozen=True)
class StabilityStep:
    """One step; `unit` is what it moves at most `stability` of where one of the same comes or
    goes.
    """

    name: str
    why: str
    stability: int = 1
    unit: Literal["row", "row or person"] = "row or person"


STEPS = (
    StabilityStep(
        "read",
        "every row is typed on its own; canonical order is an order of the same multiset",
    ),
    StabilityStep(
        "drop",
        "a row goes for the `missing` marker, or is left out or mended for a value that is none, "
        "a text for having no answer",
    ),
    StabilityStep(
        "hold out",
        "a row goes by a keyed hash of its content and ordinal among equals, a person by that of "
        "the id",
    ),
    StabilityStep(
        "hold out in batches",
        "a row of a folder or query goes by a keyed hash of its content: ordinals would need all "
        "rows",
        unit="row",
    ),
    StabilityStep(
        "hold out by column",
        "a row goes by its own value of the contract's column",
    ),
    StabilityStep("hold out by file", "texts are held out by the file that they stand in"),
    StabilityStep(
        "bound contributions",
        "a person's rows are drawn by that person's own randomness",
    ),
    StabilityStep(
        "arrive",
        "a row belongs to a period by its own day, or by the name of the file that it was "
        "delivered in",
    ),
    StabilityStep(
        "participate",
        "which of a person's rows enter, now and later, depends on that person's rows alone",
    ),
    StabilityStep("subsample", "a row enters by a coin of its own"),
    StabilityStep(
        "batch",
        "sums and counts of batches add up to those of the table, wherever it is cut",
        unit="row",
    ),
    StabilityStep(
        "ask",
        "of held-out rows, by a keyed hash of each; of at most N the N lowest, so that one comes "
        "as another goes",
        stability=2,
    ),
)
"""In the order in which a source passes them."""


def steps_before(contract: Declared, *, sampled: bool) -> tuple[StabilityStep, ...]:
    """The steps that rows of a contract's source may pass before a release's mechanism.

    Reading in batches is listed wherever a contract that states another `population` would allow
    it.

    Args:
        sampled: whether the mechanism is applied to a secret subsample.
    """
    passed = {
        "read",
        "drop",
        *(["subsample"] if sampled else []),
        *(["bound contributions"] if contract.person else []),
    }
    if contract.releases.horizon is not None:  # in the place of a draw at random
        passed = {
            *(passed - {"bound contributions"}),
            "arrive",
            *(["participate"] if contract.person else []),
        }
    if isinstance(contract, Contract):
        in_batches = contract.person is None
        passed |= {"batch"} if in_batches else set()
        if contract.split_column:
            passed |= {"hold out by column"}
        elif contract.split:
            passed |= {"hold out", *(["hold out in batches"] if in_batches else [])}
    else:
        passed |= {"hold out by file"}
    return tuple(step for step in STEPS if step.name in passed)
