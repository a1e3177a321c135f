"""Whatever is wrong with a command: one sentence on standard error, exit code 2, and no run is
begun.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpicl.ground.yaml_file import line_of
from dpicl.runs.plan import make_plan
from tests.cli.conftest import Cli
from tests.harness import SMALL_OPTIONS, Place, content, edited, grid_of, install, shop

SMALL = " ".join(SMALL_OPTIONS)


@pytest.fixture
def place(place: Place) -> Place:
    install(place, shop())
    install(place, shop("till", private=True))
    return place


def refused(place: Place, cli: Cli, line: str) -> str:
    """The sentence of a refused command that leaves the runs as they were."""
    before = content(place.home / "runs")
    sentence = cli.refused(line)
    assert content(place.home / "runs") == before
    return sentence


OPTIONS = {
    "an unknown pipeline": ("nope", "pipeline=nope: expected one of demo"),
    "a path as a pipeline": ("../x", "pipeline=../x"),
    "no pipeline": ("", "which pipeline?"),
    "epsilon -1": ("demo --epsilons 1,-1", "number >= 1e-06, or inf"),
    "no epsilon": ("demo --epsilons ,", "epsilons"),
    "an epsilon twice": ("demo --epsilons 1,1.0", "lists a value twice"),
    "shots without groups": ("demo --shots 3", "shots=3: expected one of 1, 2, 4, 8"),
    "0 shots": ("demo --shots 0", "shots"),
    "rate above 1": ("demo --sampling-rates 1.5", "rates in (0, 1]"),
    "rate 1/0": ("demo --sampling-rates 1/0", "sampling_rates"),
    "a seed of 2^31": ("demo --seeds 2147483648", "seeds"),
    "an unknown method": (
        "demo --methods pate",
        "ldp_tabicl, gdp_tabicl, mst_tabicl, aim_tabicl, tab_pate, tab_pe, few_shot_generation",
    ),
    "a path as a data set": ("demo --datasets ../x", "datasets"),
    "an unknown data set": ("demo --datasets nope", "dataset='nope': expected one of adult"),
    "an unknown model": ("demo --model gpt", "model 'gpt' is unknown"),
    "a path as a run id": ("demo --run-id ../x", "run id '../x'"),
    "a line end in a run id": ("demo --run-id 'x\n'", r"run id 'x\n'"),
    "0 workers": ("demo --workers 0", "--workers"),
    "an unknown option": ("demo --nope", "--nope"),
    "an option without a value": ("demo --epsilons", "--epsilons"),
    "an unknown run": ("--resume nope", "run nope: no such run"),
    "a path as a run to resume": ("--resume ../../etc", "run id '../../etc'"),
    "resuming with a pipeline": ("demo --resume x", "expected no pipeline and no other option"),
    "resuming with options": (
        "--resume x --epsilons 1",
        "expected no pipeline and no other option",
    ),
    "no noise on private rows": ("demo --datasets till --epsilons inf", "benchmark: true"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_wrong_option_of_run_is_refused(place: Place, cli: Cli, name: str) -> None:
    arguments, expected = OPTIONS[name]
    assert expected in refused(place, cli, f"run {arguments}")


COMMANDS = {
    "an unknown command": ("nope", "No such command 'nope'"),
    "a report of an unknown run": ("report nope", "run nope: no such run"),
    "a report of no run": ("report", "RUN"),
    "showing an unknown contract": ("contract show nope", "dataset='nope'"),
    "showing a path": ("contract show ../../etc/passwd", "dataset='../../etc/passwd'"),
    "checking what is not there": ("contract check nope.yaml", "nope.yaml: cannot be read"),
    "checking a folder": ("contract check .", "cannot be read"),
    "fetching an unknown data set": ("data fetch nope", "dataset='nope'"),
    "fetching what no repository has": ("data fetch shop", "shop: no public repository is named"),
    "an unknown account": ("budget nope", "account 'nope'"),
    "an unknown audit": (
        "audit nope",
        "audit='nope': expected a name that bare `dpicl audit` lists",
    ),
    "serving without a server": ("serve", "serve needs a Prefect server"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_command_is_refused(
    place: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    arguments, expected = COMMANDS[name]
    assert expected in refused(place, cli, arguments)


PIPELINES = {
    "is not YAML": "pipelines: [",
    "has a key twice": "version: 1\nversion: 1\npipelines: {}",
    "lacks data sets": "version: 1\npipelines: {demo: {title: t, methods: [ldp_tabicl], epsilons: [1], shots: "  # noqa: E501
    "[1]}}",
    "replaces what is no option of a run": "version: 1\npipelines: {demo: {title: t, methods: [ldp_tabicl], datasets: [shop], "  # noqa: E501
    "epsilons: [1], shots: [1], schedule: {cron: '0 6 * * 1', parameters: {epsilon: [2]}}}}",
    "has a wrong schedule": "version: 1\npipelines: {demo: {title: t, methods: [ldp_tabicl], datasets: [shop], "  # noqa: E501
    "epsilons: [1], shots: [1], schedule: {cron: daily}}}",
    "runs Python": "version: 1\npipelines: !!python/object/apply:os.system [true]",
}


@pytest.mark.parametrize("name", PIPELINES)
def test_a_broken_pipelines_file_is_refused(place: Place, cli: Cli, name: str) -> None:
    (place.root / "pipelines.yaml").write_text(PIPELINES[name])
    assert refused(place, cli, "run demo").startswith("pipelines.yaml: ")


def test_a_pipelines_file_that_is_not_there_is_refused(place: Place, cli: Cli) -> None:
    (place.root / "pipelines.yaml").unlink()
    assert "pipelines.yaml: cannot be read" in refused(place, cli, "list")


def test_a_bad_contract_is_refused_by_check_and_by_run(place: Place, cli: Cli) -> None:
    path = place.root / "contracts" / "shop.yaml"
    path.write_text(path.read_text().replace("column: bought", "column: nope"))
    for line in (f"contract check {path}", "contract show shop", "run demo --datasets shop"):
        sentence = refused(place, cli, line)
        assert "label.column: names 'nope', which is not a column" in sentence


def test_check_shows_every_problem_of_a_contract_with_its_line(place: Place, cli: Cli) -> None:
    path = place.root / "contracts" / "shop.yaml"
    with edited(path) as contract:
        contract["colums"] = contract.pop("columns")
        contract["privacy"]["budgett"] = contract["privacy"].pop("budget")
        contract["checks"] = [{"column": "age", "rule": "in_bound"}]
    text = path.read_text("utf-8")
    code, out, err = cli.whole("contract check shop")
    assert (code, out) == (2, "")
    problems = [
        ("privacy.budgett", "unknown key; expected one of ", "did you mean 'budget'?"),
        ("colums", "unknown key; expected one of ", "did you mean 'columns'?"),
        ("checks.0.rule", "got 'in_bound'; expected 'in_bounds'"),
    ]
    assert len(err.splitlines()) == len(problems), err
    for line, (key, *words) in zip(err.splitlines(), problems, strict=True):
        number = line_of(text.encode(), key)
        assert line.startswith(f"dpicl: shop.yaml: line {number}: {key}: "), line
        assert all(word in line for word in words), line
    assert cli.whole("contract check shop --json") == (2, "", err)
    other = refused(place, cli, "contract show shop")
    assert "budgett: unknown key" in other and other.rstrip().endswith(
        "(and 2 more: `dpicl contract check shop` shows all)"
    )


def test_list_shows_every_problem_of_the_pipelines(place: Place, cli: Cli) -> None:
    mine = "title: T, methods: [gdp_tabicl], datasets: [shop], seedz: [0], epsilonz: [1]"
    (place.root / "pipelines.yaml").write_text(f"pipelines:\n  mine: {{{mine}}}\n")
    code, out, err = cli.whole("list")
    assert (code, out) == (2, "")
    first, *others = err.splitlines()
    assert first.startswith("dpicl: pipelines.yaml: pipelines.mine.seedz: unknown key; ")
    assert "did you mean 'seeds'?" in first and "did you mean 'epsilons'?" in others[0]
    assert cli.refused("run mine").endswith("(and 1 more: `dpicl list` shows all)")


def test_an_entry_of_a_model_names_the_key_that_was_meant(place: Place, cli: Cli) -> None:
    with edited(place.root / "pipelines.yaml") as declared:
        declared["models"]["mine"] = {"kind": "fake", "idd": "x"}
    sentence = refused(place, cli, "run demo --model mine")
    assert "pipelines.yaml: models.mine.idd: unknown key" in sentence


@pytest.mark.parametrize("data", ["/nowhere", ""])
def test_rows_that_are_not_at_hand_are_refused_before_anything_starts(
    place: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch, data: str
) -> None:
    monkeypatch.setenv("DPICL_DATA", data)
    sentence = refused(place, cli, "run demo --datasets blood")
    assert "blood: no rows at hand" in sentence
    assert "dpicl data fetch blood" in sentence
    assert "DPICL_DATA" in sentence


def test_a_state_folder_that_is_a_file_or_cannot_be_written_is_refused(
    place: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.root / "file").write_text("")
    # nobody, not even root, may make folders in /sys
    for home in (place.root / "file", "/sys/dpicl"):
        monkeypatch.setenv("DPICL_HOME", str(home))
        assert "set DPICL_HOME" in cli.refused("run demo")
    assert (place.root / "file").read_text() == ""


@pytest.mark.parametrize("watts", ["much", "0", "inf"])
def test_a_power_that_is_no_number_of_watts_is_refused(
    place: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch, watts: str
) -> None:
    monkeypatch.setenv("DPICL_POWER_WATTS", watts)
    assert f"DPICL_POWER_WATTS='{watts}': expected a positive number" in refused(
        place, cli, "run demo"
    )


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("nonsense", "no database URL"),
        ("mysql://127.0.0.1/x", "expected sqlite:///FILE or postgresql://"),
        ("postgresql://user:secret@127.0.0.1:9/x?password=secret", "user:***@127.0.0.1:9/x"),
    ],
)
def test_a_ledger_that_is_not_there_is_refused(
    place: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch, address: str, told: str
) -> None:
    monkeypatch.setenv("DPICL_LEDGER", address)
    for line in ("budget", "run private --datasets till --epsilons 1"):
        sentence = refused(place, cli, line)
        assert told in sentence and "secret" not in sentence


def test_a_ledger_that_is_no_database_is_refused(place: Place, cli: Cli) -> None:
    (place.home / "ledger.db").write_text("garbage")
    assert "file is not a database" in refused(place, cli, "budget")


def plan(run_id: str) -> Path:
    """A run that is planned and not begun."""
    return make_plan("demo", {"datasets": ["shop"], "shots": [1, 2]}, run_id)


def test_a_planned_run_keeps_its_options_and_has_no_report(place: Place, cli: Cli) -> None:
    plan("taken")
    assert "its plan differs" in refused(place, cli, f"run demo --run-id taken {SMALL}")
    assert "manifest.json: cannot be read" in refused(place, cli, "report taken")


@pytest.mark.quick("{")
@pytest.mark.parametrize("text", ["{", "{}", "\0"])
def test_a_damaged_plan_is_refused(place: Place, cli: Cli, text: str) -> None:
    (plan("damaged") / "plan.json").write_text(text)
    for line in ("run --resume damaged", "report damaged"):
        assert "run damaged: plan.json is damaged" in refused(place, cli, line)


def test_a_run_whose_folder_is_a_file_is_refused(place: Place, cli: Cli) -> None:
    (place.home / "runs").mkdir()
    (place.home / "runs" / "file").write_text("")
    assert "Not a directory" in refused(place, cli, "run --resume file")
    asked = "run demo --datasets shop --shots 1 --run-id file"
    assert "run file: its folder cannot be written" in refused(place, cli, asked)


def test_a_plan_that_names_a_path_as_its_data_set_is_refused(place: Place, cli: Cli) -> None:
    path = plan("planned") / "plan.json"
    path.write_text(path.read_text().replace('"shop"', '"../x"'))
    assert "run planned: plan.json is damaged" in refused(place, cli, "run --resume planned")


@pytest.mark.parametrize(("method", "version"), [("mst_tabicl", None), ("gdp_tabicl", 1)])
def test_a_run_of_another_version_of_its_methods_is_refused(
    place: Place, cli: Cli, method: str, version: int | None
) -> None:
    changes = grid_of("shop", method)
    plan = make_plan("demo", changes, "begun") / "plan.json"
    assert make_plan("demo", {}, "begun", resume=True) == plan.parent
    assert make_plan("demo", changes, "begun") == plan.parent
    plan.write_text(json.dumps({**json.loads(plan.read_text()), "versions": {method: version}}))
    assert f"another version of {method}" in refused(place, cli, "run --resume begun")
