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

from dpicl.contract.periods import clock, period_before
from dpicl.engine import received
from dpicl.engine.artefacts import read_draws, remove_private
from dpicl.engine.execute import InProcess, run_units
from dpicl.engine.forecast import forecast
from dpicl.engine.pipelines import Reports, load_pipelines
from dpicl.engine.plan import make_plan, plan_for
from dpicl.engine.received import counted_of, typed_places
from dpicl.engine.run_folder import open_unit
from dpicl.engine.settings import Settings
from dpicl.engine.stages.draw import derive_stage
from dpicl.engine.stages.receive import receive
from dpicl.errors import ParameterError
from dpicl.methods.collection import DESIGNS
from dpicl.release.collected import NOTHING_CHARGED
from dpicl.report.clients import sentences_of
from dpicl.report.stages import report_steps
from dpicl.session import Session
from dpicl.tabular.reports.closed import Closed
from dpicl.tabular.reports.distinct import Parted
from tests.cli.test_client_years import FIRST, SECOND, reports
from tests.cli.test_collect import holders
from tests.harness import Place, call_main, complaint, content, install, rows, run_here, said, shop
from tests.tasks.stages import in_process

Capture = pytest.CaptureFixture[str]
EPSILON = "8"
CHANGES: dict[str, Any] = {
    "datasets": ["shop"],
    "epsilons": [EPSILON],
    "shots": [2],
    "model": "fake",
    "baselines": False,
}
LAST_YEAR = period_before("year", clock())
UNIT = "units/ldp_tabicl__shop__seed0"


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What 300 clients send, by period; and with two levels of noise."""
    contract = tmp_path_factory.mktemp("clients") / "shop.yaml"
    contract.write_text(yaml.safe_dump(shop(private=True), sort_keys=False))
    how, dated = ("--epsilon", EPSILON, "--cap", "100"), {}
    for period in ("once", FIRST, SECOND, LAST_YEAR):
        dated[period] = reports(contract, holders(300), *how, "--period", period)
    return {
        **dated,
        "two levels": reports(
            contract, holders(300), *how, "--sending-epsilon", "4", "--period", FIRST
        ),
    }


@pytest.fixture
def shop_place(place: Place, sent: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> Place:
    """A contract with public queries, whose source is not there, and a folder of reports; of a time
    at which the periods are over.
    """
    monkeypatch.setattr(received, "clock", lambda: datetime(2026, 12, 4, tzinfo=UTC))
    install(place, shop(private=True), "")
    (place.root / "data" / "shop.csv").unlink()
    deliver(place, "once.jsonl", sent["once"])
    return place


def deliver(place: Place, file: str, lines: list[str]) -> None:
    (place.root / "reports").mkdir(exist_ok=True)
    (place.root / "reports" / file).write_text("".join(f"{line}\n" for line in lines))


def planned(place: Place, name: str = "nightly", *, every: str = "once", **keys: Any) -> None:
    """A pipeline of its own that takes reports, under a contract that releases so often."""
    path, contract = place.root / "pipelines.yaml", place.root / "contracts" / "shop.yaml"
    pipelines = yaml.safe_load(path.read_text())
    pipelines["pipelines"][name] = {
        "title": "Nightly",
        "methods": ["ldp_tabicl"],
        **CHANGES,
        "reports": "reports",
        **keys,
    }
    path.write_text(yaml.safe_dump(pipelines, sort_keys=False))
    contract.write_text(
        yaml.safe_dump(
            {**yaml.safe_load(contract.read_text()), "releases": {"every": every}}, sort_keys=False
        )
    )


def test_a_run_counts_reports_and_reads_no_row_and_charges_nobody_and_names_no_client(
    shop_place: Place, sent: dict[str, list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    planned(shop_place, baselines=True)
    with shop_place.entered(), caplog.at_level("DEBUG"):
        run = planned_run("r")
    assert not (shop_place.home / "ledger.db").exists(), (
        "where nothing is charged no ledger is made"
    )
    report = (run / "report.md").read_text()
    opening = report[: report.index("\n## ")]
    for phrase in (
        "300 reports: 300 counted",
        "8-LDP before they leave it",
        "Error bars of randomised response",
        "Nobody holds true rows here",
    ):
        assert phrase in opening
    assert "AUC" in opening and NOTHING_CHARGED in report
    measured = rows(run / "results.csv")
    assert {"icl", "lr"} <= {row["system"] for row in measured} and {
        row["auc"] for row in measured
    } - {""}, "public queries were asked"
    manifest = (run / "manifest.json").read_text()
    assert str(shop_place.root) not in manifest, "a path of this machine"
    assert "--reports" not in json.loads(manifest)["command"], "pipelines.yaml says it"
    stored = b"".join([*content(run).values(), caplog.text.encode()])
    names = [json.loads(line)["who"] for line in sent["once"]]
    assert names and not [
        who for who in names if who.encode() in stored or bytes.fromhex(who) in stored
    ]


def test_what_a_run_makes_of_reports_is_what_collect_makes_of_them(shop_place: Place) -> None:
    with shop_place.entered():
        run = run_here("r", "ldp-tabicl", **CHANGES, reports=str(shop_place.root / "reports"))
        collected = Session().collect("shop", shop_place.root / "reports", epsilon=float(EPSILON))
        (counted,) = counted_of(run, "shop")
        assert (counted.received, counted.collection) == (
            collected.received,
            collected.collection.name,
        )
        assert counted.statement == collected.statement


def test_the_same_reports_give_the_same_bytes_and_name_and_further_ones_another(
    shop_place: Place, sent: dict[str, list[str]]
) -> None:
    planned(shop_place)
    named = []
    with shop_place.entered():
        for number, lines in enumerate((sent["once"], sent["once"][::-1], sent["once"][1:])):
            deliver(shop_place, "once.jsonl", lines)
            run = received_run(f"r{number}")
            derive_stage("reconstruct")(str(run), UNIT.removeprefix("units/"))
            named.append(
                (counted_of(run, "shop")[0].release, content(run / UNIT)["released_rows.npz"])
            )
    assert named[0] == named[1] and named[0][0] != named[2][0] and named[0][1] != named[2][1]


def test_a_period_that_is_over_is_closed_and_later_runs_count_others_as_late(
    shop_place: Place, sent: dict[str, list[str]]
) -> None:
    planned(shop_place, every="day", reports={"at": "reports", "close": "closed"})
    deliver(shop_place, "first.jsonl", sent[FIRST][:200])
    counted = []
    with shop_place.entered():
        for number, period in enumerate((FIRST, FIRST, SECOND)):
            if number == 1:
                deliver(shop_place, "late.jsonl", sent[FIRST][200:])
                deliver(shop_place, "second.jsonl", sent[SECOND])
            counted += counted_of(received_run(f"r{number}", period), "shop")
    first, again, second = (one.received for one in counted)
    assert (first.counted, first.late, first.elsewhen) == (200, 0, 300)
    assert (again.counted, again.late, again.elsewhen, again.closed_with) == (200, 100, 600, 200)
    assert counted[0].release == counted[1].release != counted[2].release
    assert (
        second.counted == 300
        and f"period {SECOND}: 900 reports: 300 counted, 300 late"
        in " ".join(sentences_of(counted, with_answers=True))
    )
    whole = [list(sentences_of(counted[:2], with_answers=answers)) for answers in (True, False)]
    assert (
        whole[0][:-1] == whole[1]
        and "Intervals of accuracies" in whole[0][-1]
        and whole[1].count(counted[0].statement) == 1
    )
    (closed, _) = sorted((shop_place.root / "closed").iterdir())
    assert closed.name.startswith(f"{FIRST}-") and closed.stat().st_mode & 0o777 == 0o600
    assert (shop_place.root / "closed").stat().st_mode & 0o777 == 0o700


def received_run(run_id: str, period: str | None = None) -> Path:
    """A run that has counted, and done no more."""
    run = make_plan("nightly", {}, run_id, period=period)
    receive(str(run), "shop")
    return run


def planned_run(run_id: str, period: str | None = None, when: datetime | None = None) -> Path:
    run = make_plan("nightly", {}, run_id, period=period, when=when)
    run_units(run, InProcess(), report_steps(run))
    return run


def test_a_scheduled_night_counts_the_day_that_is_over(shop_place: Place) -> None:
    planned(
        shop_place,
        every="day",
        reports={"at": "reports", "close": "closed"},
        schedule={"cron": "0 2 * * *"},
    )
    with shop_place.entered():
        settings = Settings.current()
        night = datetime(2026, 12, 3, 2, tzinfo=UTC)
        assert plan_for("nightly", {}, settings, when=night).period_of("shop") == SECOND
        assert plan_for("nightly", {}, settings, period=FIRST).period_of("shop") == FIRST
        assert (
            forecast("nightly", load_pipelines(settings.pipelines).pipelines["nightly"], settings)
            == []
        )


def test_of_two_levels_a_report_states_one_sending_and_all_of_them(
    shop_place: Place, sent: dict[str, list[str]]
) -> None:
    planned(shop_place, reports={"at": "reports", "sending_epsilon": 4})
    deliver(shop_place, "noisy.jsonl", sent["two levels"])
    with shop_place.entered():
        run = planned_run("r", FIRST)
        (counted,) = counted_of(run, "shop")
        collected = Session().collect(
            "shop", shop_place.root / "reports", epsilon=8, sending_epsilon=4, period=FIRST
        )
        (tally,) = read_draws(open_unit(str(run), UNIT.removeprefix("units/"))).values()
    assert counted.received.counted == 300 and counted.received.foreign == 300
    assert (
        counted.errors == collected.collection.column_errors(300)
        and (tally.stored == collected.published.drawn.stored).all()
    )
    assert (
        "8-LDP before they leave it, however often they are sent, and 4-LDP in any one sending"
        in (run / "report.md").read_text()
    )


def test_a_night_of_reports_to_another_collection_is_counted_as_one_without_any(
    shop_place: Place, sent: dict[str, list[str]]
) -> None:
    planned(shop_place, reports={"at": "reports", "close": "closed"}, epsilons=[EPSILON, "3"])
    deliver(shop_place, "once.jsonl", sent[FIRST])
    with shop_place.entered():
        received_run("r", FIRST)
    assert (shop_place.root / "closed").exists()


def test_a_folder_that_cannot_be_written_is_a_mistake_of_the_pipeline(
    shop_place: Place, sent: dict[str, list[str]]
) -> None:
    planned(shop_place, reports={"at": "reports", "close": "/proc/self/closed"})
    deliver(shop_place, "once.jsonl", sent[FIRST])
    with (
        shop_place.entered(),
        pytest.raises(ParameterError, match="close=closed: expected a folder that can be written"),
    ):
        received_run("r", FIRST)


def test_a_killed_count_leaves_pseudonyms_where_the_run_deletes_private_files(
    shop_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(shop_place)
    sorted_in, add = list[Path](), Parted.add
    monkeypatch.setattr(
        Parted,
        "add",
        lambda parted, answers: (sorted_in.append(parted._folder), add(parted, answers)),
    )
    with shop_place.entered():
        received_run("r")
        (left,) = {*sorted_in}
        assert left.parent == Settings.current().private("shop", "r")
        left.mkdir()
        remove_private(shop_place.run("r"), Settings.current())
    assert not left.exists()


def test_every_design_of_clients_is_one_of_a_pipeline() -> None:
    assert get_args(Reports.model_fields["design"].annotation) == DESIGNS


@pytest.mark.quick("{'design': 'pairs', 'about': ['band']}")
@pytest.mark.parametrize(
    "words",
    [{"design": "pairs", "about": ["band"]}, {"design": "agreement"}, {"columns": 1}],
    ids=str,
)
def test_a_run_counts_what_clients_were_asked_in_other_words(
    shop_place: Place, tmp_path_factory: pytest.TempPathFactory, words: dict[str, Any]
) -> None:
    contract = tmp_path_factory.mktemp("words") / "shop.yaml"
    contract.write_text(yaml.safe_dump(shop(private=True), sort_keys=False))
    typed = [
        part
        for name, value in words.items()
        for part in (f"--{name}", *(value if isinstance(value, list) else [str(value)]))
    ]
    deliver(
        shop_place,
        "once.jsonl",
        reports(contract, holders(100), "--epsilon", EPSILON, "--cap", "100", *typed),
    )
    planned(
        shop_place,
        reports={"at": "reports", **words},
        options={"ldp_tabicl": {"variants": {"em": {"estimator": "em"}}}},
    )
    with shop_place.entered():
        run = planned_run("r")
        (counted,) = counted_of(run, "shop")
        collected = Session().collect(
            "shop", shop_place.root / "reports", epsilon=float(EPSILON), **words
        )
    assert counted.received.counted == 100 and counted.collection == collected.collection.name
    assert {"icl", "icl-em"} <= {row["system"] for row in rows(run / "results.csv")}
    assert collected.statement in (run / "report.md").read_text()


def test_a_contract_whose_rows_may_lack_values_is_counted(shop_place: Place) -> None:
    planned(shop_place)
    contract = shop_place.root / "contracts" / "shop.yaml"
    content = yaml.safe_load(contract.read_text())
    contract.write_text(
        yaml.safe_dump(
            {**content, "source": {**content["source"], "missing": "drop"}}, sort_keys=False
        )
    )
    deliver(
        shop_place,
        "once.jsonl",
        reports(contract, holders(20), "--epsilon", EPSILON, "--cap", "100"),
    )
    with shop_place.entered():
        assert counted_of(received_run("r"), "shop")[0].received.counted == 20


def test_a_place_is_the_same_for_every_process_and_the_command_names_no_folder(
    shop_place: Place,
) -> None:
    planned(shop_place, reports={"at": "reports", "close": "closed"})
    with shop_place.entered():
        settings = Settings.current()
        stated, typed = (
            plan_for("nightly", changes, settings, period="2025-01-01")
            for changes in ({}, {"reports": "s3://bucket/pre/reports"})
        )
        assert json.loads(json.dumps(stated.as_json()))["pipeline"]["reports"]["at"] == str(
            shop_place.root / "reports"
        )
        assert stated.pipeline.reports and stated.pipeline.reports.close == str(
            shop_place.root / "closed"
        )
        other = plan_for(
            "nightly",
            {"reports": str(shop_place.root / "once more")},
            settings,
            period="2025-01-01",
        )
        assert [typed_places(one, settings) for one in (stated, typed, other)] == [
            [],
            ["s3://bucket/pre/reports"],
            ["once more"],
        ]


@pytest.mark.exhaustive
def test_variants_that_differ_in_the_estimator_count_the_same_collection(shop_place: Place) -> None:
    planned(shop_place, options={"ldp_tabicl": {"variants": {"leaves": {"estimator": "tree"}}}})
    with shop_place.entered():
        run = planned_run("r")
        assert len(counted_of(run, "shop")) == 1
    assert {"icl", "icl-leaves"} <= {row["system"] for row in rows(run / "results.csv")}


def test_a_run_goes_on_with_what_it_has_counted_whatever_comes_or_goes(
    shop_place: Place, sent: dict[str, list[str]]
) -> None:
    """It was killed between the counts and what is said of them."""
    planned(shop_place)
    with shop_place.entered():
        run = received_run("r")
        first = content(run)
        shutil.rmtree(run / UNIT)
        deliver(shop_place, "once.jsonl", sent["once"][:100])
        receive(str(run), "shop")
        assert content(run) == first and counted_of(run, "shop")[0].received.counted == 300


@pytest.mark.exhaustive
@pytest.mark.parametrize("closes", [False, True])
def test_a_run_that_is_killed_goes_on_with_what_it_has_counted(
    shop_place: Place, sent: dict[str, list[str]], closes: bool
) -> None:
    """It dies at its first new files; reports come before it is resumed."""
    planned(
        shop_place,
        every="year",
        reports={"at": "reports", **({"close": "closed"} if closes else {})},
    )
    deliver(shop_place, "once.jsonl", sent[LAST_YEAR])
    counts = shop_place.run("r") / "reports" / "shop.npz"
    deaths = 0
    while (
        code := in_process(shop_place.environment, "nightly", {}, "r", "placed")
    ) and not counts.exists():
        assert code == -signal.SIGKILL
        deaths += 1
    before = counts.read_bytes()
    deliver(shop_place, "once.jsonl", sent[LAST_YEAR][:100])
    while in_process(shop_place.environment, "nightly", {}, "r", "placed"):
        deaths += 1
    with shop_place.entered():
        (counted,) = counted_of(shop_place.run("r"), "shop")
    assert counts.read_bytes() == before and counted.received.counted == 300 and deaths > 10


def test_of_two_commands_that_close_a_period_the_second_counts_what_the_first_closed(
    shop_place: Place, sent: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(shop_place, reports={"at": "reports", "close": "closed"})
    deliver(shop_place, "once.jsonl", sent[FIRST])
    write, lost = Closed.write, list[bool]()

    def beaten(closed: Closed, path: Path, checker: Any) -> bool:
        if not lost:  # another command closes the period between this one's count and its file
            lost.append(write(Closed(closed.tally, closed.who), path, checker))
        return write(closed, path, checker)

    monkeypatch.setattr(Closed, "write", beaten)
    with shop_place.entered():
        run = received_run("r", FIRST)
        assert counted_of(run, "shop")[0].received.closed_with == 300
    assert lost == [True]


@pytest.mark.quick(
    "typed18-keys18-reports with kind amplification, a table that reads neither rows nor reports; "
    "expected `kind: grid`",
    "typed1-keys1-reports with 2 data sets; expected one",
    "typed17-keys17-lies in the private files of DPICL_HOME",
    "typed3-keys3-nowhere: cannot be read",
    "typed9-keys9-pairs', 'subset' or 'agreement'",
)
@pytest.mark.parametrize(
    ("typed", "keys", "phrase"),
    [
        (
            ("--methods", "gdp_tabicl"),
            {},
            "reports with methods gdp_tabicl; expected ldp_tabicl alone",
        ),
        (("--datasets", "shop,blood"), {}, "reports with 2 data sets; expected one"),
        (("--datasets", "blood"), {}, "blood: is a public benchmark"),
        (("--reports", "nowhere"), {}, "nowhere: cannot be read"),
        (("--epsilons", "inf"), {}, "epsilon=inf"),
        (("--window", "3"), {}, "window=3"),
        (("--period", "soon"), {}, "period="),
        (
            (),
            {"options": {"ldp_tabicl": {"encoding": "one-hot"}}},
            (
                "options.ldp_tabicl.encoding=one-hot: expected no such option: how clients are "
                "asked "
                "stands beside the place"
            ),
        ),
        (
            (),
            {"options": {"ldp_tabicl": {"design": "pairs", "estimator": "em"}}},
            "options.ldp_tabicl.design=pairs: expected no such option",
        ),
        (
            (),
            {"reports": {"at": "reports", "design": "all-columns"}},
            "pairs', 'subset' or 'agreement'",
        ),
        (
            (),
            {"reports": {"at": "reports", "design": "pairs", "columns": 1}},
            "columns with design pairs; expected `design: subset`",
        ),
        ((), {"reports": {"at": "reports", "about": ["nobody"]}}, "nobody"),
        ((), {"reports": {"at": " "}}, "reports.at"),
        (("--reports", ""), {}, "reports='': expected a folder, a file or an address"),
        (("--reports", "data"), {}, "reports=data: is, holds or lies in DPICL_DATA"),
        (
            ("--reports", "data/shop_queries.csv"),
            {},
            "reports=shop_queries.csv: is, holds or lies in DPICL_DATA",
        ),
        (("--reports", "."), {}, "holds or lies in DPICL_DATA"),
        (("--reports", "home/private"), {}, "lies in the private files of DPICL_HOME"),
        (
            (),
            {"kind": "amplification"},
            (
                "reports with kind amplification, a table that reads neither rows nor reports; "
                "expected `kind: grid`"
            ),
        ),
        (
            (),
            {"schedule": {"cron": "0 2 * * *", "parameters": {"reports": None}}},
            "reports: is null, of a pipeline that counts",
        ),
        (
            ("--period", "2999-12-01"),
            {"reports": {"at": "reports", "close": "closed"}},
            "period=2999-12-01: expected one that is over",
        ),
        (
            ("--period", "2025-12-01"),
            {"reports": {"at": "reports", "close": "reports/once.jsonl/deep"}},
            "close=deep: expected a folder of",
        ),
        ((), {"options": {"ldp_tabicl": {"estimator": "clip"}}}, "expected log-linear, em or tree"),
        ((), {"reports": {"at": "reports", "sending_epsilon": 9}}, "below the permanent answer's"),
        (
            (),
            {"reports": {"at": "reports", "close": "s3://bucket/closed"}},
            "close=closed: expected a folder of this machine",
        ),
        (
            (),
            {"reports": {"at": "reports", "close": "closed"}},
            "close=closed: expected no such key where reports have no period",
        ),
        ((), {"reports": {"folder": "reports"}}, "reports.at"),
        (
            ("--epsilons", "3"),
            {},
            "no report counts: 300 reports: 0 counted, 300 of another collection",
        ),
    ],
)
def test_a_mistake_is_one_sentence(
    shop_place: Place, capsys: Capture, typed: tuple[str, ...], keys: dict[str, Any], phrase: str
) -> None:
    planned(shop_place, **keys)
    with shop_place.entered(), pytest.MonkeyPatch.context() as patch:
        patch.chdir(shop_place.root)
        code, err = call_main(
            ["run", "nightly", *typed, "--executor", "pool", "--workers", "1"], capsys
        )
    assert phrase in complaint((code, err))
    assert not (shop_place.home / "ledger.db").exists()


def test_a_dry_run_and_a_forecast_say_that_nothing_is_charged(
    shop_place: Place, capsys: Capture
) -> None:
    planned(shop_place, schedule={"cron": "0 2 * * *"})
    with shop_place.entered():
        assert NOTHING_CHARGED in said(capsys, "run", "nightly", "--dry-run")
        assert "nightly: no account is charged" in said(capsys, "forecast")
