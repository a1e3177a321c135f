"""Every command does what its help says."""

from __future__ import annotations

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from dpicl.cli.terminal import console
from tests.cli.conftest import Cli
from tests.cli.test_words import commands
from tests.harness import (
    REAL_DATA,
    REPOSITORY,
    SMALL_OPTIONS,
    Place,
    World,
    edited,
    install,
    python,
    shop,
    talk,
)

CONTRACTS = sorted(path.stem for path in (REPOSITORY / "data_contracts").glob("*.yaml"))
GROUPS = ("", "contract", "data", "ledger", "state", "model")


def test_every_command_has_help_and_is_in_that_of_its_group(place: Place, cli: Cli) -> None:
    groups = "".join(cli(f"{group} --help") for group in GROUPS)
    for name, _ in commands():
        line = name.removeprefix("dpicl ")
        out = cli(f"{line} --help")
        assert out.startswith("Usage: ") and len(out.splitlines()) > 4, name
        assert f" {line.split()[-1]} " in groups, name


def test_list_shows_pipelines_schedules_and_models(place: Place, cli: Cli) -> None:
    out = cli("list")
    assert all(
        name in out for name in ("demo", "table-2", "table-3-as-printed", "table-5", "0 6 * * 1")
    )
    assert "tiny" in out and "org/name[@revision]" in out


def test_list_says_what_is_of_the_users_file(place: Place, cli: Cli) -> None:
    (place.root / "pipelines.yaml").write_text(
        "models: {near: {kind: fake}, tiny: {kind: fake}}\n"
        "pipelines: {demo: {title: t, kind: amplification, datasets: [car], epsilons: [1]}}\n"
    )
    out = cli("list")
    assert "of your pipelines.yaml: demo, model near, model tiny; all others are shipped" in out
    assert "demo: your own pipeline stands in the place of the shipped one" in out
    assert "tiny: your own model stands in the place of the shipped one" in out
    assert "near: your own" not in out and "scheduled: " not in out
    assert "few-shot-demo" in out and "bundled" in out


def test_list_says_what_pipelines_are_for_in_a_terminal_of_100_columns(
    place: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "width", 100)
    with edited(place.root / "pipelines.yaml") as pipelines:
        for key in ("group", "takes", "needs"):
            del pipelines["pipelines"]["private"][key]
    groups: dict[str, list[str]] = {}
    for line in cli("list").partition("models: ")[0].splitlines()[1:]:
        if line.startswith((" to ", " others")):
            rows = groups.setdefault(line.strip(), [])
        elif line[3] != " ":
            rows.append(line.split()[0])
    assert [*groups] == ["to try", "to protect", "to reproduce", "others"]
    assert groups["others"] == ["private"]
    assert {"demo", "few-shot-demo"} <= {*groups["to try"]}
    assert "private-table" in groups["to protect"]
    assert "table-2" in groups["to reproduce"]


@pytest.mark.quick("breast_cancer", "adult")
@pytest.mark.parametrize("name", CONTRACTS)
def test_check_and_show_know_every_contract(place: Place, cli: Cli, name: str) -> None:
    assert cli(f"contract check {place.root / 'contracts' / f'{name}.yaml'}").startswith(
        f"{name}.yaml: ok: "
    )
    shown = cli(f"contract show {name}")
    assert shown.startswith(f"{name}: ")
    assert "question" in shown
    assert "groups" in shown
    assert "benchmark" in shown


def test_data_list_tells_what_is_at_hand(
    place: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPICL_DATA", str(place.root / "nowhere"))
    lines = {line.split()[0]: line for line in cli("data list").splitlines() if line.split()}
    assert set(CONTRACTS) <= set(lines)
    assert "yes" in lines["breast_cancer"] and "no" in lines["blood"].split()
    if (REAL_DATA / "tabular" / "blood.csv").exists():
        monkeypatch.setenv("DPICL_DATA", str(REAL_DATA))
        assert any(
            line.startswith(" blood") and "yes" in line for line in cli("data list").splitlines()
        )


def test_data_list_says_remote_of_what_it_did_not_ask_for(
    place: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no such store and no such database: only addresses are known, and they are not
    looked up.
    """
    places = {
        "stored": {"file": "s3://nobodys-bucket/rows.parquet"},
        "shelved": {"folder": "s3://nobodys-bucket/rows/"},
        "asked": {"query": {"url_env": "SHOP_DB", "sql": "SELECT 1"}},
    }
    for name, source in places.items():
        contract = shop(name)
        contract["source"] = {
            **{key: value for key, value in contract["source"].items() if key != "file"},
            **source,
        }
        install(place, contract, "")

    def at_hand() -> dict[str, str]:
        lines = [line.split() for line in cli("data list").splitlines()]
        return {line[0]: line[2] for line in lines if line and line[0] in places}

    # nobody has said where the database is
    assert at_hand() == {"stored": "remote", "shelved": "remote", "asked": "no"}
    monkeypatch.setenv("SHOP_DB", "postgresql://me@127.0.0.1:1/base")
    assert at_hand()["asked"] == "remote"


def test_a_look_at_the_budget_waits_for_no_library_of_tables(place: Place) -> None:
    """Nor for one of models: a person types it often."""
    program = (
        "import sys\nfrom dpicl.cli import budget\nprint(sorted({'pyarrow', 'pandas', 'scipy', "
        "'torch', 'prefect'} & set(sys.modules)))"
    )
    assert python(program, folder=place.root) == "[]"


def test_a_group_of_commands_without_one_shows_its_help(place: Place, cli: Cli) -> None:
    for group, shown in (("", "\nProtect:"), ("contract", "Commands:"), ("data", "Commands:")):
        code, err = cli.ended(group)
        assert code == 2 and shown in err


@pytest.mark.exhaustive
def test_run_and_report_write_the_same_report(world: World, cli: Cli) -> None:
    finished = world.dpicl("run demo", *SMALL_OPTIONS, "--run-id", "commands")
    assert finished.returncode == 0 and not talk(finished.stderr), finished.stderr
    report = world.run("commands") / "report.html"
    assert f"report: {report}" in finished.stdout
    before = report.read_bytes()
    with world.entered():
        assert str(report) in cli("report commands")
    assert report.read_bytes() == before


@pytest.mark.quick("serve")
@pytest.mark.parametrize(
    "command", [["run", "demo", *SMALL_OPTIONS], ["serve"]], ids=lambda command: command[0]
)
def test_a_server_that_does_not_answer_is_told_in_one_sentence(
    place: Place, cli: Cli, command: list[str]
) -> None:
    url = "http://127.0.0.1:9/api"
    with place.entered(PREFECT_API_URL=url), temporary_settings({PREFECT_API_URL: url}):
        sentence = cli.refused(*command)
    assert f"PREFECT_API_URL={url}: no server answers there" in sentence


@pytest.mark.exhaustive
def test_a_scheduler_that_does_not_answer_is_told_in_one_sentence(place: Place, cli: Cli) -> None:
    with place.entered(DASK_SCHEDULER_ADDRESS="tcp://127.0.0.1:9"):
        sentence = cli.refused("run demo", *SMALL_OPTIONS)
    assert "DASK_SCHEDULER_ADDRESS=tcp://127.0.0.1:9: no scheduler answers there" in sentence
