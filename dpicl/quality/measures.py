"""How good a release is, from what was released alone: errors of marginals, effective rows, a
classifier with an interval.

Guarantee   none spent: post-processing; see `replicates` for how errors are simulated.

    (1)  expected error of a marginal: the mean of its total variation over replicates
    (2)  effective rows n:  mean of A_k / sqrt(n)  =  mean of (1),   A_k / sqrt(n) the expected
         error of n rows without noise, over the columns that the release says something of
    (3)  classifier: probit t = a + b probit p over replicates near the p that is seen;  t there,
         and where it is with 90 %
    (4)  the deviation of probit t: that of (3), and 0.15 of probit t for dependence that nothing
         counted

The same counts fit the classifier and judge it: what its own rows promise, p, is too good, and (3)
says by how much. No replicate says how far the model is from the population; (4) takes it from
public tables released without noise.

Symbols     k columns with the label; p what the classifier scores on released rows, t in the
            population.

What is known of a release's quality, as values and as lines of text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy import special

from dpicl.contract.models import Contract
from dpicl.contract.pipeline import Point
from dpicl.ground.randomness import Draws
from dpicl.ground.types import SplitTable
from dpicl.methods.tabular_method import TabularMethod
from dpicl.quality.replicates import (
    MEASURES,
    REPLICATES,
    Actual,
    Columns,
    Modelled,
    Replicates,
    SimulatedRelease,
    actual,
    learned,
    marginal,
    sampling_variation,
    scores,
    shares_of,
    total_variation,
)

_MOST_PAIRS = 200
_NEAR = 0.5
"""The share of replicates, the nearest ones, that (3) is fitted on."""
_EDGE = 1e-4
_MISFIT = 0.15
"""Of nine public tables whose counts have no noise, eight have a probit of the score within 1.645
times this share of what rows of their model promise; the ninth, `car`, whose label is a rule over
all columns, scores far better than these.
"""


def quality_of(
    method: TabularMethod[Any],
    contract: Contract,
    point: Point[Any],
    drawn: Any,
    *,
    test: SplitTable | None,
    count: int = REPLICATES,
    seed: int = 0,
) -> Quality:
    """How good one release is; looks at no row of a private table.

    Args:
        point: what it was asked for.
        drawn: the release, as `method.decode` gives it.
        test: of a benchmark, the rows that were released and those that were held out: true values
            are stated beside.
        count: how often the release is simulated for the classifier; half as often for marginals.

    Raises:
        PrivacyError: rows are given of a table that is no benchmark.
    """
    quality = Quality(contract.name, method.title, point.epsilon)
    if method.derive_stage is None or type(method).replicate is TabularMethod.replicate:
        return replace(
            quality,
            noise=method.column_errors(contract, point, contract.population)
            if contract.population
            else {},
        )
    release = SimulatedRelease(method, contract, point, drawn)
    modelled = release.modelled(drawn, Draws(seed, contract.name, simulated=True))
    sizes, names = release.sizes, release.encoding.names
    label = len(sizes) - 1
    singles = [(column,) for column in range(label + (sizes[-1] > 1))]
    with_label = [(column, label) for column in range(label) if sizes[-1] > 1]
    pairs: list[Columns] = [columns for columns in modelled.counted if len(columns) == 3]
    if not modelled.counted:
        pairs += list(combinations(range(label), 2))[:_MOST_PAIRS]
    chosen: list[Columns] = [*singles, *with_label, *pairs]
    again = Replicates(release, modelled.bins, seed)
    real = None if test is None else method.bins(test.train, contract)
    errors = dict(zip(chosen, again.errors(chosen, max(1, count // 2)).tolist(), strict=True))
    found = [
        Marginal(
            tuple(names[column] for column in columns if sizes[column] > 1),
            error,
            None
            if real is None
            else total_variation(
                shares_of(modelled, columns, sizes), marginal(real, columns, sizes)
            ),
        )
        for columns, error in errors.items()
    ]
    ends = len(singles), len(singles) + len(with_label)
    return replace(
        quality,
        row_count=method.row_count(drawn),
        effective_rows=_effective_rows(
            release, modelled, {columns: errors[columns] for columns in with_label or singles}
        ),
        untold=tuple(name for column, name in enumerate(names) if not release.tells((column,))),
        columns=tuple(found[: ends[0]]),
        with_label=tuple(found[ends[0] : ends[1]]),
        pairs=tuple(found[ends[1] :]),
        scores=_scores(again, count, None if test is None else method.bins(test.test, contract)),
        actual=None if test is None else actual(release, modelled.bins, test),
    )


def _effective_rows(
    release: SimulatedRelease, modelled: Modelled, errors: Mapping[Columns, float]
) -> float | None:
    """Equation (2); None where there is no noise, or no column of which anything is said."""
    told = [columns for columns in errors if release.tells(columns)]
    noisy = sum(errors[columns] for columns in told)
    return (
        (
            sum(sampling_variation(shares_of(modelled, columns, release.sizes)) for columns in told)
            / noisy
        )
        ** 2
        if noisy
        else None
    )


def _scores(again: Replicates, count: int, test: np.ndarray | None) -> tuple[Score, ...]:
    """Equations (3) and (4) for both measures."""
    if again.sizes[-1] == 1:
        return ()
    draws = Draws(again.seed, again.release.contract.name, simulated=True)
    model, (promised, kept) = learned(again.bins, again.sizes, draws), again.scores(count)
    seen = scores(model, again.bins, again.sizes)
    true = None if test is None or not len(test) else scores(model, test, again.sizes)
    found = []
    for i, measure in enumerate(MEASURES):
        judged = promised[:, i], kept[:, i], np.array(seen[i])
        low, estimate, high = _interval(
            *(special.ndtri(np.clip(scored, _EDGE, 1 - _EDGE)) for scored in judged)
        )
        found.append(
            Score(measure, seen[i], estimate, low, high, None if true is None else true[i])
        )
    return tuple(found)


def _interval(
    promised: np.ndarray, kept: np.ndarray, seen: np.ndarray
) -> tuple[float, float, float]:
    """Low, estimate and high of equations (3) and (4); nearer replicates count more."""
    at = float(np.clip(seen, promised.min(), promised.max()))
    distances = np.abs(promised - at)
    width = np.sort(distances)[max(2, int(_NEAR * len(distances))) - 1]
    weights = np.maximum(1 - (distances / max(width, 1e-9)) ** 2, 0) + 1e-6
    weights /= weights.sum()
    mean = float(weights @ promised)
    spread = float(weights @ (promised - mean) ** 2)
    slope = float(weights @ ((promised - mean) * kept)) / max(spread, 1e-12)
    left = kept - weights @ kept - slope * (promised - mean)
    size = 1 / float(weights @ weights)
    freedom = max(size - 2, 1.0)
    leverage = 1 / size + (at - mean) ** 2 / max(spread * size, 1e-12)
    centre = float(weights @ kept + slope * (at - mean))
    deviation = np.sqrt(
        float(weights @ left**2) * size / freedom * (1 + leverage) + (_MISFIT * centre) ** 2
    )
    far = float(special.stdtrit(freedom, (1 + LEVEL) / 2)) * deviation
    low, estimate, high = special.ndtr([centre - far, centre, centre + far]).tolist()
    return low, estimate, high


LEVEL = 0.9
"""Of intervals."""
JUDGED = (
    "The classifier is fitted on released rows, and these promise too much: the same counts fit "
    "it and judge it. The interval is "
    f"where {LEVEL:.0%} of true values are, by releases simulated from this one and by public "
    f"tables."
)
"""What must be known of a classifier's score."""
_WORST = 3


@dataclass(frozen=True)
class Marginal:
    """Names of columns, and the total variation between released and counted rows: as it is
    expected, and, on benchmarks, as it is.
    """

    columns: tuple[str, ...]
    expected: float
    true: float | None = None


@dataclass(frozen=True)
class Score:
    """Of a classifier: what it scores on the rows that it is fitted on, what that is worth, and the
    interval of 90 % around it.
    """

    measure: str
    promised: float
    estimate: float
    low: float
    high: float
    true: float | None = None


@dataclass(frozen=True)
class Quality:
    """How good one release is; empty where a method has nothing of the kind.

    Attributes:
        row_count: how many rows there are, as far as the release says.
        effective_rows: so many rows without noise would have marginals as exact as these; columns
            `untold` apart.
        untold: columns that the release says nothing of, since noise would have drowned their
            counts; their errors are 1.
        columns, with_label, pairs: errors of single columns, of each with the label, and of pairs
            that were counted.
        scores: of a classifier of the label.
        noise: of averages of groups, by column, in widths of its bounds; where the contract states
            how many rows there are.
        actual: the true values, on benchmarks only.
    """

    dataset: str
    method: str
    epsilon: float
    row_count: float | None = None
    effective_rows: float | None = None
    untold: tuple[str, ...] = ()
    columns: tuple[Marginal, ...] = ()
    with_label: tuple[Marginal, ...] = ()
    pairs: tuple[Marginal, ...] = ()
    scores: tuple[Score, ...] = ()
    noise: Mapping[str, float] = field(default_factory=dict)
    actual: Actual | None = None

    def __str__(self) -> str:
        lines = [f"{self.dataset}, {self.method}, epsilon {self.epsilon:g}"]
        if self.row_count is not None and self.effective_rows is not None:
            lines.append(
                f"  as exact as {round(self.effective_rows):,d} rows without noise, of a table of "
                f"about {round(self.row_count):,d}"
            )
        if self.untold:
            lines.append(
                f"  nothing is known of {len(self.untold)} of {len(self.columns)} columns, which "
                f"are uniform: {', '.join(self.untold)}"
            )
        for what, marginals in self.kinds:
            expected, true = (
                sum(getattr(one, which) or 0.0 for one in marginals) / len(marginals)
                for which in ("expected", "true")
            )
            mean = (
                f"{expected:.3f}"
                if marginals[0].true is None
                else f"{expected:.3f} (in truth {true:.3f})"
            )
            worst = ", ".join(
                f"{' & '.join(one.columns)} {one.expected:.3f}"
                for one in largest(marginals, _WORST)
            )
            lines.append(f"  error of {what}: {mean} on average; largest {worst}")
        for score in self.scores:
            in_truth = "" if score.true is None else f"; in truth {score.true:.3f}"
            estimate = (
                f"{score.estimate:.3f}, {LEVEL:.0%} between {score.low:.3f} and {score.high:.3f}"
            )
            lines.append(
                f"  {score.measure} of a classifier fitted on released rows: {estimate}; these "
                f"rows promise {score.promised:.3f}{in_truth}"
            )
        if self.row_count is None and not self.noise:
            lines.append(
                "  nothing to tell of averages alone; state `population`, about how many rows "
                "there are"
            )
        for name, error in self.noise.items():
            lines.append(f"  noise of the averages of {name}: {error:.3f} of its range")
        if self.actual is not None:
            variation = ", ".join(
                f"{value:.3f} of {count}" for count, value in self.actual.total_variation.items()
            )
            lines.append(
                f"  true total variation by number of columns: {variation}; pMSE "
                f"{self.actual.pmse:.4f}"
            )
            for one in self.actual.trained:
                lines.append(
                    f"  {one.measure} of {one.model} on held-out rows: {one.released:.3f}, fitted "
                    f"on real rows {one.real:.3f}"
                )
        return "\n".join(lines)

    @property
    def kinds(self) -> list[tuple[str, tuple[Marginal, ...]]]:
        """Errors of marginals by what they are of."""
        named = (
            ("single columns", self.columns),
            ("columns with the label", self.with_label),
            ("pairs of columns", self.pairs),
        )
        return [(what, marginals) for what, marginals in named if marginals]


def largest(marginals: Sequence[Marginal], count: int) -> list[Marginal]:
    """Those with the largest expected errors."""
    return sorted(marginals, key=lambda one: -one.expected)[:count]
