"""How many rows of a person enter a release, in words: a public bound. How many were left out is
private, and said nowhere.
"""

from __future__ import annotations

from dpicl.contract.declared import Declared
from dpicl.ground.nouns import many


def most_rows(contract: Declared) -> str:
    """Of a contract that protects persons."""
    assert contract.privacy.person is not None
    return _bound(contract, f"{contract.privacy.person.max_rows}")


def person_rows(contract: Declared) -> str:
    """As a sentence; empty where rows are protected."""
    person = contract.privacy.person
    if person is None:
        return ""
    bound = _bound(contract, f"{many(person.max_rows, 'row')} of each person")
    return (
        f"At most {bound} entered, drawn at random: who has more weighs less in the release than "
        "in the table."
    )


def _bound(contract: Declared, first: str) -> str:
    """What enters in all, and first in a period where a horizon has several."""
    person = contract.privacy.person
    if person is None or not contract.releases.horizon:
        return first
    periods = len(contract.releases.calendar.periods)
    back = ", corrections included" if contract.takes_back else ""
    return f"{first} in a period and {person.rows_in_horizon} in all {periods} periods{back}"
