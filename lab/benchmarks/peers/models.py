"""Peers that are packages of their own, in an environment of their own: no dpicl in here.

Every one is given public bounds, categories and classes, so that none reads them from rows: a
diffprivlib that would warn of it fails.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np

from lab.benchmarks.peers.list_of_systems import DELTA
from lab.benchmarks.peers.scores import Arrays, auc, of_model, one_hot

Job = dict[str, Any]


def run_dplib_lr(table: Arrays, job: Job) -> dict[str, float]:
    """Numbers scaled to [0, 1] by their bounds, categories as indicators."""
    norm = float(np.sqrt(len(table["low"])))
    return _diffprivlib(
        "LogisticRegression",
        _indicators,
        table,
        epsilon=job["epsilon"],
        data_norm=norm,
        max_iter=1000,
        seed=job["seed"],
    )


def run_dplib_gnb(table: Arrays, job: Job) -> dict[str, float]:
    """Numbers and codes scaled to [0, 1] by their bounds."""
    zero, one = np.zeros(len(table["low"])), np.ones(len(table["low"]))
    return _diffprivlib(
        "GaussianNB", _scaled, table, epsilon=job["epsilon"], bounds=(zero, one), seed=job["seed"]
    )


def run_dplib_forest(table: Arrays, job: Job) -> dict[str, float]:
    """Bounds and classes as stated."""
    classes, bounds = (
        np.arange(table["sizes"][-1]),
        (np.zeros(len(table["low"])), np.ones(len(table["low"]))),
    )
    options = {"bounds": bounds, "classes": classes, "shuffle": True}
    return _diffprivlib(
        "RandomForestClassifier",
        _scaled,
        table,
        epsilon=job["epsilon"],
        seed=job["seed"],
        **options,
    )


def run_dp_ebm(table: Arrays, job: Job) -> dict[str, float] | None:
    """Of two classes only."""
    privacy = importlib.import_module("interpret.privacy")
    if table["sizes"][-1] != 2:
        return None
    kinds = ["nominal" if count else "continuous" for count in table["categories"]]
    bounds = {
        place: (low, high)
        for place, (low, high) in enumerate(zip(table["low"], table["high"], strict=True))
    }
    options = {
        "feature_types": kinds,
        "privacy_bounds": bounds,
        "delta": DELTA,
        "n_jobs": 1,
        "random_state": job["seed"],
    }
    model = privacy.DPExplainableBoostingClassifier(epsilon=job["epsilon"], **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table["train"], table["train_codes"][:, -1])
        return _twice(of_model(model, table["test"], table))


def run_multi_freq(table: Arrays, job: Job) -> dict[str, float] | None:
    """Frequencies of every column with the label by SMP and the adaptive protocol, one column a
    client at all of epsilon; read by naive Bayes. Of tables with a contract.
    """
    smp = importlib.import_module("multi_freq_ldpy.mdim_freq_est.SMP_solution")
    if not job["contract"]:
        return None
    np.random.seed(job["seed"])
    classes, codes, test = int(table["sizes"][-1]), table["train_codes"], table["test_codes"]
    sizes = [int(size) * classes for size in table["sizes"][:-1]]
    with_label = codes[:, :-1] * classes + codes[:, [-1]]
    reports = [
        smp.SMP_ADP_Client(row, sizes, len(sizes), job["epsilon"], True)
        for row in with_label.tolist()
    ]
    logs = np.zeros((len(test), classes))
    shares = [
        np.maximum(np.asarray(one, dtype=float), 1e-4).reshape(-1, classes)
        for one in smp.SMP_ADP_Aggregator_MI(reports, sizes, len(sizes), job["epsilon"])
    ]
    for column, joint in enumerate(shares):
        logs += np.log(joint / joint.sum(axis=0))[test[:, column]]
    logs += np.log(np.mean([joint.sum(axis=0) / joint.sum() for joint in shares], axis=0))
    chances = np.exp(logs - logs.max(axis=1, keepdims=True))
    return _twice(auc(chances / chances.sum(axis=1, keepdims=True), table))


def _diffprivlib(
    name: str, features: Any, table: Arrays, *, seed: int, **options: Any
) -> dict[str, float]:
    models, utils = (
        importlib.import_module("diffprivlib.models"),
        importlib.import_module("diffprivlib.utils"),
    )
    model = getattr(models, name)(random_state=seed, **options)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", category=utils.PrivacyLeakWarning)
        model.fit(features(table["train"], table), table["train_codes"][:, -1])
        return _twice(of_model(model, features(table["test"], table), table))


def _scaled(values: np.ndarray, table: Arrays) -> np.ndarray:
    return np.asarray(
        (np.clip(values, table["low"], table["high"]) - table["low"])
        / (table["high"] - table["low"])
    )


def _indicators(values: np.ndarray, table: Arrays) -> np.ndarray:
    nominal = table["categories"] > 0
    return np.hstack(
        [
            _scaled(values, table)[:, ~nominal],
            *_of_categories(values[:, nominal], table["categories"][nominal]),
        ]
    )


def _of_categories(values: np.ndarray, sizes: np.ndarray) -> list[np.ndarray]:
    return [one_hot(values.astype(np.int64), sizes)] if len(sizes) else []


def _twice(score: float) -> dict[str, float]:
    """A classifier of its own has no rows for others."""
    return {"gb": score, "lr": score}
