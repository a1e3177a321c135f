"""What comes out for somebody who states bounds and nothing else, and what is said of it before.

bins       the same tables with bins written by hand, and with bounds alone: AUC of `predictor()`,
           and how far means of released numbers are off
predictor  `predictor()` beside the better of logistic regression and boosting that are fitted on
           `table()`
floor      points under the most frequent label, of five methods, on made-up tables in which little
           is to be learned
wide       60 columns and 3,000 rows: errors of columns by AIM over those by MST
plan       what a plan recommends is never refused
plan_time  how long a plan takes
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from dpicl.contract import Contract, parse_contract
from dpicl.data.values import RowForm
from dpicl.ground.errors import PrivacyError
from dpicl.ground.randomness import Draws, stream
from dpicl.ground.types import PrivateTable, ReleasedRows, Table
from dpicl.methods import METHODS, tabular
from dpicl.methods.grid import draw, points
from dpicl.quality.gate import check_noise
from dpicl.quality.outlook import plan_table
from dpicl.quality.replicates import beats_constant
from dpicl.quality.simulate import Candidate, population, trial
from dpicl.quality.worth import ReleasePoint
from dpicl.release.predictor import Predictor, fitted
from lab.benchmarks.figures import Figures, sized
from lab.benchmarks.real_tables import EIGHT, at_hand, real_table

SETS = sized((*EIGHT, "breast_cancer"), ("blood",))
SEEDS, EPSILONS = range(sized(3, 1)), sized((1.0, 5.0), (1.0,))
TABLES, FLOOR_SEEDS, PLANS = sized(20, 2), range(sized(20, 1)), sized(200, 1)
METHODS_OF_ROWS = ("aim_tabicl", "mst_tabicl", "tab_pe", "tab_pate", "ldp_tabicl")
MANY = 10_000
"""Rows of which a mean can be as exact as is asked: of some hundreds with ten columns, noise that ε
asks for moves it by more, whatever is released."""
ON_ROWS = 6000
"""Rows of `table()` that the two models are fitted on."""


class Made:
    """One release, and what is made of it."""

    def __init__(
        self, method: str, contract: Contract, train: PrivateTable, epsilon: float, seed: int
    ) -> None:
        self.contract, self.method = contract, tabular(method)
        unit = Candidate(method, {}, 4).unit(contract, (epsilon,))
        draws = Draws(seed, contract.name, simulated=True)
        asked = points(self.method, unit)
        ((cell, self.drawn),) = draw(self.method, train, contract, asked, draws, {}).items()
        self.point = ReleasePoint(contract, self.method, asked[cell])
        self.rows: ReleasedRows = self.method.rows(self.drawn, contract, asked[cell], draws)
        self.form: RowForm = self.method.form(
            contract.with_bins(self.method.chosen_bins(self.drawn)), asked[cell]
        )
        self.chance = np.random.default_rng(seed)

    def predictor(self) -> Predictor:
        """As `release.predictor()` has it."""
        count = self.method.row_count(self.drawn)
        is_sure = beats_constant(self.point, self.drawn)
        return fitted(self.rows, self.form, self.contract, count, is_sure=is_sure)

    def table(self, count: int) -> Any:
        """As `release.arrow()` has it, about."""
        codes = self.rows.codes[self.chance.permutation(len(self.rows.codes))[:count]]
        return self.form.seen(self.rows.codes).table(codes, self.contract, self.chance)


def without_bins(contract: Contract) -> Contract:
    """The same with bounds alone."""
    columns = {
        name: column.model_copy(update={"bins": None}) if name in contract.numbers else column
        for name, column in contract.columns.items()
    }
    return contract.model_copy(update={"columns": columns, "local": (), "prompts": None})


def auc_of(model: Any, asked: Any, truth: np.ndarray) -> float:
    """Of several classes the mean over one against the rest."""
    chances = model.predict_proba(asked)
    if chances.shape[1] == 2:
        return float(roc_auc_score(truth, chances[:, 1]))
    present = [code for code in range(chances.shape[1]) if 0 < (truth == code).sum() < len(truth)]
    return float(np.mean([roc_auc_score(truth == code, chances[:, code]) for code in present]))


def bins(figures: Figures) -> None:
    """AUC with bounds alone less AUC with bins by hand, and errors of means, by set."""
    if not at_hand():
        return
    for trust, methods in (("central", ("aim_tabicl",)), ("local", ("ldp_tabicl",))):
        apart, means, of_many = [], [], []
        for name in SETS:
            contract, split = real_table(name)
            for epsilon in EPSILONS:
                aucs: dict[str, list[float]] = {"by hand": [], "bounds": []}
                for seed in SEEDS:
                    for way, stated in (("by hand", contract), ("bounds", without_bins(contract))):
                        made = Made(methods[0], stated, split.train, epsilon, seed)
                        model = made.predictor()
                        truth = model.labels.read(split.test.data.column(contract.label_column))
                        aucs[way].append(auc_of(model, split.test.data, truth))
                        if way == "bounds" and trust == "central" and epsilon == EPSILONS[0]:
                            means += (off := list(_means_off(made, split.train)))
                            of_many += off if split.train.row_count >= MANY else []
                hand, bounds = (float(np.mean(aucs[way])) for way in aucs)
                apart.append(bounds - hand)
                print(f"{trust} {name:14} ε={epsilon:g} {hand:.3f} {bounds:.3f}", flush=True)
        figures.at_least(f"bounds-alone-{trust}-mean-auc", float(np.mean(apart)), -0.01)
        figures.at_least(f"bounds-alone-{trust}-worst-auc", float(np.min(apart)), -0.02)
        if means:
            print(f"means off by {np.mean(means):.3f} deviations on average")
            figures.at_most("worst-mean-in-deviations", float(np.max(means)), 0.1)
        if of_many:
            print(f"of {MANY:,} rows and more by {np.mean(of_many):.3f}")
            figures.at_most(f"worst-mean-in-deviations-of-{MANY}-rows", max(of_many), 0.1)


def _means_off(made: Made, train: Table) -> Iterator[float]:
    released = made.table(16_384)
    for name in made.contract.numbers:
        if name in released.column_names and made.contract.numbers[name].plain:
            ours = released.column(name).to_numpy().astype(float)
            real = train.numbers(name).astype(float)
            spread = float(np.nanstd(real))
            if spread:
                yield abs(float(np.nanmean(ours) - np.nanmean(real))) / spread


def predictor(figures: Figures) -> None:
    """`predictor()` less the better of two models that are fitted on rows of the same release."""
    if not at_hand():
        return
    apart = []
    for name in SETS:
        contract, split = real_table(name)
        stated = without_bins(contract)
        for epsilon in sized((1.0, 10.0), (1.0,)):
            found = []
            for seed in SEEDS:
                made = Made("aim_tabicl", stated, split.train, epsilon, seed)
                ours = made.predictor()
                truth = ours.labels.read(split.test.data.column(contract.label_column))
                table = made.table(ON_ROWS)
                shown, asked = (_numbers(rows, stated) for rows in (table, split.test.data))
                labels = ours.labels.read(table.column(contract.label_column))
                others = [
                    auc_of(model.fit(shown, labels), asked, truth)
                    for model in (
                        make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
                        HistGradientBoostingClassifier(random_state=0),
                    )
                ]
                found.append((auc_of(ours, split.test.data, truth), *others))
            mine, linear, boosted = np.mean(found, axis=0)
            apart.append(mine - max(linear, boosted))
            print(f"{name:14} ε={epsilon:g} {mine:.3f} {linear:.3f} {boosted:.3f}", flush=True)
    figures.at_least("predictor-over-better-of-two-mean", float(np.mean(apart)), -0.005)
    figures.at_least("predictor-over-better-of-two-worst", float(np.min(apart)), -0.02)


def _numbers(rows: Any, contract: Contract) -> pd.DataFrame:
    """Numbers as they are, an indicator for each category."""
    columns: dict[str, Any] = {}
    for name in contract.features:
        if name in contract.numbers:
            number = (
                rows.column(name).cast("double", safe=False)
                if contract.numbers[name].plain
                else rows.column(name).cast("int32", safe=False)
            )
            columns[name] = np.nan_to_num(number.to_numpy().astype(float))
        else:
            texts = rows.column(name).cast("string").to_pandas()
            for category in contract.listed[name].categories:
                columns[f"{name}={category}"] = (texts == category).to_numpy(float)
    return pd.DataFrame(columns)


def made_contract(rng: np.random.Generator, features: int) -> Contract:
    """Numbers with bounds alone and categories, half of each; two labels."""
    columns: dict[str, Any] = {}
    for place in range(features):
        if rng.random() < 0.5:
            bound = int(rng.choice([20, 100, 5000]))
            columns[f"n{place}"] = {"type": "integer", "bounds": [0, bound]}
        else:
            count = int(rng.choice([2, 3, 5, 10]))
            columns[f"c{place}"] = {
                "type": "category",
                "categories": [f"v{i}" for i in range(count)],
            }
    columns["y"] = {"type": "category", "categories": ["a", "b"]}
    content = {
        "version": 2,
        "name": "made",
        "source": {"file": "made.csv"},
        "privacy": {"neighbours": "add-or-remove-one", "budget": {"epsilon": 100}},
        "columns": columns,
        "label": "y",
    }
    contract = parse_contract(content, "made.yaml")
    assert isinstance(contract, Contract)
    return contract


def floor(figures: Figures) -> None:
    """Shares of tables and seeds on which a predictor is more than a point below the most frequent
    label.
    """
    under: dict[str, list[float]] = {method: [] for method in METHODS_OF_ROWS}
    number = 0
    while min(map(len, under.values())) < TABLES * len(FLOOR_SEEDS):
        number += 1
        rng = np.random.default_rng(number)
        contract = made_contract(rng, int(rng.choice([4, 8, 12])))
        rows = int(math.exp(rng.uniform(math.log(500), math.log(5000))))
        epsilon, signal = float(rng.choice([0.5, 1, 3])), float(rng.choice([0.55, 0.65, 0.8]))
        chance = stream(number, "bench", "floor", "").generator()
        with threadpool_limits(1):
            made = population(contract, rows, signal, chance)
            labels = made.codes[rows:, -1]
            most = max(float(labels.mean()), 1 - float(labels.mean()))
            if most < 0.55:
                continue
            train = PrivateTable(made.table.data.slice(0, rows))
            fresh = made.table.data.slice(rows)
            for method in METHODS_OF_ROWS:
                for seed in FLOOR_SEEDS:
                    model = Made(method, contract, train, epsilon, seed).predictor()
                    right = float(np.mean(model.predict(fresh) == np.array(["a", "b"])[labels]))
                    under[method].append(100 * (most - right))
    for method, points_under in under.items():
        share = float(np.mean(np.array(points_under) > 1))
        print(f"{method:12} {share:.3f}, worst {max(points_under):.1f} points", flush=True)
        figures.at_most(f"{method}-under-majority-share", share, 0.05)


def wide(figures: Figures) -> None:
    """Means over populations of errors of columns, and of the loss of AUC."""
    contract = made_contract(np.random.default_rng(60), 60)
    ways = [Candidate("aim_tabicl", {}, 4), Candidate("mst_tabicl", {}, 4)]
    errors, losses = [], []
    for number in range(sized(6, 1)):
        found = trial(contract, 3000, (1.0,), ways, 0.8, number)
        assert found.truth is not None
        outcomes = [outcomes[1.0] for outcomes in found.outcomes]
        errors.append(
            [np.mean([e for names, e in one.errors.items() if len(names) == 1]) for one in outcomes]
        )
        losses.append([found.truth.auc - one.quality.auc for one in outcomes if one.quality])
    aim, mst = np.mean(errors, axis=0)
    print(f"60 columns, 3,000 rows: errors {aim:.3f}, {mst:.3f}; losses {np.mean(losses, axis=0)}")
    figures.at_most("wide-column-error-over-mst", aim / mst, 1.5)


def plan(figures: Figures) -> None:
    """Recommendations that are refused, of plans for made-up contracts."""
    refused = asked = 0
    for number in range(PLANS):
        rng = np.random.default_rng(100 + number)
        contract = made_contract(rng, int(rng.choice([4, 8, 20])))
        rows = int(math.exp(rng.uniform(math.log(150), math.log(3000))))
        stated = contract.model_copy(update={"population": rows})
        planned = plan_table(stated, rows, (0.5, 1, 2), signal="medium", fast=True)
        best = planned.recommended
        if best is None:
            continue
        asked += 1
        method = METHODS[best.way.method]
        unit = best.way.unit(stated, (best.epsilon,))
        points_ = [
            ReleasePoint(stated, tabular(method.name), point)
            for point in points(method, unit).values()
        ]
        try:
            check_noise(points_, anyway=False)
        except PrivacyError as error:
            refused += 1
            print(error)
    figures.exactly("plans-recommended-and-refused", refused, 0, f" of {asked}")


def plan_time(figures: Figures) -> None:
    """Seconds on the wall, on two idle processes."""
    contract = made_contract(np.random.default_rng(20), 20)
    for name, fast, most in (("plan", False, 60), ("plan-fast", True, 10)):
        began = time.monotonic()
        plan_table(contract, 20_000, (0.3, 1, 3), processes=2, fast=fast)
        figures.at_most(
            f"{name}-seconds, 20 columns, two processes", time.monotonic() - began, most, " s"
        )
