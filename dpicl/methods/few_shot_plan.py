"""What DP few-shot generation writes, under which noise, and what it costs: all known before a row is read.

Guarantee   states it; `few_shot_generation` keeps it.

    fresh batches   rows of a label, Poisson-sampled at q = M N / rows, for each of T tokens of each of
                    its s texts:             T s  events on samples
    fixed batches   every row votes on all T tokens of one text at most, if it is in one sample at all:
                                             T    events, pure ones amplified once
    elections       of a text, at most r are paid for, each with the tests before it: r pairs of events
    labels          have rows of their own:  in parallel; under replace-one a row may leave one label
                    and enter another: two of the costliest in sequence

Symbols     M subsets, N rows in each, T most tokens of a text, s texts of one label, r elections.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dpicl.accounting.accountant import price
from dpicl.accounting.calibration import calibrate, calibrate_pure, rational_above, rational_below
from dpicl.accounting.events import parallel, poisson_sampled, pure, repeated, sequential
from dpicl.accounting.guarantee import Event, Guarantee, Neighbours
from dpicl.contract.text import Generation, TextContract
from dpicl.errors import PrivacyError
from dpicl.mechanisms.private_token import UNITS, Kind, TokenNoise
from dpicl.mechanisms.sparse_vector import SparseVector
from dpicl.methods.common import Cost, draws_for
from dpicl.methods.options import FewShotOptions
from dpicl.pipeline import Cell, Unit

AGREEMENT = {"gaussian": 0.5, "exponential": 0.5, "clipped-logits": 0.95}
"""Share of votes for the model's own token that will do, where a pipeline says nothing."""
TEST_SHARE = Fraction(1, 3)
"""Of what an elected token may cost, for the tests before it."""


@dataclass(frozen=True)
class Shape:
    """The public sizes of a generation, the unit's where it has its own, else the contract's."""

    kind: Kind
    fixed: bool
    voters: int | None
    examples: int
    candidates: int | None
    max_tokens: int
    clip: float
    elections: int | None = None
    agreement: Fraction = Fraction(1, 2)

    @staticmethod
    def of(contract: TextContract, unit: Unit, system: str = "icl") -> Shape:
        """Sizes of every text of one of a unit's systems."""
        chosen, stated = unit.chosen(FewShotOptions).variant(system), sizes_of(contract)
        fixed = chosen.batches == "fixed"
        candidates = {"contract": stated.candidates, "all": None}.get(str(chosen.candidates), chosen.candidates)
        return Shape(
            chosen.mechanism,
            fixed,
            chosen.voters or (None if fixed else stated.subsets),
            1 if fixed else chosen.examples or stated.examples,
            None if candidates is None else int(candidates),
            chosen.max_tokens or stated.max_tokens,
            chosen.clip,
            chosen.private_tokens,
            Fraction(str(chosen.agreement or AGREEMENT[chosen.mechanism])),
        )

    def sampling_rate(self, row_bound: int, text_count: int) -> Fraction:
        """q for a label of at least so many rows, of which so many texts are written.

        Raises:
            PrivacyError: the label is smaller than what is drawn from it.
        """
        if self.voters is None:
            return Fraction(1)
        drawn = self.voters * (text_count if self.fixed else self.examples)
        if drawn > row_bound:
            raise PrivacyError(
                f"a label of at least {row_bound} rows is smaller than the {drawn} that are drawn from it; "
                f"expected fewer voters, examples or shots"
            )
        return Fraction(drawn, row_bound)

    def event(self, noise: Noise, rate: Fraction, text_count: int) -> Event:
        """Everything that is done to the rows of one label."""
        if not self.fixed:
            return repeated(poisson_sampled(rate, noise.token.event()), self.max_tokens * text_count)
        once = noise.token.event() if noise.test is None else sequential([noise.test.event(), noise.token.event()])
        tokens = repeated(once, self.elections or self.max_tokens)
        return tokens if self.kind == "gaussian" else poisson_sampled(rate, tokens)

    def threshold(self, row_bound: int, text_count: int) -> int:
        """Votes from which on the model's own token will do: a share of those that a label of at least so many rows has."""
        return int(self.agreement * (Fraction(self.voters or Fraction(row_bound, text_count)) + 1) * UNITS)


@dataclass(frozen=True)
class Noise:
    """On the votes for one text: how a token is elected, and how it is tested whether an election is needed at all."""

    token: TokenNoise
    test: SparseVector | None = None


@dataclass(frozen=True)
class Pool:
    """Rows that vote on the same texts: those of one label, or all where answers are open."""

    label: str | None
    row_bound: int


@dataclass(frozen=True)
class Drawing:
    """How one pool's rows are drawn for the texts of a cell, and the noise on their votes."""

    rate: Fraction
    noise: Noise
    threshold: int = 0
    """Votes for the likeliest token from which on no election is needed."""


@dataclass(frozen=True)
class CellPlan:
    """One set of demonstrations: the label of every text, and how each pool votes."""

    cell: Cell
    shape: Shape
    labels: tuple[str, ...]
    drawings: Mapping[Pool, Drawing]
    guarantee: Guarantee


def sizes_of(contract: TextContract) -> Generation:
    """The contract's sizes for this method.

    Raises:
        PrivacyError: it has none.
    """
    if contract.generation is None:
        raise PrivacyError(f"{contract.name}: its contract has no sizes for few_shot_generation; expected a key `generation`")
    return contract.generation


def pool_of(contract: TextContract, label: str) -> Pool:
    """Whose rows vote on a text of this label."""
    rows = contract.row_bounds
    return Pool(label, rows[label]) if contract.is_classification else Pool(None, rows[""])


def labels_of(contract: TextContract, unit: Unit, shots: int) -> tuple[str, ...]:
    """Labels of the texts: of the public list in a public random order, every one before any comes twice."""
    names = tuple(contract.demonstrated)
    order: list[str] = []
    generator = draws_for(contract, unit.seed).public("labels", f"shots={shots}").generator()
    while len(order) < shots:
        order += [names[place] for place in generator.permutation(len(names))]
    return tuple(order[:shots])


def plan_cell(contract: TextContract, unit: Unit, cell: Cell) -> CellPlan:
    """Labels, noise and cost of one cell.

    Raises:
        PrivacyError: a label is too small, no noise reaches this epsilon, or the mechanism has no price
            under the contract's neighbours.
    """
    assert cell.epsilon is not None and cell.shots is not None
    shape, labels = Shape.of(contract, unit, cell.system), labels_of(contract, unit, cell.shots)
    counts = Counter(pool_of(contract, label) for label in labels)
    rates = {pool: shape.sampling_rate(pool.row_bound, count) for pool, count in counts.items()}
    thresholds = {pool: shape.threshold(pool.row_bound, count) for pool, count in counts.items()}
    if math.isinf(cell.epsilon):
        unit_of_protection, neighbours = contract.privacy.unit, Neighbours(contract.privacy.neighbours)
        test = None if shape.elections is None else SparseVector(None, UNITS)
        without = {
            pool: Drawing(rate, Noise(TokenNoise(shape.kind, None, shape.fixed), test), thresholds[pool]) for pool, rate in rates.items()
        }
        return CellPlan(cell, shape, labels, without, Guarantee(math.inf, 0.0, neighbours, unit_of_protection, pure(math.inf)))
    budget = contract.privacy.budget
    if shape.kind == "gaussian" and not budget.benchmark and not budget.delta:
        raise PrivacyError(
            f"{contract.name}: its budget has no delta, which gaussian noise needs; expected budget.delta, or mechanism exponential"
        )
    terms = Terms(shape, cell.epsilon, float(sizes_of(contract).delta), Neighbours(contract.privacy.neighbours), len(counts) > 1)
    priced = terms.priced({pool: (rates[pool], counts[pool]) for pool in counts})
    drawings = {pool: Drawing(rates[pool], _noise(terms, *priced[pool]), thresholds[pool]) for pool in counts}
    event = terms.together([shape.event(drawings[pool].noise, *priced[pool]) for pool in counts])
    guarantee = price(event, neighbours=terms.neighbours, unit=contract.privacy.unit, delta=terms.delta)
    return CellPlan(cell, shape, labels, drawings, guarantee)


@dataclass(frozen=True)
class Terms:
    """What is asked of the noise: this epsilon and delta, under this relation, for one label or for several."""

    shape: Shape
    epsilon: float
    delta: float
    neighbours: Neighbours
    several: bool

    def priced(self, drawn: Mapping[Pool, tuple[Fraction, int]]) -> dict[Pool, tuple[Fraction, int]]:
        """Rate and number of texts that each pool pays for; under replace-one the largest of all, since any two may be hit."""
        if self.neighbours is Neighbours.ADD_OR_REMOVE_ONE:
            return dict(drawn)
        worst = (max(rate for rate, _ in drawn.values()), max(count for _, count in drawn.values()))
        return dict.fromkeys(drawn, worst)

    def together(self, events: Sequence[Event]) -> Event:
        """The events of all labels as one."""
        if self.neighbours is Neighbours.ADD_OR_REMOVE_ONE:
            distinct = tuple(dict.fromkeys(events))
            return distinct[0] if len(distinct) == 1 else parallel(distinct)
        return repeated(events[0], 2) if self.several else events[0]


@lru_cache(maxsize=1024)
def _noise(terms: Terms, rate: Fraction, text_count: int) -> Noise:
    """The least noise with which one label's texts cost at most epsilon."""
    shape = terms.shape
    if shape.kind == "gaussian":

        def event_at(sigma: float) -> Event:
            noise = Noise(TokenNoise("gaussian", rational_above(sigma), shape.fixed))
            return terms.together([shape.event(noise, rate, text_count)])

        sigma = calibrate(event_at, epsilon=terms.epsilon, delta=terms.delta, neighbours=terms.neighbours)
        return Noise(TokenNoise("gaussian", rational_above(sigma), shape.fixed))
    if terms.neighbours is not Neighbours.ADD_OR_REMOVE_ONE:
        raise PrivacyError(f"mechanism {shape.kind} is priced for add-or-remove-one neighbours only; expected mechanism gaussian")
    if not shape.fixed:
        return Noise(TokenNoise(shape.kind, rational_below(calibrate_pure(terms.epsilon, rate, shape.max_tokens * text_count))))
    whole = rational_below(calibrate_pure(terms.epsilon, rate, 1))
    if shape.elections is None:
        return Noise(TokenNoise(shape.kind, whole / shape.max_tokens, row_is_voter=True))
    test = SparseVector(whole / shape.elections * TEST_SHARE, UNITS)
    return Noise(TokenNoise(shape.kind, whole / shape.elections * (1 - TEST_SHARE), row_is_voter=True), test)


def written_cells(unit: Unit) -> Iterator[Cell]:
    """Cells whose demonstrations private rows vote on."""
    return (cell for system in unit.systems if system != "random-rows" for cell in unit.cells(system))


def plans(contract: TextContract, unit: Unit) -> dict[Cell, CellPlan]:
    """Every set of demonstrations that private rows vote on."""
    return {cell: plan_cell(contract, unit, cell) for cell in written_cells(unit)}


def costs(contract: TextContract, unit: Unit) -> dict[Cell, Cost]:
    """What every cell costs under the contract's neighbours."""
    return {cell: Cost(plan.guarantee) for cell, plan in plans(contract, unit).items()}
