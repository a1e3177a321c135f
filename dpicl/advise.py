"""Which local collection to choose: tried on made-up populations of the contract's shape, before any client reports.

Guarantee   none needed: the contract and a number of clients are public, and no row is read.

A made-up population has the contract's columns; its label comes up in a quarter or in half of the
rows, some columns lean towards the label, some towards the column before them, some towards nothing. Every design
and estimator releases rows from it at the wished epsilon. Two numbers judge the rows on fresh ones:

    fitted   accuracy of logistic regression, above always answering the majority
    voting   accuracy of k rows that vote by likeness, for k shots: a simple stand-in for a model in context

Not covered what a language model makes of the rows, and how the own population differs.
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
WAYS = (
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
    """One way with what is to be expected of it; gains and votes have one entry per population."""

    way: LdpVariant
    gains: tuple[float, ...]
    shots: int
    votes: tuple[float, ...]
    """Of as many shots as do best on average."""

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
    """Every way that fits the contract, the best first.

    Raises:
        ParameterError: no client, or epsilon is not positive.
    """
    if clients < 1:
        raise ParameterError("rows", clients, "an integer >= 1")
    if not epsilon > 0:
        raise ParameterError("epsilon", epsilon, "a number > 0, or inf")
    encoding = LocalEncoding.of(contract, "k-ary")
    ways = [way for way in WAYS if fits(way.estimator, encoding.sizes)]
    judged: dict[int, list[tuple[float, np.ndarray]]] = {place: [] for place in range(len(ways))}
    for number in range(populations):
        rows = made_up(encoding.sizes, clients + QUERIES, stream(number, "advise", contract.name, "").generator())
        for place, way in enumerate(ways):
            judged[place].append(_judge(way, rows, encoding, epsilon, Draws(number, contract.name, simulated=True)))
            if progress is not None:
                progress(number * len(ways) + place + 1, populations * len(ways))
    advice = []
    for place, judgements in judged.items():
        votes = np.array([by_shots for _, by_shots in judgements])
        best = int(votes.mean(axis=0).argmax())
        advice.append(Advice(ways[place], tuple(gain for gain, _ in judgements), SHOTS[best], tuple(votes[:, best].tolist())))
    return sorted(advice, key=lambda one: -one.gain)


def made_up(sizes: Sequence[int], count: int, rng: np.random.Generator) -> np.ndarray:
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


def _judge(way: LdpVariant, rows: np.ndarray, encoding: LocalEncoding, epsilon: float, draws: Draws) -> tuple[float, np.ndarray]:
    """Accuracy above majority; and of the first k of sixteen rows, each of which votes with weight e^(columns in common): shape (shots,)."""
    train, queries = rows[:-QUERIES], rows[-QUERIES:]
    collected = collect_codes(PrivateCodes(train), encoding, way, epsilon, draws)
    released = estimated_rows(collected, way.estimator, draws.public("rows", ""))
    fitted = local_baselines(released, encoding, EncodedQueries(queries.astype(np.int64)))["lr"]
    rate, rng = queries[:, -1].mean(), draws.public("votes", "").generator()
    shown = released.codes[rng.integers(len(released.codes), size=(len(queries), max(SHOTS)))]
    alike = (shown[:, :, :-1] == queries[:, np.newaxis, :-1]).sum(axis=2)
    weights = np.exp(alike.astype(float)) * (2.0 * shown[:, :, -1] - 1)
    votes = np.array([((weights[:, :shots].sum(axis=1) > 0) == queries[:, -1]).mean() for shots in SHOTS])
    return fitted.accuracy - max(rate, 1 - rate), votes
