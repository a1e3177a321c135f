"""Who is answered what: how often each of two labels is given where it is true and where it is not,
and by a public column of the queries.

Guarantee   none spent: answers to public queries, and columns of those queries, which the prompts
            of the run contain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa

from dpicl.engine.artefacts import ASKED, LOG_PROBABILITY, PREDICTIONS
from dpicl.engine.table_files import read_table
from dpicl.errors import ParameterError, RunError
from dpicl.report import words
from dpicl.report.blocks import Block, Cell, Fold, Table, Text
from dpicl.report.cells import place_of, read_stored, unit_of
from dpicl.report.load import Run, is_public
from dpicl.report.tables import epsilon_heads, row_label

MOST_GROUPS = 20
_WAY = ["system", "shots", "epsilon"]


def answered(folder: Path, run: Run) -> pd.DataFrame:
    """A row per answer to a public query where two labels were scored: `method`, `dataset`, `seed`,
    those of a cell, `query`, `is_true` and `is_answered` (whether the second label is the truth,
    and was answered), and `label`, its name.
    """
    frames = []
    for unit in sorted((folder / "units").glob("*")):
        method, dataset, seed = unit_of(unit)
        if not is_public(run.manifest, dataset) or not (unit / PREDICTIONS).exists():
            continue
        stored = read_stored(unit, PREDICTIONS)
        labels = [
            name.removeprefix(LOG_PROBABILITY)
            for name in stored.column_names
            if name.startswith(LOG_PROBABILITY)
        ]
        if len(labels) == 2:
            frames.append(
                _frame(stored, labels[1]).assign(
                    method=method, dataset=dataset, seed=seed, label=labels[1]
                )
            )
    return pd.concat(frames) if frames else pd.DataFrame()


def _frame(stored: pa.Table, label: str) -> pd.DataFrame:
    table = stored.select(["cell", "query", "truth", "answer"]).to_pandas()
    places = {key: place_of(str(key)) for key in table["cell"].unique()}
    cells = pd.DataFrame(
        [places[key] for key in table["cell"]], columns=["system", "epsilon", "shots", "rate"]
    )
    same = {
        "query": table["query"],
        "is_true": table["truth"] == label,
        "is_answered": table["answer"] == label,
    }
    return cells.assign(**{name: column.to_numpy() for name, column in same.items()})


def shares(answers: pd.DataFrame) -> Iterator[Block]:
    """A fold with a table per method and data set: how often the second label is answered, and
    where it is true and where not.
    """
    if not len(answers):
        return
    blocks: list[Block] = [
        Text(
            "The share of all answers; in brackets that of queries where this is the right "
            "answer, and of those where it is not.",
            "small",
        )
    ]
    for (method, dataset), part in answers.groupby(["method", "dataset"], sort=False):
        blocks.append(
            _table(
                part,
                f"{words.method_name(str(method))}, {dataset}: answered {part['label'].iloc[0]}",
                _share,
            )
        )
    yield Fold("Which answers were given", tuple(blocks), level=2)


def by_group(answers: pd.DataFrame, folder: Path, column: str) -> list[Block]:
    """Accuracy, and how often the second label is answered, in every group of queries by a column
    of theirs. Raises ParameterError: no data set of the run has such a column, or it has too many
    values to be groups; RunError: the run's queries are gone.
    """
    blocks: list[Block] = [
        Text(
            "Accuracy in each group; in brackets the share that was answered so, of all of the "
            "group.",
            "small",
        )
    ]
    known: set[str] = set()
    for (method, dataset), part in (
        answers.groupby(["method", "dataset"], sort=False) if len(answers) else ()
    ):
        path = folder / ASKED.format(dataset=dataset)
        if not path.exists():
            raise RunError(f"run {folder.name}: its queries are gone; run it again")
        queries = read_table(path)
        known |= set(queries.column_names)
        if column not in queries.column_names:
            continue
        groups = queries.column(column).to_pandas().astype(str)
        if groups.nunique() > MOST_GROUPS:
            raise ParameterError(
                "by", column, f"a column of at most {MOST_GROUPS} values, whose groups are compared"
            )
        for group in sorted(groups.unique()):
            own = part[part["query"].map(groups) == group]
            title = (
                f"{words.method_name(str(method))}, {dataset}: {column} {group}, "
                f"{own['query'].nunique()} queries"
            )
            blocks.append(_table(own, title, _right))
    if len(blocks) == 1:
        raise ParameterError(
            "by",
            column,
            f"a column of public queries: {', '.join(sorted(known)) or 'this run has none'}",
        )
    return blocks


def _table(part: pd.DataFrame, title: str, text: Callable[[pd.DataFrame], str]) -> Table:
    epsilons = tuple(sorted(part["epsilon"].dropna().unique()))
    rows = []
    for (system, shots), own in part.groupby(["system", "shots"], dropna=False, sort=False):
        if own["epsilon"].isna().all():  # zero-shot: of every epsilon the same
            cells = [Cell(text(own))] * len(epsilons)
        else:
            cells = [Cell(text(own[own["epsilon"] == one])) for one in epsilons]
        rows.append(
            (Cell(row_label(str(system), float(str(shots)) or math.nan, math.nan, False)), *cells)
        )
    return Table(title, (*Cell.of_text(title), *epsilon_heads(epsilons)), tuple(rows))


def _share(part: pd.DataFrame) -> str:
    if not len(part):
        return words.DASH
    of_true = (part.loc[part["is_true"] == truth, "is_answered"] for truth in (True, False))
    return (
        f"{part['is_answered'].mean():.2f} "
        f"({', '.join(words.number(one.mean(), 2) for one in of_true)})"
    )


def _right(part: pd.DataFrame) -> str:
    return (
        f"{(part['is_true'] == part['is_answered']).mean():.2f} ({part['is_answered'].mean():.2f})"
        if len(part)
        else words.DASH
    )
