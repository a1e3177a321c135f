"""How good a release is once it is there: it is simulated again, which shows how far its rows are
from the rows they stand for, and what a classifier promises and keeps.

Guarantee   none spent: rows are drawn from what was released, and released again with the same law
            of noise.
Paper       parametric bootstrap: Efron 1979; the regression of what is true on what is seen:
            Beaumont, Zhang and Balding 2002. pMSE: Snoke, Raab, Nowok, Dibben and Slavkovic 2018;
            train on synthetic, test on real: Esteban, Hyland and Raetsch 2017.

    1  Z   <- rows of the release's model, as many as there are rows, as they are given out: all of
       Z, of R and of R' keep the relations that the contract states
    2  D   <- a release of Z with the same epsilon and law of noise;  R <- rows of D's model
    3  error of a marginal: its total variation between R (or the model's own shares) and Z, where
       it is counted
    4  Z'  <- for s in 0..1 labels of a share 1 - s of Z are shuffled; for s in 1..2 a share s - 1
       of them are as a classifier has them that is fitted on the release, each label as often as
       before:   s even from no signal to a label that the columns decide
    5  a classifier fitted on R' of Z' scores p on R', where it is promised, and t on Z', where it
       is true

    (1)  expected error of a marginal: the mean of its total variation over replicates
    (2)  effective rows n:  mean of A_k / sqrt(n)  =  mean of (1),   A_k / sqrt(n) the expected
         error of n rows without noise
    (3)  classifier: probit t = a + b probit p over replicates near the p that is seen;  t there,
         and where it is with 90 %. Of numbers gains in the place of the probit, - log(1 - R2) and
         - log(MAE / MAE of the mean): 0 of the mean, and below 0 of what is worse
    (4)  the deviation of probit t: that of (3), and 0.15 of probit t for dependence that nothing
         counted
    (5)  a method that smooths (Tab-PE: rows vote for near candidates) takes less from Z, which is
         smooth already, than from the rows: (c - 1) e is added to R - Z;   e the mean of R - Z over
         replicates, e' that of releases of R,   c = e.e / e.e' over all columns, less their noise,
         from 1 to 4; 1 where e is no more than noise
    (6)  the lower end of an R2 below 0, which is an error as a part of the label's variance: over
         1 - 3 s / v,   v the variance by released shares, s the deviation that their noise gives
         it. Noise makes rare labels frequent, and so v too large: 3, and not 1.645. The lower end
         of an MAE: times the root of that

Where the rows themselves are public, true values stand beside:

    (7)  total variation of every one, two and three columns, the label among them, between released
         and real rows; the mean of each
    (8)  pMSE = mean over released and as many real rows of (p - 1/2)^2,   p what logistic
         regression says of a row's being released; 0 where nothing tells rows apart, 1/4 at most
    (9)  classifiers fitted on released rows, and on real ones, score on rows that are held out

Step 4 is there because noise looks like signal: at a small epsilon rows of a model show a strong
one whether or not there is any. Noise hides signal too, so that there may be more than they show.
The same counts fit the classifier and judge it: what its own rows promise, p, is too good, and (3)
says by how much. No replicate says how far the model is from the population; (4) takes it from
public tables released without noise.

Symbols     s strength of the signal; k columns with the label; p what the classifier scores on
            released rows, t in the population.
Not covered dependence between columns that nothing counted: Z has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from math import comb, prod
from statistics import fmean
from typing import Any

import numpy as np
from scipy import special

from dpicl.contract.payment import UNPAID_TRUTH
from dpicl.data.related_rows import Raking, aims_of, kept
from dpicl.ground.errors import PrivacyError
from dpicl.ground.progress import Update, counter
from dpicl.ground.randomness import Draws, stream
from dpicl.ground.types import MADE_ROWS, PrivateCodes, SplitTable
from dpicl.methods.tabular_method import TabularMethod
from dpicl.quality.measures import (
    MEASURES,
    OF_NUMBERS,
    Columns,
    as_numbers,
    classifier,
    compounding,
    fitted,
    indicators,
    learned,
    marginal,
    mean_of,
    sampling_variation,
    scores,
    total_variation,
    width_of,
)
from dpicl.quality.modelled import ENOUGH, MOST_DRAWN, Modelled, related_model, shares_of
from dpicl.quality.number_quality import number_quality, of_any_numbers
from dpicl.quality.worth import (
    LEVEL,
    Actual,
    Marginal,
    Quality,
    ReleasePoint,
    Score,
    Trained,
    quality_by_noise,
)

_MOST_ROWS = 1 << 17
"""More clients are not simulated: what a larger collection gains on so many, nobody sees."""
_MOST_PAIRS, _MOST_SETS = 200, 200
_NEAR = 0.5
"""The share of replicates, the nearest ones, that (3) is fitted on."""
_EDGE, _STRONGEST = 1e-4, 2.0
_TWICE = 10
"""Releases of equation (5) that are released again."""
_BIASED, _LEAST_LEFT = 3.0, 0.1
"""Of equation (6)."""
_MISFIT = 0.15
"""Of nine public tables whose counts have no noise, eight have a probit of the score within 1.645
times this share of what rows of their model promise; the ninth, `car`, whose label is a rule over
all columns, scores far better than these.
"""
_NUMBER_MISFIT, _LEAST_MISFIT = 0.25, 0.06
"""The same of the gains of (3), where a model of bins leaves out more, and the least there."""


class Replicates:
    """One release, and releases of rows of its model; the same ones again each time. `step` is
    called after each.
    """

    def __init__(
        self, point: ReleasePoint, drawn: Any, step: Callable[[], None] = lambda: None
    ) -> None:
        self.point, self.drawn, self._step = point, drawn, step
        self.binned = point.of_release(drawn)
        self.sizes = self.binned.encoding.bin_counts
        self.rows = max(1, round(point.method.row_count(drawn)))
        self.least = point.method.least_errors(drawn, point.asked)
        self.draws = Draws(0, point.contract.name, simulated=True)
        self.model = self._modelled(drawn, self.draws, MADE_ROWS, 8 * MOST_DRAWN)
        form = point.method.form(self.binned.contract, point.asked)
        self.form = form.seen(form.encoding.encode(self.model.bins))
        label = self.form.label
        is_number = point.contract.target.kind == "number" and label is not None
        self.means = label.means(self.sizes[-1]) if label and is_number else None

    def least_error(self, columns: Columns) -> float:
        """Below which that of a marginal is not."""
        return max(self.least.get(column, 0.0) for column in columns)

    def _modelled(
        self, drawn: Any, draws: Draws, least: int = ENOUGH, largest: int = MOST_DRAWN
    ) -> Modelled:
        """Of the release, or of a replicate; `least` and `largest` as `Raking.of` takes them."""
        method = self.point.method
        place = self.point.place
        codes = method.rows(drawn, *place, draws).codes
        counted = method.counted(drawn, self.point.contract)
        contract = self.binned.contract
        if not contract.relations:
            return Modelled(self.binned.encoding.decode(codes), counted)

        def draw(size: int) -> np.ndarray:
            return codes if size <= len(codes) else method.rows(drawn, *place, draws, size).codes

        chance = draws.public("quality-relations", self.point.asked.key).generator()
        form = method.form(contract, self.point.asked).seen(codes)
        aims = aims_of(counted)
        raking = Raking.of(form, contract, draw, chance, aims, least=least, largest=largest)
        return related_model(form, raking, counted, contract, chance)

    def _released(self, population: np.ndarray, draws: Draws) -> tuple[np.ndarray, Modelled]:
        """Rows that stand for all rows, and what a release of them is made into."""
        chance = draws.public("quality-rows", self.point.asked.key).generator()
        table = population[chance.permutation(len(population))[: min(self.rows, len(population))]]
        truth = PrivateCodes(self.binned.encoding.encode(table))
        rows = min(self.rows, max(_MOST_ROWS, len(table)))
        drawn = self.point.method.replicate(truth, rows, self.drawn, *self.point.place, draws)
        return table, self._modelled(drawn, draws)

    def _draws(self, number: int, which: str) -> Draws:
        return Draws(number, f"{self.point.contract.name} {which}", simulated=True)

    def shares(self, columns: Columns) -> np.ndarray:
        """Of the release."""
        return shares_of(self.model, columns, self.sizes)

    def numbers(self) -> dict[Columns, np.ndarray]:
        """By column of plain numbers the mean of each of its bins, NaN of a missing one."""
        return {
            (place,): self.model.means.get((place,), meaning.means(self.sizes[place]))
            for place, meaning in enumerate(self.form.meanings)
            if not meaning.categories and meaning.number.plain
        }

    def _smoothed(self, marginals: Sequence[Columns], count: int) -> list[np.ndarray]:
        """By marginal what equation (5) adds to its shares in R."""
        count, width = min(count, _TWICE) if self.point.method.smooths else 0, len(self.sizes)
        every: list[Columns] = [*((place,) for place in range(width)), *marginals]
        shapes = [tuple(self.sizes[i] for i in one) for one in every]
        ends = np.cumsum([prod(shape) for shape in shapes])
        off = np.zeros((2, count, ends[-1]))
        for number in range(count):
            bins = self.model.bins
            for place, which in enumerate(("errors", "again")):
                table, modelled = self._released(bins, self._draws(number, which))
                for one, part in zip(every, np.split(off[place, number], ends[:-1]), strict=True):
                    part += shares_of(modelled, one, self.sizes).ravel()
                    part -= marginal(table, one, self.sizes).ravel()
                bins = modelled.bins
        more = compounding(*off[:, :, : sum(self.sizes)]) - 1
        added = np.split(more * off[0].sum(axis=0) / max(count, 1), ends[:-1])
        return [part.reshape(shape) for part, shape in zip(added, shapes, strict=True)][width:]

    def errors(
        self, marginals: Sequence[Columns], count: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[Columns, np.ndarray]]:
        """Steps 2 and 3 so many times: shape (marginals,), the mean over replicates that count a
        marginal, or over all if none does; of single columns the largest difference of
        cumulative shares; of columns of `numbers` the root mean square difference of means, and by
        column that of the shares of each of its bins.

        No less than `least_error`: Z has columns nearly even whose counts were drowned by noise, as
        every release of it has.
        """
        errors, cumulative, apart = np.zeros((3, count, len(marginals)))
        middles, added = self.numbers(), self._smoothed(marginals, count)
        squares = {columns: np.zeros(len(means)) for columns, means in middles.items()}
        counted = np.ones((count, len(marginals)), dtype=bool)
        for number in range(count):
            table, modelled = self._released(self.model.bins, self._draws(number, "errors"))
            for place, columns in enumerate(marginals):
                found, true = (
                    shares_of(modelled, columns, self.sizes) + added[place],
                    marginal(table, columns, self.sizes),
                )
                errors[number, place] = total_variation(found, true)
                cumulative[number, place] = np.abs(np.cumsum(found - true)).max()
                if columns in middles:
                    means = [mean_of(middles[columns], shares)[0] for shares in (found, true)]
                    apart[number, place] = means[0] - means[1]
                    squares[columns] += (found - true) ** 2
                counted[number, place] = (
                    not modelled.counted or len(columns) < 3 or columns in modelled.counted
                )
            self._step()
        counted |= ~counted.any(axis=0)
        least = np.array([self.least_error(columns) for columns in marginals])
        mean = (errors * counted).sum(axis=0) / counted.sum(axis=0)
        return (
            np.maximum(mean, least),
            np.maximum(cumulative.mean(axis=0), least),
            np.sqrt(np.mean(apart**2, axis=0)),
            {columns: np.sqrt(total / count) for columns, total in squares.items()},
        )

    def deviations(self, marginals: Sequence[Columns], count: int) -> list[np.ndarray]:
        """Of each marginal's cells, the root mean square of what steps 2 and 3 do to their shares,
        so many times.
        """
        added = self._smoothed(marginals, count)
        squares = [np.zeros_like(one) for one in added]
        for number in range(count):
            table, modelled = self._released(self.model.bins, self._draws(number, "errors"))
            for columns, more, total in zip(marginals, added, squares, strict=True):
                released = shares_of(modelled, columns, self.sizes) + more
                total += (released - marginal(table, columns, self.sizes)) ** 2
            self._step()
        return [
            np.maximum(np.sqrt(total / count), 2 * self.least_error(columns) / total.size)
            for columns, total in zip(marginals, squares, strict=True)
        ]

    def _keeping(self, bins: np.ndarray, chance: np.random.Generator) -> np.ndarray:
        """Of rows with other labels those that keep relations of the label; all if none does."""
        contract = self.binned.contract
        name = contract.label_column
        if not any(name in relation.columns for relation in contract.relations):
            return bins
        codes = self.binned.encoding.encode(bins)
        keeping = kept(self.form, codes, chance.random(bins.shape), contract, shown=False)
        return self.binned.encoding.decode(keeping.codes) if len(keeping.codes) else bins

    def _labels_by_columns(self) -> np.ndarray:
        """Labels of step 4 with s = 2, of all rows of the model: the rarest first, to the rows of
        which a classifier finds it most likely.
        """
        bins = self.model.bins
        model = learned(bins, self.sizes, self.draws)
        labels = bins[:, -1].copy()
        if model is None:
            return labels
        chances = model.predict_proba(indicators(bins[:, :-1], self.sizes[:-1]))
        chances += 1e-9 * self.draws.public("quality-ties", "").generator().random(chances.shape)
        counts = np.array([np.count_nonzero(labels == code) for code in model.classes_])
        left = np.arange(len(labels))
        for place in np.argsort(counts):
            best = np.argsort(-chances[left, place])
            labels[left[best[: counts[place]]]] = model.classes_[place]
            left = left[best[counts[place] :]]
        labels[left] = model.classes_[np.argmax(counts)]
        return labels

    def scores(self, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Steps 4 and 5 so many times: what a classifier promises and keeps, each of shape (count,
        measures); and the root mean square of what is added to the labels' shares.
        """
        promised, kept, added = [], [], []
        label = (len(self.sizes) - 1,)
        by_columns = self._labels_by_columns()
        for number in range(count):
            draws = self._draws(number, "scores")
            chance = draws.public("quality-signal", self.point.asked.key).generator()
            made_up = self.model.bins.copy()
            strength, uniform = _STRONGEST * (number + 1) / count, chance.random(len(made_up))
            shuffled = np.flatnonzero(uniform >= strength)
            made_up[shuffled, -1] = made_up[chance.permutation(shuffled), -1]
            decided = np.flatnonzero(uniform < strength - 1)
            made_up[decided, -1] = by_columns[decided]
            made_up = self._keeping(made_up, chance)
            table, modelled = self._released(made_up, draws)
            self._step()
            bins = modelled.bins
            added.append(marginal(bins, label, self.sizes) - marginal(table, label, self.sizes))
            model = learned(bins, self.sizes, draws)
            promised.append(scores(model, bins, self.sizes, means=self.means))
            kept.append(scores(model, made_up, self.sizes, means=self.means))
        return np.array(promised), np.array(kept), np.sqrt(np.mean(np.square(added), axis=0))

    def constants(self) -> dict[str, float]:
        """By measure what the most frequent label scores among released rows, or the mean."""
        shares = marginal(self.model.bins, (len(self.sizes) - 1,), self.sizes)
        if self.means is None:
            return {"AUC": 0.5, "accuracy": float(shares.max())}
        known = ~np.isnan(self.means)
        means, shares = self.means[known], shares[known]
        apart = np.abs(means - np.average(means, weights=shares))
        return {"R2": 0.0, "MAE": float(np.average(apart, weights=shares)) / width_of(self.means)}

    def variance_left(self, added: np.ndarray) -> float:
        """Equation (6): the part of the label's variance that the noise of its shares leaves for
        certain.
        """
        assert self.means is not None
        shares = marginal(self.model.bins, (len(self.sizes) - 1,), self.sizes)
        known = ~np.isnan(self.means)
        means, shares, added = self.means[known], shares[known], added[known]
        far = (means - np.average(means, weights=shares)) ** 2
        variance = max(float(shares @ far), 1e-12)
        noise = float(np.sqrt(np.sum((added * far) ** 2)))
        return max(_LEAST_LEFT, 1 - _BIASED * noise / variance)


def quality_of(
    point: ReleasePoint,
    drawn: Any,
    *,
    test: SplitTable | None = None,
    count: int = 40,
    progress: Update = lambda done, total: None,
) -> Quality:
    """How good a release is that is there; looks at no row of a private table.

    Args:
        drawn: as the method's `decode` gives it. Of a release that cannot be simulated, as of
            averages, what noise does to it is all that is known.
        test: of a benchmark, the rows that were released and those that were held out: true values
            are stated beside.
        count: how often the release is simulated for the classifier; half as often for marginals.
        progress: is given how many simulations are done, and of how many.

    Raises:
        PrivacyError: rows are given of a table that is no benchmark.
    """
    contract, method = point.contract, point.method
    if test is not None and not contract.is_benchmark:
        raise PrivacyError(
            f"{contract.name}: {UNPAID_TRUTH}; expected a contract with `benchmark: true`"
        )
    if method.derive_stage is None or type(method).replicate is TabularMethod.replicate:
        return quality_by_noise(point)
    fewer = max(1, count // 2)
    is_scored = point.of_release(drawn).encoding.bin_counts[-1] > 1
    again = Replicates(point, drawn, counter(progress, fewer + count * is_scored))
    sizes = again.sizes
    names = [*again.binned.encoding.names]
    if again.form.label is not None:
        names[-1] = again.form.label.column  # as its owner calls it
    counted = again.model.counted
    label = len(sizes) - 1
    singles: list[Columns] = [(column,) for column in range(label + (sizes[-1] > 1))]
    with_label: list[Columns] = [(column, label) for column in range(label) if sizes[-1] > 1]
    pairs: list[Columns] = [columns for columns in counted if len(columns) == 3]
    if not counted and method.has_pairs(drawn):
        pairs += list(combinations(range(label), 2))[:_MOST_PAIRS]
    chosen = [*singles, *with_label, *pairs]
    found, cumulative, apart, noise = again.errors(chosen, fewer)
    far = float(special.stdtrit(fewer, (1 + LEVEL) / 2)) * apart
    errors = dict(zip(chosen, found.tolist(), strict=True))
    parts = None
    if test is not None:
        parts = again.binned.bins(test.train), again.binned.bins(test.test)

    def marginals(some: list[Columns]) -> Iterator[Marginal]:
        for columns in some:
            true = None
            if parts is not None:
                released = again.shares(columns)
                true = total_variation(released, marginal(parts[0], columns, sizes))
            named = tuple(names[column] for column in columns if sizes[column] > 1)
            yield Marginal(named, errors[columns], true)

    judged = {columns: errors[columns] for columns in with_label or singles}
    return Quality(
        point,
        row_count=method.row_count(drawn),
        effective_rows=_effective_rows(again, judged),
        columns=tuple(marginals(singles)),
        with_label=tuple(marginals(with_label)),
        pairs=tuple(marginals(pairs)),
        numbers=tuple(number_quality(again, cumulative.tolist(), far.tolist(), noise, test)),
        scores=_scores(again, count, parts and parts[1]),
        actual=parts and _actual(again.binned, again.model.bins, *parts),
    )


_SIMULATED, _SURE = 12, 0.01
"""Of equations (3) and (4) for a predictor; and how far below the most frequent label it may be."""


def beats_constant(
    point: ReleasePoint, drawn: Any, progress: Update = lambda done, total: None
) -> bool:
    """Whether a model fitted on released rows is sure to be right about as often as the most
    frequent label is, and at once where noise is next to none; of a number, to be better than the
    mean: by the lower end of its interval.
    """
    contract, method = point.contract, point.method
    rows = max(1, round(method.row_count(drawn)))
    kind = contract.target.kind
    if kind not in ("binary", "classes", "number") or method.is_series(contract):
        return True
    if type(method).replicate is TabularMethod.replicate:
        return True
    if kind != "number" and quality_by_noise(point.of_release(drawn), rows).is_little:
        return True
    again = Replicates(point, drawn, counter(progress, _SIMULATED))
    scores = {score.measure: score for score in _scores(again, _SIMULATED, None)}
    if kind == "number":
        return scores["R2"].is_sure
    accuracy = scores["accuracy"]
    return accuracy.low >= (accuracy.constant or 0.0) - _SURE


def _effective_rows(again: Replicates, errors: Mapping[Columns, float]) -> float | None:
    """Equation (2); None where there is no noise."""
    noisy = sum(errors.values())
    exact = sum(sampling_variation(again.shares(columns)) for columns in errors)
    return (exact / noisy) ** 2 if noisy else None


def _scores(again: Replicates, count: int, test: np.ndarray | None) -> tuple[Score, ...]:
    """Equations (3) and (4) for both measures."""
    if again.sizes[-1] == 1:
        return ()
    bins = again.model.bins
    model = learned(bins, again.sizes, again.draws)
    promised, kept, added = again.scores(count)
    seen = scores(model, bins, again.sizes, means=again.means)
    true = None
    if test is not None and len(test):
        true = scores(model, test, again.sizes, means=again.means)
    constants = again.constants()
    found = []
    for i, measure in enumerate(MEASURES if again.means is None else OF_NUMBERS):
        judged = promised[:, i], kept[:, i], np.array(seen[i])
        interval = _scaled(measure, constants[measure], judged)
        if again.means is not None:
            interval = _of_true_variance(measure, interval, again.variance_left(added))
            interval = of_any_numbers(
                measure,
                interval,
                again.form.meanings[-1],
                again.means,
                again.shares((len(again.sizes) - 1,)),
                added,
            )
        # an error in the label's own numbers
        unit = width_of(again.means) if again.means is not None and measure == "MAE" else 1.0
        estimate, low, high = (unit * value for value in interval)
        known = None if true is None else unit * true[i]
        constant = unit * constants[measure]
        found.append(Score(measure, estimate, low, high, unit * seen[i], known, constant))
    return tuple(found)


def _scaled(
    measure: str, constant: float, judged: tuple[np.ndarray, ...]
) -> tuple[float, float, float]:
    """Estimate, low and high of what replicates promise and keep, and what is seen."""
    if measure in MEASURES:
        shares = [special.ndtri(np.clip(scored, _EDGE, 1 - _EDGE)) for scored in judged]
        return _three(special.ndtr(_interval(shares, _MISFIT)))
    if measure == "R2":
        gains = [-np.log(np.maximum(1 - scored, _EDGE)) for scored in judged]
        return _three(1 - np.exp(-np.array(_interval(gains, _NUMBER_MISFIT, _LEAST_MISFIT))))
    gains = [-np.log(np.maximum(scored, _EDGE) / constant) for scored in judged]
    estimate, low, high = _interval(gains, _NUMBER_MISFIT, _LEAST_MISFIT)
    # the larger the gain, the smaller the error
    return _three(np.minimum(1, constant * np.exp(-np.array([estimate, high, low]))))


def _three(values: Any) -> tuple[float, float, float]:
    estimate, low, high = np.asarray(values).tolist()
    return estimate, low, high


def _of_true_variance(
    measure: str, interval: tuple[float, float, float], left: float
) -> tuple[float, float, float]:
    """Equation (6)."""
    estimate, low, high = interval
    if measure == "MAE":
        return estimate, low * np.sqrt(left), high
    return estimate, low / left if low < 0 else low, high


def _interval(
    judged: Sequence[np.ndarray], misfit: float, least: float = 0.0
) -> tuple[float, float, float]:
    """Estimate, low and high of equations (3) and (4) on their scale; nearer replicates count
    more.
    """
    promised, kept, seen = judged
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
        float(weights @ left**2) * size / freedom * (1 + leverage)
        + (misfit * centre) ** 2
        + least**2
    )
    far = float(special.stdtrit(freedom, (1 + LEVEL) / 2)) * deviation
    return centre, centre - far, centre + far


def _actual(point: ReleasePoint, bins: np.ndarray, train: np.ndarray, test: np.ndarray) -> Actual:
    """Equations (7) to (9) of rows that are given as bins; `train` and `test` are public."""
    sizes = point.encoding.bin_counts
    chance = stream(0, "quality-benchmark", point.contract.name, "").generator()
    variation = {}
    for count in range(1, min(3, len(sizes)) + 1):
        if comb(len(sizes), count) <= _MOST_SETS:
            sets = list(combinations(range(len(sizes)), count))
        else:
            sets = [
                tuple(sorted(chance.permutation(len(sizes))[:count].tolist()))
                for _ in range(_MOST_SETS)
            ]
        variation[count] = fmean(
            total_variation(marginal(bins, some, sizes), marginal(train, some, sizes))
            for some in sets
        )
    rows = min(len(bins), len(train))
    both = np.vstack(
        [indicators(part[chance.permutation(len(part))[:rows]], sizes) for part in (bins, train)]
    )
    says = classifier().fit(both, np.repeat([1, 0], rows)).predict_proba(both)[:, 1]
    trained = []
    if sizes[-1] > 1 and len(test):
        # a second to import: only where it is called
        from sklearn.ensemble import (
            HistGradientBoostingClassifier,
        )

        trees = max(20, 120 // sizes[-1])
        boosting = HistGradientBoostingClassifier(
            max_iter=trees, max_leaf_nodes=15, early_stopping=False, random_state=0
        )
        for name, model, features in (
            ("logistic regression", classifier(sizes[-1]), indicators),
            ("gradient boosting", boosting, as_numbers),
        ):
            ours, theirs = (
                scores(fitted(model, part, sizes, features), test, sizes, features)
                for part in (bins, train)
            )
            trained += [
                Trained(name, measure, ours[i], theirs[i]) for i, measure in enumerate(MEASURES)
            ]
    return Actual(variation, float(np.mean((says - 0.5) ** 2)), tuple(trained))
