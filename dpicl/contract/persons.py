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


def person_rows(contract: Declared, *, is_local: bool) -> str:
    """As a sentence; empty where rows are protected. Clients report so many rows, whatever they
    have: how many they have would be told else.
    """
    person = contract.privacy.person
    if person is None:
        return ""
    rows = many(person.max_rows, "row")
    if is_local:
        again = ", some of them again where there are fewer" if person.max_rows > 1 else ""
        return (
            f"Each person reported {_bound(contract, rows)}, drawn at random{again}: all persons "
            "weigh alike."
        )
    return (
        f"At most {_bound(contract, f'{rows} of each person')} entered, drawn at random: who has "
        "more weighs less in the release than in the table."
    )


def _bound(contract: Declared, first: str) -> str:
    """What enters in all, and first in a period where a horizon has several."""
    person = contract.privacy.person
    if person is None or not contract.releases.horizon:
        return first
    periods = len(contract.releases.calendar.periods)
    back = ", corrections included" if contract.takes_back else ""
    return f"{first} in a period and {person.rows_in_horizon} in all {periods} periods{back}"
