"""Any table, one call, one certificate: what a release of a stranger's table takes.
`make bench TOPIC=table`.

Sixty made-up tables (`answers.generated_tables`), every third of them randomised row by row; a
release from `import` to a file; a cell of a notebook that runs a hundred times; then what
`dpicl plan`, `dpicl audit membership` and certificates hold.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

from dpicl import Session
from dpicl.ground.errors import DpiclError
from lab.benchmarks.answers.generated_tables import made_table
from lab.benchmarks.figures import Figures, bench, sized
from lab.benchmarks.guarantees import certificates
from lab.benchmarks.membership import measure as measure_membership
from lab.benchmarks.planning import measure_plans

TABLES, RUNS = sized(60, 3), sized(100, 3)
CONTRACT = """\
name: customers
source: {file: customers.csv}
privacy: {budget: {epsilon: 3}}
columns:
  age: {type: integer, bounds: [18, 100]}
  spent: {type: real, bounds: [0, 2000], nullable: true}
  since: {type: date, bounds: [2015-01-01, 2025-12-31]}
  plan: {type: category, categories: [basic, plus, pro], nullable: true}
  churned: {type: category, categories: ["no", "yes"]}
label: churned
"""
_TO_PARQUET = """
import sys
import dpicl
import numpy as np
import pandas as pd

numbers = np.random.default_rng(0).normal(50, 20, (1000, 14))
frame = pd.DataFrame(numbers, columns=[f"x{place}" for place in range(14)]).assign(bought=np.where(numbers[:, 0] > 50, "yes", "no"))
columns = {f"x{place}": {"type": "real", "bounds": [0, 100]} for place in range(14)}
columns["bought"] = {"type": "category", "categories": ["no", "yes"]}
release = dpicl.protect(frame, {"columns": columns, "label": "bought"}, epsilon=1, account="shop", home=sys.argv[1])
release.table(1000).to_parquet(sys.argv[1] + "/shop.parquet")
"""  # noqa: E501


def measure_contract(figures: Figures) -> None:
    """The contract of five columns is one, and is used."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "customers.yaml").write_text(CONTRACT)
        (Path(folder) / "customers.csv").write_text(
            "age,spent,since,plan,churned\n"
            + "40,,2020-02-29,plus,no\n51,9.5,2016-01-01,,yes\n" * 200
        )
        released = Session(Path(folder) / "home", data=folder, contracts=folder).protect(
            "customers", epsilon=1
        )
        figures.exactly("columns-of-a-short-contract", len(released.table(10).columns), 5)
    figures.at_most("lines-of-a-contract-of-five-columns", len(CONTRACT.splitlines()), 12)


def measure_speed(figures: Figures) -> None:
    """A fresh process, best of three: 1,000 rows of 15 columns from `import` to a Parquet file and
    its certificate.
    """
    taken = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as home:
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", _TO_PARQUET, home], check=True)
            taken.append(time.perf_counter() - started)
            assert (Path(home) / "shop.parquet.certificate.json").exists()
    figures.at_most("seconds-from-import-to-parquet", min(taken), 5, " s")


def measure_charges(figures: Figures) -> None:
    """A cell that runs a hundred times, beside another one."""
    table = made_table(3)
    with tempfile.TemporaryDirectory() as home:
        session = Session(home)
        for run in range(RUNS):
            session.protect(table.frame, table.schema, epsilon=1, account="again", budget=3)
            if run % 10 == 0:
                session.protect(table.frame, table.schema, epsilon=2, account="again", budget=3)
        (budget,) = session.budget()
    figures.exactly("charges-of-a-cell-that-runs-100-times-beside-another", budget.releases, 2)
    figures.at_most("epsilon-of-both", budget.epsilon_spent, 3)


def measure_tables(figures: Figures) -> None:
    """Rows and demonstrations of every made-up table, or one sentence that says why not."""
    accepted, refused, lost = 0, [], []
    with tempfile.TemporaryDirectory() as home:
        session = Session(home)
        for number in range(TABLES):
            table = made_table(number)
            trust = "local" if number % 3 == 2 else "central"
            try:
                release = session.protect(
                    table.frame, table.schema, epsilon=1, account=f"made_{number}", trust=trust
                )
                rows, texts = release.table(100), list(release.demonstrations(4))
                whole = (
                    list(rows.columns) == list(table.frame.columns)
                    and len(rows) == 100
                    and len(texts) == 4
                )
                accepted += whole
                lost += [] if whole else [number]
            except DpiclError as error:
                refused.append(f"table {number}: {error}")
            except Exception:  # noqa: BLE001 - what a user must never see
                lost.append(number)
                traceback.print_exc()
    print(*refused, sep="\n")
    figures.at_least("made-up-tables-accepted", 100 * accepted / TABLES, 100, " %")
    figures.exactly("made-up-tables-neither-accepted-nor-refused-in-one-sentence", len(lost), 0)


PARTS = (
    measure_contract,
    measure_speed,
    measure_charges,
    measure_tables,
    certificates.measure,
    measure_membership,
    measure_plans,
)

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    bench(PARTS)
