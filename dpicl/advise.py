"""Which local collection to choose: designs simulated on synthetic populations of the contract's shape, before any client reports.

Guarantee   none needed: the contract and a number of clients are public, and no row is read.

A synthetic population has the contract's columns; its label comes up in a quarter or in half of the
rows, some columns lean towards the label, some towards the column before them, some towards nothing. Every design
and estimator releases rows from it at the given epsilon. Two numbers judge the rows on fresh ones:

    fitted   accuracy of logistic regression, above always answering the majority
    voting   accuracy of k rows that vote by similarity, for k shots: a simple stand-in for a model in context

Not covered what a language model makes of the rows, and how the real population differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dpicl.baselines import local_baselines
from dpicl.contract.models import Contract
from dpicl.errors import ParameterError
from dpicl.methods.ldp_collection import collect_codes
from dpicl.methods.options import LdpVariant
from dpicl.randomness import Draws, stream
from dpicl.tabular.local.estimate import estimated_rows, fits
from dpicl.tabular.reading.encode import LocalEncoding
from dpicl.types import EncodedQueries, PrivateCodes

POPULATIONS, QUERIES, SHOTS = 8, 500, (1, 2, 4, 8, 16)
VARIANTS = (
    LdpVariant(),
    LdpVariant(estimator="log-linear"),
    LdpVariant(design="one-column", estimator="log-linear"),
    LdpVariant(design="pairs", estimator="log-linear"),
    LdpVariant(design="pairs", estimator="tree"),
    LdpVariant(design="subset", estimator="log-linear"),
    LdpVariant(design="subset", estimator="em"),
    LdpVariant(design="subset", estimator="tree"),
)
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Advice:
    """A variant with its expected accuracy; gains and votes have one entry per population."""

    variant: LdpVariant
    gains: tuple[float, ...]
    shots: int
    votes: tuple[float, ...]
    """At the number of shots that is best on average."""

    @property
    def gain(self) -> float:
        """Mean accuracy above majority."""
        return float(np.mean(self.gains))

    @property
    def spread(self) -> float:
        """Standard deviation of it over populations."""
        return float(np.std(self.gains, ddof=1)) if len(self.gains) > 1 else 0.0


def advise(
    contract: Contract, clients: int, epsilon: float, *, populations: int = POPULATIONS, progress: Progress | None = None
) -> list[Advice]:
    """Every variant that fits the contract, the best first.

    Raises:
        ParameterError: no client, or epsilon is not positive.
    """
    if clients < 1:
        raise ParameterError("rows", clients, "an integer >= 1")
    if not epsilon > 0:
        raise ParameterError("epsilon", epsilon, "a number > 0, or inf")
    encoding = LocalEncoding.of(contract, "k-ary")
    variants = [variant for variant in VARIANTS if fits(variant.estimator, encoding.sizes)]
    judged: dict[int, list[tuple[float, np.ndarray]]] = {place: [] for place in range(len(variants))}
    for number in range(populations):
        rows = synthetic_rows(encoding.sizes, clients + QUERIES, stream(number, "advise", contract.name, "").generator())
        for place, variant in enumerate(variants):
            judged[place].append(_judge(variant, rows, encoding, epsilon, Draws(number, contract.name, simulated=True)))
            if progress is not None:
                progress(number * len(variants) + place + 1, populations * len(variants))
    advice = []
    for place, judgements in judged.items():
        votes = np.array([by_shots for _, by_shots in judgements])
        best = int(votes.mean(axis=0).argmax())
        advice.append(Advice(variants[place], tuple(gain for gain, _ in judgements), SHOTS[best], tuple(votes[:, best].tolist())))
    return sorted(advice, key=lambda one: -one.gain)


def synthetic_rows(sizes: Sequence[int], count: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of a population, the label last: shape (count, columns), uint8."""
    label = (rng.random(count) < rng.choice([0.25, 0.5])).astype(np.uint8)
    columns: list[np.ndarray] = []
    for size in sizes[:-1]:
        of_label = rng.dirichlet(np.ones(size), size=2)
        own = (rng.random(count)[:, np.newaxis] >= np.cumsum(of_label, axis=1)[label][:, :-1]).sum(axis=1)
        noise = rng.integers(size, size=count)
        column = np.where(rng.random(count) < rng.choice([0.0, 0.4, 0.8]), own, noise)
        if columns:
            column = np.where(rng.random(count) < rng.choice([0.0, 0.0, 0.5]), columns[-1] % size, column)
        columns.append(column.astype(np.uint8))
    return np.stack([*columns, label], axis=1)


def _judge(variant: LdpVariant, rows: np.ndarray, encoding: LocalEncoding, epsilon: float, draws: Draws) -> tuple[float, np.ndarray]:
    """Accuracy above majority; and of the first k of sixteen rows, each of which votes with weight e^(columns in common): shape (shots,)."""
    train, queries = rows[:-QUERIES], rows[-QUERIES:]
    collected = collect_codes(PrivateCodes(train), encoding, variant, epsilon, draws)
    released = estimated_rows(collected, variant.estimator, draws.public("rows", ""))
    fitted = local_baselines(released, encoding, EncodedQueries(queries.astype(np.int64)))["lr"]
    rate, rng = queries[:, -1].mean(), draws.public("votes", "").generator()
    shown = released.codes[rng.integers(len(released.codes), size=(len(queries), max(SHOTS)))]
    similarity = (shown[:, :, :-1] == queries[:, np.newaxis, :-1]).sum(axis=2)
    weights = np.exp(similarity.astype(float)) * (2.0 * shown[:, :, -1] - 1)
    votes = np.array([((weights[:, :shots].sum(axis=1) > 0) == queries[:, -1]).mean() for shots in SHOTS])
    return fitted.accuracy - max(rate, 1 - rate), votes
