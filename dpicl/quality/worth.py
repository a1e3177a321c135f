"""What a release is worth: the one estimate that `protect` is refused by, that `plan` recommends
by, and that the pages on a release and its quality print.

    before the charge   (1) and (2), in no time; where (2) is not little, as in a plan
    in a plan           `outlook`: the same release of made-up tables of its shape
    after the charge    `replicates.quality_of`: what was released, simulated again

Guarantee   none needed before the charge, where public facts alone are looked at; none spent after
            it, as all is post-processing.

    (1)  noise of a column    what noise alone does to it, a share of all rows or of the column's
         bounds (`TabularMethod.column_errors`)
    (2)  noise of a release   the median of (1): whether a typical column still says anything. A
         plan compares releases by the mean over columns, to which each of them counts
    (3)  useful               what keeps half of what the signal has above chance; where nothing is
         predicted, that columns are mostly right
    (4)  hopeless             not even the upper end of its interval is useful (3): refused before
         it is charged, so that what a plan recommends never is. Of averages, whose rows nobody
         draws, (2) from two fifths on
    (5)  ahead                t s sqrt(2 K / (K - 1)): by which share of the rows the most frequent
         label has to be ahead of the next, so that noise makes another one the most frequent in at
         most one of 20 releases. If it is more than a tenth, that is said: `predictor()` may be
         below always answering the most frequent label

Symbols     signal: the AUC of a classifier on the raw rows; s the deviation of the noise in a
            label's share (`TabularMethod.label_deviation`), K labels, t = 1.645.
Not covered how well a classifier does, before the charge and where the noise is little.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from dpicl.contract.models import Contract
from dpicl.contract.pipeline import Point
from dpicl.data.values import number_word
from dpicl.ground.errors import ParameterError
from dpicl.methods.tabular_method import TabularMethod

if TYPE_CHECKING:
    import numpy as np

    from dpicl.data.reading.encode import LocalEncoding
    from dpicl.ground.types import Table

LITTLE, NOTABLE, HOPELESS = 0.02, 0.1, 0.4
"""Noise of a release: below the first all is well; from the second on a warning, from the third on
a refusal.
"""
MOSTLY = 0.5
"""Of all rows in one bin: that is said, and where in it they lie is not known."""
UNPAIRED = "no pair of columns was counted: rows do not show how two columns depend on each other"
_MOST_EPSILON = 1e6
_KEPT = 0.5
"""Equation (3)."""
LEVEL = 0.9
"""Of intervals."""
_ALL_BUT = 0.05
"""Of what lies between a constant answer and a perfect one: what is nearer is all but perfect."""
_ONE_OF_20, _AHEAD = 1.645, 0.1
"""Equation (5): of two labels a tenth is 55 % of the rows against 45 %."""
JUDGED = (
    "The classifier is fitted on released rows, and these promise too much: the same counts fit it "
    f"and judge it. The interval is where {LEVEL:.0%} of true values are, by releases simulated "
    "from this one and by public tables."
)
"""What must be known of a classifier's score."""
_WORST = 3
EXACT, LESS = "as exact as", "noise adds less error than"
"""How the first of a release's sentences begins, by which a report finds it."""


@dataclass(frozen=True)
class ReleasePoint:
    """One release by its public facts: a contract, a method, and what it is asked for."""

    contract: Contract
    method: TabularMethod[Any]
    asked: Point[Any]

    @property
    def place(self) -> tuple[Contract, Point[Any]]:
        """What most functions of a method take."""
        return self.contract, self.asked

    @property
    def options(self) -> dict[str, Any]:
        """Of the method, all of them."""
        return dict(self.asked.options.model_dump(exclude_none=True))

    @property
    def encoding(self) -> LocalEncoding:
        """Of its rows, the label last."""
        return self.method.form(*self.place).encoding

    def of_release(self, drawn: Any) -> ReleasePoint:
        """The same by a contract with the bins that a release has chosen."""
        bins = self.method.chosen_bins(drawn)
        return replace(self, contract=self.contract.with_bins(bins))

    def bins(self, table: Table) -> np.ndarray:
        """A table's rows as released ones are once these are decoded: shape (rows, columns)."""
        return self.method.bins(table, self.contract)

    def noise(self, rows: int | None) -> Mapping[str, float]:
        """Equation (1) at this number of rows; nothing where it is not known beforehand."""
        return self.method.column_errors(*self.place, rows) if rows else {}

    def label_risk(self, rows: int, deviation: float | None = None) -> str:
        """A sentence where (5) is more than a tenth of this number of rows; nothing where it is
        not, where no class is predicted, and where it is not known beforehand.

        Args:
            deviation: s of equation (5); that of the method if left out.
        """
        target = self.contract.target
        if target.kind not in ("binary", "classes") or self.method.is_series(self.contract):
            return ""
        noise = self.method.label_deviation(*self.place, rows) if deviation is None else deviation
        ahead = _ONE_OF_20 * (noise or 0.0) * math.sqrt(2 * target.count / (target.count - 1))
        if ahead <= _AHEAD:
            return ""
        where = "" if ahead >= 1 else f" unless it is {ahead:.0%} of the rows ahead of the next"
        return (
            f"{self.contract.name}: at {rows:,} rows and epsilon {self.asked.epsilon:g}, noise may "
            f"make another label the most frequent one of {self.method.title}{where}; "
            f"`predictor()` may then be right less often than always answering the most frequent "
            f"label"
        )

    def at(self, epsilon: float) -> ReleasePoint:
        """The same at another epsilon."""
        return replace(self, asked=replace(self.asked, epsilon=epsilon))


@dataclass(frozen=True)
class Marginal:
    """Names of columns, and the total variation between released and counted rows: as it is
    expected, and, on benchmarks, as it is. Of a group's averages, the distance to those without
    noise.
    """

    columns: tuple[str, ...]
    expected: float
    true: float | None = None


@dataclass(frozen=True)
class Mean:
    """Of released numbers, the interval of 90 % in which the true one is expected, and half its
    length in their standard deviations.
    """

    value: float
    low: float
    high: float
    looseness: float


@dataclass(frozen=True)
class NumberQuality:
    """Of a column's numbers.

    Attributes:
        cumulative: the largest difference of shares below an edge of a bin, as it is expected.
        fullest, share: the bin that holds most rows, and their share.
        is_guessed: whether that bin has several values: where in it a number lies is guessed from
            the bins beside it.
        doubt: the question about its bounds, where most rows lie at one of them.
        mean: None of dates, and of a column that is even whatever the rows are.
        true, mean_apart: on benchmarks, the largest difference of shares below any value, and how
            far the mean is off in standard deviations.
    """

    column: str
    cumulative: float
    fullest: str
    share: float
    is_guessed: bool = True
    doubt: str = ""
    mean: Mean | None = None
    true: float | None = None
    mean_apart: float | None = None


@dataclass(frozen=True)
class Score:
    """Of a classifier that is fitted on released rows: what it is worth, the interval of 90 %
    around that, and, of a release that is there, what it scores on these rows, and what the most
    frequent label or the mean does.
    """

    measure: str
    estimate: float
    low: float
    high: float
    promised: float | None = None
    true: float | None = None
    constant: float | None = None

    @property
    def is_unknown(self) -> bool:
        """Whether its interval says nothing: it goes from no better than a constant answer to all
        but perfect, or has no lower end.
        """
        if self.constant is None:
            return False
        perfect = float(self.measure != "MAE")
        worst, best = (self.low, self.high) if perfect else (-self.high, -self.low)
        least = self.constant if perfect else -self.constant
        is_open = worst <= least and perfect - best <= _ALL_BUT * (perfect - least)
        return is_open or math.isinf(worst)

    @property
    def is_sure(self) -> bool:
        """Whether all of the interval is better than a constant answer; of an MAE its R2 says."""
        return self.constant is None or self.measure == "MAE" or self.low > self.constant

    @property
    def doubt(self) -> str:
        """What is to be said where that is not so, or nothing is known; empty elsewhere."""
        if self.is_unknown:
            return "unknown, as the release tells too little of it"
        if self.is_sure:
            return ""
        answer = "the mean" if self.is_number else "one answer to all"
        return f"not surely better than {answer}, which has {self.constant:.3g}"

    @property
    def parts(self) -> Iterator[str]:
        """All that is known of it, in words; of a release that is only planned nobody has rows."""
        if self.is_unknown:
            yield self.doubt
        else:
            yield f"{self.estimate:.3g}, {LEVEL:.0%} between {self.low:.3g} and {self.high:.3g}"
            if self.promised is not None:
                yield f"on released rows it would seem {self.promised:.3g}"
        if self.true is not None:
            yield f"in truth {self.true:.3g}"
        if self.doubt and not self.is_unknown:
            yield self.doubt

    @property
    def is_number(self) -> bool:
        """Whether a number is predicted."""
        return self.measure in ("R2", "MAE")


@dataclass(frozen=True)
class Trained:
    """What a classifier scores on held-out rows if it is fitted on released rows, and if on real
    ones.
    """

    model: str
    measure: str
    released: float
    real: float


@dataclass(frozen=True)
class Actual:
    """True values: mean total variation by number of columns, pMSE, and classifiers."""

    total_variation: Mapping[int, float]
    pmse: float
    trained: tuple[Trained, ...]


@dataclass(frozen=True, repr=False)
class Quality:
    """How good one release is; empty where nothing of the kind is known.

    Attributes:
        point: which release it is.
        row_count: how many rows there are: as stated, or as far as the release says.
        effective_rows: so many rows without noise would have marginals as exact as these.
        columns, with_label, pairs: errors of single columns, of each with the label, and of pairs
            that were counted.
        numbers: of each column of numbers.
        scores: of a classifier of the label.
        signal: of a plan, the AUC of a classifier on the raw rows.
        noise: equation (1) by column, where the number of rows is stated.
        actual: the true values, on benchmarks only.
    """

    point: ReleasePoint = field(repr=False)
    row_count: float | None = None
    effective_rows: float | None = None
    columns: tuple[Marginal, ...] = ()
    with_label: tuple[Marginal, ...] = ()
    pairs: tuple[Marginal, ...] = ()
    numbers: tuple[NumberQuality, ...] = ()
    scores: tuple[Score, ...] = ()
    signal: float | None = None
    noise: Mapping[str, float] = field(default_factory=dict)
    actual: Actual | None = None

    @property
    def dataset(self) -> str:
        """The contract's name."""
        return self.point.contract.name

    @property
    def method(self) -> str:
        """As people call it."""
        return self.point.method.title

    @property
    def epsilon(self) -> float:
        """Of the release, in nats."""
        return self.point.asked.epsilon

    @property
    def noise_share(self) -> float:
        """Equation (2); 0 where nothing is known beforehand."""
        return median(self.noise.values() or [0.0])

    @property
    def is_little(self) -> bool:
        """Whether noise is known to be next to none."""
        return bool(self.noise) and self.noise_share < LITTLE

    @property
    def is_hopeless(self) -> bool:
        """Equation (4)."""
        if self.signal is not None and self.auc_interval is not None:
            return self.auc_interval[1] - 0.5 < _KEPT * (self.signal - 0.5)
        return (self.column_error if self.columns else self.noise_share) >= HOPELESS

    @property
    def enough(self) -> float:
        """One of the least epsilons at which noise is no notable part; infinity where none is that
        the method takes.
        """
        epsilon = self.epsilon or _MOST_EPSILON
        while epsilon < _MOST_EPSILON:
            try:
                quality = quality_by_noise(self.point.at(epsilon), round(self.row_count or 0))
            except ParameterError:  # with Gaussian noise there is a largest one
                break
            if quality.noise_share < NOTABLE:
                return epsilon
            epsilon *= 1.25
        return math.inf

    @property
    def warning(self) -> str:
        """What it is worth, and what would be better; of one whose number of rows is stated."""
        enough = self.enough
        is_more = self.epsilon < enough < math.inf
        better = f"epsilon {enough:.3g} or more, " if is_more else ""
        # where a program holds the rows, no contract has a file
        in_program = self.point.contract.source.frame
        compared = (
            "`dpicl.Session().plan(schema)`" if in_program else f"`dpicl plan {self.dataset}`"
        )
        return (
            f"{self.dataset}: at {round(self.row_count or 0):,} rows and epsilon {self.epsilon:g}, "
            f"{self.method} {self.worth}; expected {better}fewer columns or bins, more rows, or "
            f"another method ({compared} compares them)"
        )

    @property
    def auc(self) -> float | None:
        """What a classifier is worth; None where nothing is predicted."""
        return self.scores[0].estimate if self.scores and not self.scores[0].is_number else None

    @property
    def auc_interval(self) -> tuple[float, float] | None:
        """Where that is with 90 %."""
        return None if self.auc is None else (self.scores[0].low, self.scores[0].high)

    @property
    def column_error(self) -> float:
        """The mean over columns."""
        return fmean(marginal.expected for marginal in self.columns)

    @property
    def pair_error(self) -> float | None:
        """The mean over pairs of columns."""
        return fmean(marginal.expected for marginal in self.pairs) if self.pairs else None

    @property
    def value(self) -> float:
        """The larger the better, next to nothing being lost at 0: of one table and signal, at any
        epsilon.
        """
        if self.auc is None or self.signal is None:
            return -self.column_error
        return self.auc - self.signal

    @property
    def is_useful(self) -> bool:
        """Equation (3)."""
        if self.signal is None or self.auc is None:
            return (self.column_error if self.columns else self.noise_share) < HOPELESS / 2
        return self.auc - 0.5 >= _KEPT * (self.signal - 0.5)

    @property
    def worth(self) -> str:
        """What is expected of it: the end of a sentence that begins with its name."""
        if not self.columns:
            share = "all of it" if self.noise_share >= 1 else f"about {self.noise_share:.1%}"
            return f"has noise that moves a typical column by {share}"
        errors = f"gets a typical column wrong by {self.column_error:.2g}"
        if self.auc_interval is None or self.signal is None:
            return errors
        low, high = self.auc_interval
        return (
            f"has an expected AUC of {self.auc:.2f} ({low:.2f} to {high:.2f}) where "
            f"a classifier on the raw rows has {self.signal:.2f}, and {errors}"
        )

    def _of_numbers(self) -> Iterator[str]:
        """Sentences on numbers: errors of values, and where most rows lie in one bin."""
        if not self.numbers:
            return
        worst = max(self.numbers, key=lambda one: one.cumulative)
        mean = fmean(one.cumulative for one in self.numbers)
        true = [one.true for one in self.numbers if one.true is not None]
        in_truth = f" (in truth, below any value, {fmean(true):.3f})" if true else ""
        yield (
            f"error of the share of rows below a value: {mean:.3f} on average{in_truth}; largest "
            f"{worst.column} {worst.cumulative:.3f}"
        )
        means = {one.column: one.mean for one in self.numbers if one.mean is not None}
        if means:
            loosest = sorted(means, key=lambda name: -means[name].looseness)[:_WORST]
            yield (
                f"true means of numbers, with {LEVEL:.0%}: "
                + ", ".join(
                    f"{name} {number_word(means[name].low)} to {number_word(means[name].high)}"
                    for name in loosest
                )
                + (f", and of {len(means) - _WORST} more" if len(means) > _WORST else "")
            )
        apart = [one.mean_apart for one in self.numbers if one.mean_apart is not None]
        if apart:
            yield (
                f"true error of means of numbers: {fmean(apart):.3f} standard deviations on "
                f"average, {max(apart):.3f} at most"
            )
        for one in self.numbers:
            if one.doubt:
                yield one.doubt
            elif one.share >= MOSTLY and one.is_guessed:
                yield (
                    f"{one.share:.0%} of {one.column} lie in one bin, {one.fullest}: where in it "
                    f"is guessed; state `bins` where public knowledge has some"
                )

    @property
    def kinds(self) -> list[tuple[str, tuple[Marginal, ...]]]:
        """Errors of marginals by what they are of."""
        named = (
            ("single columns", self.columns),
            ("columns with the label", self.with_label),
            ("pairs of columns", self.pairs),
        )
        return [(what, marginals) for what, marginals in named if marginals]

    @property
    def _title(self) -> str:
        return f"{self.dataset}, {self.method}, epsilon {self.epsilon:g}"

    def __str__(self) -> str:
        return "\n  ".join([self._title, *self.sentences()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        lines = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.sentences())
        return f"<div><p><b>{escape(self._title)}</b></p><ul>{lines}</ul></div>"

    def to_frame(self) -> Any:
        """All of it as a pandas DataFrame, a line for each error and score: what it is `of`, the
        `name` of columns or of the measure, what is `expected`, from `low` to `high` with 90 %,
        what a `constant` answer scores, and on benchmarks what is `true`.
        """
        import pandas as pd  # half a second to import

        lines: list[tuple[Any, ...]] = [
            (kind, " & ".join(error.columns), error.expected, None, None, None, error.true)
            for kind, marginals in self.kinds
            for error in marginals
        ]
        lines += [
            (
                "share of rows below a value",
                number.column,
                number.cumulative,
                None,
                None,
                None,
                number.true,
            )
            for number in self.numbers
        ]
        lines += [
            (
                "mean of a number",
                number.column,
                number.mean.value,
                number.mean.low,
                number.mean.high,
                None,
                None,
            )
            for number in self.numbers
            if number.mean is not None
        ]
        lines += [
            (
                "model",
                one.measure,
                *((None, None, None) if one.is_unknown else (one.estimate, one.low, one.high)),
                one.constant,
                one.true,
            )
            for one in self.scores
        ]
        lines += [
            ("noise of averages", name, error, None, None, None, None)
            for name, error in self.noise.items()
        ]
        figures = ("expected", "low", "high", "constant", "true")
        frame = pd.DataFrame(lines, columns=["of", "name", *figures])
        return frame.astype(dict.fromkeys(figures, "float64"))

    def sentences(self) -> Iterator[str]:
        """All that is known of a release that is there, without ends."""
        if self.row_count is not None and self.effective_rows is not None:
            rows = f"{round(self.row_count):,d}"
            yield (
                f"{EXACT} counting {round(self.effective_rows):,d} of the about {rows} rows "
                "without noise"
                if self.effective_rows < self.row_count
                else f"{LESS} drawing about {rows} rows at random does anyway"
            )
        for what, marginals in self.kinds:
            mean = f"{fmean(marginal.expected for marginal in marginals):.3f}"
            if marginals[0].true is not None:
                mean += f" (in truth {fmean(marginal.true or 0.0 for marginal in marginals):.3f})"
            worst = ", ".join(
                f"{' & '.join(marginal.columns)} {marginal.expected:.3f}"
                for marginal in largest(marginals, _WORST)
            )
            yield f"error of {what}: {mean} on average; largest {worst}"
        if self.columns and not self.pairs and len(self.point.contract.features) > 1:
            yield UNPAIRED
        yield from self._of_numbers()
        for score in self.scores:
            model = "model" if score.is_number else "classifier"
            yield f"{score.measure} of a {model} fitted on released rows: {'; '.join(score.parts)}"
        if not self.columns and not self.noise:
            yield (
                "nothing to tell of averages alone; state `population`, about how many rows "
                "there are"
            )
        for name, error in self.noise.items():
            yield f"noise of the averages of {name}: {error:.3f} of its range"
        if self.actual is not None:
            variation = ", ".join(
                f"{value:.3f} of {count}" for count, value in self.actual.total_variation.items()
            )
            yield (
                f"true total variation by number of columns: {variation}; pMSE "
                f"{self.actual.pmse:.4f}"
            )
            for trained in self.actual.trained:
                yield (
                    f"{trained.measure} of {trained.model} on held-out rows: "
                    f"{trained.released:.3f}, fitted on real rows {trained.real:.3f}"
                )


def largest(marginals: Sequence[Marginal], count: int) -> list[Marginal]:
    """Those with the largest expected errors."""
    return sorted(marginals, key=lambda marginal: -marginal.expected)[:count]


def quality_by_noise(point: ReleasePoint, rows: int | None = None) -> Quality:
    """How good one release will be, by what noise alone does to it.

    Args:
        rows: how many there are, as publicly stated; the contract's `population` if None.
    """
    stated = rows or point.contract.population
    return Quality(point, stated, noise=point.noise(stated))
