"""The section of a report in which cells open to what the model saw and what it answered.

Who is answered what: how often each of two labels is given where it is true and where it is not,
and by a public column of the queries.

What a report says of labels: that one is the answer to all queries, and how much of its probability
a model gives to all of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa

from dpicl.contract.pipeline import asked_by
from dpicl.ground.errors import ParameterError, RunError
from dpicl.methods.base import ZERO_SHOT
from dpicl.methods.tabular_answers import AVERAGED
from dpicl.release.table_files import read_table
from dpicl.report import words
from dpicl.report.blocks import Block, Code, FoldedBlock, Heading, Paragraph, TableBlock, TableCell
from dpicl.report.cells import (
    AnsweredCell,
    Cells,
    LabelCounts,
    QueryAnswer,
    constant,
    constant_sentence,
    place_of,
    read_stored,
    unit_of,
)
from dpicl.report.load import Run, is_public
from dpicl.report.tables import epsilon_heads, row_label
from dpicl.runs.artefacts import ASKED, LOG_PROBABILITY, PREDICTIONS

_PRIVATE = "Prompts of an ensemble hold private rows and are never shown"


def answers(cells: Cells) -> Iterator[Block]:
    """What the section of answers holds: a fold for every number of the tables, all of its seeds in
    it.
    """
    if not cells.shown:
        return
    most = max(len(one.answers) for one in cells.shown)
    yield Paragraph(
        "What the model saw and what it answered, wrong answers first: of public queries and "
        "released demonstrations alone, nothing at ε = ∞. "
        f"Shown: up to {most} queries each of {len(cells.shown):,} of {cells.count:,} cells and "
        f"seeds. "
        "log p is the logarithm of the probability that the model gives a label; without "
        "calibration, the largest is the answer."
    )
    by_number: dict[tuple[str, str], dict[str, list[AnsweredCell]]] = {}
    for one in cells.shown:
        method, dataset, _ = one.where
        by_number.setdefault((method, dataset), {}).setdefault(one.anchor, []).append(one)
    for (method, dataset), numbers in by_number.items():
        yield Heading(f"{words.method_name(method)}, {dataset}")
        for name, seeds in numbers.items():
            yield _fold(name, seeds)


def _fold(name: str, seeds: list[AnsweredCell]) -> FoldedBlock:
    system, epsilon, shots, rate = seeds[0].place
    title = [words.system_name(system), f"ε = {words.epsilon(epsilon)}"]
    title += [
        f"{sign} = {value:g}"
        for sign, value in (("k", shots), ("rate", rate))
        if not math.isnan(value)
    ]
    right = (
        f"{one.right} of {one.count} right" if one.labels else f"{one.count} answers"
        for one in seeds
    )
    labels = seeds[0].labels if any(one.scores for cell in seeds for one in cell.answers) else ()
    kind = "text" if seeds[0].labels else "prose"
    head = (
        *TableCell.of_text("query"),
        TableCell("truth", mark=kind),
        TableCell("answer", mark=kind),
        *(TableCell(f"log p: {label}") for label in labels),
    )
    rows = [_row(one, cell, len(labels)) for cell in seeds for one in cell.answers]
    return FoldedBlock(
        ", ".join(title),
        (TableBlock(", ".join(title), head, tuple(rows)), *map(_prompts_fold, seeds)),
        note=" · ".join(
            f"seed {one.where[2]}: {text}" for one, text in zip(seeds, right, strict=True)
        ),
        anchor=name,
    )


def _row(one: QueryAnswer, cell: AnsweredCell, width: int) -> tuple[TableCell, ...]:
    is_wrong = bool(cell.labels) and one.truth != one.answer
    answer = (
        TableCell(one.answer, note="wrong", mark="wrong") if is_wrong else TableCell(one.answer)
    )
    scores = [
        *(TableCell(words.signed(score)) for score in one.scores),
        *[TableCell(words.DASH)] * width,
    ][:width]
    return (
        TableCell(f"seed {cell.where[2]}, query {one.query + 1}"),
        TableCell(one.truth),
        answer,
        *scores,
    )


def _prompts_fold(cell: AnsweredCell) -> FoldedBlock:
    """The prompts of one seed; what all begin with stands once."""
    blocks: list[Block] = []
    if cell.is_query_alone:
        why = (
            "Each was asked with several draws of demonstrations"
            if cell.key.startswith(AVERAGED)
            else _PRIVATE
        )
        blocks.append(Paragraph(f"{why}; these are the queries.", "small"))
    if cell.beginning:
        blocks += [
            Paragraph("Every prompt begins with these demonstrations:", "small"),
            Code(cell.beginning.rstrip("\n")),
        ]
    for one in cell.answers:
        blocks += [Paragraph(f"Query {one.query + 1}:", "small"), Code(one.prompt)]
    return FoldedBlock(
        f"{'Queries' if cell.is_query_alone else 'Prompts'}, seed {cell.where[2]}", tuple(blocks)
    )


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
        Paragraph(
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
    yield FoldedBlock("Which answers were given", tuple(blocks), level=2)


def by_group(answers: pd.DataFrame, folder: Path, column: str) -> list[Block]:
    """Accuracy, and how often the second label is answered, in every group of queries by a column
    of theirs. Raises ParameterError: no data set of the run has such a column, or it has too many
    values to be groups; RunError: the run's queries are gone.
    """
    blocks: list[Block] = [
        Paragraph(
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


def _table(part: pd.DataFrame, title: str, text: Callable[[pd.DataFrame], str]) -> TableBlock:
    epsilons = tuple(sorted(part["epsilon"].dropna().unique()))
    rows = []
    for (system, shots), own in part.groupby(["system", "shots"], dropna=False, sort=False):
        if own["epsilon"].isna().all():  # zero-shot: of every epsilon the same
            cells = [TableCell(text(own))] * len(epsilons)
        else:
            cells = [TableCell(text(own[own["epsilon"] == one])) for one in epsilons]
        rows.append(
            (
                TableCell(row_label(str(system), float(str(shots)) or math.nan, math.nan, False)),
                *cells,
            )
        )
    return TableBlock(title, (*TableCell.of_text(title), *epsilon_heads(epsilons)), tuple(rows))


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


def constant_sentences(cells: Sequence[LabelCounts]) -> Iterator[str]:
    """One for every method and data set on which answers are constant, and for every data set
    without demonstrations.
    """
    for dataset in dict.fromkeys(one.dataset for one in cells):
        of_set = [(*asked_by(one.place[0]), one) for one in cells if one.dataset == dataset]
        named: dict[str, list[LabelCounts]] = {}
        for model in dict.fromkeys(model for _, model, _ in of_set):
            of_model, answering = (
                [(asked, one) for asked, by, one in of_set if by == model],
                f", {model}" if model else "",
            )
            # the same in every unit
            bare = [one for asked, one in of_model if asked == ZERO_SHOT.system][:1]
            named[f"zero-shot on {dataset}{answering}"] = bare
            for method in dict.fromkeys(one.method for _, one in of_model):
                own = [
                    one
                    for asked, one in of_model
                    if one.method == method and asked != ZERO_SHOT.system
                ]
                named[f"{words.method_name(method)} on {dataset}{answering}"] = own
        for name, own in named.items():
            given, truth = (
                sum((one.given for one in own), Counter[str]()),
                sum((one.truth for one in own), Counter[str]()),
            )
            if (label := constant(given, truth)) is not None:
                yield f"{name}: {constant_sentence(given, label)}"
            elif found := [
                (one, label) for one in own if (label := constant(one.given, one.truth)) is not None
            ]:
                first, label = found[0]
                yield (
                    f"{name}: in {len(found)} of {len(own)} cells all, or nearly all, answers are "
                    f"one label; {_named(first)} "
                    f"{constant_sentence(first.given, label)}"
                )


def _named(one: LabelCounts) -> str:
    system, epsilon, shots, rate = one.place
    return f"{row_label(system, shots, rate, True)}, ε = {words.epsilon(epsilon)},"


def mass_blocks(cells: Sequence[LabelCounts]) -> Iterator[Block]:
    """The mean over queries and seeds of what all labels together have of a model's probability;
    nothing where none has it.
    """
    by_row: dict[tuple[str, str, str], dict[float, list[float]]] = {}
    bare: dict[tuple[str, str], list[float]] = {}
    model_of: dict[tuple[str, str, str], str] = {}
    for one in cells:
        system, epsilon, shots, rate = one.place
        asked, model = asked_by(system)
        if asked == ZERO_SHOT.system:
            bare.setdefault((one.dataset, model), []).append(one.mass)
        elif not math.isnan(one.mass):
            row = words.method_name(one.method), one.dataset, row_label(system, shots, rate, True)
            by_row.setdefault(row, {}).setdefault(epsilon, []).append(one.mass)
            model_of[row] = model
    for (dataset, model), masses in bare.items():
        if not any(dataset == row[1] for row in by_row) and not any(map(math.isnan, masses)):
            by_row[words.DASH, dataset, model or words.DASH] = {}
            model_of[words.DASH, dataset, model or words.DASH] = model
    if not by_row:
        return
    epsilons = sorted({epsilon for means in by_row.values() for epsilon in means})
    rows = [
        (
            *map(TableCell, row),
            *(
                TableCell(_mean(masses))
                for masses in (bare.get((row[1], model_of[row])), *map(means.get, epsilons))
            ),
        )
        for row, means in by_row.items()
    ]
    yield Paragraph(
        "What the model gives to all labels together, before they are compared; the rest goes to "
        "other words. Near 1 it has learned the form of "
        "the answer, which demonstrations teach whatever they say; near 0 labels are compared by "
        "what little they have.",
        "small",
    )
    head = (
        *TableCell.of_text("method", "data set", "answers"),
        TableCell("zero-shot"),
        *epsilon_heads(epsilons),
    )
    yield TableBlock("Mean probability of all labels together", head, tuple(rows))


def _mean(masses: Sequence[float] | None) -> str:
    return words.number(math.fsum(masses) / len(masses) if masses else None)
