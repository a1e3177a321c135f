"""Whether public facts tell which of two families of central releases should be the default.

AIM and MST release the same tables, generated ones and real ones, and the AUC of `predictor()` on
fresh rows is compared. A rule from public facts (columns, cells, rows, labels, epsilon) is a
decision stump or a tree of depth two that is fitted on all tables but the one it is judged on: it
names MST where AIM is expected to be behind.

    regret    AUC of the better family less that of the named one, of one table and epsilon
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

from dpicl.contract import Contract
from dpicl.data.central.exact_counts import row_encoding
from dpicl.ground.types import PrivateTable, QueryTable
from lab.benchmarks.answers.strangers import Made, auc_of
from lab.benchmarks.figures import Figures, sized
from lab.benchmarks.planning import generated_tables
from lab.benchmarks.real_tables import EIGHT, at_hand, real_table

FAMILIES = ("aim_tabicl", "mst_tabicl")
EPSILONS, SEEDS, TABLES = (
    sized((0.3, 1.0, 3.0, 10.0), (1.0,)),
    range(sized(2, 1)),
    sized(16, 2),
)
GAIN = 0.005
"""Mean AUC that a rule must gain to be worth a second default."""
_LEAST_IN_LEAF = sized(8, 1)


@dataclass(frozen=True)
class Comparison:
    """One table and epsilon: its public facts, and the mean AUC of each family."""

    table: str
    facts: tuple[float, ...]
    aucs: tuple[float, ...]


def facts_of(contract: Contract, rows: int, epsilon: float) -> tuple[float, ...]:
    """Columns, bins of all columns, largest number of bins, labels, rows, epsilon, and rows times
    epsilon for each column and for each bin; logarithms.
    """
    sizes = row_encoding(contract).sizes
    columns, bins = len(sizes) - 1, sum(sizes)
    strength = rows * epsilon
    known = (
        *(columns, bins, max(sizes), sizes[-1], rows, epsilon),
        *(strength / columns, strength / bins),
    )
    return tuple(np.log(known).tolist())


def tables() -> Iterator[tuple[str, Contract, PrivateTable, QueryTable]]:
    """Names, contracts, rows to release and fresh rows."""
    for place, (kind, contract, made) in enumerate(generated_tables(2026, TABLES)):
        data = made.table.data
        train, fresh = data.slice(0, made.rows), data.slice(made.rows)
        yield f"{kind} {place}", contract, PrivateTable(train), QueryTable(fresh)
    for name in EIGHT if at_hand() else ():
        contract, split = real_table(name)
        yield name, contract, split.train, split.test


def comparisons() -> Iterator[Comparison]:
    """Of every table and epsilon."""
    for name, contract, train, fresh in tables():
        for epsilon in EPSILONS:
            aucs = []
            for family in FAMILIES:
                models = [
                    Made(family, contract, train, epsilon, seed).predictor() for seed in SEEDS
                ]
                truth = models[0].labels.read(fresh.data.column(contract.label_column))
                aucs.append(np.mean([auc_of(model, fresh.data, truth) for model in models]))
            facts = facts_of(contract, train.row_count, epsilon)
            found = Comparison(name, facts, tuple(float(auc) for auc in aucs))
            print(
                f"{name:20} {train.row_count:6,} x {len(contract.features):2} ε={epsilon:<4g}"
                f" AIM {found.aucs[0]:.3f} MST {found.aucs[1]:.3f}",
                flush=True,
            )
            yield found


def regrets_of_rule(found: Sequence[Comparison], depth: int) -> list[float]:
    """Of a tree of this depth, each table left out of the fit in its turn."""
    regrets = []
    for left_out in dict.fromkeys(comparison.table for comparison in found):
        others = [comparison for comparison in found if comparison.table != left_out]
        ahead = [comparison.aucs[1] - comparison.aucs[0] for comparison in others]
        tree = DecisionTreeRegressor(max_depth=depth, min_samples_leaf=_LEAST_IN_LEAF)
        tree.fit([comparison.facts for comparison in others], ahead)
        for comparison in found:
            if comparison.table == left_out:
                chosen = int(tree.predict([comparison.facts])[0] > 0)
                regrets.append(max(comparison.aucs) - comparison.aucs[chosen])
    return regrets


def measure(figures: Figures) -> None:
    """Mean and worst regrets of either family and of rules; what the best rule gains on AIM."""
    with threadpool_limits(1):
        found = list(comparisons())
    regrets = {
        name: [max(comparison.aucs) - comparison.aucs[place] for comparison in found]
        for place, name in enumerate(("always AIM", "always MST"))
    }
    for depth in (1, 2):
        regrets[f"tree of depth {depth}"] = regrets_of_rule(found, depth)
    for name, values in regrets.items():
        print(f"{name:16} regret {np.mean(values):.4f} on average, {np.max(values):.3f} at worst")
    always, *_ = means = [float(np.mean(values)) for values in regrets.values()]
    figures.at_most("gain-of-a-default-by-public-facts", always - min(means[2:]), GAIN)
