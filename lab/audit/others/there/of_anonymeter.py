"""anonymeter: how often attacks on released rows succeed against rows that they were made of, and
against control rows of other people.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator


def _evaluators(given: dict[str, Any]) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Each attack, and how it is evaluated."""
    rows = {name: pd.read_csv(given[name]) for name in ("ori", "syn", "control")}
    attacks, secret = given["attacks"], given["secret"]
    known = [name for name in rows["ori"].columns if name != secret]
    half = len(known) // 2
    out = {
        f"singling out, {mode}": (
            SinglingOutEvaluator(**rows, n_attacks=attacks, seed=given["seed"]),
            {"mode": mode},
        )
        for mode in ("univariate", "multivariate")
    }
    columns = known[:half], known[half:]
    linked = LinkabilityEvaluator(**rows, n_attacks=attacks, aux_cols=columns, n_neighbors=10)
    inferred = InferenceEvaluator(**rows, n_attacks=attacks, aux_cols=known, secret=secret)
    return out | {
        "linkability": (linked, {"n_jobs": 1}),
        f"inference of {secret}": (inferred, {"n_jobs": 1}),
    }


def rows(given: dict[str, Any]) -> list[dict[str, Any]]:
    """Success rates of every attack, each with half the width of its 95% interval."""
    found: list[dict[str, Any]] = []
    for name, (evaluator, how) in _evaluators(given).items():
        try:
            results = evaluator.evaluate(**how).results(confidence_level=0.95)
        except RuntimeError as error:  # no attack of this kind could be made
            found.append({"attack": name, "missing": str(error)[:100]})
            continue
        rates = results.attack_rate, results.control_rate
        found.append(
            {
                "attack": name,
                "on_rows": [float(rates[0].value), float(rates[0].error)],
                "on_control": [float(rates[1].value), float(rates[1].error)],
            }
        )
    return found


FOUND = {"rows": rows}
