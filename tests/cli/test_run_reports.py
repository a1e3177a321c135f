"""`dpicl run --reports`: clients' reports in the place of rows, counted once in a run, and charged
to nobody.
"""

from __future__ import annotations

import json
import shutil
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from dpicl.contract.payment import CLIENTS_PAY
from dpicl.contract.periods import clock, period_before
from dpicl.data.report_counts import Closed, Parted
from dpicl.home.settings import Settings
from dpicl.methods.collection import DESIGNS
from dpicl.release.pipelines import Reports, load_pipelines
from dpicl.report import report_steps
from dpicl.report.sentences import sentences_of
from dpicl.runs import client_reports
from dpicl.runs.artefacts import read_draws, remove_private
from dpicl.runs.client_reports import Counted, counted_of, typed_places
from dpicl.runs.draw import derive_stage
from dpicl.runs.execute import InProcess, run_units
from dpicl.runs.forecast import forecast
from dpicl.runs.plan import make_plan, plan_for
from dpicl.runs.prepare import receive
from dpicl.runs.run_folder import open_unit
from dpicl.session import Session
from tests.cli.conftest import Cli
from tests.cli.holder import held
from tests.cli.test_client import reports
from tests.cli.test_client_years import FIRST, SECOND
from tests.harness import Place, content, edited, install, rows, shop
from tests.tasks.stages import in_process

CHANGES: dict[str, Any] = {
    "datasets": ["shop"],
    "epsilons": ["8"],
    "shots": [2],
    "model": "fake",
    "baselines": False,
}
CLIENTS = "--epsilon 8 --cap 100"
LAST_YEAR = period_before("year", clock())
UNIT = "units/ldp_tabicl__shop__seed0"
CLOSING = {"at": "reports", "close": "closed"}
Sent = dict[str, list[str]]


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What clients are given."""
    path = tmp_path_factory.mktemp("clients") / "shop.yaml"
    path.write_text(yaml.safe_dump(shop(private=True), sort_keys=False))
    return path


@pytest.fixture(scope="module")
def sent(contract: Path) -> Sent:
    """What 300 clients send, by period; and with two levels of noise."""
    how = {period: f"--period {period}" for period in ("once", FIRST, SECOND, LAST_YEAR)}
    how["two levels"] = f"--sending-epsilon 4 --period {FIRST}"
    return {name: reports(contract, held(300), f"{CLIENTS} {line}") for name, line in how.items()}


@pytest.fixture
def shop_place(place: Place, sent: Sent, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A contract with public queries, whose source is not there, and a folder of reports; of a time
    at which the periods are over.
    """
    monkeypatch.setattr(client_reports, "clock", lambda: datetime(2026, 12, 4, tzinfo=UTC))
    install(place, shop(private=True), "")
    (place.root / "data" / "shop.csv").unlink()
    deliver(place, "once.jsonl", sent["once"])
    return place


def deliver(place: Place, file: str, lines: list[str]) -> None:
    (place.root / "reports").mkdir(exist_ok=True)
    (place.root / "reports" / file).write_text("".join(f"{line}\n" for line in lines))


def planned(place: Place, *, every: str = "once", **keys: Any) -> None:
    """A pipeline of its own that takes reports, under a contract that releases so often."""
    with edited(place.root / "pipelines.yaml") as declared:
        declared["pipelines"]["nightly"] = {
            "title": "Nightly",
            "methods": ["ldp_tabicl"],
            **CHANGES,
            "reports": "reports",
            **keys,
        }
    with edited(place.root / "contracts" / "shop.yaml") as stated:
        stated["releases"] = {"every": every}


def received_run(run_id: str, period: str | None = None) -> Path:
    """A run that has counted, and done no more."""
    run = make_plan("nightly", {}, run_id, period=period)
    receive(str(run), "shop")
    return run


def counted(run: Path) -> Counted:
    (of_shop,) = counted_of(run, "shop")
    return of_shop


def finished_run(period: str | None = None) -> Path:
    run = make_plan("nightly", {}, "r", period=period)
    run_units(run, InProcess(), report_steps(run))
    return run


def test_a_run_counts_reports_and_reads_no_row_and_charges_nobody_and_names_no_client(
    shop_place: Place, sent: Sent, caplog: pytest.LogCaptureFixture
) -> None:
    planned(shop_place, baselines=True)
    with caplog.at_level("DEBUG"):
        run = finished_run()
    # no ledger where nothing is charged
    assert not (shop_place.home / "ledger.db").exists()
    report = (run / "report.md").read_text()
    opening = report.partition("\n## ")[0]
    for phrase in (
        "300 reports: 300 counted",
        "8-LDP before they leave it",
        "Error bars of randomised response",
        "Nobody holds true rows here",
        "AUC",
    ):
        assert phrase in opening
    measured = rows(run / "results.csv")
    assert CLIENTS_PAY in report and {"icl", "lr"} <= {row["system"] for row in measured}
    # public queries were asked
    assert {row["auc"] for row in measured} - {""}
    manifest = (run / "manifest.json").read_text()
    # a path of this machine
    assert str(shop_place.root) not in manifest
    # pipelines.yaml says it
    assert "--reports" not in json.loads(manifest)["command"]
    stored = b"".join([*content(run).values(), caplog.text.encode()])
    names = [json.loads(line)["who"] for line in sent["once"]]
    assert names
    assert not any(who.encode() in stored or bytes.fromhex(who) in stored for who in names)


def test_the_same_reports_give_the_same_bytes_and_name_and_further_ones_another(
    shop_place: Place, sent: Sent
) -> None:
    planned(shop_place)
    named = []
    for number, lines in enumerate((sent["once"], sent["once"][::-1], sent["once"][1:])):
        deliver(shop_place, "once.jsonl", lines)
        run = received_run(f"r{number}")
        derive_stage("reconstruct")(str(run), UNIT.removeprefix("units/"))
        named.append((counted(run).release, content(run / UNIT)["released_rows.npz"]))
    assert named[0] == named[1] and named[0][0] != named[2][0] and named[0][1] != named[2][1]


def test_a_period_that_is_over_is_closed_and_later_runs_count_others_as_late(
    shop_place: Place, sent: Sent
) -> None:
    planned(shop_place, every="day", reports=CLOSING)
    deliver(shop_place, "first.jsonl", sent[FIRST][:200])
    found = [counted(received_run("r0", FIRST))]
    deliver(shop_place, "late.jsonl", sent[FIRST][200:])
    deliver(shop_place, "second.jsonl", sent[SECOND])
    found += [counted(received_run("r1", FIRST)), counted(received_run("r2", SECOND))]
    first, again, second = (count.received for count in found)
    assert (first.counted, first.late, first.elsewhen) == (200, 0, 300)
    assert (again.counted, again.late, again.elsewhen, again.closed_with) == (200, 100, 600, 200)
    assert found[0].release == found[1].release != found[2].release and second.counted == 300
    told = " ".join(sentences_of(found, with_answers=True))
    assert f"period {SECOND}: 900 reports: 300 counted, 300 late" in told
    whole, part = ([*sentences_of(found[:2], with_answers=it)] for it in (True, False))
    assert whole[:-1] == part and "Intervals of accuracies" in whole[-1]
    assert part.count(found[0].statement) == 1
    folder = shop_place.root / "closed"
    (closed, _) = sorted(folder.iterdir())
    assert closed.name.startswith(f"{FIRST}-")
    assert [path.stat().st_mode & 0o777 for path in (closed, folder)] == [0o600, 0o700]


def test_a_scheduled_night_counts_the_day_that_is_over(shop_place: Place) -> None:
    planned(shop_place, every="day", reports=CLOSING, schedule={"cron": "0 2 * * *"})
    settings, night = Settings.current(), datetime(2026, 12, 3, 2, tzinfo=UTC)
    assert plan_for("nightly", {}, settings, when=night).period_of("shop") == SECOND
    assert plan_for("nightly", {}, settings, period=FIRST).period_of("shop") == FIRST
    pipeline = load_pipelines(settings.pipelines).pipelines["nightly"]
    assert forecast("nightly", pipeline, settings) == []


def test_of_two_levels_a_report_states_one_sending_and_all_of_them(
    shop_place: Place, sent: Sent
) -> None:
    planned(shop_place, reports={"at": "reports", "sending_epsilon": 4})
    deliver(shop_place, "noisy.jsonl", sent["two levels"])
    found = counted(run := finished_run(FIRST))
    collected = Session().collect(
        "shop", shop_place.root / "reports", epsilon=8, sending_epsilon=4, period=FIRST
    )
    (tally,) = read_draws(open_unit(str(run), UNIT.removeprefix("units/"))).values()
    assert found.received.counted == found.received.foreign == 300
    assert found.errors == collected.collection.column_errors(300)
    assert (tally.stored == collected.published.drawn.stored).all()
    assert (
        "8-LDP before they leave it, however often they are sent, and 4-LDP in any one sending"
        in (run / "report.md").read_text()
    )


def test_a_night_of_reports_to_another_collection_is_counted_as_one_without_any(
    shop_place: Place, sent: Sent
) -> None:
    planned(shop_place, reports=CLOSING, epsilons=["8", "3"])
    deliver(shop_place, "once.jsonl", sent[FIRST])
    received_run("r", FIRST)
    assert (shop_place.root / "closed").exists()


def test_a_killed_count_leaves_pseudonyms_where_the_run_deletes_private_files(
    shop_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(shop_place)
    folders, add = set[Path](), Parted.add
    monkeypatch.setattr(
        Parted, "add", lambda parted, answers: (folders.add(parted._folder), add(parted, answers))
    )
    run = received_run("r")
    (left,) = folders
    assert left.parent == Settings.current().private("shop", "r")
    left.mkdir()
    remove_private(run, Settings.current())
    assert not left.exists()


def test_every_design_of_clients_is_one_of_a_pipeline() -> None:
    assert get_args(Reports.model_fields["design"].annotation) == DESIGNS


@pytest.mark.quick("{'design': 'pairs', 'about': ['band']}")
@pytest.mark.parametrize(
    "words",
    [
        {"design": "pairs", "about": ["band"]},
        {"design": "agreement", "label_alone": True},
        {"columns": 1},
    ],
    ids=str,
)
def test_a_run_counts_what_clients_were_asked_in_other_words(
    shop_place: Place, contract: Path, tmp_path: Path, words: dict[str, Any]
) -> None:
    fresh = shutil.copy(contract, tmp_path / "shop.yaml")
    typed = " ".join(
        "--label-alone"
        if name == "label_alone"
        else f"--{name} {value[0] if name == 'about' else value}"
        for name, value in words.items()
    )
    deliver(shop_place, "once.jsonl", reports(fresh, held(100), f"{CLIENTS} {typed}"))
    variants = {"ldp_tabicl": {"variants": {"em": {"estimator": "em"}}}}
    planned(shop_place, reports={"at": "reports", **words}, options=variants)
    found = counted(run := finished_run())
    collected = Session().collect("shop", shop_place.root / "reports", epsilon=8.0, **words)
    assert found.received.counted == 100 and found.collection == collected.collection.name
    assert {"icl", "icl-em"} <= {row["system"] for row in rows(run / "results.csv")}
    assert collected.statement in (run / "report.md").read_text()


def test_a_place_is_the_same_for_every_process_and_the_command_names_no_folder(
    shop_place: Place,
) -> None:
    planned(shop_place, reports=CLOSING)
    root, settings = shop_place.root, Settings.current()
    stated, typed, other = (
        plan_for("nightly", changes, settings, period="2025-01-01")
        for changes in (
            {},
            {"reports": "s3://bucket/pre/reports"},
            {"reports": str(root / "once more")},
        )
    )
    places = json.loads(json.dumps(stated.as_json()))["pipeline"]["reports"]
    assert (places["at"], places["close"]) == (str(root / "reports"), str(root / "closed"))
    assert [typed_places(plan, settings) for plan in (stated, typed, other)] == [
        [],
        ["s3://bucket/pre/reports"],
        ["once more"],
    ]


def test_a_run_goes_on_with_what_it_has_counted_whatever_comes_or_goes(
    shop_place: Place, sent: Sent
) -> None:
    """It was killed between the counts and what is said of them."""
    planned(shop_place)
    first = content(run := received_run("r"))
    shutil.rmtree(run / UNIT)
    deliver(shop_place, "once.jsonl", sent["once"][:100])
    receive(str(run), "shop")
    assert content(run) == first and counted(run).received.counted == 300


@pytest.mark.exhaustive
@pytest.mark.parametrize("place_of", [{"at": "reports"}, CLOSING], ids=["open", "closes"])
def test_a_run_that_is_killed_goes_on_with_what_it_has_counted(
    shop_place: Place, sent: Sent, place_of: dict[str, str]
) -> None:
    """It dies at its first new files; reports come before it is resumed."""
    planned(shop_place, every="year", reports=place_of)
    deliver(shop_place, "once.jsonl", sent[LAST_YEAR])
    counts, deaths = shop_place.run("r") / "reports" / "shop.npz", 0
    begun = shop_place.environment, "nightly", {}, "r", "placed"
    while (code := in_process(*begun)) and not counts.exists():
        assert code == -signal.SIGKILL
        deaths += 1
    before = counts.read_bytes()
    deliver(shop_place, "once.jsonl", sent[LAST_YEAR][:100])
    while in_process(*begun):
        deaths += 1
    assert counts.read_bytes() == before and deaths > 10
    assert counted(shop_place.run("r")).received.counted == 300


def test_of_two_commands_that_close_a_period_the_second_counts_what_the_first_closed(
    shop_place: Place, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(shop_place, reports=CLOSING)
    deliver(shop_place, "once.jsonl", sent[FIRST])
    write, lost = Closed.write, list[bool]()

    def beaten(closed: Closed, path: Path, checker: Any) -> bool:
        if not lost:  # another command closes the period between this one's count and its file
            lost.append(write(Closed(closed.tally, closed.who), path, checker))
        return write(closed, path, checker)

    monkeypatch.setattr(Closed, "write", beaten)
    assert counted(received_run("r", FIRST)).received.closed_with == 300 and lost == [True]


def taken(**words: Any) -> dict[str, Any]:
    return {"reports": {"at": "reports", **words}}


def options(**words: Any) -> dict[str, Any]:
    return {"options": {"ldp_tabicl": words}}


MISTAKES = {
    "another method": ("--methods gdp_tabicl", {}, "gdp_tabicl; expected ldp_tabicl alone"),
    "two tables": ("--datasets shop,blood", {}, "reports with 2 data sets; expected one"),
    "a benchmark": ("--datasets blood", {}, "blood: is a public benchmark"),
    "nowhere": ("--reports nowhere", {}, "nowhere: cannot be read"),
    "no noise": ("--epsilons inf", {}, "epsilon=inf"),
    "a window": ("--window 3", {}, "window=3"),
    "a word as a period": ("--period soon", {}, "period="),
    "an encoding": (
        "",
        options(encoding="one-hot"),
        "encoding=one-hot: expected no such option: how clients are asked stands beside the place",
    ),
    "a design as an option": (
        "",
        options(design="pairs", estimator="em"),
        "options.ldp_tabicl.design=pairs: expected no such option",
    ),
    "no design": ("", taken(design="all-columns"), "pairs', 'subset' or 'agreement'"),
    "columns of pairs": (
        "",
        taken(design="pairs", columns=1),
        "columns with design pairs; expected `design: subset`",
    ),
    "about nobody": ("", taken(about=["nobody"]), "nobody"),
    "an empty place": ("", {"reports": {"at": " "}}, "reports.at"),
    "no place": ("--reports ''", {}, "reports='': expected a folder, a file or an address"),
    "the data": ("--reports data", {}, "reports=data: is, holds or lies in DPICL_DATA"),
    "the queries": (
        "--reports data/shop_queries.csv",
        {},
        "reports=shop_queries.csv: is, holds or lies in DPICL_DATA",
    ),
    "everything": ("--reports .", {}, "holds or lies in DPICL_DATA"),
    "private files": ("--reports home/private", {}, "lies in the private files of DPICL_HOME"),
    "costs": (
        "",
        {"kind": "amplification"},
        "reports with kind amplification, a table that reads neither rows nor reports; expected",
    ),
    "a schedule without": (
        "",
        {"schedule": {"cron": "0 2 * * *", "parameters": {"reports": None}}},
        "reports: is null, of a pipeline that counts",
    ),
    "a period to come": (
        "--period 2999-12-01",
        {"reports": CLOSING},
        "period=2999-12-01: expected one that is over",
    ),
    "a file as a folder": (
        "--period 2025-12-01",
        taken(close="reports/once.jsonl/deep"),
        "close=deep: expected a folder of",
    ),
    "no estimator": ("", options(estimator="clip"), "expected log-linear, em or tree"),
    "a loud sending": ("", taken(sending_epsilon=9), "below the permanent answer's"),
    "closed far away": (
        "",
        taken(close="s3://bucket/closed"),
        "close=closed: expected a folder of this machine",
    ),
    "closed without a period": (
        "",
        {"reports": CLOSING},
        "close=closed: expected no such key where reports have no period",
    ),
}


@pytest.mark.quick("costs", "two tables", "private files", "nowhere", "no design")
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence(
    shop_place: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    typed, keys, phrase = MISTAKES[name]
    planned(shop_place, **keys)
    monkeypatch.chdir(shop_place.root)
    assert phrase in cli.refused(f"run nightly {typed} --executor pool --workers 1")
    assert not (shop_place.home / "ledger.db").exists()


def test_a_dry_run_and_a_forecast_say_that_nothing_is_charged(shop_place: Place, cli: Cli) -> None:
    planned(shop_place, schedule={"cron": "0 2 * * *"})
    assert CLIENTS_PAY in cli("run nightly --dry-run")
    assert "nightly: no account is charged" in cli("forecast")


def test_a_broken_schedule_is_refused_before_a_forecast_is_said(
    shop_place: Place, cli: Cli
) -> None:
    planned(shop_place, schedule={"cron": "0 6 * * 9"})
    code, out, told = cli.whole("forecast")
    assert (code, out) == (2, "")
    assert told == (
        "dpicl: pipelines.yaml: pipelines.nightly.schedule.cron: is no cron expression; expected "
        "five fields such as `0 6 * * 1`\n"
    )


def test_own_pipelines_come_first_and_the_one_that_was_meant_before_all(
    shop_place: Place, cli: Cli
) -> None:
    planned(shop_place)
    with edited(shop_place.root / "pipelines.yaml") as declared:
        declared["pipelines"] = {"nightly": declared["pipelines"]["nightly"]}
    assert cli.refused("run nightl --dry-run").startswith(
        "pipeline=nightl: expected one of these (did you mean 'nightly'?): nightly, "
    )
