"""`dpicl reproduce`: each printed number has its place in a pipeline, and comes out with a verdict
that is true.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dpicl.contract.pipeline import CommonOptions
from dpicl.ground.errors import ParameterError
from dpicl.home.settings import Settings
from dpicl.release.pipelines import Pipeline, load_pipelines
from dpicl.runs.plan import plan_for
from dpicl.runs.run_folder import run_folder, write_plan
from lab.commands.reproduce import Campaign, _shorter
from lab.compare import side_of
from lab.published.cells import ALL_SETS, Paper, PrintedCell, PrintedTable, papers
from lab.reproduce import Made, judged
from tests.harness import (
    Place,
    call_main,
    complaint,
    install,
    new_place,
    run_here,
    said,
    shop,
    shop_rows,
    typed,
)
from tests.library.examples import ROOT

Capture = pytest.CaptureFixture[str]
PIPELINES = load_pipelines(ROOT / "pipelines.yaml").pipelines
TABLES = [(paper, table) for paper in papers().values() for table in paper.tables]
NO_GRID = ("zero-shot", "few-shot", "random-rows", "lr", "gnb", "lr-naive", "gnb-naive")
"""Systems that every run has, or that have no variant of their own."""


def _variants(pipeline: Pipeline, method: str) -> set[str]:
    options = getattr(pipeline.options, method)
    assert (
        isinstance(options, CommonOptions) or hasattr(options, "variants") or method == "gdp_tabicl"
    )
    return {"icl", *(f"icl-{name}" for name in getattr(options, "variants", {}))}


@pytest.mark.parametrize(
    "paper, table", TABLES, ids=[f"{paper.name}-{table.name}" for paper, table in TABLES]
)
def test_every_printed_number_has_a_place_in_its_pipeline(
    paper: Paper, table: PrintedTable
) -> None:
    assert table.cells and table.title
    if table.pipeline is None:
        return
    pipeline = PIPELINES[table.pipeline]
    for cell in table.cells:
        assert cell.method in pipeline.methods, cell
        assert cell.dataset in (*pipeline.datasets, "docvqa", ALL_SETS), cell
        assert cell.epsilon in (None, 0.0, *pipeline.epsilons), cell
        assert cell.shots in (None, *pipeline.shots), cell
        assert cell.system in NO_GRID or cell.system in _variants(pipeline, cell.method), cell
        assert cell.metric in ("queries", "seconds") or 0 <= cell.value <= 1, cell


def test_arithmetic_tables_come_out_as_printed(place: Place, capsys: Capture) -> None:
    told = said(capsys, "reproduce", "dp-tabicl", "V")
    assert "Of 40 printed numbers 38 are equal and 2 are misprinted." in told
    page = (place.root / "home" / "runs" / "dp-tabicl-V.md").read_text()
    assert "; computed, without a run or a model" in page and "answered by" not in page
    told = said(capsys, "reproduce", "dp-few-shot", "9")
    assert "Of 20 printed numbers 20 hold (their noise costs at most the printed ε)." in told


def test_pages_of_other_tables_lie_side_by_side(place: Place, capsys: Capture) -> None:
    """Each page of a name replaced the one before."""
    for paper, table in (("dp-tabicl", "V"), ("dp-few-shot", "9")):
        said(capsys, "reproduce", paper, table, "--name", "mine")
    runs = place.root / "home" / "runs"
    assert {path.name for path in runs.glob("*.html")} == {"mine-V.html", "mine-9.html"}
    assert "## Table V:" in (runs / "mine-V.md").read_text()


def test_a_page_of_the_same_tables_that_is_replaced_is_said(place: Place, capsys: Capture) -> None:
    page = place.root / "home" / "runs" / "dp-tabicl-V.md"
    said(capsys, "reproduce", "dp-tabicl", "V")
    assert "is replaced" not in said(capsys, "reproduce", "dp-tabicl", "V"), "the same bytes"
    page.write_text("of another command")
    code, out, err = typed(capsys, "reproduce", "dp-tabicl", "V")
    assert not code and (
        "dp-tabicl-V.md of an earlier command is replaced; another --name keeps both" in out + err
    )
    assert "## Table V:" in page.read_text()


def test_all_tables_in_any_order_are_the_whole_paper_s_page(place: Place) -> None:
    for paper in papers().values():
        every = [table.name for table in paper.tables]
        for tables, name in (
            (every, "mine.md"),
            ([*reversed(every)], "mine.md"),
            ([every[2], every[1]], f"mine-{every[1]}-{every[2]}.md"),
        ):
            with Settings.from_environment().entered():
                assert Campaign(paper, tables, "mine", ["tiny"], {})._page("md").name == name


def test_what_is_not_here_is_said_beside_each_number(
    place: Place, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPICL_DATA", str(place.root / "nowhere"))
    told = said(capsys, "reproduce", "dp-icl", "samsum,docvqa")
    assert "samsum: not run, because" in told
    assert "docvqa: not run, because docvqa: no texts at hand" in told
    page = next((place.root / "home" / "runs").glob("dp-icl-docvqa-samsum.md")).read_text()
    assert "not run because" in page and "within noise |" not in page.partition("## ")[2]


@pytest.mark.parametrize(
    "arguments, phrase",
    [
        (("dp-tab",), "paper=dp-tab: expected one of dp-tabicl, dp-few-shot, dp-icl"),
        (("dp-icl", "7"), "tables=7: expected tables of dp-icl"),
        (("dp-icl", ""), "tables=: expected tables of dp-icl"),
        (
            ("dp-tabicl", "III", "--datasets", "bloood"),
            "datasets=bloood: expected data sets of dp-tabicl: adult",
        ),
        (("dp-tabicl", "III", "--model", ""), "model=: expected the name of a model"),
    ],
)
def test_a_mistake_is_one_sentence(
    place: Place, capsys: Capture, arguments: tuple[str, ...], phrase: str
) -> None:
    assert phrase in complaint(call_main(["reproduce", *arguments], capsys))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with Place.entered(new_place(tmp_path_factory.mktemp("verdicts"))):
        yield run_here(
            "judged",
            "gdp-tabicl",
            epsilons=[1, 10],
            shots=[2],
            seeds=[0, 1],
            queries=10,
            model="fake",
            baselines=False,
        )


def _verdict(folder: Path, *, value: float | None = None, **changes: object) -> tuple[str, str]:
    """Of one cell of the run, which prints what came out here, or `value`."""
    side = side_of(folder)
    results = side.run.results
    own = results[(results["system"] == "icl") & (results["epsilon"] == 10)]["accuracy"].mean()
    cell = PrintedCell(
        "Llama-2 13B",
        "gdp_tabicl",
        "breast_cancer",
        "icl",
        2.0,
        10.0,
        "accuracy",
        own if value is None else value,
        0.01,
        changed="noise is ours",
    )
    made = Made({("gdp-tabicl", "fake"): side}, ("fake",))
    (found,) = judged(PrintedTable("0", "made up", (replace(cell, **changes),), "gdp-tabicl"), made)  # type: ignore[arg-type]
    return found.kind, found.text


def test_another_number_differs_and_says_what_is_known(demo: Path) -> None:
    kind, why = _verdict(demo, value=2.0)
    assert kind == "differs" and why == (
        "differs; known to differ: fake, whose weights are random, answered in place of Llama-2 "
        "13B; 10 queries were asked; noise is ours"
    )


def test_what_was_left_out_is_named(demo: Path) -> None:
    assert _verdict(demo, epsilon=50.0) == ("not run", "not run because epsilon 50 was not chosen")
    assert _verdict(demo, shots=8.0) == ("not run", "not run because shots 8 was not chosen")
    assert _verdict(demo, dataset="blood") == (
        "not run",
        "not run because data set blood was not chosen",
    )


def test_shorter_texts_are_those_of_every_variant_and_no_longer_than_the_paper_s(
    place: Place,
) -> None:
    with place.entered(), Settings.from_environment().entered():
        usual = PIPELINES["few-shot-table-4"]
        options = Pipeline.model_validate(
            {**usual.model_dump(), "options": _shorter(usual, ["dbpedia"], 10)}
        ).options
        chosen = getattr(options, "few_shot_generation")  # noqa: B009 - a field that methods make
        assert chosen.max_tokens == 10 and {one.max_tokens for one in chosen.variants.values()} == {
            10
        }
        assert chosen.variants["exponential"].mechanism == "exponential"
        with pytest.raises(ParameterError, match="tokens=16: expected at most 15"):
            _shorter(PIPELINES["few-shot-table-1"], ["dbpedia", "trec"], 16)
        with pytest.raises(ParameterError, match="a model writes no texts"):
            _shorter(PIPELINES["table-3"], ["adult"], 10)


def test_a_contract_with_a_budget_is_never_charged(place: Place, capsys: Capture) -> None:
    contract = shop("blood")
    contract["privacy"] = {**contract["privacy"], "budget": {"epsilon": 5}}
    del contract["split"]
    install(place, contract, shop_rows(40))
    told = said(capsys, "reproduce", "dp-tabicl", "III", "--datasets", "blood")
    assert "blood: not run, because its contract here is your own, with a budget" in told
    assert not (place.root / "home" / "ledger.db").exists()


def test_a_run_that_has_begun_stays_as_it_was_planned(place: Place, capsys: Capture) -> None:
    command = ("reproduce", "dp-tabicl", "XIII", "--dry-run")
    settings = Settings.from_environment()
    name = "dp-tabicl-table-3-as-printed-tiny"
    plan = plan_for("table-3-as-printed", {"datasets": ["blood"], "model": "tiny"}, settings, name)
    write_plan(run_folder(settings, name), plan)
    told = said(capsys, *command)
    assert (
        f"car: not run, because run {name} began without it; choose another --name to run it"
        in told
    )
