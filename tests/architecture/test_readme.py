"""What the README shows is what the code does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dpicl.contract import load_contract
from dpicl.evaluation import measure
from dpicl.methods import Options, tabular, tabular_answers, unit_of
from dpicl.methods.common import draws_for
from dpicl.methods.tabular_method import Released
from dpicl.pipeline import Cell, Unit
from dpicl.tabular.reading.source import load_source
from dpicl.tabular.reading.split import split_table

ROOT = Path(__file__).parents[2]
README, METHODS_PAGE = (
    (ROOT / "README.md").read_text("utf-8"),
    (ROOT / "docs" / "methods.md").read_text("utf-8"),
)
EPSILONS = (1.0, 5.0, 10.0, 50.0, float("inf"))


def _unit(method: str, seed: int) -> Unit:
    return unit_of(method, "breast_cancer", seed, EPSILONS, (1, 2, 4, 8), (), True, Options())  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def contract():
    return load_contract(ROOT / "data_contracts" / "breast_cancer.yaml")


@pytest.fixture(scope="module")
def split(contract, tmp_path_factory):
    return split_table(
        load_source(contract, data_folder=None, cache_folder=tmp_path_factory.mktemp("cache")),
        contract,
    )


def test_the_quoted_accuracies_are_what_the_demo_measures(contract, split) -> None:
    central, local = tabular("gdp_tabicl"), tabular("ldp_tabicl")
    gdp, ldp = [], []
    for seed in (0, 1):
        draws, unit = draws_for(contract, seed), _unit("ldp_tabicl", seed)
        gdp.append(
            central.baselines(
                Released({}), split.train, split.test, contract, _unit("gdp_tabicl", seed), draws
            )
        )
        ldp.append(
            local.baselines(
                local.in_memory(split.train, contract, unit, draws),
                None,
                split.test,
                contract,
                unit,
                draws,
            )
        )
    for title, system, runs in (
        ("naive Bayes, diff", "gnb", gdp),
        ("logistic regression, diff", "lr", gdp),
        ("logistic regression on rec", "lr", ldp),
    ):
        row = next(line for line in METHODS_PAGE.splitlines() if line.startswith(f"| {title}"))
        means = [
            sum(run[Cell(system, epsilon)].accuracy for run in runs) / 2 for epsilon in EPSILONS
        ]
        assert [cell.strip() for cell in row.split("|")[2:-1]] == [f"{mean:.3f}" for mean in means]
    truth = tabular_answers.truth_of(split.queries, contract)
    assert f"{measure(truth, truth * 0).accuracy:.3f}" in METHODS_PAGE


@pytest.mark.exhaustive
def test_the_library_example_runs(tmp_path: Path) -> None:
    example = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert example is not None
    write_customers(tmp_path)
    program = (
        example[1] + "\nprint(len(release.table()), [account.releases for account in "
        "dpicl.Session().budget()])"
    )
    home = {**os.environ, "DPICL_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=home,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("customers, AIM-TabICL, epsilon 1\n") and done.stdout.endswith(
        "\n10000 [1]\n"
    )
    assert (tmp_path / "released.parquet").exists() and (
        tmp_path / "released.parquet.certificate.json"
    ).exists()


def write_customers(folder: Path) -> list[str]:
    """Three hundred rows; gives them without the label."""
    rows = [
        f"{18 + row % 80},{row % 500}.5,{('north', 'south', 'west')[row % 3]}" for row in range(300)
    ]
    members = [f"{row},{('no', 'yes')[number % 2]}" for number, row in enumerate(rows)]
    bought = [f"{row},{('no', 'yes')[number % 5 > 2]}" for number, row in enumerate(members)]
    (folder / "customers.csv").write_text(
        "\n".join(["age,spent,city,member,bought", *bought, ""]), "utf-8"
    )
    return members


@pytest.mark.exhaustive
def test_the_three_commands_print_what_is_shown(tmp_path: Path) -> None:
    """Answers vary with the noise; everything else is as it stands."""
    fields = [
        {"name": "age", "type": "integer", "constraints": {"minimum": 18, "maximum": 100}},
        {"name": "spent", "type": "number", "constraints": {"minimum": 0, "maximum": 500}},
        {"name": "city", "type": "string", "constraints": {"enum": ["north", "south", "west"]}},
        *(
            {"name": name, "type": "boolean", "falseValues": ["no"], "trueValues": ["yes"]}
            for name in ("member", "bought")
        ),
    ]
    (tmp_path / "customers.schema.json").write_text(json.dumps({"fields": fields}), "utf-8")
    members = write_customers(tmp_path)
    (tmp_path / "new.csv").write_text(
        "\n".join(["age,spent,city,member", *members[:2], ""]), "utf-8"
    )
    (tmp_path / "data_contracts").mkdir()
    shown = re.search(r"```console\n(.*?)```", README, re.DOTALL)
    assert shown is not None
    home = {
        **os.environ,
        "DPICL_HOME": str(tmp_path / "home"),
        "DPICL_DATA": str(tmp_path),
        "PYTHONPATH": str(ROOT),
    }
    for step in shown[1].removeprefix("$ dpicl ").split("$ dpicl "):
        command, _, expected = step.partition("\n")
        words = [sys.executable, "-m", "dpicl.cli", *command.split()]
        done = subprocess.run(
            words, cwd=tmp_path, env=home, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr
        pattern = re.sub(
            r"\\{\"answer.*",
            r"\\{\"answer\": \"(Yes|No)\", \"yes\": [0-9.]+\\}",
            re.escape(expected).replace("…", ".*"),
        )
        assert re.search(pattern, done.stdout, re.DOTALL), done.stdout
