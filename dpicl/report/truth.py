"""A release of a benchmark beside its true rows, which are public: what a classifier learns from
either, shares of the columns, and some rows of both.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpicl.ground.installed import extra_missing
from dpicl.quality.shown import Truth, Worth
from dpicl.report import words
from dpicl.report.blocks import Block, Figure, Paragraph, TableBlock
from dpicl.report.cells import place_of
from dpicl.report.columns import columns_svg
from dpicl.report.load import ReleasedWorth, Run

_AUC = (
    "AUC is how often a classifier puts two rows with different answers into the right order: 0.5 "
    "is guessing, 1 is always."
)


def known_truth(run: Run) -> Iterator[tuple[ReleasedWorth, str, Worth, Truth]]:
    """Releases with true rows beside them, by unit and key."""
    for unit in run.worth:
        for key, released in unit.cells.items():
            if released.truth is not None:
                yield unit, key, released, released.truth


def truth_sentence(run: Run) -> str:
    """What a release achieves, beside true rows and no data; empty where no truth is known."""
    for unit, key, _, truth in known_truth(run):
        epsilon = words.epsilon(place_of(key)[1])
        released, true = (words.number(fit.auc, 2) for fit in (truth.on_released, truth.on_true))
        return (
            f"{words.method_name(unit.method)} released rows of {unit.dataset} at ε = {epsilon}. "
            f"Logistic regression fitted on them has AUC {released} on {truth.held_out} held-out "
            f"rows; fitted on the true rows {true}, without any data 0.50."
        )
    return ""


def truth_blocks(run: Run) -> Iterator[Block]:
    """The same in numbers, as a picture, and as rows."""
    for unit, key, released, truth in known_truth(run):
        title = f"Logistic regression, asked about {truth.held_out} held-out rows"
        heads = ("fitted on", "AUC", "accuracy")
        yield TableBlock.of(title, heads, _fits(run, unit, truth))
        yield Paragraph(_AUC, "small")
        epsilon = words.epsilon(place_of(key)[1])
        if not extra_missing("matplotlib"):
            caption = (
                f"Bars: shares of rows that {words.method_name(unit.method)} released at "
                f"ε = {epsilon}. Lines: of the true rows."
            )
            wide, narrow = (columns_svg(released.columns, most) for most in (3, 1))
            yield Figure("Released columns beside true ones", wide, caption, narrow)
        columns = list(released.rows[0])  # of all columns, a method may release some
        both = {f"released, ε = {epsilon}": released.rows, "true": truth.rows}
        yield TableBlock.of(
            "Some rows",
            ("row", *columns),
            (
                (name, *(row[column] for column in columns))
                for name, rows in both.items()
                for row in rows
            ),
        )


def _fits(run: Run, unit: ReleasedWorth, truth: Truth) -> Iterator[tuple[str, ...]]:
    """Fitted on true rows, on releases from the largest epsilon down, and on nothing."""
    yield "true rows, without privacy", *_numbers(truth.on_true.auc, truth.on_true.accuracy)
    fits = run.results[
        (run.results["method"] == unit.method)
        & (run.results["dataset"] == unit.dataset)
        & (run.results["system"] == "lr")
    ]
    means = fits.groupby("epsilon")[["auc", "accuracy"]].mean().sort_index(ascending=False)
    for epsilon, auc, accuracy in means.itertuples(name=None):
        yield f"rows released at ε = {words.epsilon(epsilon)}", *_numbers(auc, accuracy)
    majority = run.manifest.majority.get(unit.dataset)
    yield "no rows: always the most frequent answer", *_numbers(0.5, majority)


def _numbers(*values: float | None) -> tuple[str, ...]:
    return tuple(words.number(value) for value in values)
