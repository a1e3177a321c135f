"""What a report shows of answers: cells that open to what the model saw and what it answered; how
often each of two labels is given where it is true and where it is not, and by a public column of
the queries; a label that is the answer to all queries, and how much of its probability a model
gives to all labels.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pandas as pd

from dpicl.contract.pipeline import asked_by
from dpicl.ground.errors import ParameterError, RunError
from dpicl.ground.nouns import many
from dpicl.methods.base import ZERO_SHOT
from dpicl.methods.tabular_answers import AVERAGED, constant, constant_sentence
from dpicl.release.table_files import read_table
from dpicl.report import words
from dpicl.report.blocks import (
    AnyCell,
    Block,
    Code,
    FoldedBlock,
    Heading,
    Paragraph,
    TableBlock,
    TableCell,
)
from dpicl.report.cells import (
    AnsweredCell,
    Cells,
    LabelCounts,
    QueryAnswer,
    place_of,
    predictions,
    unit_of,
)
from dpicl.report.load import Run
from dpicl.report.tables import epsilon_heads, row_label
from dpicl.runs.artefacts import ASKED

_PRIVATE = "Prompts of an ensemble hold private rows and are never shown"


def answers(cells: Cells) -> Iterator[Block]:
    """What the section of answers holds: a fold for every number of the tables, all of its seeds in
    it.
    """
    if not cells.shown:
        return
    most = max(len(cell.answers) for cell in cells.shown)
    yield Paragraph(
        "What the model saw and what it answered, wrong answers first: of public queries and "
        f"released demonstrations alone, nothing at ε = ∞. Shown: up to {most} queries each of "
        f"{len(cells.shown):,} of {cells.count:,} cells and seeds. log p is the logarithm of the "
        "probability that the model gives a label; without calibration, the largest is the answer."
    )
    by_number: dict[tuple[str, str], dict[str, list[AnsweredCell]]] = {}
    for cell in cells.shown:
        by_number.setdefault(cell.where[:2], {}).setdefault(cell.anchor, []).append(cell)
    for (method, dataset), numbers in by_number.items():
        yield Heading(f"{words.method_name(method)}, {dataset}")
        for name, seeds in numbers.items():
            yield _fold(name, seeds)


def _fold(name: str, seeds: list[AnsweredCell]) -> FoldedBlock:
    system, epsilon, shots, rate = seeds[0].place
    signs = {"k": shots, "rate": rate}
    title = ", ".join(
        [
            words.system_name(system),
            f"ε = {words.epsilon(epsilon)}",
            *(f"{sign} = {value:g}" for sign, value in signs.items() if not math.isnan(value)),
        ]
    )
    right = (
        f"seed {cell.where[2]}: "
        + (f"{cell.right} of {cell.count} right" if cell.labels else many(cell.count, "answer"))
        for cell in seeds
    )
    labels = seeds[0].labels * any(answer.scores for cell in seeds for answer in cell.answers)
    kind = "text" if seeds[0].labels else "prose"
    head: list[AnyCell] = ["query", *(TableCell(name, mark=kind) for name in ("truth", "answer"))]
    head += [f"log p: {label}" for label in labels]
    rows = (_row(answer, cell, len(labels)) for cell in seeds for answer in cell.answers)
    return FoldedBlock(
        title,
        (TableBlock.of(title, head, rows), *map(_prompts_fold, seeds)),
        note=" · ".join(right),
        anchor=name,
    )


def _row(answer: QueryAnswer, cell: AnsweredCell, width: int) -> tuple[AnyCell, ...]:
    is_wrong = bool(cell.labels) and answer.truth != answer.answer
    return (
        f"seed {cell.where[2]}, query {answer.query + 1}",
        answer.truth,
        TableCell(answer.answer, note="wrong", mark="wrong") if is_wrong else answer.answer,
        *[*map(words.signed, answer.scores), *[words.DASH] * width][:width],
    )


def _prompts_fold(cell: AnsweredCell) -> FoldedBlock:
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
    for answer in cell.answers:
        blocks += [Paragraph(f"Query {answer.query + 1}:", "small"), Code(answer.prompt)]
    return FoldedBlock(
        f"{'Queries' if cell.is_query_alone else 'Prompts'}, seed {cell.where[2]}", tuple(blocks)
    )


MOST_GROUPS = 20


def answered(folder: Path, run: Run) -> pd.DataFrame:
    """A row per answer to a public query where two labels were scored: `method`, `dataset`, `seed`,
    those of a cell, `query`, `is_true` and `is_answered` (whether the second label is the truth,
    and was answered), and `label`, its name.
    """
    frames = []
    units = sorted((folder / "units").glob("*"))
    for unit in predictions(units, run.manifest.is_public):
        if len(unit.labels) != 2:
            continue
        label = unit.labels[1]
        method, dataset, seed = unit_of(unit.unit)
        places = {key: place_of(key) for key in unit.rows["cell"].unique()}
        cells = pd.DataFrame(
            [places[key] for key in unit.rows["cell"]],
            columns=["system", "epsilon", "shots", "rate"],
        )
        frames.append(
            cells.assign(
                query=unit.rows["query"],
                is_true=unit.rows["truth"] == label,
                is_answered=unit.rows["answer"] == label,
                method=method,
                dataset=dataset,
                seed=seed,
                label=label,
            )
        )
    return pd.concat(frames) if frames else pd.DataFrame()


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
                f"{many(own['query'].nunique(), 'query', 'queries')}"
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
        everywhere = own["epsilon"].isna()  # zero-shot: of every epsilon the same
        cells = (text(own[everywhere | (own["epsilon"] == epsilon)]) for epsilon in epsilons)
        rows.append(
            (row_label(str(system), float(str(shots)) or math.nan, math.nan, False), *cells)
        )
    return TableBlock.of(title, (title, *epsilon_heads(epsilons)), rows)


def _share(part: pd.DataFrame) -> str:
    if not len(part):
        return words.DASH
    of_true, of_false = (
        words.number(part.loc[part["is_true"] == truth, "is_answered"].mean(), 2)
        for truth in (True, False)
    )
    return f"{part['is_answered'].mean():.2f} ({of_true}, {of_false})"


def _right(part: pd.DataFrame) -> str:
    if not len(part):
        return words.DASH
    return (
        f"{(part['is_true'] == part['is_answered']).mean():.2f} ({part['is_answered'].mean():.2f})"
    )


@dataclass(frozen=True)
class ConstantAnswers:
    """A model, empty of the run's own, that gives all queries of a data set one label: with what a
    method released, or without demonstrations where there is none; the sentence that says so, and
    in how many cells of how many. The label is empty where only some cells have one.
    """

    dataset: str
    model: str
    method: str
    sentence: str
    constant_count: int
    cell_count: int
    label: str = ""


def constant_answers(cells: Sequence[LabelCounts]) -> Iterator[ConstantAnswers]:
    """One for every method and data set on which answers are constant, and for every data set
    without demonstrations, which come first.
    """
    datasets, models, methods = (
        list(dict.fromkeys(names))
        for names in (
            [cell.dataset for cell in cells],
            [asked_by(cell.place[0])[1] for cell in cells],
            ["", *(cell.method for cell in cells)],
        )
    )
    for dataset, model, method in product(datasets, models, methods):
        own = [
            cell
            for cell in cells
            for asked, by in [asked_by(cell.place[0])]
            if (cell.dataset, by) == (dataset, model)
            and (not method if asked == ZERO_SHOT.system else cell.method == method)
        ]
        own = own if method else own[:1]  # without demonstrations the same in every unit
        answering = f", {model}" if model else ""
        name = f"{words.method_name(method) if method else 'zero-shot'} on {dataset}{answering}"
        told, label, count = _constant(own)
        if told:
            yield ConstantAnswers(dataset, model, method, f"{name}: {told}", count, len(own), label)


def _constant(own: Sequence[LabelCounts]) -> tuple[str, str, int]:
    """What is said of cells of which all, or some, get one answer, empty where none does; that
    answer, where all do; and how many do.
    """
    given, truth = (
        sum((getattr(cell, counts) for cell in own), Counter[str]())
        for counts in ("given", "truth")
    )
    if (label := constant(given, truth)) is not None:
        return constant_sentence(given, label), label, len(own)
    found = [
        (cell, label) for cell in own if (label := constant(cell.given, cell.truth)) is not None
    ]
    if not found:
        return "", "", 0
    system, epsilon, shots, rate = found[0][0].place
    return (
        (
            f"in {len(found)} of {len(own)} cells all, or nearly all, answers are "
            f"one label; {row_label(system, shots, rate, True)}, ε = {words.epsilon(epsilon)}, "
            f"{constant_sentence(found[0][0].given, found[0][1])}"
        ),
        "",
        len(found),
    )


def one_answer(cells: Sequence[LabelCounts], main: str) -> str:
    """Which models give nearly all queries one answer in most cells with demonstrations, in a
    sentence, and where others do so; empty where none does.
    """
    by_model: dict[str, list[ConstantAnswers]] = {}
    for each in constant_answers(cells):
        by_model.setdefault(each.model, []).append(each)
    several = len({cell.dataset for cell in cells}) > 1
    most: list[str] = []
    others: dict[str, str] = {}
    for model, found in by_model.items():
        systems = [asked_by(cell.place[0]) for cell in cells]
        shown = sum(by == model and asked != ZERO_SHOT.system for asked, by in systems)
        count = sum(each.constant_count for each in found if each.method)
        bare = [each.dataset for each in found if not each.method]
        if 2 * count > shown or not shown:
            most.append(model or main)
            continue
        where = [_BARE + f" on {words.listing(bare)}" * several] * bool(bare)
        where += [f"in {count} of {shown} cells with demonstrations"] * bool(count)
        others[model or main] = " and ".join(where)
    sentences = []
    if most:
        verb = "gives" if len(most) == 1 else "give"
        sentences.append(f"{words.listing(most)} {verb} {_ALIKE}, whatever they say")
    for number, (model, places) in enumerate(others.items()):
        sentences.append(f"{model} {'does so' if most or number else f'gives {_ALIKE}'} {places}")
    return f"{'; '.join(sentences)}." if sentences else ""


def constants_in_short(found: Sequence[ConstantAnswers], main: str) -> str:
    """All of them in one sentence, which is that of a single one; empty where there is none."""
    if len(found) < 2:
        return "".join(each.sentence for each in found)
    several = len({each.dataset for each in found}) > 1
    by_model: dict[str, dict[str, list[str]]] = {}
    for each in found:
        place = words.method_name(each.method) if each.method else _BARE
        by_answer = by_model.setdefault(each.model or main or "the model", {})
        some = f"one in {each.constant_count} of {many(each.cell_count, 'cell')}"
        which = f"‘{each.label}’" if each.label else some
        by_answer.setdefault(which, []).append(f"{place} on {each.dataset}" if several else place)
    told = (
        f"{model} gives {_ALIKE}, whatever they say: "
        + ", ".join(f"{which} {_places(places)}" for which, places in by_answer.items())
        for model, by_answer in by_model.items()
    )
    return "; ".join(told)


_BARE, _ALIKE = "without demonstrations", "nearly all queries one answer"


def _places(places: Sequence[str]) -> str:
    """`without demonstrations and with AIM-TabICL and GDP-TabICL`."""
    bare = [place for place in places if place.startswith(_BARE)]
    methods = [place for place in places if not place.startswith(_BARE)]
    return " and ".join([*bare, *([f"with {words.listing(methods)}"] if methods else [])])


def mass_blocks(cells: Sequence[LabelCounts]) -> Iterator[Block]:
    """The mean over queries and seeds of what all labels together have of a model's probability;
    nothing where none has it.
    """
    by_row: dict[tuple[str, str, str], dict[float, list[float]]] = {}
    bare: dict[tuple[str, str], list[float]] = {}
    model_of: dict[tuple[str, str, str], str] = {}
    for cell in cells:
        system, epsilon, shots, rate = cell.place
        asked, model = asked_by(system)
        if asked == ZERO_SHOT.system:
            bare.setdefault((cell.dataset, model), []).append(cell.mass)
        elif not math.isnan(cell.mass):
            label = row_label(system, shots, rate, True)
            row = words.method_name(cell.method), cell.dataset, label
            by_row.setdefault(row, {}).setdefault(epsilon, []).append(cell.mass)
            model_of[row] = model
    for (dataset, model), masses in bare.items():
        if not any(dataset == row[1] for row in by_row) and not any(map(math.isnan, masses)):
            row = words.DASH, dataset, model or words.DASH
            by_row[row], model_of[row] = {}, model
    if not by_row:
        return
    epsilons = sorted({epsilon for means in by_row.values() for epsilon in means})
    yield Paragraph(
        "What the model gives to all labels together, before they are compared; the rest goes to "
        "other words. Near 1 it has learned the form of the answer, which demonstrations teach "
        "whatever they say; near 0 labels are compared by what little they have.",
        "small",
    )
    yield TableBlock.of(
        "Mean probability of all labels together",
        ("method", "data set", "answers", "zero-shot", *epsilon_heads(epsilons)),
        (
            (*row, *map(_mean, (bare.get((row[1], model_of[row])), *map(means.get, epsilons))))
            for row, means in by_row.items()
        ),
        texts=3,
    )


def _mean(masses: Sequence[float] | None) -> str:
    return words.number(math.fsum(masses) / len(masses) if masses else None)
