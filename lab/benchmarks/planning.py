"""What `dpicl plan` expects, beside what releases of tables are worth that its made-up ones are not
like.

Twenty tables of four kinds: mixtures of latent classes, Bayesian networks whose label has causes
and effects, logistic labels with interactions, and scikit-learn's clusters on a hypercube; and the
eight real sets that `DPICL_DATA` holds. The plan is told the contract, the number of rows and the
AUC of logistic regression on the true rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from dpicl.contract import Contract, parse_contract
from dpicl.data.central.exact_counts import row_bins, row_encoding
from dpicl.data.reading.parse import typed_table
from dpicl.data.reading.source import load_source
from dpicl.ground.types import PrivateTable
from dpicl.home.settings import Settings
from dpicl.quality import Quality
from dpicl.quality.outlook import TablePlan, plan_table
from dpicl.quality.simulate import Candidate, Population, candidates, fitted_quality, measure
from lab.benchmarks.figures import Figures, bench, sized
from lab.benchmarks.real_tables import EIGHT, at_hand

EPSILONS, TABLES, REPEATS, FRESH, MOST_REAL = (
    sized((0.3, 1.0, 3.0), (1.0,)),
    sized(20, 1),
    sized(5, 1),
    5000,
    sized(20_000, 1000),
)
Made = tuple[dict[str, np.ndarray], dict[str, dict[str, Any]], np.ndarray]
"""Columns, as a contract declares them, and labels of 0 and 1."""


def _category(
    name: str, codes: np.ndarray, size: int, rng: np.random.Generator
) -> tuple[str, np.ndarray, dict[str, Any]]:
    """Half of the columns of codes are categories, half are whole numbers."""
    if rng.random() < 0.5:
        return name, codes, {"type": "integer", "bounds": [0, int(size) - 1]}
    names = np.array([f"v{code}" for code in range(size)])
    return name, names[codes], {"type": "category", "categories": names.tolist()}


def _drawn(shares: np.ndarray, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.asarray(
        (rng.random(len(cells))[:, np.newaxis] > np.cumsum(shares, axis=1)[cells][:, :-1]).sum(
            axis=1
        )
    )


def _made(
    codes: Sequence[np.ndarray], sizes: Sequence[int], label: np.ndarray, rng: np.random.Generator
) -> Made:
    columns = [_category(f"c{place}", one, sizes[place], rng) for place, one in enumerate(codes)]
    return (
        {name: values for name, values, _ in columns},
        {name: declared for name, _, declared in columns},
        label,
    )


def latent_classes(count: int, rng: np.random.Generator) -> Made:
    """Three to eight classes of rows, each with shares of its own in every column and the label."""
    sizes, classes = rng.integers(2, 13, rng.integers(4, 14)), int(rng.integers(3, 9))
    of_row, sharpness = (
        rng.choice(classes, size=count, p=rng.dirichlet(np.full(classes, 2.0))),
        rng.choice([0.3, 1.0, 3.0]),
    )
    codes = []
    for size in sizes.tolist():
        own, mixed = rng.dirichlet(np.full(size, sharpness), size=classes), rng.uniform(0.1, 0.9)
        codes.append(_drawn(mixed * own + (1 - mixed) * rng.dirichlet(np.ones(size)), of_row, rng))
    return _made(
        codes,
        sizes.tolist(),
        (rng.random(count) < rng.beta(0.7, 1.3, classes)[of_row]).astype(int),
        rng,
    )


def bayesian_network(count: int, rng: np.random.Generator) -> Made:
    """Every column depends on at most two before it; the label stands among them."""
    columns = int(rng.integers(5, 15))
    sizes, label = rng.integers(2, 10, columns), int(rng.integers(0, columns // 2 + 1))
    sizes[label], sharpness = 2, rng.choice([0.3, 0.7, 1.5])
    codes: list[np.ndarray] = []
    for place, size in enumerate(sizes.tolist()):
        parents = (
            rng.choice(place, min(place, int(rng.integers(0, 3))), replace=False).tolist()
            if place
            else []
        )
        if label < place and label not in parents and rng.random() < 0.4:
            parents = [label, *parents[:1]]
        shape = tuple(int(sizes[parent]) for parent in parents)
        cells = (
            np.ravel_multi_index(tuple(codes[parent] for parent in parents), shape)
            if parents
            else np.zeros(count, dtype=int)
        )
        mixed = rng.uniform(0.2, 0.8)
        own = rng.dirichlet(np.full(size, sharpness), size=int(np.prod(shape, initial=1)))
        codes.append(
            _drawn(mixed * own + (1 - mixed) * rng.dirichlet(np.full(size, 2.0)), cells, rng)
        )
    others = [place for place in range(columns) if place != label]
    return _made([codes[place] for place in others], sizes[others].tolist(), codes[label], rng)


def interactions(count: int, rng: np.random.Generator) -> Made:
    """Independent columns; the odds of the label add up over some of them and over cells of some
    pairs.
    """
    sizes = rng.integers(2, 11, rng.integers(4, 16)).tolist()
    codes = [rng.choice(size, size=count, p=rng.dirichlet(np.full(size, 2.0))) for size in sizes]
    said, odds = int(rng.integers(1, len(sizes) + 1)), np.full(count, rng.uniform(-2, 0))
    for place in rng.choice(len(sizes), said, replace=False).tolist():
        odds += rng.normal(0, rng.uniform(0.5, 2) / np.sqrt(said), sizes[place])[codes[place]]
    for _ in range(int(rng.integers(1, 4))):
        one, other = rng.choice(len(sizes), 2, replace=False).tolist()
        odds += rng.normal(0, rng.uniform(0.2, 0.8), (sizes[one], sizes[other]))[
            codes[one], codes[other]
        ]
    return _made(codes, sizes, (rng.random(count) < 1 / (1 + np.exp(-odds))).astype(int), rng)


def clusters(count: int, rng: np.random.Generator) -> Made:
    """scikit-learn's `make_classification`: real numbers, between bounds of two to four
    deviations.
    """
    from sklearn.datasets import make_classification

    columns = int(rng.integers(5, 16))
    informative = int(rng.integers(2, columns - 1))
    values, label = make_classification(
        count,
        columns,
        n_informative=informative,
        n_redundant=int(rng.integers(0, columns - informative + 1)),
        n_clusters_per_class=int(rng.integers(1, 3)),
        class_sep=rng.uniform(0.2, 1),
        flip_y=rng.uniform(0, 0.3),
        weights=[rng.uniform(0.5, 0.9)],
        random_state=int(rng.integers(1 << 31)),
    )
    numbers, declared = {}, {}
    for place in range(columns):
        low, high = (
            values[:, place].mean()
            + np.array([-1, 1]) * rng.uniform(2, 4, 2) * values[:, place].std()
        )
        numbers[f"c{place}"] = np.clip(values[:, place], low, high)
        declared[f"c{place}"] = {"type": "real", "bounds": [float(low), float(high)]}
    return numbers, declared, label


KINDS: tuple[Callable[[int, np.random.Generator], Made], ...] = (
    latent_classes,
    bayesian_network,
    interactions,
    clusters,
)


def generated_tables(seed: int, count: int = TABLES) -> Iterator[tuple[str, Contract, Population]]:
    """Tables of 1,000 to 40,000 rows, the kinds in turn, whose label is no constant."""
    rng, turn, made = np.random.default_rng(seed), 0, 0
    while made < count:
        kind, rows = (
            KINDS[turn % len(KINDS)],
            int(np.exp(rng.uniform(np.log(1000), np.log(40_000)))),
        )
        turn += 1
        columns, declared, label = kind(rows + FRESH, rng)
        if not 0.03 < label.mean() < 0.97:
            continue
        made += 1
        answers = np.array(["no", "yes"])
        content = {
            "version": 2,
            "name": f"{kind.__name__}_{made}",
            "source": {"file": "made.csv"},
            "privacy": {"budget": {"epsilon": 1000}},
            "columns": {**declared, "answer": {"type": "category", "categories": answers.tolist()}},
            "label": {"column": "answer", "parts": [["no"], ["yes"]], "question": "Which?"},
        }
        contract = parse_contract(content, "made.yaml")
        assert isinstance(contract, Contract)
        yield (
            kind.__name__,
            contract,
            _population(
                contract,
                typed_table(pa.table({**columns, "answer": answers[label]}), contract, "made.csv"),
                rows,
            ),
        )


def real_populations() -> Iterator[tuple[str, Contract, Population]]:
    """The public sets, shuffled; a fifth of each, at most `FRESH` rows, are fresh."""
    settings = Settings.from_environment()
    for name in EIGHT:
        contract = settings.contract(name)
        rows = load_source(contract, data_folder=settings.data, cache_folder=settings.cache)
        rows = rows.take(np.random.default_rng(0).permutation(rows.num_rows)[: MOST_REAL + FRESH])
        yield (
            name,
            contract,
            _population(contract, rows, rows.num_rows - min(FRESH, rows.num_rows // 5)),
        )


def _population(contract: Contract, typed: pa.Table, rows: int) -> Population:
    table = PrivateTable(typed)
    codes, encoding = row_bins(table, contract), row_encoding(contract)
    return Population(table, codes, rows, fitted_quality(codes[:rows], codes[rows:], encoding))


@dataclass
class Compared:
    """Expected and true worth of releases, one entry for each way and epsilon, of many tables.

    Attributes:
        methods, releases: method; and with it design and epsilon.
        losses: the difference of expected and true mean loss of AUC.
        covered: share of releases whose loss lies in the interval.
        columns, pairs: expected over true mean error, less 1.
        regrets: true mean loss of the best way at an epsilon by the plan, over that of the best
            one; one for each table and epsilon.
    """

    methods: list[str] = field(default_factory=list)
    releases: list[str] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    covered: list[float] = field(default_factory=list)
    columns: list[float] = field(default_factory=list)
    pairs: list[float] = field(default_factory=list)
    regrets: list[float] = field(default_factory=list)

    def add(
        self, plan: TablePlan, ways: Sequence[Candidate], contract: Contract, made: Population
    ) -> None:
        """One table, of which `REPEATS` releases are made in every way."""
        assert made.truth is not None
        trials = [
            measure(contract, made, EPSILONS, ways, 10_000 + repeat) for repeat in range(REPEATS)
        ]
        true: dict[tuple[int, float], float] = {}
        for place, epsilon in product(range(len(ways)), EPSILONS):
            outlook, outcomes = (
                _outlook(plan, ways[place], epsilon),
                [trial.outcomes[place][epsilon] for trial in trials],
            )
            losses = [
                made.truth.auc - outcome.quality.auc for outcome in outcomes if outcome.quality
            ]
            loss, low = -outlook.value, (outlook.auc_interval or (0.0,))[0]
            half = (outlook.auc or 0.0) - low
            true[place, epsilon] = float(np.mean(losses))
            self.methods.append(ways[place].method)
            self.releases.append(
                f"{ways[place].method:10} {ways[place].options.get('design', ''):12} {epsilon:g}"
            )
            self.losses.append(loss - true[place, epsilon])
            self.covered.append(
                float(np.mean([abs(true_loss - loss) <= half for true_loss in losses]))
            )
            if outlook.pairs:
                columns, pairs = (
                    np.mean(
                        [
                            error
                            for outcome in outcomes
                            for names, error in outcome.errors.items()
                            if len(names) == count
                        ]
                    )
                    for count in (1, 2)
                )
                self.columns.append(outlook.column_error / float(columns) - 1)
                self.pairs.append((outlook.pair_error or 0.0) / float(pairs) - 1)
        for epsilon in EPSILONS:
            best = plan.best(epsilon, plan.middle)
            chosen = next(
                place
                for place, way in enumerate(ways)
                if _outlook(plan, way, epsilon) is best.quality
            )
            self.regrets.append(
                true[chosen, epsilon] - min(loss for (_, at), loss in true.items() if at == epsilon)
            )

    def line(self) -> str:
        """The means of everything."""
        loss, columns, pairs = (
            np.mean(np.abs(values)) for values in (self.losses, self.columns, self.pairs)
        )
        within = np.mean(np.abs(self.columns) < 0.15)
        return (
            f"loss of AUC off by {loss:.3f} (bias {np.mean(self.losses):+.3f}), covered "
            f"{np.mean(self.covered):.2f}, regret "
            f"{np.mean(self.regrets):.3f}, errors of columns off by {columns:.2f} (within .15: "
            f"{within:.2f}), of pairs {pairs:.2f}"
        )

    def coverage(self) -> dict[str, float]:
        """Share of releases whose loss lies in the interval, by method."""
        return {
            method: float(np.mean(np.array(self.covered)[np.array(self.methods) == method]))
            for method in dict.fromkeys(self.methods)
        }

    def print_by_release(self) -> None:
        """The losses and what covers them, by method, design and epsilon."""
        for name in sorted(set(self.releases)):
            places = [place for place, other in enumerate(self.releases) if other == name]
            losses, covered = np.take(self.losses, places), np.take(self.covered, places)
            print(
                f"  {name:28} off by {np.abs(losses).mean():.3f} (bias {losses.mean():+.3f}), "
                f"covered {covered.mean():.2f}"
            )


def _outlook(plan: TablePlan, way: Candidate, epsilon: float) -> Quality:
    return next(
        outlook.quality
        for outlook in plan.outlooks
        if (outlook.way, outlook.epsilon) == (way, epsilon)
    )


def compare(
    tables: Iterator[tuple[str, Contract, Population]], populations: int | None = sized(None, 2)
) -> Compared:
    """The plan of every table beside what its releases are worth."""
    together = Compared()
    for kind, contract, made in tables:
        assert made.truth is not None
        signal = float(np.clip(made.truth.auc, 0.505, 0.999))
        plan = plan_table(contract, made.rows, EPSILONS, signal=signal, populations=populations)
        alone = Compared()
        alone.add(plan, candidates(contract, EPSILONS)[0], contract, made)
        for name, values in vars(alone).items():
            getattr(together, name).extend(values)
        print(
            f"{kind:18} {made.rows:6,} x {len(contract.features):2}, AUC {signal:.3f}: "
            f"{alone.line()}",
            flush=True,
        )
    together.print_by_release()
    return together


def measure_plans(figures: Figures, seed: int = 2026) -> None:
    """Figures of generated tables; the real ones are printed beside them."""
    found = compare(generated_tables(seed))
    print(f"{TABLES} generated tables: {found.line()}")
    figures.at_most("plan-loss-of-auc-off-by", float(np.mean(np.abs(found.losses))), 0.03)
    for method, covered in found.coverage().items():
        figures.within(f"plan-intervals-cover-{method}", 100 * covered, 85, 97, " %")
    figures.at_most("plan-regret", float(np.mean(found.regrets)), 0.02)
    figures.at_most(
        "plan-errors-of-columns-off-by", 100 * float(np.mean(np.abs(found.columns))), 15, " %"
    )
    figures.at_most(
        "plan-errors-of-pairs-off-by", 100 * float(np.mean(np.abs(found.pairs))), 15, " %"
    )
    if not at_hand():
        return
    found = compare(real_populations())
    print(f"{len(EIGHT)} real tables: {found.line()}")
    figures.at_most("plan-loss-of-auc-off-by-real", float(np.mean(np.abs(found.losses))), 0.03)
    for method, covered in found.coverage().items():
        figures.within(f"plan-intervals-cover-{method}-real", 100 * covered, 85, 97, " %")
    figures.at_most("plan-regret-real", float(np.mean(found.regrets)), 0.02)


PARTS = (measure_plans,)

if __name__ == "__main__":
    bench(PARTS)
