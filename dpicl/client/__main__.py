"""The data holder's command: contract and records in, reports out; see the package."""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
from functools import partial
from pathlib import Path
from typing import Any

from dpicl.client.records import Records, answer, sent
from dpicl.client.wallet import DEFAULT_CAP, open_wallet
from dpicl.contract.load import load_contract
from dpicl.contract.models import Contract
from dpicl.contract.periods import ONCE, read_period
from dpicl.data.reading.encode import LocalEncoding, encode_clients
from dpicl.data.reading.split import reporting_rows
from dpicl.data.reports import Sender
from dpicl.ground.errors import DataError, DpiclError, ParameterError
from dpicl.ground.printable import filter_streams
from dpicl.ground.randomness import Draws, system_stream
from dpicl.ground.types import DEFAULT_DESIGN
from dpicl.ground.yaml_file import is_number
from dpicl.methods.collection import DESIGNS, Collection

WALLET = Path.home() / ".dpicl-client.jsonl"


def report_all(
    contract: Contract, records: Records, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Reports of all clients, remembered before any is returned, in an order that tells nothing of
    records.

    Raises:
        DpiclError: the budget is spent, or a value breaks a rule.
    """
    if options.cap is not None:
        _check_positive("cap", options.cap)
    asked = {
        name: getattr(options, name)
        for name in ("epsilon", "design", "columns", "about", "label_alone", "sending_epsilon")
    }
    collection = Collection.of(contract, **asked)
    period = read_period(options.period)
    rows = reporting_rows(records.table, contract, Draws(0, contract.name, simulated=False))
    codes = encode_clients(records.table, contract, LocalEncoding.of(contract, "k-ary")).codes
    turns = contract.rows_of_unit
    secret, reports = system_stream(), []
    with open_wallet(options.memory) as wallet:
        cost = turns * collection.questions.guarantee.epsilon
        contract_cap = contract.privacy.budget.epsilon
        caps = {"requested_cap": options.cap, "contract_cap": contract_cap}
        wallet.join(collection.permanent_name, cost, **caps, id_column=options.id)
        for row, name in zip(rows, records.names(rows, contract), strict=True):
            who = hashlib.sha256(name.encode()).hexdigest()
            given = wallet.report(
                collection.permanent_name,
                who,
                partial(answer, codes[row], collection.questions, secret),
            )
            if collection.sending_epsilon is not None:
                given = wallet.sending(
                    collection.name, who, period, partial(sent, given, collection, secret)
                )
            sender = Sender(collection.name, wallet.pseudonym(collection.name, who, period), period)
            reports.append(sender.report(given))
        wallet.keep()
    # By pseudonym: the order of records would tell what a client holds, where they are sorted by
    # it, and link one period's lines to another's.
    return sorted(reports, key=lambda report: str(report["who"]))


def _written(name: str, kind: type[int | float], typed: str) -> float:
    """A number of the command line. Raises ParameterError: it is not written as JSON has it."""
    if not is_number(typed):
        raise ParameterError(name, repr(typed[:40]), "a finite number > 0, such as 1 or 0.5")
    return kind(typed)


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise ParameterError(name, value, "a finite number > 0")


def print_reports(typed: list[str]) -> None:
    """The command itself: one report a line."""
    parser = argparse.ArgumentParser(
        prog="python -m dpicl.client",
        description="Randomise records on this machine, and print reports that may leave it.",
    )
    parser.add_argument("contract", type=Path, help="the contract of the table")
    parser.add_argument(
        "--epsilon",
        type=partial(_written, "epsilon", float),
        required=True,
        help="privacy parameter of a client's answer, however often it is sent",
    )
    parser.add_argument(
        "--design", choices=DESIGNS, default=DEFAULT_DESIGN, help="which columns a client reports"
    )
    parser.add_argument(
        "--columns",
        type=partial(_written, "columns", int),
        help="with subset: number of columns in a report",
    )
    parser.add_argument(
        "--about",
        action="append",
        default=[],
        metavar="NAME",
        help="an attribute to ask for (repeatable); all if left out",
    )
    parser.add_argument(
        "--label-alone",
        action="store_true",
        help="ask about one client in eight for the label alone",
    )
    parser.add_argument(
        "--sending-epsilon",
        type=partial(_written, "sending-epsilon", float),
        metavar="EPSILON",
        help="add noise to the answer anew for each period, so that each report alone has this "
        "smaller privacy parameter",
    )
    parser.add_argument(
        "--period",
        default=ONCE,
        help="the period that the report is for, such as 2026-12-01; the same again is sent again",
    )
    parser.add_argument(
        "--id",
        help="a column that identifies clients, if the contract protects rows and there are "
        "several clients",
    )
    parser.add_argument(
        "--cap",
        type=partial(_written, "cap", float),
        help=f"cap on epsilon of all reports in the wallet, stored there at first use (default "
        f"{DEFAULT_CAP:g}); "
        "`python -m dpicl.client cap --help` raises it",
    )
    parser.add_argument(
        "--memory",
        type=Path,
        default=WALLET,
        help="the wallet: a file with the cap and all reports",
    )
    options = parser.parse_args(typed)
    contract = load_contract(options.contract)
    if not isinstance(contract, Contract):
        raise DataError(options.contract.name, "is of texts; expected the contract of a table")
    records = Records.read(sys.stdin.buffer.read(), contract, options.id)
    for report in report_all(contract, records, options):
        sys.stdout.write(json.dumps(report) + "\n")
    # to the holder's eyes alone: a log may leave the machine
    if records.replaced and sys.stderr.isatty():
        sys.stderr.write(
            f"dpicl.client: {records.replaced} missing or disallowed values were answered by the "
            f"contract's first category or lower bound\n"
        )


def show_cap(typed: list[str]) -> None:
    """The command `cap`: what a wallet has spent, after raising its cap where that is requested."""
    description = "Show what a wallet has spent of its cap, or raise the cap."
    parser = argparse.ArgumentParser(prog="python -m dpicl.client cap", description=description)
    parser.add_argument("wallet", type=Path, nargs="?", default=WALLET, help="as in --memory")
    parser.add_argument(
        "--raise-to",
        type=partial(_written, "raise-to", float),
        metavar="EPSILON",
        help="new cap on epsilon of all reports",
    )
    options = parser.parse_args(typed)
    if options.raise_to is not None:
        _check_positive("raise-to", options.raise_to)
    with open_wallet(options.wallet, may_be_new=False) as wallet:
        if options.raise_to is not None:
            wallet.raise_cap(options.raise_to)
        cap = DEFAULT_CAP if wallet.cap is None else wallet.cap
        sys.stdout.write(
            f"{options.wallet.name}: epsilon {wallet.spent:.6g} of {cap:.6g} is spent\n"
        )


def main() -> int:
    """Print reports, or show a wallet's cap; a mistake is one sentence and exit code 2."""
    filter_streams()
    typed = sys.argv[1:]
    try:
        if typed[:1] == ["cap"]:
            show_cap(typed[1:])
        else:
            print_reports(typed)
    except (DpiclError, OSError) as error:
        message = (
            error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)
        )
        sys.stderr.write(f"dpicl.client: {message}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
