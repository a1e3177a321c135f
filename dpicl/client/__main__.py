"""The data holder's command: contract and records in, reports out; see the package."""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
from functools import partial
from pathlib import Path

from dpicl.client.records import Records
from dpicl.client.reports import Report, answer
from dpicl.client.wallet import DEFAULT_CAP, open_wallet
from dpicl.contract.load import contract_digest, load_contract
from dpicl.contract.models import Contract
from dpicl.errors import DataError, DpiclError, ParameterError
from dpicl.methods.options import LdpVariant
from dpicl.randomness import Draws, system_stream
from dpicl.tabular.local.questions import questionnaire
from dpicl.tabular.reading.contribution import reporting_rows
from dpicl.tabular.reading.encode import LocalEncoding, encode_clients
from dpicl.yaml_file import validate

WALLET = Path.home() / ".dpicl-client.jsonl"


def _arguments(typed: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m dpicl.client", description="Randomise records here, and print reports that may leave.")
    parser.add_argument("contract", type=Path, help="the contract of the table")
    parser.add_argument("--epsilon", type=float, required=True, help="what one report may cost its client")
    parser.add_argument("--design", choices=("one-column", "pairs", "subset"), default="subset", help="what a client is asked")
    parser.add_argument("--columns", type=int, help="of subset: how many columns are asked for together")
    parser.add_argument("--id", help="a column that tells clients apart, where the contract protects rows and there are several")
    parser.add_argument(
        "--cap",
        type=float,
        help=f"what all reports in the wallet may cost a client, kept in it at first use ({DEFAULT_CAP:g} if not said); "
        "`python -m dpicl.client cap --help` raises it",
    )
    parser.add_argument("--memory", type=Path, default=WALLET, help="the wallet: where the cap and all reports are kept")
    return parser.parse_args(typed)


def _cap_arguments(typed: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m dpicl.client cap", description="Show what a wallet has spent of its cap, or raise the cap."
    )
    parser.add_argument("wallet", type=Path, nargs="?", default=WALLET, help="as in --memory")
    parser.add_argument("--raise-to", type=float, metavar="EPSILON", help="what all reports may cost a client from now on")
    return parser.parse_args(typed)


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise ParameterError(name, value, "a finite number > 0")


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def report_all(contract: Contract, records: Records, asked: argparse.Namespace) -> list[Report]:
    """Reports of all clients, remembered before any is returned.

    Raises:
        DpiclError: the budget is spent, or a value breaks a rule.
    """
    _check_positive("epsilon", asked.epsilon)
    if asked.cap is not None:
        _check_positive("cap", asked.cap)
    chosen = validate(LdpVariant, {"design": asked.design, "columns": asked.columns, "estimator": "log-linear"}, "command line")
    encoding = LocalEncoding.of(contract, "k-ary")
    asked_with = questionnaire(encoding.sizes, chosen.design, asked.epsilon, columns=chosen.columns)
    rows = reporting_rows(records.table, contract, Draws(0, contract.name, simulated=False))
    codes = encode_clients(records.table, contract, encoding).codes
    turns = contract.privacy.person.max_rows if contract.privacy.person else 1
    collection = _hash(f"{contract_digest(contract)} {asked.design} {asked.columns} {asked.epsilon!r}")
    secret, found = system_stream(), []
    contract_cap = contract.privacy.budget.epsilon
    with open_wallet(asked.memory) as wallet:
        cost = turns * asked_with.guarantee.epsilon
        wallet.join(collection, cost, wished=asked.cap, contract_cap=contract_cap, id_column=asked.id)
        for row, name in zip(rows, records.names(rows, contract), strict=True):
            found.append(wallet.report(collection, _hash(name), partial(answer, codes[row], asked_with, secret)))
        wallet.keep()
    return found


def _print_reports(typed: list[str]) -> None:
    """One report a line."""
    asked = _arguments(typed)
    contract = load_contract(asked.contract)
    if not isinstance(contract, Contract):
        raise DataError(asked.contract.name, "is of texts; expected the contract of a table")
    records = Records.read(sys.stdin.buffer.read(), contract, asked.id)
    for one in report_all(contract, records, asked):
        sys.stdout.write(json.dumps(one) + "\n")
    if records.replaced and sys.stderr.isatty():  # to the holder's eyes alone: a log may leave the machine
        sys.stderr.write(
            f"dpicl.client: {records.replaced} missing or disallowed values were answered by the contract's first category or lower bound\n"
        )


def _show_cap(typed: list[str]) -> None:
    """What a wallet has spent, after raising its cap where that is asked."""
    asked = _cap_arguments(typed)
    if asked.raise_to is not None:
        _check_positive("raise-to", asked.raise_to)
    with open_wallet(asked.wallet, may_be_new=False) as wallet:
        if asked.raise_to is not None:
            wallet.raise_cap(asked.raise_to)
        cap = DEFAULT_CAP if wallet.cap is None else wallet.cap
        sys.stdout.write(f"{asked.wallet.name}: epsilon {wallet.spent:.6g} of {cap:.6g} is spent\n")


def main() -> int:
    """Print reports, or show a wallet's cap; a mistake is one sentence and exit code 2."""
    typed = sys.argv[1:]
    try:
        if typed[:1] == ["cap"]:
            _show_cap(typed[1:])
        else:
            _print_reports(typed)
    except (DpiclError, OSError) as error:
        told = error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)
        sys.stderr.write(f"dpicl.client: {told}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
