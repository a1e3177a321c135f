"""Models of tables with random weights: what they are given, what they answer, and which files are
not read.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from dpicl.ground.errors import ModelError, ModelRefusedError
from dpicl.models.kinds.local import Tabular
from dpicl.models.opening import open_scorer, open_tabular
from dpicl.models.requests import LEAST_LIKELY, LabelledRows
from dpicl.models.spec import ModelSpec, resolve_model
from tests.library.tabular_models import PACKAGES, every_package, random_weights

ROWS, COLUMNS = 40, 5


def opened(file: Path, **changes: Any) -> Any:
    return open_tabular(
        ModelSpec.model_validate({"name": "tables", "kind": "tabular", "id": str(file), **changes})
    )


def context(answers: int, *, rows: int = ROWS, missing: float = 0.0) -> LabelledRows:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 6, (rows, COLUMNS)).astype(float)
    values[rng.random(values.shape) < missing] = np.nan
    return LabelledRows(values, np.arange(rows) % answers, (1, 3))


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", never)
    monkeypatch.setattr(socket, "getaddrinfo", never)


@pytest.mark.quick("4-tabicl")
@every_package
@pytest.mark.parametrize("answers", [2, 4])
def test_an_answer_is_a_distribution_that_no_other_query_moves(
    package: str, answers: int, tmp_path: Path, no_network: None
) -> None:
    model = opened(random_weights(package, tmp_path / "a.ckpt"))
    rows = context(answers, missing=0.2)
    queries = context(answers, rows=7, missing=0.3).values
    queries[0], queries[1, 0] = np.nan, 99
    together = model.log_probabilities(rows, queries, answers)
    assert together.shape == (7, answers) and together.dtype == np.float64
    assert np.exp(together).sum(axis=1) == pytest.approx(1, abs=1e-5)
    alone = np.concatenate(
        [model.log_probabilities(rows, query[np.newaxis], answers) for query in queries]
    )
    assert np.abs(alone - together).max() < 1e-4
    assert np.ptp(together[2:], axis=0).max() > 1e-3, "queries are looked at"


@pytest.mark.quick("tabicl")
@every_package
def test_the_labels_in_context_move_the_answer(package: str, tmp_path: Path) -> None:
    model, rows = opened(random_weights(package, tmp_path / "a.ckpt")), context(2)
    other = LabelledRows(rows.values, (rows.values[:, 0] > 2).astype(int), rows.categorical)
    first, second = (model.log_probabilities(one, rows.values[:4], 2) for one in (rows, other))
    assert np.abs(first - second).max() > 1e-3


@pytest.mark.quick("tabicl")
@every_package
def test_an_answer_that_no_row_has_is_least_likely(package: str, tmp_path: Path) -> None:
    model, rows = opened(random_weights(package, tmp_path / "a.ckpt")), context(2)
    # of four answers 1 and 3
    shifted = LabelledRows(rows.values, rows.labels * 2 + 1, rows.categorical)
    scores = model.log_probabilities(shifted, rows.values[:3], 4)
    pair = model.log_probabilities(rows, rows.values[:3], 2)
    assert (scores[:, [0, 2]] == LEAST_LIKELY).all()
    assert np.array_equal(scores[:, [1, 3]], pair)


@pytest.mark.parametrize(
    "values", [np.full((4, 2), 3.0), np.full((4, 2), np.nan), np.empty((4, 0))]
)
def test_rows_that_are_all_alike_answer_by_their_shares_of_labels(
    values: np.ndarray, tmp_path: Path
) -> None:
    model = opened(random_weights("tabicl", tmp_path / "a.ckpt"))
    assert np.exp(
        model.log_probabilities(LabelledRows(values, np.array([0, 1, 1, 1])), values[:2], 2)
    ) == pytest.approx(np.array([[0.25, 0.75]] * 2))


def test_tabicl_takes_more_than_ten_answers(tmp_path: Path) -> None:
    model, rows = opened(random_weights("tabicl", tmp_path / "a.ckpt")), context(14)
    scores = model.log_probabilities(rows, rows.values[:3], 14)
    assert np.exp(scores).sum(axis=1) == pytest.approx(1, abs=1e-5) and np.isfinite(scores).all()


def test_tabpfn_refuses_more_than_ten_answers_in_a_sentence(tmp_path: Path) -> None:
    model, rows = opened(random_weights("tabpfn", tmp_path / "a.ckpt")), context(12)
    with pytest.raises(
        ModelRefusedError,
        match=r"^model 'tables' refuses a released table \(.*10.*\); expected another model, or "
        r"fewer",
    ):
        model.log_probabilities(rows, rows.values[:3], 12)


@every_package
def test_a_model_is_named_by_its_file_or_the_folder_with_it_alone(
    package: str, tmp_path: Path
) -> None:
    file = random_weights(package, tmp_path / "mine.ckpt")
    spec = resolve_model(str(file), {})
    assert (spec.name, spec.kind, spec.id, spec.most_rows) == (
        "mine",
        "tabular",
        str(file),
        Tabular.most_rows,
    )
    description = opened(tmp_path, rows=100).description
    assert description.digest == opened(file).description.digest == spec.fingerprint(())
    assert not description.trained
    assert description.mode == f"{package}, at most 100 released rows in context"
    (tmp_path / "second.ckpt").write_bytes(file.read_bytes()[:-1] + b"?")
    second = spec.model_copy(update={"id": str(tmp_path / "second.ckpt")})
    assert opened(file).description.digest != second.fingerprint(())
    with pytest.raises(ModelError, match="is a folder with 2 of them; expected a file of weights"):
        opened(tmp_path)


def test_tabpfn_is_read_from_safetensors_too_and_tabicl_is_not(tmp_path: Path) -> None:
    (tmp_path / "safe").mkdir()
    for package in PACKAGES:
        stored = torch.load(random_weights(package, tmp_path / "a.ckpt"), weights_only=True)
        header = {name: json.dumps(value) for name, value in stored.items() if name != "state_dict"}
        save_file(
            stored["state_dict"], tmp_path / "safe" / f"{package}.safetensors", metadata=header
        )
    plain, rows = opened(random_weights("tabpfn", tmp_path / "a.ckpt")), context(2)
    scores = [
        one.log_probabilities(rows, rows.values[:3], 2)
        for one in (plain, opened(tmp_path / "safe" / "tabpfn.safetensors"))
    ]
    assert np.array_equal(*scores)
    with pytest.raises(ModelRefusedError, match="file of TabICL that cannot be read"):
        opened(tmp_path / "safe" / "tabicl.safetensors")


class Loud:
    """What a pickled file would do."""

    def __reduce__(self) -> Any:
        return Path.touch, (Path("ran"),)


@pytest.mark.parametrize("content", ["code", "nothing", "another", "safe"])
def test_a_file_of_anything_else_is_refused_and_none_of_it_is_run(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / ("a.safetensors" if content == "safe" else "a.ckpt")
    weights = {"lm_head.weight": torch.zeros(2)}
    if content == "code":
        torch.save(
            {"config": {}, "state_dict": {"icl_predictor.x": torch.zeros(2)}, "more": Loud()}, file
        )
    elif content == "another":
        torch.save({"config": {}, "state_dict": weights}, file)
    elif content == "safe":
        save_file(weights, file)
    else:
        file.write_bytes(b"nothing")
    with pytest.raises(ModelRefusedError, match=r"^model 'tables' .*; expected weights of TabICL"):
        opened(file)
    assert not (tmp_path / "ran").exists()


def test_a_regressor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelRefusedError, match="cannot be read as a classifier"):
        opened(random_weights("tabicl", tmp_path / "a.ckpt", max_classes=0, num_quantiles=9))


def test_no_text_is_scored_by_it(tmp_path: Path) -> None:
    spec = ModelSpec(name="tables", kind="tabular", id=str(tmp_path / "a.ckpt"))
    with pytest.raises(
        ModelRefusedError,
        match=r"^model 'tables' is of kind tabular: .*; expected a language model$",
    ):
        open_scorer(spec, models_folder=tmp_path, corpus=())
