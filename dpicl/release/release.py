"""One release of a table, and all that can be made of it.

    release = dpicl.protect("customers", epsilon=1)
    release.table(10_000)        a pandas DataFrame
    release.table(500, where={"city": "north", "age": (18, 30)})
    release.demonstrations(8)    .text(), .chat(), .alpaca(), ...
    release.predictor()          a scikit-learn classifier or regressor
    release.quality()            expected errors, and what a classifier is worth

Guarantee   none spent: everything here is post-processing of what was charged, drawn and published,
            by public streams.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from html import escape
from operator import index, methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from dpicl.contract.declared import Declared
from dpicl.contract.load import contract_digest
from dpicl.contract.models import Contract
from dpicl.contract.persons import person_rows
from dpicl.contract.rules import label_bins
from dpicl.data.conditions import Condition, Where, conditional_form, warn_of_whole_groups
from dpicl.data.related_rows import Raking, aims_of, drawn_rows, summed
from dpicl.data.ruled_out import check_can_be_met
from dpicl.data.values import RowForm, central_form
from dpicl.ground.docstrings import with_arguments_of
from dpicl.ground.errors import ParameterError
from dpicl.ground.files import finite
from dpicl.ground.nouns import many
from dpicl.ground.progress import progress
from dpicl.ground.randomness import Draws
from dpicl.ground.typed_calls import typed_calls
from dpicl.ground.types import MADE_ROWS, ReleasedRows
from dpicl.ground.warned import warn
from dpicl.methods import METHODS, tabular, unit_of
from dpicl.methods.base import CellCost, draws_for
from dpicl.methods.grid import points
from dpicl.methods.tabular_method import Released, TabularMethod, no_model
from dpicl.release.demonstrations import Demonstrations
from dpicl.release.one_release import PublishedRelease

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dpicl.quality import Quality
    from dpicl.quality.worth import ReleasePoint
    from dpicl.release.certificate import Certificate
    from dpicl.release.frame import ReleasedTable

ROWS = 10_000
"""Of a table, where no number is given and none is publicly stated."""
MOST_ROWS = 10_000_000
TABLE_FORMS = ("parquet", "csv")
_FEWEST = 4
_SHOWN = 5
_COUNTED = (
    "Every row reports on its own, so that anybody can count the rows: their number is not "
    "protected."
)
_SIMULATED = (
    "Its contract is a public benchmark: the noise is seeded, and anyone with the seed can remove "
    "it. Not a release."
)
_HELD_OUT = "Rows that the contract's split holds out were not used."


@typed_calls
@dataclass(frozen=True, repr=False)
class Release:
    """A release that was charged once, and all that can be made of it."""

    published: PublishedRelease

    @property
    def dataset(self) -> str:
        """The name of the contract."""
        return self.contract.name

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.published.planned.method

    @property
    def epsilon(self) -> float:
        """As it was asked for, in nats."""
        return self.published.planned.point.epsilon

    @property
    def contract(self) -> Any:
        """What is publicly known of the rows: a Contract, or of texts a TextContract."""
        return self.published.planned.contract

    @property
    def statement(self) -> str:
        """The guarantee as a sentence."""
        return METHODS[self.method].statement(
            self.contract, self.published.planned.point, self.cost
        )

    @property
    def cost(self) -> CellCost:
        """What was charged."""
        return METHODS[self.method].cost(self.contract, self.published.planned.point)

    @property
    def spent(self) -> tuple[str, ...]:
        """What this release cost its account, and what is spent of it in all."""
        return self.published.spent

    @property
    def worth(self) -> tuple[str, ...]:
        """What it is worth, in a sentence: by what noise does to as many rows as it says there are.
        Nothing of what is not known by that: `quality()` says more. Then the questions of
        `caveats` about bounds.
        """
        from dpicl.quality.worth import quality_by_noise

        method, contract = METHODS[self.method], self.contract
        if not isinstance(method, TabularMethod) or method.is_series(contract):
            return ()
        drawn = self.published.drawn
        rows = round(method.row_count(drawn)) if method.derive_stage else contract.population
        quality = quality_by_noise(self._point.of_release(drawn), rows)
        known = (f"{method.title} {quality.worth}.",) if quality.noise else ()
        return (*known, *self.doubted_bounds)

    @cached_property
    def doubted_bounds(self) -> tuple[str, ...]:
        """Questions about bounds that most released rows lie at; none of averages and texts."""
        method = METHODS[self.method]
        if not isinstance(method, TabularMethod) or method.derive_stage is None:
            return ()
        from dpicl.quality.bounds import doubted_bounds

        form = self._form.seen((self._given if self._can_keep else self._usual).codes)
        return tuple(doubted_bounds(form, self.contract).values())

    @property
    def _can_keep(self) -> bool:
        return not self.contract.relations or len(self._raking.pool.codes) > 0

    @property
    def caveats(self) -> tuple[str, ...]:
        """What to keep in mind."""
        benchmark = self.contract.is_benchmark
        local = METHODS[self.method].trust == "local"
        said = (
            (_SIMULATED, benchmark),
            (_COUNTED, local and not benchmark),
            (_HELD_OUT, getattr(self.contract, "split", None)),
        )
        kept = (sentence for sentence, applies in said if applies)
        of_persons = person_rows(self.contract, is_local=local)
        of_label = label_bins(self.contract) if isinstance(self.contract, Contract) else ""
        return (*self.doubted_bounds, *filter(None, [of_label, of_persons, self._left_out]), *kept)

    @property
    def _left_out(self) -> str:
        """What the contract's relations do to the rows of the model, in a sentence."""
        if not isinstance(self.contract, Contract) or not self.contract.relations:
            return ""
        method = METHODS[self.method]
        if not isinstance(method, TabularMethod) or method.derive_stage is None:
            return ""
        if not self._can_keep:
            return "No row of the release keeps the contract's `relations`: rows are refused."
        from dpicl.quality.modelled import left_out

        return left_out(self.contract, self._form, self._usual, self._given, self._raking)

    @property
    def certificate(self) -> Certificate:
        """What was promised, to whom and under which assumptions, signed: `.to_json()`,
        `.to_page()`.
        """
        from dpicl.release.certificate_issue import certify

        release = self.published
        return certify(
            self.contract, self.method, release.planned.point, release.settings, release.facts
        )

    def write(
        self, path: Path, form: str, count: int | None = None, where: Where | None = None
    ) -> str:
        """A file of rows or demonstrations, and its certificate beside it; never over another file.
        Gives what is in it, in words.

        Args:
            form: `csv` or `parquet`, of a table; else one of `demonstrations.FORMS`.
            count: of rows or demonstrations, as `arrow` and `demonstrations` take it.
            where: of rows, as `arrow` takes it.

        Raises:
            ParameterError: another file stands there, or the method releases nothing of this form.
        """
        if form in TABLE_FORMS:
            table = self.arrow(count, where)
            rows, columns = many(table.num_rows, "row"), many(table.num_columns, "column")
            what = f"{rows} of {columns}{self.contract.formula_warning if form == 'csv' else ''}"
            if form == "parquet":
                write: Callable[[BinaryIO], object] = partial(
                    pq.write_table, table, compression="zstd"
                )
            else:
                write = partial(
                    pa_csv.write_csv,
                    table,
                    write_options=pa_csv.WriteOptions(quoting_style="needed"),
                )
        else:
            shown = self.demonstrations(count)
            write = methodcaller("write", f"{shown.in_form(form)}\n".encode())
            what = many(len(shown), "demonstration")
        self._publish(path, write, self._condition(where))
        return what

    def _publish(
        self, path: Path, write: Callable[[BinaryIO], object], condition: str | None
    ) -> None:
        from dpicl.release.certificate_files import write_certified

        settings = self.published.settings
        write_certified(path, write, self.certificate, settings, condition)

    def _condition(self, where: Where | None) -> str | None:
        """In words what rows meet, as `arrow` takes it; None where nothing is asked."""
        return conditional_form(self._form, where).words if where else None

    def card(self, path: str | Path) -> None:
        """README.md, a dataset card of Hugging Face, and croissant.json beside a file that this
        release wrote. Raises DpiclError: it did not, or other files stand there.
        """
        from dpicl.release.card import write_card  # only where one is wanted

        write_card(self, Path(path))

    def arrow(self, n: int | None = None, where: Where | None = None) -> pa.Table:
        """Rows of the released model, in the contract's columns and types; the same again for the
        same number and condition.

        Args:
            n: number of rows; None is the contract's `population`, or else 10,000.
            where: by column what all of them have: a value, a list of values, or of numbers and
                dates a tuple of the least and the largest. None stands for a missing value.
                `{"city": "north", "age": (18, 30)}`

        Raises:
            ParameterError: it is no positive number, the method releases no rows, or the condition
                is met by none.
        """
        check_has_rows(self.method)
        count = whole("n", (self.contract.population or ROWS) if n is None else n)
        point = self.published.planned.point
        form = self._form.seen(self._usual.codes)
        condition: Condition | None = None
        draws = self._draws
        if where:
            warn_of_whole_groups(form, where)
            condition = conditional_form(form, where, summed(form, self.contract))
            check_can_be_met(self.contract, condition)
            form, draws = condition.form, draws.of_rows_where(condition.name)
        chance = draws.public("where" if where else "table", f"{point.key},{count}").generator()

        def draw(size: int) -> np.ndarray:
            if condition is not None:
                drawn, method = self.published.drawn, tabular(self.method)
                place = drawn, self.contract, point, draws
                return method.rows_where(*place, size, condition.weights).codes
            codes = self._made(size)
            return codes[chance.permutation(len(codes))[:size]]

        if not self.contract.relations:
            return form.table(draw(count), self.contract, chance)
        rows = drawn_rows(
            form, self.contract, count, draw, chance, raking=self._raking, condition=condition
        )
        return form.table(rows.codes, self.contract, chance, rows.shares, rows.totals)

    @with_arguments_of(arrow)
    def table(self, n: int | None = None, where: Where | None = None) -> ReleasedTable:
        """Rows of the released model as a pandas DataFrame with `.to_arrow()` and `.to_polars()`,
        whose files come with a certificate. The number and condition are those of `arrow`.
        """
        from dpicl.release.frame import ReleasedTable

        return ReleasedTable.of(self, self.arrow(n, where), where)

    def demonstrations(self, k: int | None = None) -> Demonstrations:
        """So many demonstrations; None is as many as the release was asked for.

        Raises:
            ParameterError: it is no positive number, or the method releases another number of them.
        """
        release = self.published
        method = tabular(self.method)
        point = release.planned.point
        k = whole("k", release.planned.shots if k is None else k)
        if point.shots not in (None, k):
            raise ParameterError(
                "k",
                k,
                f"{point.shots}: {method.title} releases groups for one number of demonstrations",
            )
        grid = ((point.epsilon,), (k,), ())
        options = release.planned.options
        shown = unit_of(self.method, self.dataset, point.seed, *grid, False, options)
        (cell,) = points(method, shown)
        has_rows = method.derive_stage is not None
        rows = {cell: self._rows(k if k > len(self._usual.codes) else None)} if has_rows else {}
        examples = method.examples(
            Released({cell: release.drawn}, rows), self.contract, shown, self._draws
        )
        system = method.handed_out(shown)
        (texts,) = (texts for shown_cell, texts in examples.items() if shown_cell.system == system)
        target = self.contract.target
        question = f"{target.question} {target.cue}".strip()
        # the longest first: one may end with another
        answers = sorted(target.answers, key=len, reverse=True)

        def pair(text: str) -> tuple[str, str]:
            if not target.cue:
                return text, ""
            said = next(answer for answer in answers if text.endswith(f"{target.cue} {answer}"))
            return text.removesuffix(f" {said}"), said

        return Demonstrations(tuple(map(pair, texts)), question, self._origin)

    def predictor(self) -> Any:
        """A scikit-learn pipeline fitted on released rows only: it takes a DataFrame of the
        contract's columns and predicts the label. Where it is not surely better than the mean of a
        number, or than the most frequent label, a warning says so.

        Raises:
            ParameterError: the method releases no rows.
        """
        from threadpoolctl import threadpool_limits

        from dpicl.quality.replicates import beats_constant
        from dpicl.release.predictor import fitted

        drawn = self.published.drawn
        with progress(f"{self.dataset}: fitting", "simulations") as update, threadpool_limits(1):
            rows = self._given
            is_sure = beats_constant(self._point, drawn, update)
            count = tabular(self.method).row_count(drawn)
            predictor = fitted(rows, self._form, self.contract, count, is_sure=is_sure)
        if not is_sure:
            instead = "the mean" if self.contract.target.kind == "number" else "one answer to all"
            warn(
                f"{self.dataset}: nothing in the release shows that what it predicts is better "
                f"than {instead}; expected a larger epsilon or more rows, or columns that say more"
            )
        return predictor

    @cached_property
    def _qualities(self) -> dict[int, Quality]:
        """By the number of simulations: pages of one release say the same."""
        return {}

    def quality(self, simulations: int = 20) -> Quality:
        """How good the release is, from what was released alone: errors of marginals, a
        classifier's score; true values beside on benchmarks.

        Args:
            simulations: of the release, on rows of its own model; fewer are faster, with wider
                intervals. At least 4.

        Raises:
            ParameterError: there are fewer, or the release is of texts, or of a horizon.
        """
        check_has_quality(self.contract, self.method)
        if not isinstance(METHODS[self.method], TabularMethod):
            check_has_rows(self.method)
        from threadpoolctl import threadpool_limits

        from dpicl.data.reading.source import load_source
        from dpicl.data.reading.split import split_table
        from dpicl.home.benchmarks import check_published, content_digest
        from dpicl.quality.replicates import quality_of

        simulations = whole("simulations", simulations, _FEWEST, None)
        if simulations in self._qualities:
            return self._qualities[simulations]
        settings = self.published.settings
        test = None
        if self.contract.is_benchmark and self.contract.split:
            rows = load_source(self.contract, **settings.folders)
            check_published(self.contract, partial(content_digest, self.contract, rows), settings)
            test = split_table(rows, self.contract)
        # matrices are small: more threads take four times the processor's time
        doing = f"{self.dataset}: how good the release is"
        with progress(doing, "simulations") as update, threadpool_limits(1):
            found = quality_of(
                self._point, self.published.drawn, test=test, count=simulations, progress=update
            )
        return self._qualities.setdefault(simulations, found)

    def plot(
        self, columns: Sequence[str] | None = None, pairs: int = 3, simulations: int = 10
    ) -> Figure:
        """Released columns as bars with their errors, and the pairs of them that depend most on
        each other: a figure of matplotlib. An error is where 90 % of true shares are, as releases
        simulated from this one have it.

        Args:
            columns: their names; all if left out.
            pairs: so many at most.
            simulations: more are slower, with steadier errors. At least 4.

        Raises:
            ParameterError: a name is no released column, or the method releases no rows.
            DpiclError: matplotlib is not installed.
        """
        check_has_quality(self.contract, self.method)
        check_has_rows(self.method)
        from threadpoolctl import threadpool_limits

        from dpicl.quality.picture import columns_figure
        from dpicl.quality.shown import shown

        simulations = whole("simulations", simulations, _FEWEST, None)
        pairs = whole("pairs", pairs, 0)
        doing = f"{self.dataset}: plotting"
        with progress(doing, "simulations") as update, threadpool_limits(1):
            panels = shown(self._point, self.published.drawn, columns, pairs, simulations, update)
        return columns_figure(panels)

    def _repr_html_(self) -> str:
        """What a notebook shows: what it is, a few rows (or the demonstrations where there are
        none), what was promised and spent.
        """
        try:
            rows = self.arrow(_SHOWN)
        except ParameterError:
            sample = "".join(
                f"<p>{escape(text)} <b>{escape(answer)}</b></p>"
                for text, answer in self.demonstrations()
            )
        else:
            heads = "".join(f"<th>{escape(name)}</th>" for name in rows.column_names)
            cells = (
                "".join(f"<td>{escape(_cell(value))}</td>" for value in row.values())
                for row in rows.to_pylist()
            )
            body = "".join(f"<tr>{row}</tr>" for row in cells)
            table = f"<table><tr>{heads}</tr>{body}</table>"
            # wider than a notebook it scrolls, and what is said below does not
            sample = f'<div style="overflow-x: auto">{table}</div>'
        head = (
            f"<b>{escape(self.dataset)}</b>, released by {escape(self.method)} at &epsilon; = "
            f"{self.epsilon:g}"
        )
        notes = "".join(
            f"<li>{escape(sentence)}</li>"
            for sentence in (self.statement, *self.spent, *self.caveats)
        )
        return f"<div><p>{head}</p>{sample}<ul>{notes}</ul></div>"

    def __repr__(self) -> str:
        return f"<Release of {self.dataset}: {self.method}, epsilon {self.epsilon:g}>"

    @property
    def _origin(self) -> dict[str, Any]:
        digest = contract_digest(self.contract)
        return {
            "contract": self.dataset,
            "contract_sha256": digest,
            "method": self.method,
            "epsilon": finite(self.epsilon),
        }

    @cached_property
    def _usual(self) -> ReleasedRows:
        """As many rows as a run derives."""
        return self._rows(None)

    def _made(self, size: int) -> np.ndarray:
        """Codes of so many rows of the model, whatever the contract's relations."""
        return (self._usual if size <= MADE_ROWS else self._rows(size)).codes

    @cached_property
    def _raking(self) -> Raking:
        """By which rows are taken that keep the contract's relations."""
        release = self.published
        chance = self._draws.public("raking", release.planned.point.key).generator()
        form = self._form.seen(self._usual.codes)
        aims = aims_of(tabular(self.method).counted(release.drawn, self.contract))
        return Raking.of(form, self._binned, self._made, chance, aims)

    @cached_property
    def _given(self) -> ReleasedRows:
        """As many as a run derives, as rows are given out: they keep the contract's relations."""
        usual = self._usual
        if not self.contract.relations:
            return usual
        chance = self._draws.public("related", self.published.planned.point.key).generator()
        form, count = self._form.seen(usual.codes), len(usual.codes)
        rows = drawn_rows(form, self._binned, count, self._made, chance, raking=self._raking)
        return ReleasedRows(rows.codes)

    @property
    def _form(self) -> RowForm:
        return tabular(self.method).form(self._binned, self.published.planned.point)

    @property
    def _point(self) -> ReleasePoint:
        from dpicl.quality.worth import ReleasePoint

        return ReleasePoint(self.contract, tabular(self.method), self.published.planned.point)

    @property
    def _binned(self) -> Contract:
        method = tabular(self.method)
        return self.contract.with_bins(method.chosen_bins(self.published.drawn))

    @property
    def _draws(self) -> Draws:
        return draws_for(self.contract, self.published.planned.point.seed)

    def _rows(self, count: int | None) -> ReleasedRows:
        check_has_rows(self.method)
        release = self.published
        return tabular(self.method).rows(
            release.drawn, self.contract, release.planned.point, self._draws, count
        )


def _cell(value: object) -> str:
    """As pandas shows it."""
    return "<NA>" if value is None else str(value)


def whole(
    name: str, value: object, least: int = 1, most: int | None = MOST_ROWS, why: str = ""
) -> int:
    """A number of rows or the like, of any whole type. Raises ParameterError: it is none, or out of
    range.
    """
    try:
        number = None if isinstance(value, bool | np.bool_) else index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or number < least or (most is not None and number > most):
        until = " or more" if most is None else f" to {most:,}"
        raise ParameterError(name, value, f"a whole number, {least}{until}{why}")
    return number


def check_has_quality(contract: Declared, method: str | None) -> None:
    """Refuse to simulate a release of a horizon. Raises ParameterError: it is one."""
    if any(one.is_series(contract) for name, one in METHODS.items() if method in (None, name)):
        raise ParameterError(
            "quality",
            contract.name,
            "a release that is not of a horizon: periods are not simulated",
        )


def check_where(contract: Declared, method: str, where: Where) -> None:
    """Refuse a condition on rows before there are any. Raises ParameterError: the method has no
    model of rows, or no row of the contract can meet it.
    """
    of_rows = METHODS[method]
    if (
        not isinstance(contract, Contract)
        or not isinstance(of_rows, TabularMethod)
        or type(of_rows).rows_where is TabularMethod.rows_where
    ):
        raise no_model(method)
    form = central_form(contract)
    check_can_be_met(contract, conditional_form(form, where, summed(form, contract)))


def check_has_rows(method: str) -> None:
    """Refuse to make a table of what no rows are released of. Raises ParameterError: names the
    methods that release a model of rows.
    """
    able = [
        name
        for name, method in METHODS.items()
        if isinstance(method, TabularMethod) and method.derive_stage is not None
    ]
    if method not in able:
        raise ParameterError(
            "method", method, f"one that releases a model of rows: {', '.join(able)}"
        )
