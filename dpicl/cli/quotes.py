"""What accounts would be charged, as `--dry-run` prints it."""

from __future__ import annotations

from collections.abc import Iterable

from dpicl.cli.json_output.budgets import PlannedCharge
from dpicl.cli.terminal import console, errors, new_table, note, number, say_json
from dpicl.engine.quote import AccountQuote


def print_quotes(quotes: Iterable[AccountQuote], *, as_json: bool) -> None:
    """What accounts would be charged, also where a cap refuses it."""
    table = new_table(
        "account", "releases", "charged before", "would cost", "spent", "cap", "left after"
    )
    lines: list[PlannedCharge] = []
    for line in quotes:
        quote, refused = line.quote, "" if line.quote.allowed else " (refused)"
        left = "-" if quote.left is None else number(quote.left)
        counts = str(line.releases), str(line.charged_before)
        table.add_row(
            line.account,
            *counts,
            *map(number, (quote.cost.epsilon, quote.before.epsilon, quote.cap)),
            left + refused,
        )
        lines.append(
            PlannedCharge(
                account=line.account,
                releases=line.releases,
                charged_before=line.charged_before,
                epsilon=quote.cost.epsilon,
                delta=quote.cost.delta,
                epsilon_spent=quote.before.epsilon,
                epsilon_cap=quote.cap,
                epsilon_left=quote.left,
                allowed=quote.allowed,
            )
        )
    if as_json:
        say_json(lines)
    else:
        console.print(table)
    note(
        "epsilon in nats; a release is charged once per period, even if the rows change",
        to=errors if as_json else console,
    )
