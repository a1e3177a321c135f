"""What DP few-shot generation writes, under which noise, what it costs, and the guarantee in words:
all known before a row is read.

Guarantee   states it; `few_shot_generation` keeps it.

    fresh batches   rows of a label, Poisson-sampled at q = M N / rows, for each of T tokens of each
                    of
                    its s texts:             T s  events on samples
    fixed batches   every row votes on all T tokens of one text at most, if it is in one sample at
                    all:
                                             T    events, pure ones amplified once
    private tokens  of a text, at most r are selected by rows, each after its tests: r pairs of
                    events
    invisible-ink   T choices of one bounded range for a row in one sample, sampled once as a whole;
                    under replace-one T of twice the range, whether a row stays in its text or
                    changes it
    labels          have rows of their own:  in parallel; under replace-one a row may leave one
                    label and enter another: two of the costliest in sequence
    horizon         a text stands in the delivery of one period, which that period's texts alone are
                    written from; to all others it is what was published of it. So histories that
                    differ in one text differ in the input of one period: (epsilon, delta) of one
                    period is that of all, adaptive deliveries included. A text that is delivered
                    twice is two.

Symbols     M subsets, N rows in each, T most tokens of a text, s texts of one label, r private
            tokens.

From `VoteSampling` on: sampling a token from noisy votes in place of their largest: temperature,
top-k and nucleus.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np

from dpicl.accounting.accountant import bracket, price
from dpicl.accounting.calibration import (
    calibrate,
    calibrate_pure,
    rational_above,
    rational_below,
    subsampled_gaussian,
)
from dpicl.accounting.events import parallel, poisson_sampled, pure, repeated, sequential
from dpicl.accounting.guarantee import Event, Guarantee, Neighbours
from dpicl.contract.payment import DELTA_STATED
from dpicl.contract.pipeline import Point
from dpicl.contract.text import Generation, TextContract
from dpicl.ground.errors import PrivacyError
from dpicl.ground.installed import extra_missing
from dpicl.ground.randomness import Stream
from dpicl.mechanisms.difference_token import DifferenceToken
from dpicl.mechanisms.private_token import UNITS, NoiseKind, TokenNoise
from dpicl.mechanisms.sparse_vector import SparseVector
from dpicl.methods.base import draws_for, shots_of
from dpicl.methods.options import FewShotVariant

_WORD = 64


@dataclass(frozen=True)
class VoteSampling:
    """How a token follows from noisy votes; without `top_k` or `top_p` every candidate may be
    drawn.
    """

    temperature: float
    top_k: int | None = None
    top_p: float | None = None

    def draw(self, noisy: Sequence[int] | np.ndarray, stream: Stream) -> int:
        """The place of a token by equations (1) and (2); `noisy`: whole numbers of any size, shape
        (candidates,).
        """
        votes = np.array([float(max(vote, 0)) for vote in noisy])
        if not votes.any():
            return int(np.array(noisy, dtype=object).argmax())
        order = np.argsort(-votes, kind="stable")[: self.top_k]
        weights = (votes[order] / votes[order[0]]) ** (1 / self.temperature)
        shares = np.cumsum(weights / weights.sum())
        if self.top_p is not None:
            shares = shares[: int(np.searchsorted(shares, self.top_p)) + 1]
        uniform = int(stream.words(1, np.uint64)[0]) / 2**_WORD * shares[-1]
        return int(order[min(int(np.searchsorted(shares, uniform, side="right")), len(shares) - 1)])


TokenKind = NoiseKind | Literal["invisible-ink"]
AGREEMENT: dict[TokenKind, float] = {
    "gaussian": 0.5,
    "exponential": 0.5,
    "clipped-logits": 0.95,
    "invisible-ink": 0.5,
}
"""Share of votes from which on the model's own token is taken, where a pipeline says nothing."""
RANDOM_ROWS = "random-rows"
"""The system whose demonstrations are real rows, without noise."""
TEST_SHARE = Fraction(1, 3)
"""Of what a private token may cost, for the tests before it."""


@dataclass(frozen=True)
class GenerationShape:
    """The public sizes of a generation, the variant's where it has its own, else the contract's."""

    kind: TokenKind
    fixed: bool
    voters: int | None
    examples: int
    candidates: int | None
    max_tokens: int
    clip: float
    private_tokens: int | None = None
    agreement: Fraction = Fraction(1, 2)
    temperature: Fraction | None = None
    sampling: VoteSampling | None = None
    """Of Gaussian noise: how a token is sampled, where it is not the one with most votes."""

    @staticmethod
    def of(contract: TextContract, chosen: FewShotVariant) -> GenerationShape:
        """Sizes of every text that is so chosen."""
        stated = sizes_of(contract)
        fixed = chosen.batches == "fixed"
        is_ink = chosen.mechanism == "invisible-ink"
        candidates = {"contract": stated.candidates, "all": None}.get(
            str(chosen.candidates), chosen.candidates
        )
        return GenerationShape(
            chosen.mechanism,
            fixed,
            chosen.voters or (None if fixed else stated.subsets),
            1 if fixed else chosen.examples or stated.examples,
            None if candidates is None else int(candidates),
            chosen.max_tokens or stated.max_tokens,
            chosen.clip,
            chosen.private_tokens,
            Fraction(str(chosen.agreement or AGREEMENT[chosen.mechanism])),
            temperature=Fraction(str(chosen.temperature or 1)) if is_ink else None,
            sampling=None
            if is_ink or chosen.temperature is None
            else VoteSampling(chosen.temperature, chosen.top_k, chosen.top_p),
        )

    @property
    def words(self) -> str:
        """What a statement and a refusal call it."""
        return self.kind if self.kind == "invisible-ink" else f"{self.kind} noise"

    def sampling_rate(self, row_bound: int, text_count: int) -> Fraction:
        """q for a label of at least so many rows, of which so many texts are written.
        Raises PrivacyError: the label is smaller than what is drawn from it.
        """
        if self.voters is None:
            return Fraction(1)
        drawn = self.voters * (text_count if self.fixed else self.examples)
        if drawn > row_bound:
            raise PrivacyError(
                f"a label of at least {row_bound} rows is smaller than the {drawn} that are drawn "
                "from it; expected fewer voters, examples or shots"
            )
        return Fraction(drawn, row_bound)

    def event(
        self,
        noise: Noise,
        rate: Fraction,
        text_count: int,
        neighbours: Neighbours = Neighbours.ADD_OR_REMOVE_ONE,
    ) -> Event:
        """Everything that is done to the rows of one label; under `replace-one` only invisible ink
        has an event of its own.
        """
        if not self.fixed and isinstance(noise.token, TokenNoise):
            return repeated(
                poisson_sampled(rate, noise.token.event()), self.max_tokens * text_count
            )
        if isinstance(noise.token, DifferenceToken):
            tokens = repeated(noise.token.event(neighbours), self.max_tokens)
            if rate == 1 or neighbours is Neighbours.REPLACE_ONE:
                return tokens
            return poisson_sampled(rate, tokens)
        once = (
            noise.token.event()
            if noise.test is None
            else sequential([noise.test.event(), noise.token.event()])
        )
        tokens = repeated(once, self.private_tokens or self.max_tokens)
        return tokens if self.kind == "gaussian" else poisson_sampled(rate, tokens)

    def threshold(self, row_bound: int, text_count: int) -> int:
        """Votes from which on the model's own token is taken: a share of those that a label of at
        least so many rows has.
        """
        return int(
            self.agreement * (Fraction(self.voters or Fraction(row_bound, text_count)) + 1) * UNITS
        )


@dataclass(frozen=True)
class Noise:
    """On the votes for one text: how a token is selected, and the test whether the model's own will
    do.
    """

    token: TokenNoise | DifferenceToken
    test: SparseVector | None = None


@dataclass(frozen=True)
class VoterPool:
    """Rows that vote on the same texts: those of one label, or all where answers are open."""

    label: str | None
    row_bound: int


@dataclass(frozen=True)
class Drawing:
    """How one pool's rows are drawn for the texts of a cell, and the noise on their votes."""

    rate: Fraction
    noise: Noise
    threshold: int = 0
    """Votes from which on the likeliest token is taken."""


@dataclass(frozen=True)
class TextsPlan:
    """One set of demonstrations: the label of every text, and how each pool votes."""

    point: Point[FewShotVariant]
    shape: GenerationShape
    labels: tuple[str, ...]
    drawings: Mapping[VoterPool, Drawing]
    guarantee: Guarantee


def sizes_of(contract: TextContract) -> Generation:
    """The contract's sizes for this method. Raises PrivacyError: it has none."""
    if contract.generation is None:
        raise PrivacyError(
            f"{contract.name}: its contract has no sizes for few_shot_generation; expected a key "
            f"`generation`"
        )
    return contract.generation


def pool_of(contract: TextContract, label: str) -> VoterPool:
    """Whose rows vote on a text of this label."""
    rows = contract.row_bounds
    if contract.is_classification:
        return VoterPool(label, rows[label])
    return VoterPool(None, rows[""])


def labels_of(contract: TextContract, seed: int, shots: int) -> tuple[str, ...]:
    """Labels of the texts: of the public list in a public random order, every one before any comes
    twice.
    """
    names = tuple(contract.demonstrated)
    order: list[str] = []
    generator = draws_for(contract, seed).public("labels", f"shots={shots}").generator()
    while len(order) < shots:
        order += [names[place] for place in generator.permutation(len(names))]
    return tuple(order[:shots])


def plan_release(contract: TextContract, point: Point[FewShotVariant]) -> TextsPlan:
    """Labels, noise and cost of one release.
    Raises PrivacyError: a label is too small, no noise reaches this epsilon, or the mechanism has
    no price under the contract's neighbours.
    """
    shape = GenerationShape.of(contract, point.options)
    labels = labels_of(contract, point.seed, shots_of(point))
    counts = Counter(pool_of(contract, label) for label in labels)
    rates = {pool: shape.sampling_rate(pool.row_bound, count) for pool, count in counts.items()}
    neighbours = Neighbours(contract.privacy.neighbours)
    budget = contract.privacy.budget
    if math.isinf(point.epsilon):
        silent = Noise(
            _token(shape, None), None if shape.private_tokens is None else SparseVector(None, UNITS)
        )
        noises = dict.fromkeys(counts, silent)
        guarantee = Guarantee(math.inf, 0.0, neighbours, contract.privacy.unit, pure(math.inf))
    else:
        if (
            shape.kind in ("gaussian", "invisible-ink")
            and not budget.benchmark
            and not budget.delta
        ):
            raise PrivacyError(
                f"{contract.name}: its budget has no delta, which {shape.words} needs; expected "
                f"budget.delta, or mechanism exponential{DELTA_STATED}"
            )
        terms = GenerationTerms(
            shape, point.epsilon, float(sizes_of(contract).delta), neighbours, len(counts) > 1
        )
        priced = terms.priced({pool: (rates[pool], count) for pool, count in counts.items()})
        noises = {pool: _noise(terms, *priced[pool]) for pool in counts}
        event = terms.together(
            [shape.event(noises[pool], *priced[pool], neighbours) for pool in counts]
        )
        guarantee = price(
            event, neighbours=neighbours, unit=contract.privacy.unit, delta=terms.delta
        )
    drawings = {
        pool: Drawing(rates[pool], noises[pool], shape.threshold(pool.row_bound, count))
        for pool, count in counts.items()
    }
    return TextsPlan(point, shape, labels, drawings, guarantee)


def _token(shape: GenerationShape, amount: Fraction | None) -> TokenNoise | DifferenceToken:
    """How a token is selected with so much noise."""
    if shape.kind == "invisible-ink":
        assert shape.voters is not None
        return DifferenceToken(amount, shape.voters, shape.temperature or Fraction(1))
    return TokenNoise(shape.kind, amount, shape.fixed)


@dataclass(frozen=True)
class GenerationTerms:
    """What is required of the noise: this epsilon and delta, under this relation, for one label or
    for several.
    """

    shape: GenerationShape
    epsilon: float
    delta: float
    neighbours: Neighbours
    several: bool

    def priced(
        self, drawn: Mapping[VoterPool, tuple[Fraction, int]]
    ) -> dict[VoterPool, tuple[Fraction, int]]:
        """Rate and number of texts that each pool pays for; under replace-one the largest of all,
        since any two may be hit; with invisible ink too, so that one clip applies to all texts.
        """
        if self.neighbours is Neighbours.ADD_OR_REMOVE_ONE and self.shape.kind != "invisible-ink":
            return dict(drawn)
        worst = (max(rate for rate, _ in drawn.values()), max(count for _, count in drawn.values()))
        return dict.fromkeys(drawn, worst)

    def together(self, events: Sequence[Event]) -> Event:
        """The events of all labels as one."""
        if self.neighbours is Neighbours.ADD_OR_REMOVE_ONE:
            distinct = tuple(dict.fromkeys(events))
            return distinct[0] if len(distinct) == 1 else parallel(distinct)
        if self.several and self.shape.kind != "invisible-ink":
            return repeated(events[0], 2)
        return events[0]


@lru_cache(maxsize=1024)
def _noise(terms: GenerationTerms, rate: Fraction, text_count: int) -> Noise:
    """The least noise with which one label's texts cost at most epsilon."""
    shape = terms.shape
    if shape.kind in ("gaussian", "invisible-ink"):

        def noise_of(sigma: float) -> Noise:
            return Noise(
                _token(
                    shape,
                    rational_above(sigma)
                    if shape.kind == "gaussian"
                    else rational_below(1 / sigma),
                )
            )

        def event_at(sigma: float) -> Event:
            return terms.together(
                [shape.event(noise_of(sigma), rate, text_count, terms.neighbours)]
            )

        return noise_of(
            calibrate(
                event_at, epsilon=terms.epsilon, delta=terms.delta, neighbours=terms.neighbours
            )
        )
    if terms.neighbours is not Neighbours.ADD_OR_REMOVE_ONE:
        raise PrivacyError(
            f"mechanism {shape.kind} is priced for add-or-remove-one neighbours only; expected "
            f"mechanism gaussian"
        )
    if not shape.fixed:
        return Noise(
            _token(
                shape,
                rational_below(calibrate_pure(terms.epsilon, rate, shape.max_tokens * text_count)),
            )
        )
    whole = rational_below(calibrate_pure(terms.epsilon, rate, 1))
    if shape.private_tokens is None:
        return Noise(_token(shape, whole / shape.max_tokens))
    test = SparseVector(whole / shape.private_tokens * TEST_SHARE, UNITS)
    return Noise(_token(shape, whole / shape.private_tokens * (1 - TEST_SHARE)), test)


AMOUNTS: dict[TokenKind, str] = {
    "gaussian": "sigma",
    "invisible-ink": "range of a token's privacy losses",
}
"""What its amount of noise is called."""


def amount(plan: TextsPlan) -> str:
    """How much noise the choice of a token gets, in a few words."""
    amounts = _range([float(token.amount or 0) for token in _tokens(plan)])
    return f"{AMOUNTS.get(plan.shape.kind, 'epsilon of a token')} {amounts}"


def statement(
    contract: TextContract, point: Point[FewShotVariant], *, of_period: bool = False
) -> str:
    """The guarantee of one release as a sentence, with its noise and, where it applies and is
    installed, prv-accountant's own bounds.
    """
    plan = plan_release(contract, point)
    shape, guarantee = plan.shape, plan.guarantee
    rates = _range([float(drawing.rate) for drawing in plan.drawings.values()])
    selected = f"{shape.private_tokens} private tokens and their tests"
    clips = _range(
        [token.clip for token in _tokens(plan) if isinstance(token, DifferenceToken)] or [0.0]
    )
    clipped = f", differences clipped at {clips} nats" if shape.kind == "invisible-ink" else ""
    charged = f"{shape.max_tokens} tokens" if shape.private_tokens is None else selected
    # for the label whose rows pay most; prv-accountant knows Gaussian noise without replacement
    # only
    bracketed = ""
    if (
        shape.kind == "gaussian"
        and not shape.fixed
        and guarantee.neighbours is Neighbours.ADD_OR_REMOVE_ONE
        and extra_missing("prv_accountant") is None
    ):
        texts = {
            pool: len(plan.labels) if pool.label is None else plan.labels.count(pool.label)
            for pool in plan.drawings
        }
        with suppress(PrivacyError):  # not within its reach: the price stands without it
            bounds = [
                _bracket(drawing, shape.max_tokens * texts[pool], guarantee)
                for pool, drawing in plan.drawings.items()
            ]
            low, high = (max(ends) for ends in zip(*bounds, strict=True))
            bracketed = f"; prv-accountant bounds epsilon by {low:.4g} and {high:.4g}"
    calendar = contract.periods if of_period else ()
    together = (
        f" So are the sets of all {len(calendar)} periods from {calendar[0]} to {calendar[-1]} "
        f"together, charged once."
        if calendar
        else ""
    )
    return (
        f"Each released set of demonstrations on {contract.name} is ({guarantee.epsilon:.4g}, "
        f"{guarantee.delta:.2g})-DP and answers any number of queries: {shape.words}, "
        f"{amount(plan)}{clipped}, sampling rate {rates}, {charged} charged for each "
        f"text{bracketed}.{together} Another number of shots is another release "
        "and charged again."
    )


def _tokens(plan: TextsPlan) -> list[TokenNoise | DifferenceToken]:
    return [drawing.noise.token for drawing in plan.drawings.values()]


def _range(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


@lru_cache(maxsize=256)
def _bracket(drawing: Drawing, count: int, guarantee: Guarantee) -> tuple[float, float]:
    assert drawing.noise.token.amount is not None
    event = subsampled_gaussian(float(drawing.noise.token.amount), drawing.rate, count)
    priced = price(
        event, neighbours=guarantee.neighbours, unit=guarantee.unit, delta=guarantee.delta
    )
    bounds = bracket([priced], delta=guarantee.delta)
    return bounds.low, bounds.high
