"""What DP-ICL asks and answers, under which noise, what it costs, and the guarantee in words: all
known before a row is read.

Guarantee   states it; `dp_icl` keeps it.

    one query   one row changes the prompt of one of M voters, or is a voter of its own, and is
                there
                at all with probability q = M N / rows:                  one event on a Poisson
                sample
    a release   Q queries, each with a sample of its own:                Q events, charged together
    by nearness a row takes part in at most K queries, and q = 1:        K events, whatever Q
    (`record_filter`)

The noise is solved for what all Q queries may cost, by privacy loss distributions at delta; without
a delta by the pure sum of amplified costs. Half of delta is left to propose-test-release, where it
is used.

Symbols     M prompts, N rows in each on average, q sampling rate, Q queries of a release, K
            participations of a row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from dpicl.accounting.accountant import price
from dpicl.accounting.calibration import calibrate, calibrate_pure, rational_above, rational_below
from dpicl.accounting.events import approximate, poisson_sampled, pure, repeated
from dpicl.accounting.guarantee import Event, Guarantee, Neighbours
from dpicl.contract.payment import DELTA_STATED
from dpicl.contract.pipeline import Point
from dpicl.contract.text import Ensemble, TextContract
from dpicl.ground.errors import PrivacyError
from dpicl.mechanisms import joint_exponential
from dpicl.mechanisms.noisy_embedding import EmbeddingNoise
from dpicl.mechanisms.private_token import NoiseKind, TokenNoise
from dpicl.mechanisms.stable_top import StableTop
from dpicl.methods.base import shots_of
from dpicl.methods.options import PARTICIPATIONS, EnsembleVariant

FEW_SHOT = "few-shot"
"""The system whose one prompt shows real rows, without noise."""
Aggregation = Literal["votes", "soft-votes", "embedding", "keywords-ptr", "keywords-joint"]
CHANGED_ANSWER = 2
"""By how much one changed answer may change the gap between two words' counts: sensitivity of the
joint mechanism.
"""
SIZE_SHARE = Fraction(1, 5)
"""Of what propose-test-release may cost, for choosing how many keywords are proposed."""
DELTA_SHARE = Fraction(1, 2)
"""Of delta, for tests that pass by chance."""


@dataclass(frozen=True)
class JointNoise:
    """The joint exponential mechanism; None for no noise at all."""

    epsilon: Fraction | None

    def event(self) -> Event:
        """What one choice costs, before sampling and composition."""
        return joint_exponential.guarantee(
            self.epsilon, sensitivity=CHANGED_ANSWER, neighbours=Neighbours.ADD_OR_REMOVE_ONE
        ).event


Noise = TokenNoise | EmbeddingNoise | StableTop | JointNoise


def aggregation_of(contract: TextContract, chosen: EnsembleVariant) -> Aggregation:
    """How answers become one, whether that fits the contract's answers or not."""
    return chosen.aggregation or ("votes" if contract.is_classification else "embedding")


def is_calibrated(contract: TextContract, chosen: EnsembleVariant) -> bool:
    """Whether votes are calibrated, by the rule that demonstrations are asked by where the variant
    says nothing. Raises PrivacyError: it says so of answers that are no labels.
    """
    if chosen.calibrate and not contract.is_classification:
        raise PrivacyError(
            f"{contract.name}: calibrate does not fit answers of its kind; expected it with "
            f"labels only"
        )
    return contract.calibrate if chosen.calibrate is None else chosen.calibrate


@dataclass(frozen=True)
class EnsembleShape:
    """The public sizes of an ensemble, the unit's where it has its own, else the contract's."""

    aggregation: Aggregation
    gaussian: bool
    subsets: int
    rows: int
    clip: float
    queries: int
    keywords: int
    similarity: float | None = None
    participations: int | None = None
    calibrated: bool = False
    """Whether every prompt's answer is calibrated by its own rows alone: it stays one vote, so
    noise and price are the same.
    """

    @staticmethod
    def of(contract: TextContract, point: Point[EnsembleVariant]) -> EnsembleShape:
        """That of one release; `rows` are its shots.
        Raises PrivacyError: the aggregation does not fit the contract's answers.
        """
        chosen = point.options
        sizes = sizes_of(contract)
        aggregation = aggregation_of(contract, chosen)
        if contract.is_classification != (aggregation in ("votes", "soft-votes")):
            fitting = (
                "votes or soft-votes"
                if contract.is_classification
                else "embedding, keywords-ptr or keywords-joint"
            )
            raise PrivacyError(
                f"{contract.name}: aggregation {aggregation} does not fit answers of its kind; "
                f"expected {fitting}"
            )
        if contract.privacy.unit == "person" and aggregation == "soft-votes":
            raise PrivacyError(
                f"{contract.name}: soft-votes ask with every row for itself, and a person may "
                f"have several; expected votes"
            )
        gaussian = aggregation == "embedding" or (
            aggregation == "votes" and chosen.noise == "gaussian"
        )
        most = None if chosen.similarity is None else chosen.participations or PARTICIPATIONS
        return EnsembleShape(
            aggregation,
            gaussian,
            chosen.subsets or sizes.subsets,
            shots_of(point),
            chosen.clip,
            contract.query_count,
            sizes.keywords,
            chosen.similarity,
            most,
            is_calibrated(contract, chosen),
        )

    @property
    def alone(self) -> bool:
        """Whether every row is asked with for itself; one prompt more has no row."""
        return self.aggregation == "soft-votes"

    @property
    def uses(self) -> int:
        """In how many queries one row may take part."""
        if self.participations is None:
            return self.queries
        return min(self.participations, self.queries)

    @property
    def embeds(self) -> bool:
        """Whether an embedder decides on what leaves: who takes part, or which answer is
        nearest.
        """
        return self.aggregation == "embedding" or self.similarity is not None

    @property
    def needs_delta(self) -> bool:
        """Whether there is no price without a delta."""
        return self.gaussian or self.aggregation == "keywords-ptr"

    def sampling_rate(self, row_bound: int) -> Fraction:
        """q, for at least so many rows. Raises PrivacyError: there may be fewer than are drawn."""
        drawn = self.subsets * self.rows
        if self.similarity is not None:  # all that are near
            return Fraction(1)
        if drawn > row_bound:
            raise PrivacyError(
                f"an ensemble of {self.subsets} prompts with {self.rows} rows each draws {drawn} "
                f"of at least {row_bound} rows; expected fewer subsets or shots"
            )
        return Fraction(drawn, row_bound)


@dataclass(frozen=True)
class EnsemblePlan:
    """One release: the answers at one point to all queries."""

    point: Point[EnsembleVariant]
    shape: EnsembleShape
    rate: Fraction
    noise: Noise
    guarantee: Guarantee
    per_query: Guarantee


@dataclass(frozen=True)
class Terms:
    """What all queries of a release may cost together, under which relation."""

    epsilon: float
    delta: float
    neighbours: Neighbours
    unit: str
    rate: Fraction

    def release(self, once: Event, queries: int) -> Event:
        """The event of so many queries, each with a sample of its own."""
        sampled = once if self.rate == 1 else poisson_sampled(self.rate, once)
        return repeated(sampled, queries)

    def price(self, once: Event, queries: int, delta: float) -> Guarantee:
        """What so many queries cost at this delta; without one, their pure sum."""
        return price(
            self.release(once, queries), neighbours=self.neighbours, unit=self.unit, delta=delta
        )


def sizes_of(contract: TextContract) -> Ensemble:
    """The contract's sizes for this method. Raises PrivacyError: it has none."""
    if contract.ensemble is None:
        raise PrivacyError(
            f"{contract.name}: its contract has no sizes for dp_icl; expected a key `ensemble`"
        )
    return contract.ensemble


def plan_release(contract: TextContract, point: Point[EnsembleVariant]) -> EnsemblePlan:
    """Sizes, noise and cost of one release.
    Raises PrivacyError: too few rows, no noise reaches this epsilon, or no price is known under the
    contract's neighbours.
    """
    shape = EnsembleShape.of(contract, point)
    budget = contract.privacy.budget
    rate = shape.sampling_rate(sum(contract.row_bounds.values()))
    neighbours = Neighbours(contract.privacy.neighbours)
    unit_of_protection = contract.privacy.unit
    if math.isinf(point.epsilon):
        nothing = Guarantee(math.inf, 0.0, neighbours, unit_of_protection, pure(math.inf))
        return EnsemblePlan(
            point, shape, rate, _noise(shape, None, DELTA_SHARE / 2), nothing, nothing
        )
    if shape.needs_delta and not budget.benchmark and not budget.delta:
        raise PrivacyError(
            f"{contract.name}: its budget has no delta, which {shape.aggregation} needs; expected "
            f"budget.delta, or votes with exponential noise{DELTA_STATED}"
        )
    delta = float(sizes_of(contract).delta) if budget.benchmark or budget.delta else 0.0
    terms = Terms(point.epsilon, delta, neighbours, unit_of_protection, rate)
    noise = solve(shape, terms)
    once = _once(noise, delta)
    return EnsemblePlan(
        point, shape, rate, noise, terms.price(once, shape.uses, delta), terms.price(once, 1, delta)
    )


@lru_cache(maxsize=1024)
def solve(shape: EnsembleShape, terms: Terms) -> Noise:
    """The least noise with which all queries together cost at most epsilon.
    Raises PrivacyError: no noise does, or none is priced under these neighbours.
    """
    if not shape.gaussian and terms.neighbours is not Neighbours.ADD_OR_REMOVE_ONE:
        raise PrivacyError(
            f"{shape.aggregation} is priced for add-or-remove-one neighbours only; expected votes "
            f"or embedding, with gaussian noise"
        )
    test_delta = min(
        DELTA_SHARE * Fraction(terms.delta) / (shape.uses * terms.rate), DELTA_SHARE / 2
    )
    if not shape.gaussian and not terms.delta:
        return _noise(
            shape, rational_below(calibrate_pure(terms.epsilon, terms.rate, shape.uses)), test_delta
        )

    def noise_at(multiplier: float) -> Noise:
        return _noise(
            shape,
            rational_above(multiplier) if shape.gaussian else rational_below(1 / multiplier),
            test_delta,
        )

    def event_at(multiplier: float) -> Event:
        return terms.release(_once(noise_at(multiplier), terms.delta), shape.uses)

    return noise_at(
        calibrate(event_at, epsilon=terms.epsilon, delta=terms.delta, neighbours=terms.neighbours)
    )


def _noise(shape: EnsembleShape, amount: Fraction | None, test_delta: Fraction) -> Noise:
    """By its sigma, or by what one query may cost before its sample amplifies it; None is no noise
    at all.
    """
    if shape.aggregation == "embedding":
        return EmbeddingNoise(amount)
    if shape.aggregation == "keywords-joint":
        return JointNoise(amount)
    if shape.aggregation == "keywords-ptr":
        size, test = (
            (None, None) if amount is None else (amount * SIZE_SHARE, amount * (1 - SIZE_SHARE))
        )
        return StableTop(size, test, test_delta, shape.keywords)
    kind: NoiseKind = (
        "gaussian" if shape.gaussian else "clipped-logits" if shape.alone else "exponential"
    )
    return TokenNoise(kind, amount, shape.alone)


def _once(noise: Noise, delta: float) -> Event:
    """What one answer costs on all rows; with a delta to spend, pure costs compose more tightly
    than their sum.
    """
    epsilon = noise.epsilon if isinstance(noise, JointNoise) else None
    if isinstance(noise, TokenNoise) and noise.kind != "gaussian":
        epsilon = noise.amount
    return approximate(float(epsilon), 0.0) if delta and epsilon else noise.event()


def amount(noise: Noise) -> str:
    """How much noise one answer gets, in a few words."""
    if isinstance(noise, StableTop):
        return f"epsilon of one test {float(noise.test_epsilon or 0):.4g}"
    if isinstance(noise, JointNoise):
        return f"epsilon of one choice {float(noise.epsilon or 0):.4g}"
    if isinstance(noise, EmbeddingNoise):
        return f"sigma {float(noise.sigma or 0):.4g}"
    return (
        f"{'sigma' if noise.kind == 'gaussian' else 'epsilon of one vote'} "
        f"{float(noise.amount or 0):.4g}"
    )


def statement(contract: TextContract, point: Point[EnsembleVariant]) -> str:
    """The guarantee of one release in sentences for people: all queries together, one query, and
    what it is not.
    """
    plan = plan_release(contract, point)
    whole = plan.guarantee
    answer = plan.per_query
    shape = plan.shape
    last = shape.queries + 1
    prompts = f"{shape.subsets} prompts of about {shape.rows} rows"
    if shape.alone:
        prompts = f"about {shape.subsets * shape.rows} rows, one in each prompt"
    drawn = f"Each query draws new rows at rate {float(plan.rate):.4g} ({prompts})"
    if shape.similarity is not None:
        prompts = "one row in each prompt" if shape.alone else f"in {shape.subsets} prompts"
        drawn = (
            f"The rows of a {whole.unit} take part in a query whose similarity to it is at least "
            f"{shape.similarity:g} ({prompts}), and in {shape.uses} queries at most"
        )
    ending = "th" if 10 <= last % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(last % 10, "th")
    return (
        f"The answers to all {shape.queries} queries on {contract.name} together are "
        f"({whole.epsilon:.4g}, {whole.delta:.2g})-DP, one answer alone ({answer.epsilon:.4g}, "
        f"{answer.delta:.2g})-DP: anyone who reads all of them and guesses whether a certain "
        f"{whole.unit} was among the private ones has odds at most {math.exp(whole.epsilon):.3g} "
        f"times what they were, but for a chance of {whole.delta:.2g}. {drawn}; "
        f"{'calibrated ' if shape.calibrated else ''}{shape.aggregation}, {amount(plan.noise)}. "
        f"The {last}{ending} query is refused; asking the same queries again gives the same "
        "answers at no cost. Another number of shots is another release and "
        "charged again. The queries themselves are not protected."
    )
