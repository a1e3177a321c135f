"""What a report says of labels: that one is the answer to all queries, and how much of its
probability a model gives to all of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from dpicl.methods.common import ZERO_SHOT
from dpicl.pipeline import asked_by
from dpicl.report import words
from dpicl.report.blocks import Block, Cell, Table, Text
from dpicl.report.labelled import Labelled, constant, constant_sentence
from dpicl.report.tables import epsilon_heads, row_label


def constant_sentences(cells: Sequence[Labelled]) -> Iterator[str]:
    """One for every method and data set on which answers are constant, and for every data set
    without demonstrations.
    """
    for dataset in dict.fromkeys(one.dataset for one in cells):
        of_set = [(*asked_by(one.place[0]), one) for one in cells if one.dataset == dataset]
        named: dict[str, list[Labelled]] = {}
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


def _named(one: Labelled) -> str:
    system, epsilon, shots, rate = one.place
    return f"{row_label(system, shots, rate, True)}, ε = {words.epsilon(epsilon)},"


def mass_blocks(cells: Sequence[Labelled]) -> Iterator[Block]:
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
            *map(Cell, row),
            *(
                Cell(_mean(masses))
                for masses in (bare.get((row[1], model_of[row])), *map(means.get, epsilons))
            ),
        )
        for row, means in by_row.items()
    ]
    yield Text(
        "What the model gives to all labels together, before they are compared; the rest goes to "
        "other words. Near 1 it has learned the form of "
        "the answer, which demonstrations teach whatever they say; near 0 labels are compared by "
        "what little they have.",
        "small",
    )
    head = (
        *Cell.of_text("method", "data set", "answers"),
        Cell("zero-shot"),
        *epsilon_heads(epsilons),
    )
    yield Table("Mean probability of all labels together", head, tuple(rows))


def _mean(masses: Sequence[float] | None) -> str:
    return words.number(math.fsum(masses) / len(masses) if masses else None)
