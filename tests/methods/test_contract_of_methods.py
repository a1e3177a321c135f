"""What every registered method owes: priced before it reads, refused without noise, named completely, stored without loss."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import numpy as np
import pytest

from dpicl.engine.names import POST_PROCESSING, parameters_of
from dpicl.engine.one_release import protect
from dpicl.engine.releases import open_ledger
from dpicl.engine.settings import Settings
from dpicl.errors import PrivacyError
from dpicl.methods import METHODS, Options, tabular, unit_of
from dpicl.methods.common import draws_for
from dpicl.methods.in_process import release
from dpicl.methods.tabular_method import TabularMethod
from dpicl.pipeline import Unit
from dpicl.randomness import Draws
from dpicl.types import PrivateTable
from tests.harness import Place, install, new_place, shop, shop_rows
from tests.library.examples import ROOT, private_contract, random_table, small_contract
from tests.library.text_contracts import as_ensemble, text_contract

TABULAR = [name for name, method in METHODS.items() if method.data == "table"]
every_method = pytest.mark.parametrize("name", METHODS)
every_tabular_method = pytest.mark.parametrize("name", TABULAR)


def _unit(name: str, *, epsilons: tuple[float, ...] = (1.0,), baselines: bool = False, **chosen: Any) -> Unit:
    options = Options.model_validate({name: chosen})
    return unit_of(name, "shop", 0, epsilons, (1, 2), (), baselines, options)


def _contract(name: str, *, private: bool = False) -> Any:
    if METHODS[name].data == "texts":

        def changed(content: dict[str, Any]) -> None:
            as_ensemble(content)
            content["privacy"]["budget"] = {"epsilon": 100, "delta": 1e-5} if private else {"benchmark": True}

        return text_contract(changed)
    return private_contract() if private else small_contract()


def _rows(count: int = 60) -> Any:
    return PrivateTable(random_table(small_contract(), count, 0))


@every_method
def test_it_is_priced_and_named_without_any_row(name: str) -> None:
    """No table is at hand here."""
    method, contract, unit = METHODS[name], _contract(name), _unit(name)
    releases = method.releases(contract, unit)
    assert releases and all(0 < cost.charged.epsilon < math.inf for cost in releases.values())
    costs = method.costs(contract, unit)
    assert all(cost.charged.epsilon <= 1 + 1e-9 for cost in costs.values()), "a cell costs no more than was asked for"
    for cell, cost in releases.items():
        assert method.identity(contract, unit, cell) is not None and method.statement(contract, unit, cell, cost)


@every_method
def test_no_noise_is_refused_on_private_data(name: str) -> None:
    with pytest.raises(PrivacyError, match="epsilon=inf releases rows without noise"):
        METHODS[name].check(_contract(name, private=True), _unit(name, epsilons=(1.0, math.inf)))


@every_method
def test_what_reads_rows_beside_the_draw_is_refused_on_private_data(name: str) -> None:
    method, contract, unit = METHODS[name], _contract(name, private=True), _unit(name, baselines=True)
    if method.baselines_read == "private":
        with pytest.raises(PrivacyError, match="baselines read the rows again and are charged to no budget"):
            method.check(contract, unit)
    else:
        method.check(contract, unit)


def _others(annotation: Any, value: Any) -> Iterator[Any]:
    """Further values of a choice between words."""
    if get_origin(annotation) is not None and all(isinstance(word, str) for word in get_args(annotation)):
        yield from (word for word in get_args(annotation) if word != value)


@every_method
def test_every_choice_is_part_of_a_release_s_name_or_changes_nothing_of_it(name: str) -> None:
    method, contract = METHODS[name], _contract(name)
    plain = _unit(name)
    cell = next(iter(method.releases(contract, plain)))
    named = parameters_of(contract, plain, cell)
    for field, info in method.options.model_fields.items():
        for other in _others(info.annotation, info.default):
            try:
                changed = _unit(name, **{field: other})
            except Exception:
                continue  # not without another choice
            is_named = parameters_of(contract, changed, cell) != named
            assert is_named != (field in POST_PROCESSING), f"{name}: {field}"


@every_tabular_method
def test_a_release_is_read_as_it_was_published(name: str) -> None:
    method, contract, unit = tabular(name), small_contract(), _unit(name, epsilons=(1.0, math.inf))
    for cell, drawn in release(_rows(), contract, unit).draws.items():
        content = method.encode(drawn)
        again = method.decode(content, contract, unit, cell)
        assert method.encode(again) == content
        assert method.artefact.endswith((".json", ".npz"))


@every_tabular_method
def test_batches_are_worth_the_whole_table(name: str) -> None:
    """Without noise, and without a sample: exactly the same release."""
    method = tabular(name)
    if not method.takes_batches:
        pytest.skip("refused in batches")
    contract = small_contract()
    contract = contract.model_copy(update={"privacy": contract.privacy.model_copy(update={"sampling_rate": 1})})
    unit, rows = _unit(name, epsilons=(math.inf,)), _rows()
    cells = list(method.releases(contract, unit))
    whole = release(rows, contract, unit).draws
    draws: Draws = draws_for(contract, 0)
    parts = [type(rows)(rows.data.slice(start, 20)) for start in (0, 20, 40)]
    counted = [method.count(part, contract, unit, draws.of_batch(number), cells) for number, part in enumerate(parts)]
    assert all(isinstance(array, np.ndarray) for one in counted for arrays in one.values() for array in arrays.values())
    merged = method.merge(counted, contract, unit, draws, cells)
    for cell in cells:
        assert method.encode(merged[cell]) == method.encode(whole[cell])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A private table."""
    place = new_place(tmp_path / "place")
    install(place, shop(private=True), shop_rows(80))
    yield place


@every_tabular_method
def test_nothing_reads_a_row_before_it_is_charged(name: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every function of the method that is given rows finds its releases in the ledger."""
    method, reached = METHODS[name], []
    assert isinstance(method, TabularMethod)

    def watched(function: str) -> None:
        real = getattr(type(method), function)

        def spy(self: Any, *arguments: Any, **options: Any) -> Any:
            with open_ledger(Settings.from_environment()) as ledger:
                reached.append(sum(entry.release.mechanism == name for entry in ledger.entries("shop")))
            return real(self, *arguments, **options)

        monkeypatch.setattr(type(method), function, spy)

    for function in ("prepare", "draw", "count"):
        watched(function)
    with place.entered():
        protect("shop", name, Settings.from_environment(), epsilon="1", shots=1)
    assert reached and min(reached) >= 1


def test_no_method_is_named_in_quotes_elsewhere() -> None:
    """Another method is one file."""
    for folder in ("dpicl", "flows", "tasks", "infra"):
        for path in (ROOT / folder).rglob("*.py"):
            if (ROOT / "dpicl" / "methods") in path.parents:
                continue
            tree = ast.parse(path.read_text("utf-8"))
            docstrings = {
                id(node.body[0].value)
                for node in ast.walk(tree)
                if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and node.body and isinstance(node.body[0], ast.Expr)
            }
            texts = [
                node.value
                for node in ast.walk(tree)
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
            ]
            assert not [text for text in texts if set(text.replace(",", " ").split()) & set(METHODS)], path
