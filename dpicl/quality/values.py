"""What is known of a release's quality, as values and as lines of text.

Guarantee   none spent: post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dpicl.quality.benchmark import Actual

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
