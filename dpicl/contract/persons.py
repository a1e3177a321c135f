"""How many rows of a person enter a release, in words: a public bound. How many were left out is
private, and said nowhere.
"""

from __future__ import annotations

from dpicl.contract.declared import Declared
from dpicl.ground.nouns import many


def most_rows(contract: Declared) -> str:
    """Of a contract that protects persons."""
    return _bound(contract, "")


def person_rows(contract: Declared) -> str:
    """As a sentence; empty where rows are protected."""
    if contract.privacy.person is None:
        return ""
    return (
        f"At most {_bound(contract, ' of each person')} entered, drawn at random: who has more "
        "weighs less in the release than in the table."
    )


def _bound(contract: Declared, whose: str) -> str:
    person = contract.privacy.person
    assert person is not None
    periods = len(contract.releases.calendar.periods) if contract.releases.horizon else 0
    first = f"{many(person.max_rows, 'row')}{whose}" if whose else f"{person.max_rows}"
    if not periods:
        return first
    back = ", corrections included" if contract.takes_back else ""
    return f"{first} in a period and {person.rows_in_horizon} in all {periods} periods{back}"
