"""The data holder's command: contract and records in, reports out; see the package."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from dpicl.client.memory import open_memory
from dpicl.client.reports import Report, answer
from dpicl.contract.load import contract_digest, load_contract
from dpicl.contract.models import Contract
from dpicl.errors import DataError, DpiclError, ParameterError
from dpicl.files.csv_text import read_csv
from dpicl.randomness import Draws, system_stream
from dpicl.tabular.contribution import reporting_rows
from dpicl.tabular.encode import LocalEncoding, encode_clients
from dpicl.tabular.parse import check_columns, typed_table
from dpicl.tabular.questions import questionnaire
from dpicl.types import PrivateTable

STANDARD_INPUT = "standard input"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m dpicl.client", description="Randomise records here, and print reports that may leave.")
    parser.add_argument("contract", type=Path, help="the contract of the table")
    parser.add_argument("--epsilon", type=float, required=True, help="what one report may cost its client")
    parser.add_argument("--design", choices=("one-column", "pairs", "subset"), default="subset", help="what a client is asked")
    parser.add_argument("--columns", type=int, help="of subset: how many columns are asked for together")
    parser.add_argument("--memory", type=Path, default=Path("dpicl-client.jsonl"), help="where reports are remembered")
    return parser.parse_args()


def _records(contract: Contract) -> PrivateTable:
    """Standard input as CSV with the contract's columns."""
    columns = read_csv(sys.stdin.buffer.read(), lambda names: check_columns(names, contract, STANDARD_INPUT), STANDARD_INPUT)
    return PrivateTable(typed_table(columns, contract, STANDARD_INPUT))


def _names(table: pa.Table, rows: np.ndarray, contract: Contract) -> list[str]:
    """Who reports: a person and the turn, or a row by its place."""
    person = contract.privacy.person
    if person is None:
        return [f"row {place}" for place in rows]
    ids = table.column(person.id_column).to_pylist()
    return [f"person {ids[place]}, turn {turn % person.max_rows}" for turn, place in enumerate(rows)]


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def report_all(contract: Contract, records: PrivateTable, asked: argparse.Namespace) -> list[Report]:
    """Reports of all clients, remembered before any is returned.

    Raises:
        DpiclError: the budget is spent, or a value breaks a rule.
    """
    if not asked.epsilon > 0 or asked.epsilon == float("inf"):
        raise ParameterError("epsilon", asked.epsilon, "a finite number > 0")
    asked_with = questionnaire(LocalEncoding.of(contract, "k-ary").sizes, asked.design, asked.epsilon, columns=asked.columns)
    rows = reporting_rows(records, contract, Draws(0, contract.name, simulated=False))
    codes = encode_clients(records, contract, LocalEncoding.of(contract, "k-ary")).codes
    turns = contract.privacy.person.max_rows if contract.privacy.person else 1
    collection = _hash(f"{contract_digest(contract)} {asked.design} {asked.columns} {asked.epsilon!r}")
    secret, found = system_stream(), []
    with open_memory(asked.memory) as memory:
        memory.join(collection, turns * asked_with.guarantee.epsilon, contract.privacy.budget.epsilon)
        for row, name in zip(rows, _names(records.data, rows, contract), strict=True):
            found.append(memory.report(collection, _hash(name), partial(answer, codes[row], asked_with, secret)))
        memory.keep()
    return found


def main() -> int:
    """Print one report a line; a mistake is one sentence and exit code 2."""
    asked = _arguments()
    try:
        contract = load_contract(asked.contract)
        if not isinstance(contract, Contract):
            raise DataError(asked.contract.name, "is of texts; expected the contract of a table")
        for one in report_all(contract, _records(contract), asked):
            sys.stdout.write(json.dumps(one) + "\n")
    except (DpiclError, OSError) as error:
        told = error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)
        sys.stderr.write(f"dpicl.client: {told}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
