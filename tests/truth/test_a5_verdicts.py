"""A5: what holds of private rows, and how long it took to read them, is told to their holder and to
nobody else.

Neighbouring sources of which one breaks a rule that only warns: everything that leaves is the same,
once the draw is, and the verdict in the private home is not.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpicl.contract import Declared
from dpicl.data.reading import files
from dpicl.ground.errors import DataError
from dpicl.ground.files import PUBLIC_MODE
from dpicl.home.settings import Settings
from dpicl.installation.clean import clean
from dpicl.report.load import load_run
from dpicl.runs.plan import make_plan
from dpicl.runs.prepare import ingest
from dpicl.runs.results import timings_of
from dpicl.runs.run_folder import read_plan
from dpicl.runs.stage import VERDICTS, Verdicts
from lab.audit.end_to_end.commands import Command, command_line, protect, run
from lab.audit.end_to_end.observation import Observation, observed
from lab.audit.end_to_end.stand_ins import ReplayedDraws, nothing_slow, standing_clock
from lab.audit.end_to_end.world import NAME, Declaration, SourceRow, World, base_rows, new_world

Change = Callable[[list[SourceRow]], list[SourceRow]]
WARN: dict[str, dict[str, Any]] = {
    rule: {"rule": rule, "severity": "warn"}
    for rule in ("in_bounds", "row_count", "both_labels", "unique")
}


def first(**values: Any) -> Change:
    """Another value of the first row."""
    return lambda rows: [{**rows[0], **values}, *rows[1:]]


def again(rows: list[SourceRow]) -> list[SourceRow]:
    """Another row as the last is, of a table of different ones."""
    return [*rows, rows[-1]]


def different(rows: Sequence[SourceRow]) -> list[SourceRow]:
    return [{**row, "spent": number} for number, row in enumerate(rows)]


def of_one_label(rows: Sequence[SourceRow]) -> list[SourceRow]:
    return [{**row, "member": "no"} for row in rows]


NEVER = {"never": {"city": "south", "member": "yes"}}


def that_keep(rows: Sequence[SourceRow]) -> list[SourceRow]:
    """Members live elsewhere."""
    return [{**row, "city": "north"} if row["member"] == "yes" else row for row in rows]


CASES: dict[str, tuple[Declaration, dict[str, Any], Change | None, Change, Command]] = {
    "a number too large": (Declaration(), {}, None, first(spent=104), run("gdp_tabicl")),
    "a number too small": (Declaration(), {}, None, first(spent=-1), run("mst_tabicl")),
    "far outside": (
        Declaration(),
        {"checks": [WARN["in_bounds"]]},
        None,
        first(spent=10**9),
        run("tab_pe"),
    ),
    "in a folder": (Declaration("folder"), {}, None, first(spent=104), run("gdp_tabicl")),
    "in a query": (Declaration("query"), {}, None, first(spent=104), run("gdp_tabicl")),
    "in batches": (Declaration("batches"), {}, None, first(spent=104), run("gdp_tabicl")),
    "of a person": (Declaration(person=True), {}, None, first(spent=104), run("mst_tabicl")),
    "of rows held out too": (
        Declaration(measured="held-out rows"),
        {},
        None,
        first(spent=104),
        run("gdp_tabicl"),
    ),
    "where rows are replaced": (
        Declaration(neighbours="replace-one"),
        {},
        None,
        first(spent=104),
        run("ldp_tabicl"),
    ),
    "a row twice": (
        Declaration(),
        {"checks": [WARN["unique"]]},
        different,
        again,
        run("gdp_tabicl"),
    ),
    "a value twice": (
        Declaration(),
        {"checks": [{**WARN["unique"], "column": "spent"}]},
        different,
        again,
        run("mst_tabicl"),
    ),
    "a row too few": (
        Declaration(),
        {"checks": [{**WARN["row_count"], "at_least": 40}]},
        None,
        lambda rows: rows[1:],
        run("gdp_tabicl"),
    ),
    "a label of no row": (
        Declaration(),
        {"checks": [WARN["both_labels"]]},
        of_one_label,
        first(member="yes"),
        run("gdp_tabicl"),
    ),
    "a label of too few": (
        Declaration(),
        {"checks": [{**WARN["both_labels"], "at_least": 20}]},
        None,
        first(member="yes"),
        run("mst_tabicl"),
    ),
    "a text too long": (
        Declaration("texts"),
        {},
        None,
        first(body="x" * 61),
        run("few_shot_generation"),
    ),
    "a row that breaks a relation": (
        Declaration(),
        {"relations": [NEVER]},
        that_keep,
        first(**NEVER["never"]),
        run("mst_tabicl"),
    ),
    "in a release by itself": (Declaration(), {}, None, first(spent=104), protect("gdp_tabicl")),
}


@contextmanager
def apart(declaration: Declaration, stated: dict[str, Any]) -> Iterator[World]:
    """With what its contract states beside that."""
    with (
        new_world(declaration) as world,
        world.entered(),
        nothing_slow(),
        standing_clock(),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(files, "BATCH_ROWS", 8)
        if stated:
            file = world.root / "contracts" / f"{NAME}.yaml"
            file.write_text(
                yaml.safe_dump({**yaml.safe_load(file.read_text()), **stated}, sort_keys=False)
            )
        yield world


def seen(name: str) -> tuple[list[Observation], list[Any]]:
    """What leaves of both sources, and their verdicts in the private home."""
    declaration, stated, before, change, command = CASES[name]
    shown, verdicts, replay = [], [], ReplayedDraws()
    with apart(declaration, stated) as world:
        rows = (before or list)(base_rows(declaration))
        for source in (rows, change(rows)):
            world.forget()
            world.put(source, declaration.kind)
            with replay.recorded():
                shown.append(observed(world, command))
            file = world.home / "private" / VERDICTS / "audited" / "validation" / f"{NAME}.json"
            verdicts.append(
                [one["holds"] for one in json.loads(file.read_text())] if file.exists() else None
            )
    return shown, verdicts


@pytest.mark.quick(
    "a number too large", "in batches", "a row twice", "a text too long", "in a release by itself"
)
@pytest.mark.parametrize("name", CASES)
def test_a_warning_is_seen_by_the_holder_and_by_nobody_else(name: str) -> None:
    (one, other), (before, after) = seen(name)
    assert one.code == 0, one.error
    assert one.differing(other) == []
    assert not [file for file in one.seen if "validation" in file or "expectations" in file]
    if name == "in a release by itself":
        assert before is after is None, "it keeps no run that they would be of"
    else:
        assert before != after and before is not None and len(before) == len(after)


def beside_the_report(run: Path, declared: Declared, settings: Settings) -> Verdicts:
    """The fault: in the run's folder, whosever the rows are."""
    return Verdicts(run, PUBLIC_MODE, run.name)


@pytest.mark.quick("a number too large")
@pytest.mark.parametrize(
    "name",
    ["a number too large", "in batches", "of a person", "a label of no row", "a text too long"],
)
def test_verdicts_beside_the_report_are_seen(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(Verdicts, "of", staticmethod(beside_the_report))
    (one, other), _ = seen(name)
    assert any("validation" in difference for difference in one.differing(other))


@pytest.mark.quick("a number too large")
@pytest.mark.parametrize("name", ["a number too large", "in a query", "a row too few"])
def test_warnings_that_are_counted_in_a_log_are_seen(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(Verdicts, "is_public", property(lambda _: True))
    (one, other), _ = seen(name)
    assert {difference.partition(":")[0] for difference in one.differing(other)} == {"log", "tasks"}


def test_a_benchmark_s_verdicts_stand_in_its_run(tmp_path: Path) -> None:
    from tests.harness import SMALL, install, new_place, run_here, shop, shop_rows

    place = new_place(tmp_path / "place")
    install(place, shop(), shop_rows(60))
    with place.entered():
        folder = run_here(
            "r", **{**SMALL, "datasets": ["shop"], "methods": ["gdp_tabicl"], "baselines": False}
        )
    assert json.loads((folder / "validation" / "shop.json").read_text())
    assert {"ingest", "validate", "split", "aggregate"} <= {
        one["stage"] for one in timings_of(folder, read_plan(folder).units)
    }
    assert not (place.home / "private" / VERDICTS).exists()


OF_ROWS = {
    "ingest",
    "prepare",
    "validate",
    "split",
    "subsample",
    "count",
    "aggregate",
    "measure",
    "serialize",
    "release",
    "randomise",
}


@pytest.mark.quick("public queries", "held-out rows")
@pytest.mark.parametrize(
    ("declaration", "method", "public"),
    [
        (Declaration(), "mst_tabicl", {"charge", "reconstruct", "evaluate"}),
        (Declaration(measured="public queries"), "gdp_tabicl", {"charge", "score", "evaluate"}),
        (
            Declaration("batches", measured="public queries"),
            "gdp_tabicl",
            {"charge", "score", "evaluate"},
        ),
        (Declaration(measured="held-out rows"), "gdp_tabicl", set()),
        (Declaration("texts"), "few_shot_generation", {"charge", "score", "evaluate"}),
    ],
    ids=["rows alone", "public queries", "batches", "held-out rows", "texts"],
)
def test_no_file_of_a_run_says_how_long_rows_were_read(
    declaration: Declaration, method: str, public: set[str]
) -> None:
    with apart(declaration, {}) as world:
        world.put(base_rows(declaration), declaration.kind)
        assert run(method)().code == 0
        folder = Settings.current().runs / "audited"
        assert {one["stage"] for one in timings_of(folder, read_plan(folder).units)} == public
        assert set(load_run(folder).timings["stage"]) == public
        private = {
            path.stem.split("-")[0]
            for path in (world.home / "private" / VERDICTS / "audited" / "timings").rglob("*.json")
        }
        assert {"ingest", "validate", "split"} <= private and not private & public


def test_what_stays_is_for_its_owner_until_the_run_goes() -> None:
    declaration = Declaration()
    with apart(declaration, {}) as world:
        world.put(base_rows(declaration), declaration.kind)
        assert run("gdp_tabicl")().code == 0
        private = world.home / "private"
        assert not (private / NAME / "audited").exists(), "the rows are gone"
        assert {
            path.stat().st_mode & 0o777
            for path in (private / VERDICTS).rglob("*")
            if path.is_file()
        } == {0o600}
        assert {
            path.stat().st_mode & 0o777 for path in (private, *private.rglob("*")) if path.is_dir()
        } == {0o700}
        settings = Settings.current()
        list(clean(settings, 1))
        assert (private / VERDICTS / "audited" / "validation").exists()
        for path in (*settings.runs.rglob("*"), *private.rglob("*")):
            os.utime(path, (time.time() - 40 * 86_400,) * 2)
        list(clean(settings, 30))
        assert (
            not (settings.runs / "audited").exists()
            and not (private / VERDICTS / "audited").exists()
        )


@pytest.mark.parametrize("is_kept", [True, False])
def test_verdicts_of_a_run_that_is_elsewhere_go_when_they_are_old(is_kept: bool) -> None:
    with apart(Declaration(), {}) as world:
        folder = Settings.current().private(VERDICTS, "elsewhere", "validation")
        (file := folder / f"{NAME}.json").write_text("[]")
        for path in (file, folder):
            os.utime(path, (time.time() - 40 * 86_400,) * 2)
        list(clean(Settings.current(), 50 if is_kept else 30))
        assert (world.home / "private" / VERDICTS / "elsewhere").exists() == is_kept


class Terminal(io.StringIO):
    """Standard error that a person reads."""

    def isatty(self) -> bool:
        """Yes."""
        return True


@pytest.mark.parametrize("kind", ["csv", "batches", "texts"])
def test_a_person_at_a_terminal_is_told(monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    declaration, spoilt = (
        Declaration(kind),
        {"spent": 104} if kind != "texts" else {"body": "x" * 61},
    )
    with apart(declaration, {}) as world:
        world.put(first(**spoilt)(base_rows(declaration)), kind)
        monkeypatch.setattr(sys, "stderr", terminal := Terminal())
        folder = make_plan(
            "audited",
            {"methods": ["few_shot_generation" if kind == "texts" else "gdp_tabicl"]},
            "audited",
        )
        from dpicl.runs.prepare import validate

        ingest(str(folder), NAME)
        said = validate(str(folder), NAME)
    assert (
        "only warn: " in terminal.getvalue()
        and "(1)" in terminal.getvalue()
        and f"private/{VERDICTS}/audited" in terminal.getvalue()
    )
    assert said.endswith("rules checked")


def test_a_refusal_by_a_rule_that_is_stated_says_which() -> None:
    """And its verdicts are the holder's as well."""
    declaration = Declaration()
    with apart(declaration, {"checks": [{**WARN["in_bounds"], "severity": "fail"}]}) as world:
        world.put(first(spent=104)(base_rows(declaration)), declaration.kind)
        refused = observed(world, run("gdp_tabicl"))
        assert refused.code == 2 and "breaks in_bounds" in refused.error
        assert not [file for file in refused.seen if "validation" in file]
        assert (
            world.home / "private" / VERDICTS / "audited" / "validation" / f"{NAME}.json"
        ).exists()
        assert command_line("budget").code == 0


MEAN = "expect_column_mean_to_be_between"
OWN: dict[str, tuple[str, dict[str, Any], Change]] = {
    "a mean": (MEAN, {"column": "spent", "max_value": 10}, first(spent=100)),
    "a sum": (
        "expect_column_sum_to_be_between",
        {"column": "spent", "min_value": 300},
        lambda rows: rows[:-12],
    ),
    "a number of rows": ("expect_table_row_count_to_equal", {"value": 40}, lambda rows: rows[1:]),
    "a value": (
        "expect_column_values_to_not_be_in_set",
        {"column": "spent", "value_set": [77]},
        first(spent=77),
    ),
    "a greatest": (
        "expect_column_max_to_be_between",
        {"column": "spent", "max_value": 90},
        first(spent=99),
    ),
}


def expected(
    world: World, name: str, severity: dict[str, str], source: list[SourceRow], arrived: list[Any]
) -> tuple[Any, Any, Any]:
    """What the stage says, the public files and the private verdict on an own expectation;
    `arrived` gets what an orchestrator would.
    """
    from tasks import artifacts
    from tasks.stages import validate

    kind, arguments, _ = OWN[name]
    folder = world.root / "contracts" / "expectations"
    folder.mkdir(exist_ok=True)
    (folder / f"{NAME}.own.json").write_text(
        json.dumps({"expectations": [{"type": kind, "kwargs": arguments, **severity}]})
    )
    world.forget()
    world.put(source, "csv")
    run_folder = make_plan("audited", {"methods": ["gdp_tabicl"]}, "audited")
    ingest(str(run_folder), NAME)
    try:
        said = validate.fn(str(run_folder), NAME)
    except DataError as error:
        said = f"refused: {error}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            artifacts, "create_table_artifact", lambda **artifact: arrived.append(artifact)
        )
        patch.setattr(artifacts, "emit_event", lambda *event, **more: arrived.append((event, more)))
        artifacts.show_checks.fn(str(run_folder), NAME)
    public = {
        str(path.relative_to(run_folder)): path.read_bytes()
        for path in run_folder.rglob("*")
        if path.is_file()
    }
    verdicts = json.loads(
        (
            world.home / "private" / VERDICTS / "audited" / "expectations" / f"{NAME}.json"
        ).read_text()
    )
    return said, public, [one["holds"] for one in verdicts if one["own"]]


@pytest.mark.quick("a mean")
@pytest.mark.parametrize("name", OWN)
def test_an_own_expectation_that_warns_is_the_holder_s(name: str) -> None:
    with apart(Declaration(), {}) as world:
        rows, arrived = base_rows(Declaration()), list[Any]()
        before = expected(world, name, {"severity": "warning"}, rows, arrived)
        after = expected(world, name, {"severity": "warning"}, OWN[name][2](rows), arrived)
        page = world.home / "private" / VERDICTS / "audited" / "expectations" / f"{NAME}.html"
        assert page.stat().st_mode & 0o777 == 0o600
    assert before[:2] == after[:2] and (before[2], after[2]) == ([True], [False])
    assert arrived[0] == arrived[1] and len(arrived) == 2, "what an orchestrator stores is the same"
    assert f"DPICL_HOME/private/{VERDICTS}/audited/validation/{NAME}.json" in str(arrived[0])
    assert not any("expectations" in file or "validation" in file for file in after[1])


@pytest.mark.parametrize(
    "severity", [{}, {"severity": "critical"}], ids=["nothing said", "critical"]
)
def test_one_that_is_critical_stops_a_run(severity: dict[str, str]) -> None:
    with apart(Declaration(), {}) as world:
        rows = base_rows(Declaration())
        said, _, held = expected(world, "a mean", severity, OWN["a mean"][2](rows), [])
    assert said == f"refused: {NAME}: column 'spent': breaks your own {MEAN}" and held == [False]


@pytest.mark.quick("a mean")
@pytest.mark.parametrize("name", ["a mean", "a value"])
def test_pages_of_an_orchestrator_that_show_verdicts_are_seen(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(Verdicts, "is_public", property(lambda _: True))
    with apart(Declaration(), {}) as world:
        rows, arrived = base_rows(Declaration()), list[Any]()
        expected(world, name, {"severity": "warning"}, rows, arrived)
        expected(
            world, name, {"severity": "warning"}, first(spent=104)(OWN[name][2](rows)), arrived
        )
    assert arrived[0] != arrived[1]
