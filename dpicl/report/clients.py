"""What a report says of clients' reports: how many of each kind there were, what clients are
promised, and what randomised response leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpicl.contract.periods import ONCE
from dpicl.engine.received import Counted
from dpicl.report import words
from dpicl.report.blocks import Block, Cell, Heading, Table, Text

_SHOWN = 12
"""Digits of a name."""
WHAT_ERRORS_ARE = (
    "Total variation between shares of a column as the reports alone give them and those of the "
    "same clients' true answers: the share of clients "
    "that would have to move, on average over what randomised response draws."
)


def sentences_of(counted: Sequence[Counted], *, with_answers: bool) -> Iterator[str]:
    """Of each collection: its reports by kind, its name and promise, and its noise, in sentences
    for the first screen; and what intervals of accuracies do not hold, in a run with answers.
    """
    for place, one in enumerate(counted):
        which = f"ε = {words.epsilon(one.epsilon)}" + (
            f", period {one.period}" if one.period != ONCE else ""
        )
        yield f"Clients' reports, {which}: {one.received}"
        if one.statement not in (before.statement for before in counted[:place]):
            yield one.statement
        yield (
            f"The release is {one.release[:_SHOWN]}, named by what was counted: further reports "
            f"make another one, and the same ones the same bytes."
        )
        if one.errors:
            yield _noise(one)
    if with_answers and any(one.errors for one in counted):
        yield (
            "Intervals of accuracies are over queries, and do not hold the noise of randomised "
            "response."
        )


def _noise(one: Counted) -> str:
    name, worst = max(one.errors.items(), key=lambda column: column[1])
    best = min(one.errors.values())
    least = "" if best == worst else f"{100 * best:.2g} % to "
    return (
        f"Error bars of randomised response: shares of a column are off by "
        f"{least}{100 * worst:.2g} % ({name}) on average."
    )


def section(counted: Sequence[Counted]) -> list[Block]:
    """The same as tables."""
    blocks: list[Block] = []
    for one in counted:
        about = (
            f"collection {one.collection[:_SHOWN]}, {one.design}, ε = {words.epsilon(one.epsilon)}"
        )
        if one.sending_epsilon is not None:
            about += f", of one sending {words.epsilon(one.sending_epsilon)}"
        kinds = tuple(
            (Cell(kind), Cell(f"{number:,}")) for kind, number in one.received.kinds.items()
        )
        label = f"Reports by kind: {about}"
        blocks += [Heading(label), Table(label, (*Cell.of_text("kind"), Cell("reports")), kinds)]
        if one.errors:
            errors = tuple(
                (Cell(name), Cell(words.number(error))) for name, error in one.errors.items()
            )
            label = "Errors of columns by randomised response"
            blocks += [
                Heading(label),
                Text(WHAT_ERRORS_ARE, "small"),
                Table(label, (*Cell.of_text("column"), Cell("error")), errors),
            ]
    return blocks
