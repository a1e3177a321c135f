"""A predictor is not below the most frequent label where little is to be learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from dpicl.contract import Contract, parse_contract
from dpicl.ground.randomness import Draws, stream
from dpicl.ground.types import PrivateTable
from dpicl.methods import tabular
from dpicl.methods.grid import draw, points
from dpicl.quality.replicates import beats_constant
from dpicl.quality.simulate import Candidate, population
from dpicl.quality.worth import ReleasePoint
from dpicl.release.predictor import Cautious, fitted


def test_a_cautious_model_answers_the_most_frequent_label_in_the_order_of_its_own_chances() -> None:
    rng = np.random.default_rng(0)
    asked = rng.normal(size=(4000, 3))
    labels = (asked[:, 0] + rng.normal(size=4000) > 0.8).astype(int)
    plain = HistGradientBoostingClassifier(random_state=0)
    model = Cautious(plain).fit(asked, labels)
    assert np.mean(model.predict(asked) != 0) <= 1 / 500
    own, careful = (each.predict_proba(asked)[:, 1] for each in (plain, model))
    assert roc_auc_score(labels, own) == pytest.approx(roc_auc_score(labels, careful), abs=1e-9)
    assert model.predict_proba(asked).sum(axis=1) == pytest.approx(1)


def _contract(neighbours: str) -> Contract:
    content: dict[str, Any] = {
        "version": 2,
        "name": "floor",
        "source": {"file": "floor.csv"},
        "privacy": {"neighbours": neighbours, "budget": {"epsilon": 10}},
        "columns": {
            "age": {"type": "integer", "bounds": [0, 100]},
            "spent": {"type": "real", "bounds": [0, 900]},
            "size": {"type": "category", "categories": ["s", "m", "l", "xl"]},
            "region": {"type": "category", "categories": ["north", "south", "west"]},
            "left": {"type": "category", "categories": ["no", "yes"]},
        },
        "label": "left",
    }
    contract = parse_contract(content, "floor.yaml")
    assert isinstance(contract, Contract)
    return contract


@pytest.mark.parametrize(
    ("method", "rows", "epsilon"),
    [
        ("mst_tabicl", 900, 0.3),
        ("tab_pe", 900, 0.3),
        ("tab_pate", 900, 0.3),
        ("ldp_tabicl", 6000, 1.0),
    ],
)
def test_where_noise_is_all_that_is_learned_the_most_frequent_label_is_answered(
    method: str, rows: int, epsilon: float
) -> None:
    contract = _contract("replace-one" if method == "ldp_tabicl" else "add-or-remove-one")
    made = population(contract, rows, 0.55, stream(3, "floor", "", "").generator())
    table, own = PrivateTable(made.table.data.slice(0, rows)), tabular(method)
    fresh, labels = made.table.data.slice(rows), made.codes[rows:, -1]
    most = max(float(labels.mean()), 1 - float(labels.mean()))
    assert most > 0.55
    asked = points(own, Candidate(method, {}, 4).unit(contract, (epsilon,)))
    draws = Draws(0, contract.name, simulated=True)
    ((cell, drawn),) = draw(own, table, contract, asked, draws, {}).items()
    is_sure = beats_constant(ReleasePoint(contract, own, asked[cell]), drawn)
    released = own.rows(drawn, contract, asked[cell], draws)
    form = own.form(contract.with_bins(own.chosen_bins(drawn)), asked[cell])
    model = fitted(released, form, contract, own.row_count(drawn), is_sure=is_sure)
    right = np.mean(model.predict(fresh) == model.classes_[labels])
    assert not is_sure and right >= most - 0.02


def test_where_no_rule_knows_the_most_frequent_label_of_few_clients_that_is_said_before() -> None:
    contract, own = _contract("replace-one"), tabular("ldp_tabicl")
    (asked,) = points(own, Candidate("ldp_tabicl", {}, 4).unit(contract, (0.3,))).values()
    few, many = (
        ReleasePoint(contract, own, asked).label_risk(clients) for clients in (900, 900_000)
    )
    assert "noise may make another label the most frequent one" in few and not many
