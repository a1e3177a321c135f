"""What every registered method owes: priced before it reads, refused without noise, named
completely, stored without loss.
"""

from __future__ import annotations

import inspect
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpicl.contract.declared import Privacy
from dpicl.contract.pipeline import Unit
from dpicl.ground.errors import PrivacyError
from dpicl.ground.randomness import Draws
from dpicl.ground.types import Demonstration, PrivateTable, QueryTable
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.methods import METHODS, grid, on_texts, tabular
from dpicl.methods.base import ZERO_SHOT, Method, draws_for
from dpicl.methods.dp_icl import DpIcl
from dpicl.methods.few_shot_generation import FewShotGeneration
from dpicl.methods.tabular_method import Released
from dpicl.methods.text_method import TextMethod
from dpicl.report import report_steps
from dpicl.runs.chain import answered, released, rows_ready
from dpicl.runs.execute import call_all
from dpicl.runs.plan import make_plan
from dpicl.runs.run_folder import read_plan
from lab import in_memory
from tests.direct import point, points_of, release
from tests.harness import Place, install, install_texts, letters, new_place, shop, shop_rows
from tests.library.examples import ROOT
from tests.library.text_contracts import lines, records
from tests.methods.examples import (
    TABULAR,
    contract_for,
    every_method,
    every_table,
    every_tabular_method,
    grid_for,
    rows_for,
    table_for,
    takes,
    unit_for,
)


@pytest.mark.quick("ldp_tabicl", "aim_tabicl", "mst_tabicl", "tab_pe", "gdp_tabicl", "tab_pate")
@every_method
def test_it_is_priced_and_named_without_any_row(name: str) -> None:
    """No table is at hand here."""
    _priced(METHODS[name], contract_for(name), unit_for(name))


@every_tabular_method
@every_table
def test_it_is_priced_whatever_is_predicted(name: str, table: str) -> None:
    contract = table_for(table)
    _priced(METHODS[name], contract, unit_for(name, shots=contract.shots[:2]))


def _priced(method: Method, contract: Any, unit: Unit) -> None:
    releases = grid.prices(method, contract, unit)
    assert releases and all(0 < cost.charged.epsilon < math.inf for cost in releases.values())
    costs = grid.costs(method, contract, unit)
    assert costs and all(cost.charged.epsilon <= 1 + 1e-9 for cost in costs.values()), (
        "a cell costs no more than was asked for"
    )
    for cell, cost in releases.items():
        assert json.dumps(method.identity(contract, point(unit, cell))) and method.statement(
            contract, point(unit, cell), cost
        )


@every_method
def test_no_noise_is_refused_on_private_data(name: str) -> None:
    with pytest.raises(PrivacyError, match="epsilon=inf releases rows without noise"):
        grid.check(
            METHODS[name],
            contract_for(name, private=True),
            unit_for(name, epsilons=(1.0, math.inf)),
        )


@every_tabular_method
def test_baselines_that_nobody_pays_for_are_left_out(name: str) -> None:
    """Whoever calls: a method's baselines come by rows through `fitted` only, which reads none of a
    table with a budget or of persons.
    """
    method, unit = tabular(name), unit_for(name, baselines=True)
    benchmark, private = contract_for(name), contract_for(name, private=True)
    persons = Privacy.model_validate(
        {
            "unit": "person",
            "person": {"id_column": "age", "max_rows": 1},
            "budget": {"benchmark": True},
        }
    )
    for contract in (private, benchmark.model_copy(update={"privacy": persons})):
        grid.check(method, contract, unit)  # the rest of the unit runs
        if method.baselines_read == "private":
            assert "are left out" in str(method.without_baselines(contract)) and not (
                unit.baselines and method.fits_baselines(contract)
            )
            with pytest.raises(PrivacyError, match="are left out: they"):
                method.fitted(
                    Released({}),
                    _unreadable,
                    QueryTable(rows_for(8).data),
                    contract,
                    unit,
                    draws_for(benchmark, 0),
                )
        else:
            assert method.without_baselines(contract) is None
    assert method.without_baselines(benchmark) is None and (
        unit.baselines and method.fits_baselines(benchmark)
    ) == (method.baselines_read != "none")


def _unreadable() -> PrivateTable:
    raise AssertionError("rows were read for baselines")


class Untouchable:
    """In the place of a private table: whatever is read of it is an error."""

    def __getattr__(self, attribute: str) -> Any:
        raise AssertionError(f"a private table's {attribute} was read")


@every_method
def test_nothing_is_drawn_of_private_data_without_a_charge(name: str) -> None:
    method: Any = METHODS[name]
    contract, unit, rows = contract_for(name, private=True), unit_for(name), Untouchable()
    with pytest.raises(PrivacyError, match="charges no ledger, and these rows have a budget"):
        if name in TABULAR:
            in_memory.of_table(method, rows, contract, unit, draws_for(contract, 0))
        else:
            in_memory.of_texts(method, rows, None, contract, unit, None, None)


@every_method
def test_prompts_of_private_data_read_no_row(name: str) -> None:
    """A method on texts is given the rows there, to show real ones on benchmarks; one on tables is
    not.
    """
    method = METHODS[name]
    if not isinstance(method, TextMethod):
        assert (
            "train"
            not in inspect.signature(method.prompts).parameters
            | inspect.signature(method.examples).parameters
        )
        return
    queries = QueryTable(pa.table({"label": ["good"], "text": ["hello"]}))
    rows: Any = Untouchable()
    assert method.prompts(
        {}, {}, rows, queries, contract_for(name, private=True), unit_for(name)
    ).keys() == {ZERO_SHOT}
    with pytest.raises(AssertionError, match="a private table's data was read"):
        method.prompts(
            {}, {}, rows, queries, contract_for(name), unit_for(name, epsilons=(math.inf,))
        )


@pytest.mark.quick(
    "nullable classes-ldp_tabicl",
    "nullable number-gdp_tabicl",
    "number-mst_tabicl",
    "none-mst_tabicl",
    "dates-aim_tabicl",
    "shop-tab_pe",
    "binary-tab_pate",
)
@every_tabular_method
@every_table
def test_a_release_is_read_as_it_was_published(name: str, table: str) -> None:
    contract = table_for(table)
    method, unit = tabular(name), unit_for(name, epsilons=(1.0, math.inf), shots=contract.shots[:2])
    if not takes(name, table):
        pytest.skip("refused without a label")
    for cell, drawn in release(rows_for(table=table), contract, unit).draws.items():
        content = method.encode(drawn)
        again = method.decode(content, contract, point(unit, cell))
        assert method.encode(again) == content
        assert method.artefact.endswith((".json", ".npz"))


def test_texts_are_read_as_they_were_published() -> None:
    """Of labels, texts and keywords, by methods on texts."""
    contract = contract_for(FewShotGeneration.name)
    texts = (Demonstration("good", "one"), Demonstration("bad", "two"))
    for name, drawn in (
        (FewShotGeneration.name, texts),
        (DpIcl.name, ["good", "bad"]),
        (DpIcl.name, [["one", "two"], []]),
    ):
        method, unit = on_texts(name), unit_for(name)
        released = dict.fromkeys(grid.prices(method, contract, unit), drawn)
        stored = {cell.key: method.encode(one) for cell, one in released.items()}
        assert method.read(json.loads(json.dumps(stored)), unit) == released


@every_tabular_method
@every_table
def test_batches_are_worth_the_whole_table(name: str, table: str) -> None:
    """Without noise, and without a sample: exactly the same release."""
    method = tabular(name)
    if not method.takes_batches or not takes(name, table):
        pytest.skip("refused in batches, or without a label")
    contract = table_for(table)
    contract = contract.model_copy(
        update={"privacy": contract.privacy.model_copy(update={"sampling_rate": 1})}
    )
    unit = unit_for(name, epsilons=(math.inf,), shots=contract.shots[:2])
    rows = rows_for(table=table)
    whole = release(rows, contract, unit).draws
    draws: Draws = draws_for(contract, 0)
    parts = [type(rows)(rows.data.slice(start, 20)) for start in (0, 20, 40)]
    for cell, asked in points_of(unit).items():
        looks = [
            method.look(part, contract, draws.of_batch(number)) for number, part in enumerate(parts)
        ]
        bins = method.choose(looks, contract, asked, draws)
        counted = [
            method.count(part, contract.with_bins(bins), asked, draws.of_batch(number))
            for number, part in enumerate(parts)
        ]
        assert all(isinstance(array, np.ndarray) for one in counted for array in one.values())
        merged = method.merge(counted, contract, asked, draws, bins)
        assert method.encode(merged) == method.encode(whole[cell])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A private table and private texts."""
    place = new_place(tmp_path / "place")
    install(place, shop(private=True), shop_rows(80))
    install_texts(place, letters(private=True), lines(records(10)), lines(records(4)))
    yield place


@pytest.mark.quick("tab_pate")
@every_method
def test_no_line_of_a_method_sees_a_row_before_its_release_is_charged(
    name: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A spying table: whenever rows are taken out of it below a function of the method, the ledger
    holds the release.
    """
    dataset = "shop" if name in TABULAR else "letters"
    reached = Counter[int]()
    plain = PrivateTable.__getattribute__

    def spying(table: PrivateTable, attribute: str) -> Any:
        if attribute == "data" and _in_a_method():
            with open_ledger(Settings.from_environment()) as ledger:
                reached[
                    sum(entry.release.mechanism == name for entry in ledger.entries(dataset))
                ] += 1
        return plain(table, attribute)

    with place.entered():
        run = str(make_plan("private", grid_for(name, dataset=dataset), "spied"))
        (key,) = read_plan(Path(run)).units
        monkeypatch.setattr(PrivateTable, "__getattribute__", spying)
        call_all(rows_ready, run, dataset)
        call_all(released, run, key)
    assert reached and min(reached) >= 1


def _reads_after_the_release(name: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often a run with baselines on takes a private table's rows, once the releases that are
    paid for stand.
    """
    reached, plain = [], PrivateTable.__getattribute__

    def spying(table: PrivateTable, attribute: str) -> Any:
        reached.append(attribute)
        return plain(table, attribute)

    with place.entered():
        run = str(make_plan("demo", grid_for(name, shots=2), "spied"))
        (key,) = read_plan(Path(run)).units
        assert read_plan(Path(run)).units[key].baselines
        call_all(rows_ready, run, "shop")
        call_all(released, run, key)
        with monkeypatch.context() as patched:
            patched.setattr(PrivateTable, "__getattribute__", spying)
            call_all(answered, run, key)
        for step in report_steps(Path(run)):
            step.stage(*step.references)
    return sum(attribute != "__class__" for attribute in reached)


@pytest.mark.quick("ldp_tabicl")
@every_tabular_method
def test_a_run_reads_no_row_of_a_private_table_for_baselines(
    name: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _reads_after_the_release(name, place, monkeypatch) == 0
    left_out = [
        (
            f"Baselines of {METHODS[name].title} on shop are left out: they would read the rows "
            f"again, charged to no account."
        )
    ]
    expected = left_out if METHODS[name].baselines_read == "private" else []
    assert json.loads((place.run("spied") / "manifest.json").read_text())["left_out"] == expected
    assert all(sentence in (place.run("spied") / "report.md").read_text() for sentence in expected)


def test_reading_rows_for_baselines_would_be_seen(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant that leaves nothing out."""
    (name,) = (name for name in TABULAR if METHODS[name].baselines_read == "private")
    monkeypatch.setattr(type(METHODS[name]), "without_baselines", lambda *_: None)
    assert _reads_after_the_release(name, place, monkeypatch) > 0


def _in_a_method() -> bool:
    frame = sys._getframe()
    while (frame := frame.f_back) is not None:  # type: ignore[assignment]
        if frame.f_globals["__name__"].startswith("dpicl.methods."):
            return True
    return False


def test_no_method_is_named_in_quotes_elsewhere() -> None:
    """Another method is one file."""
    quoted = re.compile(rf"[\"']({'|'.join(METHODS)})[\"']")
    for path in (
        path
        for folder in ("dpicl", "flows", "tasks", "infra", "lab/audit")
        for path in (ROOT / folder).rglob("*.py")
    ):
        if (ROOT / "dpicl" / "methods") not in path.parents:
            assert not quoted.search(path.read_text("utf-8")), path
