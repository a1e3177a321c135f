"""What methods on rows of a table have in common: no language model sees the rows.

Guarantee   none spent: this is about programs, not about rows.

From `measured_cells` on: accuracy on held-out private rows: noisy counts of right answers, and of
the rows, as a release of its own.

Trust       Central: the curator asks a local model; only noisy counts leave.
Unit        One row; or one person, of whom at most m held-out rows are asked.
Neighbours  ADD_OR_REMOVE_ONE, or REPLACE_ONE as a removal and an addition.
Guarantee   epsilon-DP, delta = 0, for all cells of a unit together: what the contract's
            `split.evaluation_epsilon` says, shared equally by all counts.
Paper       Ghosh, Roughgarden and Sundararajan 2009, the geometric mechanism, by
            `mechanisms.noisy_count`.

    (1)  r_c = sum over the rows asked of [answer of cell c is right],   n the rows asked
    (2)  released = (r_1 + Z_1 ... r_C + Z_C, n + Z_0),   Z discrete Laplace of scale (C + 1) t /
         epsilon
    (3)  accuracy_c = clip((r_c + Z_c) / max(n + Z_0, 1), 0, 1)       post-processing

What a row is answered depends on the row and on what is released alone: every row is asked with the
same demonstrations (or the nearest to itself), and by itself, so that no other row's place or
length enters. One row more is one term more in every sum of (1); where at most N are asked it comes
for another one, and a count moves by one at most as well.

Symbols     C cells of the unit; t = 1, times 2 under replace-one, times m for persons; epsilon in
            nats.
Not covered the time that it takes, which tells about how many rows were asked; a model that keeps
what it is told; prompts, predictions and
            AUC, which are not released.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from dpicl.accounting.guarantee import Guarantee, compose_sequential
from dpicl.contract.models import Contract
from dpicl.contract.pipeline import Cell, Point, Unit
from dpicl.data.central.chosen_bins import NO_BINS, Bins
from dpicl.data.central.conditional import Weights
from dpicl.data.values import RowForm
from dpicl.ground.errors import ParameterError, PrivacyError, RunError
from dpicl.ground.randomness import Draws, Stream
from dpicl.ground.types import PrivateCodes, PrivateTable, QueryTable, ReleasedRows, Table
from dpicl.mechanisms import noisy_count
from dpicl.methods.base import ZERO_SHOT, CellTexts, Method, ShownRows, for_unit, times_of_row
from dpicl.methods.evaluation import Metrics
from dpicl.methods.tabular_answers import answered, averaged_cell

if TYPE_CHECKING:
    from dpicl.methods.collection import Collection
    from dpicl.methods.counted_horizon import CountedHorizon

Arrays = Mapping[str, np.ndarray]
Alternatives = Sequence[tuple[Mapping[str, str], int]]
"""Options, and how many shots."""
Drawn = TypeVar("Drawn")
"""What one release of a method is."""


@dataclass(frozen=True)
class Released(Generic[Drawn]):
    """What stands of a unit: its releases by cell, and rows that were derived from them."""

    draws: Mapping[Cell, Drawn]
    rows: Mapping[Cell, ReleasedRows] = field(default_factory=dict)


class TabularMethod(Method, Generic[Drawn], abstract=True):
    """A method on the rows of a table: no model sees them."""

    data = "table"
    model_reads_rows = False
    answers_queries = False
    prepare_stage: ClassVar[str | None] = None
    """What the stage is called in which `prepare` marks rows; None of methods that have none."""
    draw_stage: ClassVar[str]
    """What the stage is called that draws: the task's name on the orchestrator's pages."""
    derive_stage: ClassVar[str | None] = None
    """What the stage is called in which `rows` makes rows; None of methods whose draws
    demonstrate as they are, and have no `rows`.
    """
    smooths: ClassVar[bool] = False
    """Whether a release loses detail, so that a release of its rows loses less."""

    @property
    def answers(self) -> Any:
        """One of the contract's answers, by score."""
        from dpicl.methods import tabular_answers  # where no model is asked they are not needed

        return tabular_answers

    def prepare(
        self, train: PrivateTable, contract: Contract, point: Point[Any], draws: Draws
    ) -> np.ndarray:
        """Private marks of rows, shape (rows,), that `draw` gets again; charged before."""
        raise NotImplementedError

    @abstractmethod
    def draw(
        self,
        train: PrivateTable,
        contract: Contract,
        point: Point[Any],
        draws: Draws,
        marks: np.ndarray | None = None,
    ) -> Drawn:
        """One release: the only step that sees rows, in memory and charged before; `marks` are what
        `prepare` gave. What releases that are drawn together share is made by `train.once`.
        """

    def look(self, batch: PrivateTable, contract: Contract, draws: Draws) -> Arrays:
        """What `choose` needs of one batch of a table; private."""
        return {}

    def choose(
        self, looks: Sequence[Arrays], contract: Contract, point: Point[Any], draws: Draws
    ) -> Bins:
        """Bins that nobody states, from all batches of a table: a part of one release."""
        return {}

    def count(
        self, batch: PrivateTable, contract: Contract, point: Point[Any], draws: Draws
    ) -> Arrays:
        """What `merge` needs of one batch of a table, in the bins of this contract; private."""
        raise NotImplementedError

    def merge(
        self,
        batches: Sequence[Arrays],
        contract: Contract,
        point: Point[Any],
        draws: Draws,
        bins: Bins = NO_BINS,
    ) -> Drawn:
        """One release from all batches of a table, in order, that were counted in these chosen
        bins; draws the noise.
        """
        raise NotImplementedError

    def collection_options(self, contract: Contract, options: Any, words: Mapping[str, Any]) -> Any:
        """Its options where clients' reports are counted: how clients are asked is as these words
        say, `design`, `columns` and `about`; the estimator is the usual one where none is stated.
        Raises DpiclError: the options say otherwise, or no client answers so.
        """
        raise NotImplementedError

    def collection(
        self, contract: Contract, point: Point[Any], sending_epsilon: float | None
    ) -> Collection:
        """What clients were asked whose reports stand in the place of a release. Raises
        ParameterError: no client answers so.
        """
        raise NotImplementedError

    stated = (("draw_stage", str, "a text"),)
    kind = "TabularMethod"

    @classmethod
    def together(cls) -> tuple[tuple[str, bool, str], ...]:
        """See `Method`."""
        return (
            ("prepare", cls.prepare_stage is not None, "prepare_stage"),
            ("rows", cls.derive_stage is not None, "derive_stage"),
            ("form", cls.derive_stage is not None, "derive_stage"),
            ("baselines", cls.baselines_read != "none", "baselines_read"),
            ("count", cls.merge is not TabularMethod.merge, "merge"),
            ("collection", cls.takes_reports, "takes_reports"),
            ("collection_options", cls.takes_reports, "takes_reports"),
            *([("series", True, "makes_series")] if cls.makes_series else []),
        )

    @property
    def takes_batches(self) -> bool:
        """Whether tables that do not fit into memory are counted batch by batch."""
        return type(self).merge is not TabularMethod.merge

    def series(self, contract: Contract, point: Point[Any]) -> CountedHorizon[Any, Drawn]:
        """The horizon that a contract states, of methods that count it. Raises DpiclError: it has
        no such horizon, or the options say otherwise.
        """
        raise NotImplementedError

    def alternatives(self, contract: Contract) -> Alternatives:
        """Options to state for a release, and a number of demonstrations each, that are worth
        comparing before one is chosen.
        """
        return (({}, 4),)

    def column_errors(
        self, contract: Contract, point: Point[Any], rows: int
    ) -> Mapping[str, float]:
        """What noise alone does to each column of a release from so many rows, about: a share, of
        all rows or of a column's bounds. From public facts, in no time; nothing where it is not
        known beforehand.
        """
        return {}

    def label_deviation(self, contract: Contract, point: Point[Any], rows: int) -> float | None:
        """The deviation of the noise in one label's share of so many rows, about, labels as
        frequent as each other. From public facts, in no time; None where it is not known
        beforehand, as where labels are counted with other columns too.
        """
        return None

    @abstractmethod
    def encode(self, drawn: Drawn) -> bytes:
        """One release as it is published: JSON, or an array as `numpy.save` writes it."""

    @abstractmethod
    def decode(self, content: bytes, contract: Contract, point: Point[Any]) -> Drawn:
        """A release from its published bytes."""

    def rows(
        self,
        drawn: Drawn,
        contract: Contract,
        point: Point[Any],
        draws: Draws,
        count: int | None = None,
    ) -> ReleasedRows:
        """Rows like the population's, from one release: so many, or as many as `derive` makes; the
        same again for the same number.
        """
        raise NotImplementedError

    def rows_where(
        self,
        drawn: Drawn,
        contract: Contract,
        point: Point[Any],
        draws: Draws,
        count: int,
        where: Weights | None,
    ) -> ReleasedRows:
        """So many rows of those that meet a condition: exactly as they are in the released model,
        however rare they are. Raises ParameterError: the method has no model, or no row of it
        meets the condition.
        """
        raise no_model(self.name)

    def form(self, contract: Contract, point: Point[Any]) -> RowForm:
        """What the codes of these rows stand for, by a contract with the bins of their release."""
        raise NotImplementedError

    def bins(self, table: Table, contract: Contract) -> np.ndarray:
        """A table's rows as released ones are once these are decoded: shape (rows, columns), the
        label last.
        """
        raise NotImplementedError

    def chosen_bins(self, drawn: Drawn) -> Bins:
        """Bins of columns that are part of a release, as nobody states them."""
        return {}

    def row_count(self, drawn: Drawn) -> float:
        """How many rows there are, as far as a release says."""
        raise NotImplementedError

    def counted(self, drawn: Drawn, contract: Contract) -> Mapping[tuple[int, ...], np.ndarray]:
        """Shares of cells in the model that rows are drawn from, by the columns that were counted
        together; none where it has none.
        """
        return {}

    def has_pairs(self, drawn: Drawn) -> bool:
        """Whether it says what two columns have in common beside the label."""
        return True

    def least_errors(self, drawn: Drawn, point: Point[Any]) -> Mapping[int, float]:
        """By column, total variation below which its error is not, whatever releases simulated
        from this one show.
        """
        return {}

    def replicate(
        self,
        truth: PrivateCodes,
        row_count: int,
        drawn: Drawn,
        contract: Contract,
        point: Point[Any],
        draws: Draws,
    ) -> Drawn:
        """A release like this one, in the same bins, of made-up rows with codes of shape (rows,
        answers), that stand for `row_count` rows.
        """
        raise NotImplementedError

    @abstractmethod
    def examples(
        self, released: Released[Drawn], contract: Contract, unit: Unit, draws: Draws
    ) -> CellTexts:
        """Demonstrations of every in-context cell, as they stand in a prompt; looks at no query."""

    def longest_demonstration(self, contract: Contract, unit: Unit) -> str:
        """The longest demonstration that the contract allows: known before any row is read. Empty
        where it is not known.
        """
        return ""

    @abstractmethod
    def prompts(
        self,
        released: Released[Drawn],
        queries: QueryTable,
        contract: Contract,
        unit: Unit,
        draws: Draws,
    ) -> CellTexts:
        """One prompt per query and cell, and the zero-shot ones."""

    def prompts_in_turn(
        self,
        released: Released[Drawn],
        queries: QueryTable,
        contract: Contract,
        unit: Unit,
        draws: Draws,
    ) -> Iterator[tuple[Cell, list[str]]]:
        """The same, cell by cell: all of them may be more than memory holds."""
        yield from self.prompts(released, queries, contract, unit, draws).items()

    def baselines(
        self,
        released: Released[Drawn],
        train: PrivateTable | None,
        test: QueryTable,
        contract: Contract,
        unit: Unit,
        draws: Draws,
    ) -> dict[Cell, Metrics]:
        """Classifiers beside the model; `train` is given where `baselines_read` is `private`.
        Called by `fitted` alone.
        """
        raise NotImplementedError

    def fitted(
        self,
        released: Released[Drawn],
        rows: Callable[[], PrivateTable],
        test: QueryTable,
        contract: Contract,
        unit: Unit,
        draws: Draws,
    ) -> dict[Cell, Metrics]:
        """Baselines, where they are fitted: the only way in which rows reach them. `rows` reads
        these, and is called only for baselines that need them, never of a table that has a budget
        or protects persons. Raises PrivacyError: they are not fitted here.
        """
        if not (unit.baselines and self.fits_baselines(contract)):
            raise PrivacyError(
                self.without_baselines(contract)
                or f"{contract.name}: there are no baselines of {self.title} to fit"
            )
        train = rows() if self.baselines_read == "private" else None
        return self.baselines(released, train, test, contract, unit, draws)

    def shown(self, released: Released[Drawn], contract: Contract, unit: Unit) -> ShownRows:
        """What was released, as a table for people; its keys are columns."""
        return []


def no_model(method: str) -> ParameterError:
    """What a condition on rows is refused by, of a method without a model of them."""
    return ParameterError(
        "where",
        method,
        "a method with a graphical model of rows: aim_tabicl or mst_tabicl; of others draw a "
        "larger table and filter it",
    )


MECHANISM, VERSION = "evaluation", 1
"""What the ledger calls it; raised when the same parameters would give another release."""


def measured_cells(unit: Unit) -> list[Cell]:
    """The cells that are counted, whatever rows there are: public."""
    asked = (ZERO_SHOT, *unit.evaluated_cells)
    return list(dict.fromkeys(cell if cell.draw is None else averaged_cell(cell) for cell in asked))


def cost(contract: Contract, unit: Unit) -> Guarantee:
    """What the evaluation of a unit is charged, known before any row is read."""
    counts = len(measured_cells(unit)) + 1
    return for_unit(
        compose_sequential([noisy_count.guarantee(_each(contract, unit))] * counts), contract
    )


def right_counts(scores: Mapping[Cell, np.ndarray], truth: np.ndarray, unit: Unit) -> list[int]:
    """Equation (1): right answers of every measured cell, and the rows; private.
    Raises RunError: a cell lacks answers, which would be counted as wrong ones and published so.
    """
    answers = answered(scores) if len(truth) else {}
    if len(truth) and any(
        len(answers.get(cell, ())) != len(truth) for cell in measured_cells(unit)
    ):
        raise RunError(f"{unit.key}: answers to be counted are missing; resume the run")
    return [
        *(
            int((answers[cell] == truth).sum()) if cell in answers else 0
            for cell in measured_cells(unit)
        ),
        len(truth),
    ]


def released_counts(
    counts: Sequence[int], contract: Contract, unit: Unit, stream: Stream
) -> list[int]:
    """Equation (2): the only draw of noise."""
    return noisy_count.noisy_counts(
        counts,
        epsilon=_each(contract, unit) * len(counts),
        stream=stream,
        sensitivity=len(counts),
    )


def metrics_of(released: Sequence[int], unit: Unit) -> dict[Cell, Metrics]:
    """Equation (3) for every measured cell; nothing but accuracy is known."""
    *right, rows = released
    shares = (min(max(count / max(rows, 1), 0.0), 1.0) for count in right)
    return {
        cell: Metrics(max(rows, 0), share, None, None)
        for cell, share in zip(measured_cells(unit), shares, strict=True)
    }


def deviation(contract: Contract, unit: Unit) -> float:
    """Standard deviation of the noise of one count, in rows."""
    ratio = math.exp(-float(_each(contract, unit)))
    return math.sqrt(2 * ratio) / (1 - ratio)


def _each(contract: Contract, unit: Unit) -> Fraction:
    """Epsilon of one count for one row."""
    assert contract.split is not None and contract.split.evaluation_epsilon is not None
    counts = len(measured_cells(unit)) + 1
    return Fraction(contract.split.evaluation_epsilon) / (times_of_row(contract) * counts)
