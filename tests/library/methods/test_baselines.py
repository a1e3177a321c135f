"""Baselines: what the same budget buys, from public bounds only."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from diffprivlib.models import GaussianNB as PrivateNB
from diffprivlib.models import LogisticRegression as PrivateLR
from diffprivlib.utils import PrivacyLeakWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from dpicl.contract import Contract
from dpicl.data.reading.encode import (
    LocalEncoding,
    encode_clients,
    encode_queries,
    label_codes,
    label_numbers,
)
from dpicl.ground.types import EncodedQueries, PrivateTable, QueryTable, ReleasedRows
from dpicl.methods import baselines
from dpicl.methods.baselines import (
    _fitted,
    central_baselines,
    central_design,
    local_baselines,
    local_design,
)
from dpicl.methods.evaluation import measure
from tests.library.examples import every_contract, random_table, seeded, small_contract
from tests.library.kinds import kind_contract

CONTRACT = small_contract()
ENCODING = LocalEncoding.of(CONTRACT, "k-ary")
SYSTEMS = ("lr", "gnb", "lr-naive", "gnb-naive")


def _rows(row_count: int, seed: int = 0) -> np.ndarray:
    """Released rows whose label leans on two attributes."""
    rng = np.random.default_rng(seed)
    codes = encode_clients(
        PrivateTable(random_table(CONTRACT, row_count, seed)), CONTRACT, ENCODING
    ).codes.copy()
    codes[:, -1] = rng.random(row_count) < 0.2 + 0.5 * codes[:, 0] + 0.1 * (codes[:, 1] == 2)
    return codes


def central(
    contract: Contract, train: pa.Table, test: pa.Table, sampled: pa.Table | None = None, **how: Any
) -> dict[str, Any]:
    return central_baselines(
        PrivateTable(train),
        PrivateTable(train if sampled is None else sampled),
        QueryTable(test),
        contract,
        **{"epsilon": 1.0, "stream": seeded(0, "baselines"), **how},
    )


def test_local_baselines_answer_as_models_fitted_on_every_row() -> None:
    rows, test = _rows(3000), _rows(500, seed=1).astype(np.int64)
    measured = local_baselines(ReleasedRows(rows), ENCODING, EncodedQueries(test))
    features, asked, truth = local_design(rows, ENCODING), local_design(test, ENCODING), test[:, -1]
    for name, model in (("lr", LogisticRegression(max_iter=1000)), ("gnb", GaussianNB())):
        fitted = model.fit(features, rows[:, -1])
        expected = measure(truth, fitted.predict(asked), fitted.predict_proba(asked)[:, 1])
        assert measured[name].accuracy == expected.accuracy > 0.6
        assert measured[name].auc == pytest.approx(expected.auc, abs=1e-3)


def test_boosting_of_more_distinct_rows_than_it_takes_is_fitted_on_every_so_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    encoding = LocalEncoding("k-ary", tuple("abcdef") + ("label",), (9,) * 6 + (2,))
    bins = rng.integers(0, 9, (4000, 7))
    bins[:, -1] = bins[:, 0] > 3
    rows = ReleasedRows(bins[np.argsort(bins[:, 0])].astype(np.uint8))
    monkeypatch.setattr(baselines, "_MOST_DISTINCT", 500)
    assert local_baselines(rows, encoding, EncodedQueries(bins))["gb"].accuracy == 1.0
    assert len(baselines._of_boosting(rows, encoding)[0]) <= 502
    rare = rows.codes.copy()
    rare[:, -1] = np.arange(4000) == 1
    assert set(local_baselines(ReleasedRows(rare), encoding, EncodedQueries(bins))) == {
        "lr",
        "gnb",
        "gb",
    }


@pytest.mark.parametrize("label", [0, 1])
def test_one_class_alone_teaches_only_that_class(label: int) -> None:
    rows, test = _rows(200), _rows(100, seed=1).astype(np.int64)
    rows[:, -1] = label
    for metrics in local_baselines(ReleasedRows(rows), ENCODING, EncodedQueries(test)).values():
        assert metrics.accuracy == np.mean(test[:, -1] == label) and metrics.auc == 0.5


def _central(epsilon: float, *, beyond: float = 0.0) -> dict[str, Any]:
    train, test = (random_table(CONTRACT, 400, number, beyond=beyond) for number in (0, 1))
    return central(CONTRACT, train, test, train.slice(0, 200), epsilon=epsilon)


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("beyond", [0.0, 3.0])
def test_diffprivlib_gets_public_bounds_whatever_the_rows(epsilon: float, beyond: float) -> None:
    """A bound that is read from the rows raises PrivacyLeakWarning, which `_fit` makes an error."""
    measured = _central(epsilon, beyond=beyond)
    assert tuple(measured) == SYSTEMS
    assert all(
        metrics.query_count == 400 and 0 <= metrics.accuracy <= 1 for metrics in measured.values()
    )


@pytest.mark.parametrize(
    "model", [PrivateLR(epsilon=1.0), PrivateNB(epsilon=1.0)], ids=["lr", "gnb"]
)
def test_a_model_without_public_bounds_is_an_error(model: Any) -> None:
    with pytest.raises(PrivacyLeakWarning):
        _fitted(model, np.random.default_rng(0).normal(size=(50, 3)), np.arange(50) % 2)


def test_without_noise_the_baselines_are_scikit_learn_s() -> None:
    train, test = (random_table(CONTRACT, 400, number) for number in (0, 1))
    design = [
        central_design(QueryTable(part), CONTRACT, one_hot=True).scaled(len(CONTRACT.features))
        for part in (train, test)
    ]
    model = LogisticRegression(max_iter=1000).fit(
        design[0].matrix, label_codes(PrivateTable(train), CONTRACT)
    )
    expected = measure(label_codes(QueryTable(test), CONTRACT), model.predict(design[1].matrix))
    assert _central(math.inf)["lr"].accuracy == expected.accuracy


@every_contract
@pytest.mark.parametrize("one_hot", [True, False])
def test_scaled_features_stay_within_their_stated_bounds_and_norm(
    contract: Contract, one_hot: bool
) -> None:
    """diffprivlib calibrates its noise to this norm and these bounds."""
    table = PrivateTable(random_table(contract, 200, 0, beyond=1.0))
    plain = central_design(table, contract, one_hot=one_hot)
    scaled = plain.scaled(len(contract.features))
    assert (scaled.matrix >= scaled.low).all() and (scaled.matrix <= scaled.high).all()
    assert np.linalg.norm(scaled.matrix, axis=1).max() <= scaled.norm * (1 + 1e-12)
    within = np.clip(plain.matrix, plain.low, plain.high)
    assert np.linalg.norm(within, axis=1).max() <= plain.norm * (1 + 1e-12)


def test_design_bounds_do_not_depend_on_the_rows() -> None:
    few, many = (
        central_design(PrivateTable(random_table(CONTRACT, rows, 0)), CONTRACT, one_hot=True)
        for rows in (1, 500)
    )
    assert (few.low == many.low).all() and (few.high == many.high).all() and few.norm == many.norm


def test_a_subsample_without_rows_or_with_one_class_is_answered_by_a_constant() -> None:
    table = random_table(CONTRACT, 60, 0)
    negative = table.filter(pa.array([text == "no" for text in table.column("bought").to_pylist()]))
    no = np.mean(label_codes(QueryTable(table), CONTRACT) == 0)
    for sampled in (table.slice(0, 0), negative):
        measured = central(CONTRACT, table, table, sampled)
        assert measured["lr-naive"].accuracy == measured["gnb-naive"].accuracy == no


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_of_several_classes_all_baselines_answer_within_public_bounds(epsilon: float) -> None:
    """Values are missing in two columns; a bound that is read from the rows would be an error."""
    contract = kind_contract("classes")
    train, test = (random_table(contract, 300, seed) for seed in (0, 1))
    measured = central(contract, train, test, epsilon=epsilon)
    assert tuple(measured) == SYSTEMS
    assert all(
        one.query_count == 300 and 0 < one.accuracy < 1 and one.auc is not None
        for one in measured.values()
    )


@pytest.mark.parametrize("kind", ["number", "none"])
def test_numbers_and_nothing_are_not_predicted_centrally(kind: str) -> None:
    contract = kind_contract(kind)
    table = random_table(contract, 60, 0)
    assert central(contract, table, table) == {}


def test_a_missing_number_reads_as_the_middle_of_its_bounds() -> None:
    contract = kind_contract("classes")
    table = PrivateTable(random_table(contract, 60, 0))
    design, ages = central_design(table, contract, one_hot=False), table.numbers("age")
    assert np.isfinite(design.matrix).all() and (design.matrix[np.isnan(ages), 0] == 59).all()
    assert (design.matrix[~np.isnan(ages), 0] == ages[~np.isnan(ages)]).all()


@pytest.mark.parametrize("classes", [3, 9])
def test_local_baselines_of_many_classes_answer_as_models_fitted_on_every_row(classes: int) -> None:
    rng = np.random.default_rng(0)
    encoding = LocalEncoding("k-ary", ("a", "b", "label"), (3, 4, classes))

    def made(count: int) -> np.ndarray:
        first, label = rng.integers(3, size=count), rng.integers(classes - 1, size=count)
        leaning = np.where(rng.random(count) < 0.6, first % (classes - 1), label)
        return np.stack([first, rng.integers(4, size=count), leaning], axis=1)

    rows, test = made(2000), made(300)
    test[0, 2] = classes - 1  # a class that no released row has
    rows_of = ReleasedRows(rows.astype(np.uint8))
    measured = local_baselines(rows_of, encoding, EncodedQueries(test))["lr"]
    fitted = LogisticRegression(max_iter=1000).fit(local_design(rows, encoding), rows[:, 2])
    right = np.mean(fitted.predict(local_design(test, encoding)) == test[:, 2])
    assert measured.accuracy == right > 0.4 and (measured.auc or 0) > 0.55


def test_a_number_is_predicted_locally_by_its_bin_and_nothing_is_predicted_of_none() -> None:
    contract = kind_contract("number")
    table = QueryTable(random_table(contract, 200, 0))
    encoding, queries = LocalEncoding.of(contract, "k-ary"), encode_queries(table, contract)
    rows = ReleasedRows(queries.codes.astype(np.uint8))
    numbers = label_numbers(table, contract)
    for metrics in local_baselines(rows, encoding, queries, numbers).values():
        assert 0 < (metrics.absolute_error or 0) < 40 and metrics.auc is None
    nothing = LocalEncoding("k-ary", encoding.names, (*encoding.bin_counts[:-1], 1))
    assert local_baselines(rows, nothing, queries) == {}
