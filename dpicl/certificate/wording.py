"""The sentences of a certificate: what is promised in words, and what is not.

Guarantee   none spent: of public facts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from dpicl.accounting.guarantee import Guarantee, Neighbours
from dpicl.certificate.page import rounded
from dpicl.certificate.statement import Accounting
from dpicl.contract.declared import Declared
from dpicl.contract.models import Contract
from dpicl.contract.text import TextContract
from dpicl.methods.base import Method

_SIMULATION = (
    "Nothing is certified: this is a simulation on a public benchmark. Its noise is seeded, so "
    "that anyone with the seed can remove it, and no account "
    "with a cap paid for it."
)
THREAT = (
    "Anybody who sees this release and all others that the account paid for, with any side "
    "information, all other rows included, and "
    "unlimited computation, and who may have chosen later releases after seeing earlier ones. "
    "Not: somebody who can read the curator's "
    "machine or state home."
)
COMPOSITION = (
    "Every release charged to the account counts, published or not, whatever method or contract "
    "made it, and however later ones were "
    "chosen (sequential composition, fully adaptive, by a privacy filter; losses of pure releases "
    "add up). What other accounts, ledgers "
    "or organisations release about the same people is not counted. Totals are those at this "
    "charge; later releases add to them."
)
POST_PROCESSING = (
    "Whatever is derived from the release without the rows, any number of times, costs nothing "
    "more."
)
_LARGEST = 20.0
"""Epsilons beyond are not written as a factor."""
_ALWAYS = (
    "Losses in other accounts, ledgers and organisations.",
    "Correlated units: what can be learnt about somebody from other people's rows.",
    "Timing, memory use, and which checks of the contract fail.",
    (
        "Whoever holds the installation's key, its state home or its machine, and a broken random "
        "generator of its operating system."
    ),
    (
        "Whether the program ran unchanged: this is the installation's own signed statement, and "
        "no "
        "audit of it."
    ),
)


def promise(guarantee: Guarantee, accounting: Accounting, *, simulation: bool) -> str:
    """The first line: what is certified, in a sentence or two."""
    if simulation:
        return _SIMULATION
    change = (
        "replacing it by another"
        if guarantee.neighbours is Neighbours.REPLACE_ONE
        else "adding or removing it"
    )
    exception = f", except with probability {rounded(guarantee.delta)}" if guarantee.delta else ""
    factor = rounded(math.exp(guarantee.epsilon)) if guarantee.epsilon < _LARGEST else "e^epsilon"
    first = (
        f"Differential privacy with epsilon {rounded(guarantee.epsilon)} and delta "
        f"{rounded(guarantee.delta)} for one {guarantee.unit}: "
        f"{change} changes the probability of any outcome by a factor of at most "
        f"{factor}{exception}."
    )
    if accounting.spent_before is None or accounting.spent_after is None or accounting.cap is None:
        return first
    before, after, cap = (
        ("infinite epsilon" if one.epsilon is None else f"epsilon {rounded(one.epsilon)}")
        + (f" at delta {rounded(one.delta)}" * (one.delta > 0))
        for one in (accounting.spent_before, accounting.spent_after, accounting.cap)
    )
    return (
        f"{first} Account {accounting.account!r} had spent {before} before and {after} with it, "
        f"of a cap of {cap}."
    )


def unit(name: str, contract: Declared) -> str:
    """Whom the promise is made to."""
    person = contract.privacy.person
    if person:
        return f"One person with all of their rows, of which at most {most_rows(contract)} enter."
    what = "row" if isinstance(contract, Contract) else "text with its label"
    return (
        f"One client, who holds one {what}."
        if name == "client"
        else f"One {what}. Somebody with several is protected for each by itself."
    )


def most_rows(contract: Declared) -> str:
    """How many rows of a person enter, in words."""
    person, periods = (
        contract.privacy.person,
        len(contract.releases.calendar.periods) if contract.releases.horizon else 0,
    )
    assert person is not None
    if not periods:
        return f"{person.max_rows}"
    back = ", those that take others back among them" if contract.takes_back else ""
    return (
        f"{person.max_rows} in a period and {person.rows_in_horizon} in all {periods} periods{back}"
    )


def neighbours(guarantee: Guarantee) -> str:
    """Which tables are hard to tell apart."""
    if guarantee.neighbours is Neighbours.REPLACE_ONE:
        return (
            f"Tables in which one {guarantee.unit} is replaced by another (bounded): how many "
            f"there are is not protected."
        )
    return (
        f"Tables of which one has one {guarantee.unit} more than the other (unbounded): how many "
        f"there are is protected too."
    )


def intended_use(method: Method) -> str:
    """What may be done with it."""
    if method.answers_queries:
        return "Answers to the queries of this release."
    return (
        "Synthetic rows, demonstrations for language models and predictors, which are derived "
        "from this release."
    )


def trust(method: Method) -> str:
    """Who has seen true rows."""
    model = (
        " So is the language model that read them, which ran where the contract's rules for "
        "private rows allow." * method.model_reads_rows
    )
    if method.trust == "local":
        return (
            "Every client's row is randomised by itself, before it is counted. Here the holder of "
            "the table did this for the clients, has "
            "seen true rows and is trusted with them; readers of what is released are not."
        )
    return (
        f"The curator, who holds the rows and ran the program, is trusted with them; readers of "
        f"what is released are not.{model}"
    )


def release_type(contract: Declared) -> str:
    """Whether there will be more."""
    every = contract.releases.every
    if contract.releases.horizon and isinstance(contract, TextContract):
        periods = len(contract.releases.calendar.periods)
        return (
            f"Texts of {periods} periods, one every {every}, each written from its own delivery "
            f"alone: one charge for all of them"
        )
    if contract.releases.horizon:
        return (
            f"Counters of a table that grows: one charge for "
            f"{len(contract.releases.calendar.periods)} periods, a new one every {every}"
        )
    return (
        "One release"
        if every == "once"
        else f"Many releases: a new one every {every}, each charged"
    )


def unprotected(contract: Declared) -> tuple[str, ...]:
    """What is published without noise."""
    return (
        ("the number of rows: the contract says that it is public",)
        if contract.tells_row_count
        else ()
    )


def not_covered(contract: Declared, head: Mapping[str, str]) -> tuple[str, ...]:
    """What no promise is made about: by the method, for this source, and always."""
    of_method = head.get("Not covered", "")
    by_query = isinstance(contract, Contract) and contract.source.query is not None
    return (
        *([of_method[:1].upper() + of_method[1:]] if of_method else []),
        *(
            [
                (
                    "What the SQL statement does inside the database: neighbours are those of the "
                    "rows that it returns."
                )
            ]
            if by_query
            else []
        ),
        *_ALWAYS,
    )
