"""What methods have in common that make rows of their releases: which of these demonstrate for
which query, what is fitted on them, and what a tabular in-context learner reads of them.

Guarantee   none spent: post-processing of released rows, and public queries.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar, get_args

import numpy as np

from dpicl.contract.declared import Declared
from dpicl.contract.models import Contract
from dpicl.contract.pipeline import Cell, Point, Unit
from dpicl.data.central.chosen_bins import VERSION, Bins, cells, chosen, share
from dpicl.data.central.exact_counts import row_bins
from dpicl.data.prompts import (
    MOST_SHOTS,
    SAME_FOR_ALL,
    central_queries,
    longest_demonstration,
    picked_rows,
    row_demonstrations,
)
from dpicl.data.reading.encode import UNKNOWN, label_numbers
from dpicl.data.reading.split import contributing_rows
from dpicl.data.related_rows import Raking, RelatedRows, drawn_rows
from dpicl.data.values import Meaning, RowForm, central_form
from dpicl.ground.errors import ModelRefusedError
from dpicl.ground.randomness import Draws
from dpicl.ground.types import LABEL, EncodedQueries, PrivateTable, QueryTable, Table
from dpicl.mechanisms.noisy_steps import StepBudget
from dpicl.methods.base import ZERO_SHOT, CellTexts, Method, ShownRows, draws_for, shots_of
from dpicl.methods.baselines import local_baselines
from dpicl.methods.evaluation import Metrics
from dpicl.methods.grid import fitted_on, points, released_by
from dpicl.methods.options import CentralOptions, LdpOptions, Sampling
from dpicl.methods.public_questions import check_scores
from dpicl.methods.tabular_answers import is_drawn
from dpicl.methods.tabular_method import Arrays, Drawn, Released, TabularMethod
from dpicl.models.asking import public_answer
from dpicl.models.requests import LabelledRows, TabularModel, prompt

SHOWN = ["prototype"]
"""How shots are selected where no pipeline says it: one draw at random may be the same row over and
over, or all of one label.
"""

_POOL = 1 << 16
"""Rows, at most, by which those that keep relations are chosen."""


@dataclass(frozen=True)
class Pool:
    """Codes of released rows, shape (rows, answers), what they stand for, and the contract with
    the bins of their release.
    """

    codes: np.ndarray
    form: RowForm
    contract: Contract
    kept: RelatedRows | None = None
    """Where the contract has relations: rows that keep them, which are those of `codes`."""

    def some(self, places: np.ndarray) -> Pool:
        """Those rows."""
        kept = None if self.kept is None else self.kept.some(places)
        return replace(self, codes=self.codes[places], kept=kept)

    @property
    def bins(self) -> np.ndarray:
        """Of the same rows, shape (rows, columns), the label last."""
        return self.form.encoding.decode(self.codes)


class RowMethod(TabularMethod[Drawn], Generic[Drawn], abstract=True):
    """A method that makes rows of its releases: any number of shots and queries for the price of
    one release.
    """

    baselines_read = "released"
    draws_shots = True
    options: ClassVar[type[LdpOptions | CentralOptions]]

    @abstractmethod
    def demonstrations(
        self, pool: Pool, places: np.ndarray, contract: Contract, chance: np.random.Generator
    ) -> list[str]:
        """How the rows at these places of a pool read as demonstrations, one each; each row the
        same at all its places, given `chance` as it is when it was just made.
        """

    @abstractmethod
    def query_texts(self, queries: QueryTable, contract: Contract) -> list[str]:
        """How queries read."""

    def handed_out(self, unit: Unit) -> str:
        """The system whose demonstrations suit any query: of the first rule that looks at none, or
        at random for more than a prompt takes.
        """
        rules = (f"icl-{rule}" for rule in unit.chosen(self.options).shot_selection)
        return next(
            (rule for rule in rules if rule in SAME_FOR_ALL and max(unit.shots) <= MOST_SHOTS),
            "icl",
        )

    def evaluated_cells(self, unit: Unit) -> Iterator[Cell]:
        """See `Method`; where shots are drawn several times, every further draw is a cell of its
        own.
        """
        for cell in super().evaluated_cells(unit):
            yield cell
            if is_drawn(cell):
                yield from (replace(cell, draw=number) for number in range(2, unit.draws + 1))

    def pools(self, released: Released[Drawn], contract: Contract, unit: Unit) -> dict[Cell, Pool]:
        """What demonstrates in every cell."""
        known = released.draws or released.rows
        of_releases = self._pools_of_releases(released, contract, unit)
        return {cell: of_releases[released_by(self, cell, known)] for cell in unit.evaluated_cells}

    def _pools_of_releases(
        self, released: Released[Drawn], contract: Contract, unit: Unit
    ) -> dict[Cell, Pool]:
        asked = points(self, unit)
        pools = {}
        for cell, rows in released.rows.items():
            drawn = released.draws.get(cell)
            own = contract if drawn is None else contract.with_bins(self.chosen_bins(drawn))
            pool = Pool(rows.codes, self.form(own, asked[cell]).seen(rows.codes), own)
            pools[cell] = self.related(pool, cell)
        return pools

    def related(self, pool: Pool, cell: Cell) -> Pool:
        """Of a pool the rows that keep the contract's relations, by numbers as demonstrations show
        them.
        """
        if not pool.contract.relations:
            return pool
        chance = draws_for(pool.contract, 0).public("related", cell.key).generator()

        def draw(size: int) -> np.ndarray:
            return pool.codes[chance.integers(len(pool.codes), size=size)]

        raking = Raking.of(pool.form, pool.contract, draw, chance, {}, largest=_POOL, shown=True)
        count = len(pool.codes)
        kept = drawn_rows(pool.form, pool.contract, count, draw, chance, raking=raking, shown=True)
        return replace(pool, codes=kept.codes, kept=kept)

    def examples(
        self, released: Released[Drawn], contract: Contract, unit: Unit, draws: Draws
    ) -> CellTexts:
        """The demonstrations of every in-context cell for one query: what `prompts` puts before its
        first one, without any.
        """
        examples = {}
        for cell, pool in self.pools(released, contract, unit).items():
            if cell.system in ("icl", *SAME_FOR_ALL) and cell.draw is None:
                bins = pool.bins
                picked = picked_rows(
                    bins, np.zeros((1, bins.shape[1]), dtype=np.int64), cell, draws
                )
                examples[cell] = self.texts(cell, pool, picked[0], contract, draws)
        return examples

    def texts(
        self, cell: Cell, pool: Pool, places: np.ndarray, contract: Contract, draws: Draws
    ) -> list[str]:
        """`demonstrations` of a cell: a row reads alike in all cells of a release, whatever the
        shots and the rule that chose it, but anew in each further draw.
        """
        source = replace(released_by(self, cell, ()), draw=cell.draw)
        distinct, which = np.unique(places, return_inverse=True)
        texts = self.demonstrations(
            pool, distinct, contract, draws.public("demonstrations", source.key).generator()
        )
        return [texts[place] for place in which.tolist()]

    def prompts(
        self,
        released: Released[Drawn],
        queries: QueryTable,
        contract: Contract,
        unit: Unit,
        draws: Draws,
    ) -> CellTexts:
        """See `prompts_in_turn`."""
        return dict(self.prompts_in_turn(released, queries, contract, unit, draws))

    def prompts_in_turn(
        self,
        released: Released[Drawn],
        queries: QueryTable,
        contract: Contract,
        unit: Unit,
        draws: Draws,
    ) -> Iterator[tuple[Cell, list[str]]]:
        """One prompt per query and cell, and the zero-shot ones.

        Where measuring is charged, or all queries share shots, every query gets the demonstrations
        that it would get if it were the only one: its place does not matter.
        """
        query_texts = self.query_texts(queries, contract)
        pools = self.pools(released, contract, unit)
        alone = contract.evaluation == "charged" or unit.options.same_shots

        def prompts_of(cell: Cell) -> list[str]:
            shots, pool = shots_of(cell), pools[cell]
            query_bins = self.bins(queries, pool.contract)
            picked = _picked(pool.bins, query_bins, cell, draws, alone=alone)
            texts = self.texts(cell, pool, picked.ravel(), contract, draws)
            return [
                prompt(texts[i * shots : (i + 1) * shots], query)
                for i, query in enumerate(query_texts)
            ]

        yield ZERO_SHOT, query_texts
        for cell in pools:
            yield cell, prompts_of(cell)

    def baselines(
        self,
        released: Released[Drawn],
        train: PrivateTable | None,
        test: QueryTable,
        contract: Contract,
        unit: Unit,
        draws: Draws,
    ) -> dict[Cell, Metrics]:
        """Classifiers of every release: fitted on its rows, at no further cost."""
        numbers = label_numbers(test, contract)
        return {
            fitted_on(self, cell, name): metrics
            for cell, pool in self._pools_of_releases(released, contract, unit).items()
            for name, metrics in local_baselines(
                released.rows[cell],
                pool.form.encoding,
                EncodedQueries(self.bins(test, pool.contract)),
                numbers,
            ).items()
        }

    def shown(self, released: Released[Drawn], contract: Contract, unit: Unit) -> ShownRows:
        """Share of every level among the rows of each release; nothing of a label that is none."""
        return [
            {
                "cell": cell.key,
                "attribute": name,
                "level": level,
                "share": round(float((bins[:, i] == level).mean()), 4),
            }
            for cell, pool in self._pools_of_releases(released, contract, unit).items()
            for bins, encoding in [(pool.bins, pool.form.encoding)]
            for i, (name, count) in enumerate(zip(encoding.names, encoding.bin_counts, strict=True))
            if count > 1 or name != LABEL
            for level in range(count)
        ]


def _picked(
    rows: np.ndarray, queries: np.ndarray, cell: Cell, draws: Draws, *, alone: bool
) -> np.ndarray:
    """`picked_rows`; `alone` each query's as if it were the only one."""
    if not alone:
        return picked_rows(rows, queries, cell, draws)
    # only the nearest rows depend on which query it is
    distinct = queries if cell.system == "icl-near" else queries[:1]
    each = [
        picked_rows(rows, distinct[place : place + 1], cell, draws)
        for place in range(len(distinct))
    ]
    none = np.empty((0, shots_of(cell)), dtype=np.int64)
    return np.resize(np.concatenate([none, *each]), (len(queries), shots_of(cell)))


class HasBins(Protocol):
    """A release in whose bins some are chosen."""

    @property
    def bins(self) -> Bins:
        """Their edges, by column."""


Binned = TypeVar("Binned", bound=HasBins)


class CentralRows(RowMethod[Binned], Generic[Binned], abstract=True):
    """Rows of bins, which read as queries do: a number is drawn inside its bin, for each released
    row once.
    """

    trust = "central"
    options: ClassVar[type[CentralOptions]]

    def systems(self, options: CentralOptions) -> tuple[str, ...]:
        """See `Method`."""
        return tuple(f"icl-{name}" for name in options.shot_selection)

    def default_options(
        self, contract: Contract, stated: Mapping[str, Any], epsilon: float
    ) -> dict[str, Any]:
        """Prototypes of each label in turn demonstrate."""
        return {"shot_selection": SHOWN}

    @abstractmethod
    def budget(self, contract: Contract, point: Point[Any]) -> StepBudget:
        """Of all steps of a release, for one row."""

    def left(self, contract: Contract, point: Point[Any]) -> StepBudget:
        """What is left of it when bins are chosen."""
        return self.budget(contract, point).times(1 - share(contract))

    def look(self, batch: PrivateTable, contract: Contract, draws: Draws) -> Arrays:
        """See `TabularMethod`."""
        if not share(contract):
            return {}
        return cells(batch, contract, contributing_rows(batch, contract, draws))

    def choose(
        self, looks: Sequence[Arrays], contract: Contract, point: Point[Any], draws: Draws
    ) -> Bins:
        """See `TabularMethod`."""
        if not share(contract):
            return {}
        counted = {
            name: np.sum([look[name] for look in looks], axis=0) for name in contract.open_numbers
        }
        part = self.budget(contract, point).times(share(contract))
        return chosen(counted, contract, part, draws.secret("bins", point.key))

    def choose_bins(
        self, train: PrivateTable, contract: Contract, point: Point[Any], draws: Draws
    ) -> Bins:
        """Of a whole table."""
        look = train.once("look", lambda: self.look(train, contract, draws))
        return self.choose([look], contract, point, draws)

    @staticmethod
    def with_bins(released: Any, bins: Bins) -> bytes:
        """What is published, as JSON: bins beside it where they were chosen."""
        return json.dumps(
            {"bins": bins, "drawn": released} if bins else released, allow_nan=False
        ).encode()

    @staticmethod
    def without_bins(content: bytes) -> tuple[Any, Bins]:
        """What `with_bins` was given."""
        stored = json.loads(content)
        if "bins" not in stored:
            return stored, {}
        return stored["drawn"], {name: tuple(edges) for name, edges in stored["bins"].items()}

    def bins_identity(self, contract: Contract) -> dict[str, object]:
        """What chosen bins are in a release's name."""
        return {"bins": VERSION} if share(contract) else {}

    def bins_statement(self, contract: Contract) -> str:
        """Which part of epsilon they take, in words."""
        if not (part := share(contract)):
            return ""
        columns = ", ".join(contract.open_numbers)
        return f" and the bins of {columns}, which {float(part):.0%} of the budget chooses,"

    def chosen_bins(self, drawn: Binned) -> Bins:
        """See `TabularMethod`."""
        bins: Bins = drawn.bins
        return bins

    def form(self, contract: Contract, point: Point[Any]) -> RowForm:
        """See `TabularMethod`."""
        return central_form(contract)

    def bins(self, table: Table, contract: Contract) -> np.ndarray:
        """See `TabularMethod`."""
        return row_bins(table, contract)

    def demonstrations(
        self, pool: Pool, places: np.ndarray, contract: Contract, chance: np.random.Generator
    ) -> list[str]:
        """See `RowMethod`."""
        if pool.kept is not None:
            rows = pool.kept.some(places)
            return row_demonstrations(rows.codes, rows.shares, pool.form, contract, rows.totals)
        shares = chance.random((len(pool.codes), pool.codes.shape[1] - 1))
        return row_demonstrations(pool.codes[places], shares[places], pool.form, contract)

    def longest_demonstration(self, contract: Contract, unit: Unit) -> str:
        """See `TabularMethod`."""
        return longest_demonstration(contract)

    def query_texts(self, queries: QueryTable, contract: Contract) -> list[str]:
        """See `RowMethod`."""
        return central_queries(queries, contract)


ROW_CONTEXTS_SHOWN = 4
"""Rows of each context that a report gives as examples, in words."""
_PROBED, _ROWS_OF_EACH_ANSWER = 3, 4
_SAME_ROWS = {f"icl-{rule}" for rule in get_args(Sampling)}
"""Systems that show rows of another one's releases in another way."""


def in_context_unit(unit: Unit, rows: int) -> Unit:
    """The unit as a tabular model answers it that reads so many rows at most: one cell of each
    release.
    """
    own = replace(unit, shots=(rows,), draws=1)
    systems = [system for system in unit.systems if system not in _SAME_ROWS]
    return replace(
        own, evaluated_cells=tuple(cell for system in systems for cell in own.cells(system))
    )


def check_rows(method: Method, contract: Declared, model: str) -> None:
    """Refuse what a tabular model cannot answer, before any row is read.

    Raises:
        ModelRefusedError: the method releases no rows, or what is asked for needs words, or queries
            that are answered one by one.
    """
    if not isinstance(method, RowMethod):
        why = f"{method.title} releases none; expected a method that releases rows"
    elif contract.evaluation == "charged":
        why = "`split.evaluation_epsilon` asks it private rows one by one; expected public rows to "
        why += "ask, `queries`"
    else:
        return
    raise ModelRefusedError(
        f"{contract.name}: model {model!r} is of kind tabular, which reads released rows, and "
        f"{why}, or a language model"
    )


def row_method(method: Method) -> RowMethod[Any]:
    """A method that `check_rows` has let pass."""
    assert isinstance(method, RowMethod)
    return method


def contexts(
    method: RowMethod[Any], released: Released[Any], contract: Contract, unit: Unit, draws: Draws
) -> dict[Cell, Pool]:
    """Rows in context of every cell."""
    chosen = {}
    for cell, pool in method.pools(released, contract, unit).items():
        count = len(pool.codes)
        most = shots_of(cell)
        chance = draws.public("context", cell.key).generator()
        places = (
            np.sort(chance.choice(count, most, replace=False)) if count > most else np.arange(count)
        )
        chosen[cell] = pool.some(places)
    return chosen


def answered_rows(
    model: TabularModel,
    shown: Mapping[Cell, Pool],
    method: RowMethod[Any],
    queries: QueryTable,
    contract: Contract,
) -> Iterator[tuple[Cell, np.ndarray]]:
    """By cell the log-probability of every answer to every query: shape (queries, answers).

    Args:
        shown: of each cell the rows in context.
    """
    for cell, pool in shown.items():
        asked = method.bins(queries, pool.contract)
        yield cell, _ask(model, pool.bins, asked, pool.form.features, contract)


def in_words(
    method: RowMethod[Any],
    released: Released[Any],
    queries: QueryTable | None,
    contract: Contract,
    unit: Unit,
    draws: Draws,
) -> tuple[CellTexts, CellTexts]:
    """For people, who read words: a few rows of each context, and what every query asks, by cell;
    no model is shown either.
    """
    shown = contexts(method, released, contract, unit, draws)
    examples = {
        cell: method.texts(
            cell, pool, np.arange(len(pool.codes))[:ROW_CONTEXTS_SHOWN], contract, draws
        )
        for cell, pool in shown.items()
    }
    return examples, {} if queries is None else dict.fromkeys(
        shown, method.query_texts(queries, contract)
    )


def check_model(
    model: TabularModel, method: RowMethod[Any], contract: Contract, unit: Unit, *, tolerance: float
) -> None:
    """Ask about made-up rows of the contract's bins and all of its answers.

    Raises:
        ModelError: the model does not answer, or lets one query move the answer to another.
    """
    form = method.form(contract, next(iter(points(method, unit).values())))
    counts = np.array([*(column.count for column in form.features), contract.target.count])
    rows = np.arange(_ROWS_OF_EACH_ANSWER * counts[-1])[:, np.newaxis]
    bins = (rows + rows // counts[-1] * np.arange(len(counts))[::-1]) % counts

    def ask(asked: np.ndarray) -> np.ndarray:
        return public_answer(
            model.description.name, lambda: _ask(model, bins, asked, form.features, contract)
        )

    asked = bins[:_PROBED]
    check_scores(
        model.description,
        np.concatenate([ask(asked[[place]]) for place in range(len(asked))]),
        ask(asked),
        tolerance=tolerance,
    )


def _ask(
    model: TabularModel,
    rows: np.ndarray,
    asked: np.ndarray,
    features: Sequence[Meaning],
    contract: Contract,
) -> np.ndarray:
    """Of bins, shape (rows, columns), label last; that of the queries is not looked at."""
    categorical = [place for place, column in enumerate(features) if column.categories]
    context = LabelledRows(_values(rows, features), rows[:, -1].astype(np.int64), categorical)
    return model.log_probabilities(context, _values(asked, features), contract.target.count)


def _values(bins: np.ndarray, features: Sequence[Meaning]) -> np.ndarray:
    missing = np.array(
        [
            column.count - 1 if column.nullable and not column.categories else UNKNOWN
            for column in features
        ]
    )
    codes = bins[:, :-1].astype(np.int64)
    return np.where((codes == missing) | (codes == UNKNOWN), np.nan, codes)
