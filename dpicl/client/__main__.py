"""The data holder's command: contract and records in, reports out; see the package."""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
from functools import partial
from pathlib import Path
from typing import get_args

from dpicl.client.records import Records
from dpicl.client.reports import Report, answer
from dpicl.client.wallet import DEFAULT_CAP, open_wallet
from dpicl.contract.load import contract_digest, load_contract
from dpicl.contract.models import Contract
from dpicl.errors import DataError, DpiclError, ParameterError
from dpicl.methods.ldp_collection import questions_for
from dpicl.methods.options import LdpVariant
from dpicl.randomness import Draws, system_stream
from dpicl.tabular.local.questions import Design
from dpicl.tabular.reading.contribution import reporting_rows
from dpicl.tabular.reading.encode import LocalEncoding, encode_clients
from dpicl.yaml_file import validate

_DESIGNS = tuple(design for design in get_args(Design) if design != "all-columns")
WALLET = Path.home() / ".dpicl-client.jsonl"


def report_all(contract: Contract, records: Records, options: argparse.Namespace) -> list[Report]:
    """Reports of all clients, remembered before any is returned.

    Raises:
        DpiclError: the budget is spent, or a value breaks a rule.
    """
    _check_positive("epsilon", options.epsilon)
    if options.cap is not None:
        _check_positive("cap", options.cap)
    stated = {"design": options.design, "columns": options.columns, "about": options.about, "estimator": "log-linear"}
    variant = validate(LdpVariant, stated, "command line")
    encoding = LocalEncoding.of(contract, "k-ary")
    questions = questions_for(encoding, variant, options.epsilon)
    rows = reporting_rows(records.table, contract, Draws(0, contract.name, simulated=False))
    codes = encode_clients(records.table, contract, encoding).codes
    turns = contract.privacy.person.max_rows if contract.privacy.person else 1
    about = f" {json.dumps(variant.about)}" if variant.about else ""
    collection = _hash(f"{contract_digest(contract)} {options.design} {options.columns} {options.epsilon!r}{about}")
    secret, reports = system_stream(), []
    with open_wallet(options.memory) as wallet:
        cost, contract_cap = turns * questions.guarantee.epsilon, contract.privacy.budget.epsilon
        wallet.join(collection, cost, requested_cap=options.cap, contract_cap=contract_cap, id_column=options.id)
        for row, name in zip(rows, records.names(rows, contract), strict=True):
            reports.append(wallet.report(collection, _hash(name), partial(answer, codes[row], questions, secret)))
        wallet.keep()
    return reports


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise ParameterError(name, value, "a finite number > 0")


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def print_reports(typed: list[str]) -> None:
    """The command itself: one report a line."""
    parser = argparse.ArgumentParser(
        prog="python -m dpicl.client", description="Randomise records on this machine, and print reports that may leave it."
    )
    parser.add_argument("contract", type=Path, help="the contract of the table")
    parser.add_argument("--epsilon", type=float, required=True, help="privacy parameter of one report")
    parser.add_argument("--design", choices=_DESIGNS, default="subset", help="which columns a client reports")
    parser.add_argument("--columns", type=int, help="with subset: number of columns in a report")
    parser.add_argument(
        "--about", action="append", default=[], metavar="NAME", help="an attribute to ask for (repeatable); all if left out"
    )
    parser.add_argument("--id", help="a column that identifies clients, if the contract protects rows and there are several clients")
    parser.add_argument(
        "--cap",
        type=float,
        help=f"cap on epsilon of all reports in the wallet, stored there at first use (default {DEFAULT_CAP:g}); "
        "`python -m dpicl.client cap --help` raises it",
    )
    parser.add_argument("--memory", type=Path, default=WALLET, help="the wallet: a file with the cap and all reports")
    options = parser.parse_args(typed)
    contract = load_contract(options.contract)
    if not isinstance(contract, Contract):
        raise DataError(options.contract.name, "is of texts; expected the contract of a table")
    records = Records.read(sys.stdin.buffer.read(), contract, options.id)
    for report in report_all(contract, records, options):
        sys.stdout.write(json.dumps(report) + "\n")
    if records.replaced and sys.stderr.isatty():  # to the holder's eyes alone: a log may leave the machine
        sys.stderr.write(
            f"dpicl.client: {records.replaced} missing or disallowed values were answered by the contract's first category or lower bound\n"
        )


def show_cap(typed: list[str]) -> None:
    """The command `cap`: what a wallet has spent, after raising its cap where that is requested."""
    description = "Show what a wallet has spent of its cap, or raise the cap."
    parser = argparse.ArgumentParser(prog="python -m dpicl.client cap", description=description)
    parser.add_argument("wallet", type=Path, nargs="?", default=WALLET, help="as in --memory")
    parser.add_argument("--raise-to", type=float, metavar="EPSILON", help="new cap on epsilon of all reports")
    options = parser.parse_args(typed)
    if options.raise_to is not None:
        _check_positive("raise-to", options.raise_to)
    with open_wallet(options.wallet, may_be_new=False) as wallet:
        if options.raise_to is not None:
            wallet.raise_cap(options.raise_to)
        cap = DEFAULT_CAP if wallet.cap is None else wallet.cap
        sys.stdout.write(f"{options.wallet.name}: epsilon {wallet.spent:.6g} of {cap:.6g} is spent\n")


def main() -> int:
    """Print reports, or show a wallet's cap; a mistake is one sentence and exit code 2."""
    typed = sys.argv[1:]
    try:
        if typed[:1] == ["cap"]:
            show_cap(typed[1:])
        else:
            print_reports(typed)
    except (DpiclError, OSError) as error:
        message = error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)
        sys.stderr.write(f"dpicl.client: {message}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
