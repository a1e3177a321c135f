"""What is known to differ between a printed number and ours, as far as it bears on that number;
none of it is tested as a cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from dpicl.contract.declared import Declared
from dpicl.contract.text import TextContract
from dpicl.methods.few_shot_generation import FewShotGeneration
from lab.compare.sides import Side
from lab.published import read_table
from lab.published.cells import FITTED, PrintedCell
from lab.published.noise_cells import table_nine
from lab.reproduce.made import Made, Measured


def known_differences(
    cell: PrintedCell, side: Side, made: Made, ours: Measured | None = None
) -> tuple[str, ...]:
    """Sentences without a capital, in the order of how much they change; `ours` of a mean."""
    return tuple(dict.fromkeys(_differences(cell, side, made, ours)))


def _differences(cell: PrintedCell, side: Side, made: Made, ours: Measured | None) -> Iterator[str]:
    contract = made.contracts.get(made.here(cell).dataset)
    if contract is not None and contract.source.stands_in:
        yield f"{contract.name} stands in"  # the table's first lines say for what
    if cell.metric == "queries":
        if side.plan.pipeline.queries is not None:
            yield f"at most {side.plan.pipeline.queries} queries were asked"
        return
    if asks_model(cell) and (model := another_model(cell, side)):
        yield model
    if (
        asks_model(cell)
        and ours is not None
        and (fewer := _fewer_queries(cell, side, contract, ours))
    ):
        yield fewer
    if _reads_texts(cell) and (size := _size(cell, contract)):
        yield size
    if (
        _is_generated(cell)
        and (tokens := getattr(side.plan.pipeline.options, FewShotGeneration.name).max_tokens)
        is not None
    ):
        yield f"demonstrations have at most {tokens} tokens"
    if cell.changed:
        yield cell.changed
    if ours is not None and len(cell.larger_of) > 1:
        yield (
            f"the larger of two is {'σ = 0' if ours.system == 'icl' else 'real rows at random'} "
            f"here" + ("" if ours.system == cell.system else ", and the other one in the paper")
        )


def asks_model(cell: PrintedCell) -> bool:
    """Whether a language model answers: not of a classifier, nor of a count."""
    return cell.system not in FITTED and cell.metric != "queries"


def another_model(cell: PrintedCell, side: Side) -> str:
    """Who answered in place of the paper's model; empty where that one did."""
    model = side.run.manifest.model
    named = model.name if model is not None else side.plan.model.name
    last = PurePath(named).name.lower().partition("@")[0].removesuffix("-hf")
    if not cell.model or cell.model.lower().replace(" ", "-") == last:
        return ""
    weights = "" if model is None or model.trained else ", whose weights are random,"
    return f"{named}{weights} answered in place of {cell.model}"


def _reads_texts(cell: PrintedCell) -> bool:
    """Whether private rows have a part in the answer: none is shown where there are no
    demonstrations, or only an instruction wrote them.
    """
    return cell.system != "zero-shot" and cell.epsilon != 0


def _is_generated(cell: PrintedCell) -> bool:
    """Whether a model wrote the demonstrations."""
    return cell.method == FewShotGeneration.name and cell.system.startswith("icl")


def _fewer_queries(cell: PrintedCell, side: Side, contract: Declared | None, ours: Measured) -> str:
    """Where a run was told to ask fewer than the paper, or, of texts, than the contract."""
    printed = {row["dataset"]: int(row["query_count"]) for row in read_table("table-VI")}.get(
        cell.dataset
    )
    usual = contract.query_count if isinstance(contract, TextContract) else printed
    if side.plan.pipeline.queries is None or (usual is not None and ours.queries >= usual):
        return ""
    return f"{ours.queries:g} queries were asked" + ("" if usual is None else f" and not {usual:,}")


def _size(cell: PrintedCell, contract: Declared | None) -> str:
    """Where fewer private texts are at hand than the paper had."""
    if not isinstance(contract, TextContract):
        return ""
    printed = {row.dataset: row.class_row_count for row in table_nine()}.get(cell.dataset)
    here = min(contract.row_bounds.values())
    return (
        f"{here:,} texts of a label are at hand and not {printed:,}"
        if printed and here < 0.9 * printed
        else ""
    )
