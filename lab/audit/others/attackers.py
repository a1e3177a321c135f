"""Attacks of other packages on what dpicl releases: rows and predictors, beside what epsilon
allows, and rows that are published as they are, which must be found out.

    (1)  P[success on a row that was in] - P[success on a row that was not]  <=  (e^{2 epsilon} - 1)
         / (e^{2 epsilon} + 1)

Two rows of one population, one in the table and one not, change places: a replaced row, which costs
an added and a removed one. Rates are of many rows and one release, so intervals are the packages'
own and (1) is a figure to compare with, not a test; `dpicl audit membership` tests.

Paper       Giomi et al. 2023, A unified framework for quantifying privacy risk in synthetic data;
            (1) as (1) of lab/audit/membership/attacks.py
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import dpicl
from dpicl.cli.terminal import console, counted, new_table
from lab.audit.membership.attacks import allowed
from lab.audit.others.targets import NUMPY_1
from lab.audit.others.worker import Library
from lab.audit.results import write_json

NAME = "attackers"
EPSILONS = (0.5, 1.0, 4.0)
_ROWS, _ATTACKS = 1000, 300
_AS_THEY_ARE = math.inf
_TOOLBOX = "adversarial-robustness-toolbox"
_SURE = 0.95
_CONFIGURED = "XDG_CONFIG_HOME"


@dataclass(frozen=True)
class Attacked:
    """One attack on one release, `epsilon` infinite where rows are published as they are.

    Attributes:
        advantage: success on rows less success on control rows.
        at_least: the lower end of its 95% interval.
    """

    package: str
    attack: str
    epsilon: float
    on_rows: float
    on_control: float
    at_least: float

    @property
    def advantage(self) -> float:
        """As it is seen."""
        return self.on_rows - self.on_control

    @property
    def allowed(self) -> float:
        """Equation (1)."""
        return allowed(2 * self.epsilon)


def audit_attackers(*, runs: int | None, seed: int, folder: Path) -> bool:
    """Attack releases and rows that are published as they are, print and write the results; whether
    the first stay within what is allowed and each package finds out the second.

    Args:
        runs: attacks of each kind on a release.

    Raises:
        ParameterError: no peers are installed.
    """
    attacked = list(_attacks(runs or _ATTACKS, seed))
    table = new_table(
        "package", "attack", "epsilon", "on rows", "on others", "advantage", "allowed"
    )
    for one in attacked:
        epsilon = "as they are" if one.epsilon == _AS_THEY_ARE else f"{one.epsilon:g}"
        numbers = (one.on_rows, one.on_control, one.advantage, one.allowed)
        table.add_row(one.package, one.attack, epsilon, *(f"{number:.3f}" for number in numbers))
    console.print(table)
    write_json(
        folder / "attackers.json",
        [asdict(one) | {"allowed": one.allowed, "advantage": one.advantage} for one in attacked],
    )
    return passed(attacked)


def passed(attacked: list[Attacked]) -> bool:
    """Whether releases stay within what is allowed, and each package finds out more of rows as they
    are than the smallest epsilon allows.
    """
    released = [one for one in attacked if one.epsilon != _AS_THEY_ARE]
    caught = {
        one.package
        for one in attacked
        if one.epsilon == _AS_THEY_ARE and one.at_least > allowed(2 * EPSILONS[0])
    }
    within = all(one.at_least <= one.allowed for one in released)
    return within and caught == {one.package for one in attacked}


def _attacks(attacks: int, seed: int) -> Iterator[Attacked]:
    table, schema = dpicl.example(2 * _ROWS, seed=seed)
    rows, control = table[:_ROWS], table[_ROWS:].reset_index(drop=True)
    with (
        closing(Library("anonymeter", NUMPY_1.interpreter, NUMPY_1.fix)) as anonymeter,
        closing(Library("art", NUMPY_1.interpreter, NUMPY_1.fix)) as art,
        _homeless() as folder,
        counted("attacking", "releases") as count,
    ):
        for library, packages in ((anonymeter, "anonymeter"), (art, _TOOLBOX)):
            library.ask("versions", packages=[packages])
        for done, epsilon in enumerate((*EPSILONS, _AS_THEY_ARE), 1):
            if epsilon == _AS_THEY_ARE:
                released, predictor = rows, _overfitted(rows)
            else:
                release = dpicl.protect(
                    rows, schema, epsilon=epsilon, home=folder / "home", account=f"attack_{done}"
                )
                released, predictor = release.table(_ROWS), release.predictor()
            yield from _on_rows(anonymeter, folder, rows, released, control, epsilon, attacks, seed)
            yield _on_predictor(art, folder, rows, control, predictor, epsilon, seed)
            count.update(done, len(EPSILONS) + 1)


@contextmanager
def _homeless() -> Iterator[Path]:
    """A folder for a while, where a state home and what is known of it are kept: made-up rows are
    nobody's.
    """
    before = os.environ.get(_CONFIGURED)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[_CONFIGURED] = folder
        try:
            yield Path(folder)
        finally:
            del os.environ[_CONFIGURED]
            if before is not None:
                os.environ[_CONFIGURED] = before


def _on_rows(
    library: Library,
    folder: Path,
    rows: pd.DataFrame,
    released: pd.DataFrame,
    control: pd.DataFrame,
    epsilon: float,
    attacks: int,
    seed: int,
) -> Iterator[Attacked]:
    given: dict[str, Any] = {"attacks": attacks, "secret": "bought", "seed": seed}
    for name, some in (("ori", rows), ("syn", released), ("control", control)):
        given[name] = str(folder / f"{name}.csv")
        days = pd.to_datetime(some["joined"]).map(pd.Timestamp.toordinal)
        some.assign(joined=days).to_csv(given[name], index=False)
    for found in library.ask("found", attack="rows", given=given):
        if "missing" in found:
            continue
        (hits, half), (alarms, other) = found["on_rows"], found["on_control"]
        at_least = hits - half - (alarms + other)
        yield Attacked("anonymeter", found["attack"], epsilon, hits, alarms, at_least)


def _on_predictor(
    library: Library,
    folder: Path,
    rows: pd.DataFrame,
    control: pd.DataFrame,
    predictor: Any,
    epsilon: float,
    seed: int,
) -> Attacked:
    path = folder / "answers.npz"
    answers = [predictor.predict_proba(some.drop(columns="bought")) for some in (rows, control)]
    labels = [(some["bought"] == "yes").to_numpy().astype(int) for some in (rows, control)]
    np.savez(
        path,
        rows=answers[0],
        control=answers[1],
        row_labels=labels[0],
        control_labels=labels[1],
    )
    found = library.ask("found", attack="predictor", given={"path": str(path), "seed": seed})
    (hits, alarms), runs = found["said"], found["of"]
    low = stats.beta.ppf((1 - _SURE) / 2, hits, runs - hits + 1) if hits else 0.0
    high = stats.beta.ppf((1 + _SURE) / 2, alarms + 1, runs - alarms) if alarms < runs else 1.0
    return Attacked("art", "membership", epsilon, hits / runs, alarms / runs, float(low - high))


def _overfitted(rows: pd.DataFrame) -> Any:
    """A forest that knows its rows by heart."""
    from sklearn.compose import make_column_transformer  # a second to import
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    columns = make_column_transformer(
        (OneHotEncoder(), ["city", "member"]),
        ("passthrough", ["age", "visits", "spent"]),
    )
    forest = RandomForestClassifier(100, bootstrap=False, random_state=0)
    return make_pipeline(columns, forest).fit(rows.drop(columns="bought"), rows["bought"])
