"""What the papers printed of what reports show: tables as data, slips included, and beside these
what is meant. dpicl-lab has the other tables.

Every CSV is one table of a paper, one row per cell. Accuracies are fractions, deviations are over
five runs.

DP-TabICL (arXiv 2403.05681). A column holds what is printed. Where the paper got a value wrong and
what is meant can be shown, that stands in a column of the same name with `_corrected`, which is
empty elsewhere. `errata.csv` says why.

DP few-shot generation (arXiv 2309.11765): accuracies of GPT-3 Babbage. The cells that tables 1,
2 and 4 share agree.

DP-ICL (arXiv 2305.01639): accuracies of GPT-3 under noisy votes (RNM-Gaussian), ROUGE, BLEU and
Levenshtein similarity of answers on DocVQA, and ROUGE of summaries of SAMSum; of 4-shot prompts, at
the epsilon that the paper states for all queries together. For sums of embeddings the paper counts
one changed exemplar as sensitivity 1; it is up to 2, and with the printed noise SAMSum costs
epsilon 5.3, 19.8 and 51.4 where 1, 3 and 8 stand. Aggregations: `votes`, `embedding`, `keywords`
(DocVQA; its way to choose them is not printed beside the numbers), and `few-shot` for real rows in
one prompt. The ROUGE of propose-test-release on SAMSum stands without an epsilon, and is left out.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from dpicl.ground.cache import checked
from dpicl.ground.errors import ParameterError

PaperModel = Literal["13b", "7b"]
ACCURACY_TABLES = {
    ("13b", "ldp_tabicl"): "II",
    ("13b", "gdp_tabicl"): "III",
    ("7b", "ldp_tabicl"): "XII",
    ("7b", "gdp_tabicl"): "XIII",
}
"""Which table of DP-TabICL holds the accuracies of a model and a method."""
_MECHANISMS = ("gaussian", "exponential")
_PRINTED_SYSTEM = {"lr-naive": "lr", "gnb-naive": "gnb"}


@dataclass(frozen=True)
class AmplifiedEpsilon:
    """One cell of Table V, as printed; `corrected` and `row_count_corrected` differ from that where
    the paper slipped.
    """

    dataset: str
    sample_count: int
    row_count: int
    row_count_corrected: int
    epsilon: float
    amplified_epsilon: float
    corrected: float

    @property
    def rate(self) -> Fraction:
        """n / N."""
        return Fraction(self.sample_count, self.row_count_corrected)


@dataclass(frozen=True)
class Erratum:
    """One slip of the paper. `dataset` is empty for a whole table, `corrected` where what is meant
    is not known.
    """

    table: str
    dataset: str
    cell: str
    printed: str
    corrected: str
    why: str


def read_table(name: str) -> Iterator[dict[str, str]]:
    """The rows of one packaged file, `table-V` for example, as text by column. Raises SourceError:
    its digest is another.
    """
    return csv.DictReader(
        checked("methods/published", Path(__file__).parent)
        .joinpath(f"{name}.csv")
        .read_text(encoding="utf-8")
        .splitlines()
    )


def paper_accuracy(
    model: PaperModel, method: str, dataset: str, system: str, shots: int | None, epsilon: float
) -> tuple[float, float] | None:
    """Mean and deviation that DP-TabICL prints for a cell, or None where it prints none.

    `system` is a result's: `icl` with its number of shots, or a baseline without. The paper has one
    row for each baseline, so `lr` and `lr-naive` find the same number. Llama-2 13B or 7B.
    Raises ParameterError: `model` is not one of the paper's.
    """
    if model not in ("13b", "7b"):
        raise ParameterError("model", model, "'13b' or '7b'")
    printed = _PRINTED_SYSTEM.get(system, system)
    tables = tuple(f"table-{table}" for table in ACCURACY_TABLES.values())
    cells = _accuracies(tables, ("model", "method", "dataset", "system"))
    return cells.get(
        (model, method, dataset, printed, shots if printed == "icl" else None, epsilon)
    )


@cache
def table_v() -> tuple[AmplifiedEpsilon, ...]:
    """Table V: epsilon after amplification by subsampling, three decimals."""
    cell, found = TypeAdapter(AmplifiedEpsilon), []
    for row in read_table("table-V"):
        rows, epsilon = (
            row.pop(f"{name}_corrected") or row[name] for name in ("row_count", "amplified_epsilon")
        )
        found.append(
            cell.validate_python({**row, "row_count_corrected": rows, "corrected": epsilon})
        )
    return tuple(found)


def published_rows(dataset: str) -> int | None:
    """How many rows of a set Table VI of DP-TabICL trains on, or None where it has no such set."""
    return next(
        (
            int(row["train_row_count"])
            for row in read_table("table-VI")
            if row["dataset"] == dataset
        ),
        None,
    )


@cache
def errata() -> tuple[Erratum, ...]:
    """The known slips of DP-TabICL, in the order of its tables."""
    return tuple(Erratum(**row) for row in read_table("errata"))


def few_shot_accuracy(
    dataset: str, system: str, shots: int | None, epsilon: float | None, mechanism: str = "gaussian"
) -> tuple[float, float] | None:
    """Mean and deviation that Tables 1, 2 and 4 print for a cell, or None where they print none.

    Systems: `icl` with generated demonstrations (epsilon 0: from the instruction alone; inf: sigma
    = 0), `random-rows` with private rows as they are (inf), and `zero-shot`, whatever the shots and
    epsilon. Table 1 prints the larger of the two at inf, and says which that is: `icl` on agnews,
    dbpedia, trec and mit_genre, but `random-rows` on mit_director. Raises ParameterError: the
    mechanism is not one of the paper's.
    """
    if mechanism not in _MECHANISMS:
        raise ParameterError("mechanism", mechanism, f"one of {', '.join(_MECHANISMS)}")
    if system == "zero-shot":
        shots = epsilon = None
    drawn = mechanism if system == "icl" and epsilon != 0 else ""
    cells = _accuracies(
        ("few-shot-table-1", "few-shot-table-2", "few-shot-table-4"),
        ("system", "mechanism", "dataset"),
    )
    return cells.get((system, drawn, dataset, shots, epsilon))


@cache
def _accuracies(
    tables: tuple[str, ...], columns: tuple[str, ...]
) -> dict[tuple[str | float | None, ...], tuple[float, float]]:
    """Mean and deviation by what these columns say, shots and epsilon, none where the cell is
    empty.
    """
    cells = {}
    for row in (row for table in tables for row in read_table(table)):
        shots, epsilon = (float(row[name]) if row[name] else None for name in ("shots", "epsilon"))
        cells[*(row[name] for name in columns), shots, epsilon] = (
            float(row["mean"]),
            float(row["std"]),
        )
    return cells


def ensemble_number(
    dataset: str, metric: str, aggregation: str, epsilon: float, model: str = "babbage"
) -> float | None:
    """What DP-ICL prints for a cell, or None where it prints nothing.

    Args:
        metric: a column of results, such as `accuracy` or `rouge1`.
        aggregation: how answers become one; at epsilon 0, zero-shot, there is none.
        epsilon: `inf` for no noise; both ways of DocVQA have one number there.
        model: `babbage` or `davinci`; the paper names one for labels, and written answers have one
            model only.
    """
    combined = aggregation if epsilon else ""
    found = _numbers().get((dataset, metric, model, combined, epsilon))
    return _numbers().get((dataset, metric, "", combined, epsilon)) if found is None else found


@cache
def _numbers() -> dict[tuple[str, str, str, str, float], float]:
    """Values by data set, metric, model (empty of written answers), aggregation and epsilon."""
    rows = (
        row
        for table in ("classification", "docvqa", "samsum")
        for row in read_table(f"dp-icl-{table}")
    )
    return {
        (
            row["dataset"],
            row["metric"],
            row["model"],
            row["aggregation"],
            float(row["epsilon"]),
        ): float(row["value"])
        for row in rows
    }
