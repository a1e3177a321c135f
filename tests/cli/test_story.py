"""The last lines of `dpicl run`: whom it protected, what that promises, what came of it, what it
cost, and where the report is.
"""

from __future__ import annotations

import csv
import math
from statistics import mean

import pytest

from tests.harness import SMALL_OPTIONS, Place, install, shop, shop_rows

REPLACED = 100 / (1 + 99 * math.exp(-2 * math.log(1 + (math.exp(1) - 1) / 2)))
"""In per cent: a suspicion of 1 % after a release of epsilon 1 of half of the rows, where a row is
replaced.
"""


@pytest.mark.exhaustive
def test_a_run_ends_with_its_story(place: Place) -> None:
    done = place.dpicl(
        "run", "demo", *SMALL_OPTIONS, "--executor", "pool", "--run-id", "told", timeout=300
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    report, took, charged, promised, protected, random, central, local = lines[:-9:-1]
    assert lines[1].startswith(
        "What LDP-TabICL releases of breast_cancer at ε = 1 "
    ) and took.startswith("took: ")
    assert (
        protected
        == "protected: one client (replace-one) of breast_cancer; one row (add-or-remove-one) of "
        "breast_cancer"
    )
    assert (
        promised
        == "promised: by one release, a suspicion of 1 % about any of them becomes at most 2.67 % "
        "at ε = 1"
    )
    with (place.run("told") / "results.csv").open() as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if row["method"] == "gdp_tabicl"
            and row["system"] in ("icl", "majority", "zero-shot", "lr")
        ]
    without = mean(float(row["accuracy"]) for row in rows if row["system"] == "zero-shot")
    at = {
        (row["system"], row["epsilon"]): float(row["accuracy"])
        for row in rows
        if row["shots"] in ("2", "")
    }
    assert central == (
        f"GDP-TabICL on breast_cancer: accuracy {at['icl', '1.0']:.3f} at ε = 1; "
        f"{at['icl', 'inf']:.3f} without privacy; "
        f"{mean(value for (system, _), value in at.items() if system == 'majority'):.3f} by "
        f"always answering the majority label; "
        f"{without:.3f} by answers without demonstrations; better by more than noise from no ε "
        f"on; logistic regression on the rows, diffprivlib's noise {at['lr', '1.0']:.3f} at ε = 1"
    )
    assert local.startswith("LDP-TabICL on breast_cancer: accuracy ")
    assert "gradient boosting on rows of LDP-TabICL 0." in local and "random weights" in random
    assert charged.startswith("charged: nothing") and report.startswith("report: ")


def test_what_a_private_run_promises_is_what_it_was_charged(place: Place) -> None:
    contract = shop("till", private=True)
    contract["privacy"] |= {"neighbours": "replace-one", "sampling_rate": "1/2"}
    install(place, contract, shop_rows(300))
    options = (
        "--datasets",
        "till",
        "--methods",
        "gdp_tabicl",
        "--model",
        "fake",
        "--epsilons",
        "1",
        "--shots",
        "2",
        "--seeds",
        "0",
    )
    done = place.dpicl("run", "private", *options, "--executor", "pool", timeout=300)
    assert done.returncode == 0, done.stderr
    assert f"becomes at most {REPLACED:.3g} % at ε = 1" in done.stdout
    assert "till: 1 release" in done.stdout and " is spent." in done.stdout
