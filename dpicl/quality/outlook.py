"""Which method to release a table with, before anything is charged: all of them simulated on
made-up tables of its shape, and the one that is recommended.

Guarantee   none needed: works on made-up rows (`simulate`).

    (1)  expected AUC     the signal less the mean loss over populations
    (2)  90 % interval    that mean +- t sqrt(1 + 1/P) deviations over P populations, a release
         each, where one more would fall; no less than two deviations, or half of the loss, since
         tables differ more than populations do
    (3)  all ways on a few populations of the signal that decides; then those that lose at most a
         twentieth more than the best, on more and on those of other signals

Not covered what a language model makes of the rows, and how the real population differs from
made-up ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from typing import get_args

import numpy as np
from scipy.special import stdtrit

from dpicl.contract.models import Contract
from dpicl.contract.pipeline import parse_epsilon
from dpicl.contract.rules import label_bins
from dpicl.ground.errors import ParameterError
from dpicl.ground.plain_table import PlainTable
from dpicl.ground.processes import fork_server
from dpicl.methods import METHODS, tabular
from dpicl.methods.base import Trust
from dpicl.methods.grid import points
from dpicl.methods.published import published_rows
from dpicl.quality.measures import AnswerQuality
from dpicl.quality.simulate import Candidate, Outcomes, Trial, candidates, trial
from dpicl.quality.worth import Marginal, Quality, ReleasePoint, Score

_GOOD, _LEAST_HALF, _LEAST_DEVIATIONS = 0.03, 0.01, 2.0
_TABLES, _BEHIND, _NO_SIGNAL, _FAST_HALF = 0.5, 0.05, 0.5, 0.03
"""Of a loss, how far it may be off as tables differ more than populations; how far behind the best
a way is that is simulated no more; and what made-up tables are given where nothing is predicted.
"""


def half_width(values: Sequence[float]) -> float:
    """Half the width of a 90 % interval around the mean of one value for each population, at least
    two; equation (2).
    """
    factor = max(
        _LEAST_DEVIATIONS, float(stdtrit(len(values) - 1, 0.95)) * math.sqrt(1 + 1 / len(values))
    )
    return max(_LEAST_HALF, factor * float(np.std(values, ddof=1)))


@dataclass(frozen=True)
class Outlook:
    """What one way of release is expected to be worth.

    Attributes:
        quality: expected, on made-up tables of one signal.
        charged: epsilon that the account would be charged.
    """

    way: Candidate
    quality: Quality
    charged: float

    @property
    def epsilon(self) -> float:
        """Of the release."""
        return self.quality.epsilon

    def label_risk(self, rows: int) -> str:
        """Of the release that the command makes, whose choices are those for its epsilon alone."""
        contract, method = self.quality.point.contract, self.quality.point.method
        (asked,) = points(method, self.way.unit(contract, (self.epsilon,))).values()
        return ReleasePoint(contract, method, asked).label_risk(rows)

    def command(self, dataset: str) -> str:
        """The command line that makes this release."""
        options = "".join(f" --option {name}={value}" for name, value in self.way.options.items())
        how = f"--method {self.way.method} --epsilon {self.epsilon:g}{options}"
        if tabular(self.way.method).derive_stage:
            return f"dpicl synth {dataset} {how} --out {dataset}.parquet"
        return f"dpicl protect {dataset} {how} --shots {self.way.shots} --out {dataset}.jsonl"

    @property
    def in_program(self) -> bool:
        """Whether a program holds the rows, so that no contract names them."""
        return self.quality.point.contract.source.frame

    @property
    def call(self) -> str:
        """The call from Python that makes this release, of rows and a schema."""
        options = f", options={dict(self.way.options)!r}" if self.way.options else ""
        shots = "" if tabular(self.way.method).derive_stage else f", shots={self.way.shots}"
        return (
            f"session.protect(rows, schema, method={self.way.method!r}, epsilon={self.epsilon:g}"
            f"{shots}{options}, account=…)"
        )


@dataclass(frozen=True, repr=False)
class TablePlan:
    """Every way to release a table, and the one that is recommended.

    Attributes:
        rows: as stated, and `simulated_rows` as many as were made up.
        signals: by name, the AUCs of a classifier on the raw rows that were simulated; none where
            nothing is predicted.
        outlooks: of every way, epsilon and signal.
        refused: methods that the contract rules out, and why.
    """

    dataset: str
    rows: int
    simulated_rows: int
    signals: Mapping[str, float]
    outlooks: tuple[Outlook, ...]
    refused: Mapping[str, str]

    @property
    def middle(self) -> float | None:
        """The signal that decides: the one that was stated, or the medium one."""
        values = sorted(self.signals.values())
        return values[len(values) // 2] if values else None

    def best(self, epsilon: float, signal: float | None) -> Outlook:
        """The best way at an epsilon, by this signal."""
        return max(
            (
                outlook
                for outlook in self.outlooks
                if (outlook.epsilon, outlook.quality.signal) == (epsilon, signal)
            ),
            key=lambda outlook: outlook.quality.value,
        )

    @property
    def recommended(self) -> Outlook | None:
        """The best way at the least epsilon at which it loses next to nothing, else at the best
        epsilon; None if that is not useful.
        """
        bests = [
            self.best(epsilon, self.middle)
            for epsilon in sorted({outlook.epsilon for outlook in self.outlooks})
        ]
        chosen = next(
            (best for best in bests if best.quality.value >= -_GOOD),
            max(bests, key=lambda best: best.quality.value),
        )
        return chosen if chosen.quality.is_useful else None

    @property
    def command(self) -> str | None:
        """What to type; None if nothing is useful."""
        return None if self.recommended is None else self.recommended.command(self.dataset)

    @property
    def sentence(self) -> str:
        """The recommendation."""
        if self.recommended is not None:
            chosen = self.recommended.quality
            risk = self.recommended.label_risk(self.rows)
            return (
                f"Recommended: {chosen.method} at epsilon {chosen.epsilon:g}, which {chosen.worth}."
            ) + "".join(
                f"\n{sentence}."
                for sentence in (risk, label_bins(chosen.point.contract))
                if sentence
            )
        most = max(outlook.epsilon for outlook in self.outlooks)
        best = self.best(most, self.middle).quality
        return (
            f"Nothing useful at epsilon {most:g} and {self.rows:,} rows: the best, {best.method}, "
            f"{best.worth}; expected a larger epsilon, fewer columns or bins, or more rows."
        )

    def parts(self) -> Iterator[str | PlainTable]:
        """The ways at the middle signal by epsilon, the best at each signal, the recommendation."""
        epsilons = sorted({outlook.epsilon for outlook in self.outlooks})
        raw = "" if self.middle is None else f" (a classifier on the raw rows: {self.middle:.2f})"
        simulated = "" if self.rows == self.simulated_rows else f", as of {self.simulated_rows:,}"
        yield (
            f"{self.dataset}, {self.rows:,} rows{simulated}: expected AUC with a 90 % "
            f"interval{raw}, and expected error of a column"
        )
        yield ""
        yield self._ways(epsilons)
        if len(self.signals) > 1:
            yield ""
            rows = []
            for name, strength in self.signals.items():
                bests = (self.best(at, strength) for at in epsilons)
                texts = (f"{best.way.method} {_auc(best.quality)}" for best in bests)
                rows.append((f"{name}, {strength:.2f}", *texts))
            heads = ("raw rows", *(f"best at ε = {epsilon:g}" for epsilon in epsilons))
            yield PlainTable(heads, tuple(rows))
        for name, why in self.refused.items():
            yield f"{METHODS[name].title} is left out: {why}"
        yield ""
        yield self.sentence
        if self.command is not None:
            yield self.command

    def _ways(self, epsilons: Sequence[float]) -> PlainTable:
        by_way: dict[tuple[str, str], dict[float, Quality]] = {}
        for outlook in self.outlooks:
            if outlook.quality.signal == self.middle:
                way = outlook.way
                whole = outlook.quality.point.method.derive_stage
                options = [*way.options.values(), *([] if whole else [f"{way.shots} shots"])]
                row = by_way.setdefault((way.method, ", ".join(options)), {})
                row[outlook.epsilon] = outlook.quality
        ordered = sorted(
            by_way.items(), key=lambda way: -max(quality.value for quality in way[1].values())
        )
        rows = []
        for names, row in ordered:
            cells = ((_auc(row[at]), f"{row[at].column_error:.3f}") for at in epsilons)
            rows.append((*names, *(text for cell in cells for text in cell)))
        heads = (head for epsilon in epsilons for head in (f"ε = {epsilon:g}", "error"))
        return PlainTable(("method", "options", *heads), tuple(rows))

    def __str__(self) -> str:
        """As `dpicl plan` prints it."""
        return "\n".join(str(part) for part in self._said())

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        parts = (
            part.html if isinstance(part, PlainTable) else f"<p>{escape(part)}</p>"
            for part in self._said()
            if part
        )
        return f"<div>{''.join(parts)}</div>"

    def __repr__(self) -> str:
        return f"<TablePlan of {self.dataset}: {self.rows:,} rows, {len(self.outlooks)} outlooks>"

    def _said(self) -> Iterator[str | PlainTable]:
        """The parts; of a schema, which has no name for a shell, the call that follows."""
        best = self.recommended
        for part in self.parts():
            if best is None or part != self.command or not best.in_program:
                yield part
            else:
                yield best.call


def _auc(quality: Quality) -> str:
    """The AUC with half of its interval; nothing where nothing is predicted."""
    if quality.auc is None or quality.auc_interval is None:
        return ""
    return f"{quality.auc:.2f} ±{quality.auc - quality.auc_interval[0]:.2f}"


SIGNALS = {"weak": 0.65, "medium": 0.8, "strong": 0.92}
"""AUC of a classifier on the raw rows, where the user does not state one."""
USUAL = SIGNALS["medium"]
"""That which decides."""
POPULATIONS, FEWEST, MOST_ROWS = 6, 4, 100_000
"""Of the signal that decides, and of it where one release is judged; of the others half as many."""
FAST = (2, 2)
"""Of a fast plan: too few to tell how far one more would fall."""
Progress = Callable[[int, int], None]
_Signal = float | None
"""None where nothing is predicted."""


def read_signal(text: str) -> float:
    """An AUC, or a word for one.

    Raises:
        ParameterError: it is neither.
    """
    try:
        value = SIGNALS[text] if text in SIGNALS else float(text)
    except ValueError:
        value = math.nan
    if not 0.5 < value < 1:
        raise ParameterError(
            "signal",
            repr(text[:40]),
            f"{', '.join(SIGNALS)}, or the AUC of a classifier on the raw rows: above 0.5, below 1",
        )
    return value


def _count_of(contract: Contract, rows: int | None) -> int:
    """Rows as stated, or as they are known."""
    count = rows if rows is not None else contract.population
    if count is None and contract.is_benchmark:
        count = published_rows(contract.name)
    if count is None:
        unstated = (
            "--rows NUMBER (`rows=NUMBER`), as it is publicly known, or `population: NUMBER`, "
            f"which {contract.name} does not state"
        )
        raise ParameterError("rows", "unknown", unstated)
    if count < 1:
        raise ParameterError("rows", count, "a number of rows >= 1")
    return count


def plan_table(
    contract: Contract,
    rows: int | None,
    epsilons: Iterable[float],
    *,
    signal: str | float | None = None,
    trust: str | None = None,
    populations: int | None = None,
    processes: int = 1,
    fast: bool = False,
    progress: Progress | None = None,
) -> TablePlan:
    """Simulate every method on made-up tables of a contract's shape.

    Args:
        rows: as publicly stated; None is the contract's `population`, or of a benchmark of
            DP-TabICL what its Table VI prints.
        epsilons: in nats, each of one release.
        signal: AUC of a classifier on the raw rows, as known from public sources, or a word for it;
            None simulates a weak, a medium and a strong one.
        trust: who may see true rows: `central`, a curator; `local`, nobody; None compares all
            methods.
        populations: made-up tables for each signal, at least two; None is `POPULATIONS` of the
            signal that decides, and half as many of the others.
        processes: that share them; more than one need a `__main__` that can be imported.
        fast: fewer made-up tables, of the medium signal alone, and of a curator's methods where no
            `trust` is named.
        progress: is given how many populations are done, and of how many.

    Raises:
        ParameterError: a value is out of range, or no method fits.
    """
    count = _count_of(contract, rows)
    try:
        asked = tuple(sorted({parse_epsilon(epsilon) for epsilon in epsilons}))
    except ValueError as error:
        raise ParameterError(
            "epsilons", *str(error).removeprefix("got ").split("; expected ")
        ) from None
    if not asked or math.inf in asked:
        raise ParameterError("epsilons", list(asked), "finite numbers > 0")
    if trust not in (None, *get_args(Trust)):
        raise ParameterError("trust", repr(trust), f"one of {', '.join(get_args(Trust))}")
    if fast and trust is None:
        trust = "central"
    ways, refused = candidates(contract, asked)
    ways = [way for way in ways if trust is None or METHODS[way.method].trust == trust]
    if not ways:
        raise ParameterError(
            "methods",
            trust or "all",
            f"one that releases {contract.name}: {'; '.join(refused.values())}",
        )
    signals = SIGNALS if signal is None else {"stated": read_signal(str(signal))}
    if contract.target.count == 1:
        signals = {}
    middle = sorted(signals.values())[len(signals) // 2] if signals else None
    others = [] if fast else [strength for strength in signals.values() if strength != middle]
    waves = _waves(middle, others, populations, fast=fast)
    simulated = _Simulated(contract, min(count, MOST_ROWS), asked, ways)
    pool = (
        ProcessPoolExecutor(processes, mp_context=fork_server([__name__]))
        if processes > 1
        else nullcontext()
    )
    done = 0
    with pool as executor:
        for wave in waves:
            for _ in simulated.go_on(wave, map if executor is None else executor.map):
                done += 1
                if progress is not None:
                    progress(done, sum(map(len, waves)))
            simulated.leave_behind(middle)
    shown = {name: strength for name, strength in signals.items() if strength in (middle, *others)}
    outlooks = [
        outlook for strength in shown.values() or [None] for outlook in simulated.outlooks(strength)
    ]
    return TablePlan(contract.name, count, simulated.rows, shown, tuple(outlooks), refused)


def _waves(
    middle: _Signal, others: Sequence[float], populations: int | None, *, fast: bool
) -> list[list[tuple[_Signal, int]]]:
    """Equation (3): signals and numbers of populations, those that all ways are simulated on
    first.
    """
    first, whole = FAST if fast else (FEWEST, POPULATIONS)
    if populations is not None:
        first = whole = populations
    beside = [(strength, number) for strength in others for number in range(-(-whole // 2))]
    return [
        [(middle, number) for number in range(first)],
        [*((middle, number) for number in range(first, whole)), *beside],
    ]


def expected(point: ReleasePoint, rows: int) -> Quality | None:
    """What a plan says of this release of so many rows; None of averages and of series, which are
    judged by their noise.
    """
    contract, method = point.contract, point.method
    if not method.derive_stage or method.is_series(contract) or not rows:
        return None
    way = Candidate(method.name, point.options, point.asked.shots or 1)
    signal = None if contract.target.count == 1 else USUAL
    simulated = _Simulated(contract, min(rows, MOST_ROWS), (point.asked.epsilon,), [way])
    for _ in simulated.go_on([(signal, number) for number in range(FEWEST)], map):
        pass
    (outlook,) = simulated.outlooks(signal)
    return replace(outlook.quality, row_count=rows)


class _Simulated:
    """Ways of release, each on some populations of some signals."""

    def __init__(
        self,
        contract: Contract,
        rows: int,
        epsilons: Sequence[float],
        ways: Sequence[Candidate],
    ) -> None:
        self.contract, self.rows, self.epsilons, self.ways = contract, rows, epsilons, ways
        self._left = list(range(len(ways)))
        self._found: dict[tuple[_Signal, int], list[tuple[AnswerQuality | None, Outcomes]]] = {}

    def go_on(
        self, wave: Sequence[tuple[_Signal, int]], run: Callable[..., Iterable[Trial]]
    ) -> Iterator[None]:
        """Simulate the ways that are left on these populations, signal and number of each."""
        some = [self.ways[place] for place in self._left]
        once = partial(trial, self.contract, self.rows, self.epsilons, some)
        signals = [signal or _NO_SIGNAL for signal, _ in wave]
        for (signal, _), done in zip(
            wave, run(once, signals, [number for _, number in wave]), strict=True
        ):
            for place, outcomes in zip(self._left, done.outcomes, strict=True):
                self._found.setdefault((signal, place), []).append((done.truth, outcomes))
            yield

    def leave_behind(self, signal: _Signal) -> None:
        """Drop ways that lose much more than the best one at every epsilon."""
        values = {
            (place, outlook.epsilon): outlook.quality.value
            for place in self._left
            for outlook in self._outlooks(signal, place)
        }
        best = {
            epsilon: max(value for (_, at), value in values.items() if at == epsilon)
            for epsilon in self.epsilons
        }
        self._left = [
            place
            for place in self._left
            if any(values[place, epsilon] >= best[epsilon] - _BEHIND for epsilon in self.epsilons)
        ]

    def outlooks(self, signal: _Signal) -> Iterator[Outlook]:
        """Of every way that was simulated, and epsilon."""
        for place in range(len(self.ways)):
            if (signal, place) in self._found:
                yield from self._outlooks(signal, place)

    def _outlooks(self, signal: _Signal, place: int) -> Iterator[Outlook]:
        contract, way = self.contract, self.ways[place]
        method = tabular(way.method)
        releases = points(method, way.unit(contract, self.epsilons)).values()
        for point in releases:
            found = [
                (truth, outcomes[point.epsilon]) for truth, outcomes in self._found[signal, place]
            ]
            losses = [
                truth.auc - outcome.quality.auc
                for truth, outcome in found
                if truth and outcome.quality
            ]
            scores: tuple[Score, ...] = ()
            if signal is not None and losses:
                auc = signal - float(np.mean(losses))
                own = half_width(losses) if len(losses) > FAST[0] else _FAST_HALF
                half = max(own, _TABLES * (signal - auc))
                scores = (Score("AUC", auc, max(0.0, auc - half), min(1.0, auc + half)),)
            marginals = [
                Marginal(names, float(np.mean([outcome.errors[names] for _, outcome in found])))
                for names in found[0][1].errors
            ]
            quality = Quality(
                ReleasePoint(contract, method, point),
                columns=tuple(error for error in marginals if len(error.columns) == 1),
                pairs=tuple(error for error in marginals if len(error.columns) == 2),
                scores=scores,
                signal=signal,
            )
            yield Outlook(way, quality, method.cost(contract, point).charged.epsilon)
