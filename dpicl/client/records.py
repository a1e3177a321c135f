"""A data holder's records, each of which answers, whatever it holds.

Trust       Local: runs where the records are; nothing of it leaves but reports.
Unit        One client.
Neighbours  REPLACE_ONE: any record by any other, with missing values and values that the contract
            does not allow among them.
Guarantee   none spent: a record is mapped, on its own, to one that the contract allows, and that
            one is randomised. No record is refused or left out for its values, since a missing
            report would reveal them.

    (1)  x -> s(column)   a missing or disallowed value; s is missing where the column is nullable,
         else the first
                          category, or the lower bound: public
    (2)  x -> x           any other

Not covered input that is no CSV, and ids: who answers is no secret.

From `answer` on: one client's answer, and what is sent of it.

Trust       Local: both run where the true codes are; what `sent` returns may leave.
Unit        One client.
Neighbours  REPLACE_ONE of what that client holds.
Guarantee   the collection's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpicl.contract.columns import Column
from dpicl.contract.declared import TSV
from dpicl.contract.models import Contract
from dpicl.data.local.questions import Questionnaire
from dpicl.data.reading.parse import allowed_values, check_columns, typed_table
from dpicl.data.reading.written import as_ours, read_text
from dpicl.data.reports import Answer
from dpicl.ground.errors import DataError
from dpicl.ground.randomness import Stream
from dpicl.ground.types import PrivateTable
from dpicl.mechanisms.randomised_response import Response, randomise
from dpicl.mechanisms.two_levels import send
from dpicl.mechanisms.unary_encoding import report
from dpicl.methods.collection import Collection

STANDARD_INPUT = "standard input"


@dataclass(frozen=True)
class Records:
    """Records of one data holder, and the client that each is about."""

    table: PrivateTable
    ids: tuple[str, ...]
    replaced: int
    """Values of equation (1): a private count."""

    @staticmethod
    def read(content: bytes, contract: Contract, id_column: str | None) -> Records:
        """CSV with the contract's columns, written as its `source` says, and one that tells clients
        apart.

        Raises:
            DataError: it is no CSV, or nothing tells the clients apart: then a client could answer
                twice.
        """
        source = contract.source

        def check(names: list[str]) -> None:
            ours = [source.rename.get(name, name) for name in names if name != id_column]
            check_columns(ours, contract, STANDARD_INPUT)

        is_tabbed = bool(source.file and source.file.endswith(TSV))
        source = source.model_copy(update={"delimiter": "\t"}) if is_tabbed else source
        columns = as_ours(read_text(content, STANDARD_INPUT, check, source), contract)
        columns = columns.cast(pa.schema([(name, pa.string()) for name in columns.column_names]))
        replaced = 0
        if not columns.num_rows:
            raise DataError(STANDARD_INPUT, "has no records; expected at least one")
        allowed = columns
        for name, column in contract.columns.items():
            texts = columns.column(name).combine_chunks()
            valid = allowed_values(columns.column(name), column)
            valid &= ~np.asarray(
                pc.is_in(texts, value_set=pa.array(contract.missing_words(name), pa.string()))
            )
            replaced += int(np.count_nonzero(~valid))
            values = pc.if_else(pa.array(valid), texts, stand_in(column))
            allowed = allowed.set_column(allowed.column_names.index(name), name, values)
        complete = contract.refusing().without_missing_words()
        table = typed_table(allowed, complete, STANDARD_INPUT)
        return Records(PrivateTable(table), _ids(columns, table, contract, id_column), replaced)

    def names(self, rows: np.ndarray, contract: Contract) -> list[str]:
        """Who gives each report: a client, and which of theirs it is."""
        turns = contract.rows_of_unit
        return [f"{self.ids[place]}, turn {turn % turns}" for turn, place in enumerate(rows)]


def stand_in(column: Column) -> str:
    """What a missing or disallowed value is answered with; equation (1)."""
    return "" if column.nullable else column.any_value


def _ids(
    columns: pa.Table, table: pa.Table, contract: Contract, id_column: str | None
) -> tuple[str, ...]:
    if contract.person:
        nameless = pc.sum(
            pc.equal(columns.column(contract.person.id_column), contract.source.missing or "")
        ).as_py()
        if nameless:
            raise DataError(
                STANDARD_INPUT, "has records without an id; expected one in each", count=nameless
            )
        return tuple(map(str, table.column(contract.person.id_column).to_pylist()))
    if id_column is None and table.num_rows == 1:
        return ("self",)
    if id_column is None or id_column not in columns.column_names:
        raise DataError(
            STANDARD_INPUT,
            "has several records and nothing that tells clients apart; expected --id COLUMN",
            count=table.num_rows,
        )
    ids = columns.column(id_column).to_pylist()
    repeated = len(ids) - len(set(ids))
    if repeated:
        raise DataError(
            STANDARD_INPUT,
            "names a client twice; expected one record of each",
            column=id_column,
            count=repeated,
        )
    return tuple(map(str, ids))


def answer(codes: np.ndarray, questionnaire: Questionnaire, secret: Stream) -> Answer:
    """One client's permanent answer: to one question, each as likely, with the whole budget.

    Args:
        codes: of every column, shape (columns,).
    """
    number = secret.below(len(questionnaire.questions))
    question = questionnaire.questions[number]
    cell = question.cells_of(codes[np.newaxis])
    if isinstance(question.law, Response):
        return {"question": number, "answer": int(randomise(cell, question.law, secret)[0])}
    return {
        "question": number,
        "bits": np.flatnonzero(report(cell, question.law, secret)[0]).tolist(),
    }


def sent(permanent: Answer, collection: Collection, secret: Stream) -> Answer:
    """What is sent of a permanent answer: itself, or where the collection has two levels, with
    noise drawn anew.
    """
    levels = collection.levels[permanent["question"]]
    if levels is None:
        return permanent
    if "answer" in permanent:
        return {
            **permanent,
            "answer": int(send(np.array([permanent["answer"]]), levels.sending, secret)[0]),
        }
    bits = np.zeros((1, levels.permanent.categories), dtype=np.bool_)
    bits[0, permanent["bits"]] = True
    return {**permanent, "bits": np.flatnonzero(send(bits, levels.sending, secret)[0]).tolist()}
