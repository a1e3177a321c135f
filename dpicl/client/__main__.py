"""The data holder's command: contract and records in, reports out; see the package."""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
from dataclasses import dataclass
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
from dpicl.options import LdpVariant
from dpicl.randomness import Draws, system_stream
from dpicl.tabular.contribution import reporting_rows
from dpicl.tabular.encode import LocalEncoding, encode_clients
from dpicl.tabular.parse import check_columns, typed_table
from dpicl.tabular.questions import questionnaire
from dpicl.types import PrivateTable
from dpicl.yaml_file import validate

STANDARD_INPUT = "standard input"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m dpicl.client", description="Randomise records here, and print reports that may leave.")
    parser.add_argument("contract", type=Path, help="the contract of the table")
    parser.add_argument("--epsilon", type=float, required=True, help="what one report may cost its client")
    parser.add_argument("--design", choices=("one-column", "pairs", "subset"), default="subset", help="what a client is asked")
    parser.add_argument("--columns", type=int, help="of subset: how many columns are asked for together")
    parser.add_argument("--id", help="a column that tells clients apart, where the contract protects rows and there are several")
    parser.add_argument(
        "--cap", type=float, help="what all collections in the memory may cost a client; a smaller one of the contract holds"
    )
    parser.add_argument("--memory", type=Path, default=Path.home() / ".dpicl-client.jsonl", help="where reports are remembered")
    return parser.parse_args()


@dataclass(frozen=True)
class Records:
    """Records of one data holder, and the client that each is about."""

    table: PrivateTable
    ids: tuple[str, ...]

    @staticmethod
    def read(contract: Contract, id_column: str | None) -> Records:
        """Standard input as CSV with the contract's columns, and one that tells clients apart.

        Raises:
            DataError: a value breaks a rule, or nothing tells the clients apart: then a client could answer twice.
        """

        def check(names: list[str]) -> None:
            check_columns([name for name in names if name != id_column], contract, STANDARD_INPUT)

        columns = read_csv(sys.stdin.buffer.read(), check, STANDARD_INPUT)
        table = typed_table(columns, contract, STANDARD_INPUT)
        if table.num_rows != columns.num_rows:
            lost = columns.num_rows - table.num_rows
            raise DataError(STANDARD_INPUT, "has records with a missing value; expected records without", count=lost)
        return Records(PrivateTable(table), _ids(columns, table, contract, id_column))

    def names(self, rows: np.ndarray, contract: Contract) -> list[str]:
        """Who gives each report: a client, and which of theirs it is."""
        turns = contract.privacy.person.max_rows if contract.privacy.person else 1
        return [f"{self.ids[place]}, turn {turn % turns}" for turn, place in enumerate(rows)]


def _ids(columns: pa.Table, table: pa.Table, contract: Contract, id_column: str | None) -> tuple[str, ...]:
    if contract.privacy.person:
        return tuple(map(str, table.column(contract.privacy.person.id_column).to_pylist()))
    if id_column is None and table.num_rows == 1:
        return ("self",)
    if id_column is None or id_column not in columns.column_names:
        raise DataError(
            STANDARD_INPUT, "has several records and nothing that tells clients apart; expected --id COLUMN", count=table.num_rows
        )
    found = columns.column(id_column).to_pylist()
    if len(set(found)) < len(found):
        raise DataError(
            STANDARD_INPUT, "names a client twice; expected one record of each", column=id_column, count=len(found) - len(set(found))
        )
    return tuple(map(str, found))


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def _cap(contract: Contract, wished: float | None) -> float:
    """The smaller of the contract's cap and the holder's."""
    caps = [cap for cap in (wished, contract.privacy.budget.epsilon) if cap is not None]
    if wished is not None and not 0 < wished < math.inf:
        raise ParameterError("cap", wished, "a finite number > 0")
    if not caps:
        raise ParameterError("cap", "none", "--cap EPSILON: the contract has no cap, and all collections of a client add up")
    return min(caps)


def report_all(contract: Contract, records: Records, asked: argparse.Namespace) -> list[Report]:
    """Reports of all clients, remembered before any is returned.

    Raises:
        DpiclError: the budget is spent, or a value breaks a rule.
    """
    if not 0 < asked.epsilon < math.inf:
        raise ParameterError("epsilon", asked.epsilon, "a finite number > 0")
    chosen = validate(LdpVariant, {"design": asked.design, "columns": asked.columns, "estimator": "log-linear"}, "command line")
    encoding, cap = LocalEncoding.of(contract, "k-ary"), _cap(contract, asked.cap)
    asked_with = questionnaire(encoding.sizes, chosen.design, asked.epsilon, columns=chosen.columns)
    rows = reporting_rows(records.table, contract, Draws(0, contract.name, simulated=False))
    codes = encode_clients(records.table, contract, encoding).codes
    turns = contract.privacy.person.max_rows if contract.privacy.person else 1
    collection = _hash(f"{contract_digest(contract)} {asked.design} {asked.columns} {asked.epsilon!r}")
    secret, found = system_stream(), []
    with open_memory(asked.memory) as memory:
        memory.join(collection, turns * asked_with.guarantee.epsilon, cap)
        for row, name in zip(rows, records.names(rows, contract), strict=True):
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
        for one in report_all(contract, Records.read(contract, asked.id), asked):
            sys.stdout.write(json.dumps(one) + "\n")
    except (DpiclError, OSError) as error:
        told = error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)
        sys.stderr.write(f"dpicl.client: {told}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
