"""`dpicl protect`: demonstrations in a file without any model, charged once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from dpicl.ground.files import locked
from tests.cli.conftest import Cli
from tests.harness import (
    Place,
    edited,
    install,
    install_texts,
    letters,
    shop,
    shop_rows,
    until,
    well,
)


@pytest.fixture
def table(place: Place) -> str:
    """Sixty customers of whom a release may cost something."""
    return install(place, shop(private=True))


def private_files(place: Place) -> list[Path]:
    """Whatever is left of private rows; keyed names of their states are none."""
    return [
        path
        for path in (place.home / "private").rglob("*")
        if path.is_file() and path.parent.name != "drawn-from"
    ]


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        (
            "--method dp_icl",
            (
                "method=dp_icl: expected one of ldp_tabicl, gdp_tabicl, mst_tabicl, aim_tabicl, "
                "tab_pate, tab_pe on a table"
            ),
        ),
        ("--as xml", "as=xml: expected one of jsonl, text, chat, alpaca, sharegpt, parquet, csv"),
        ("--option design=[", "option design: line 1: did not find expected node content"),
        ("--trust local --option design=all", "options of the release: options.ldp_tabicl.design"),
        ("--epsilon inf", "epsilon=inf releases rows without noise"),
        ("--method gdp_tabicl --shots 3", "shots=3"),
        ("--option design", "option=design: expected NAME=VALUE"),
        ("--option colour=red", "option=colour: expected one of shot_selection"),
        ("--trust nobody", "trust=nobody: expected central or local"),
        ("--out no/such/folder/x", "can be written (no/such/folder: No such file or directory)"),
    ],
)
def test_what_is_refused_spends_nothing_and_leaves_no_file(
    place: Place, cli: Cli, table: str, options: str, phrase: str
) -> None:
    out = place.root / "demos.jsonl"
    assert phrase in cli.refused(f"protect {table} --out {out} {options}")
    assert not out.exists()
    assert not list(
        (place.home / "released").rglob("*.json") if (place.home / "released").exists() else []
    )


def test_options_of_the_pipelines_do_not_make_it_dearer(place: Place, cli: Cli, table: str) -> None:
    file = place.root / "pipelines.yaml"
    with edited(file) as pipelines:
        pipelines["pipelines"] = {
            "ldp-tabicl": {
                **pipelines["pipelines"]["ldp-tabicl"],
                "options": {"ldp_tabicl": {"variants": {"more": {"design": "pairs"}}}},
            }
        }
    told = cli(f"protect {table} --method ldp_tabicl --shots 2 --out {place.root / 'demos.jsonl'}")
    assert "1 release, charged now" in told


def test_rows_do_not_outlive_a_failed_or_killed_release(place: Place, cli: Cli, table: str) -> None:
    out = place.root / "demos.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpicl.release.one_release.spending_sentence", lambda *_: 1 / 0)
        code, told = cli.ended(f"protect {table} --shots 2 --out {out}")
    assert code == 1 and "not charged again" in told, told
    assert not private_files(place) and not out.exists()
    killed = place.home / "private" / table / "protect-killed" / "private_train.parquet"
    killed.parent.mkdir(parents=True)
    killed.write_bytes(b"rows")
    (killed.parent / "lock").touch()
    # a run may be called so, and has no lock there
    of_a_run = place.home / "private" / table / "protect-every-night" / "private_train.parquet"
    of_a_run.parent.mkdir()
    of_a_run.write_bytes(b"rows")
    living = place.home / "private" / table / "protect-living" / "private_train.parquet"
    living.parent.mkdir(parents=True)
    living.write_bytes(b"rows")
    with locked(living.parent / "lock"):
        cli(f"protect {table} --shots 2 --out {out}")
    assert {path for path in private_files(place) if path.name != "lock"} == {of_a_run, living}


def test_no_copy_of_the_rows_is_written_for_one_release(place: Place) -> None:
    """A file of all rows would break the limit, as one of everything else does not."""
    large = install(place, shop(private=True), shop_rows(60_000))
    out = place.root / "demos.jsonl"
    well(
        place.dpicl(
            f"protect {large} --method gdp_tabicl --epsilon 1 --shots 2 --out {out}",
            file_limit=400_000,
        )
    )
    assert len(out.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    "seconds",
    [0.0, *(pytest.param(seconds, marks=pytest.mark.exhaustive) for seconds in (0.02, 0.05, 0.2))],
)
def test_a_killed_command_leaves_nothing_where_its_file_shall_be_and_can_be_typed_again(
    place: Place, cli: Cli, table: str, seconds: float
) -> None:
    folder = place.root / "mine"
    folder.mkdir()
    options = (
        f"protect {table} --method ldp_tabicl --epsilon 1 --shots 2 --out {folder / 'demos.jsonl'}"
    )
    process = place.start(options)
    until(
        lambda: process.poll() is not None or any((place.home / "private" / table).glob("*/*")),
        60,
        "a release",
        every=0.001,
    )
    time.sleep(seconds)
    process.kill()
    process.communicate()
    if not (folder / "demos.jsonl").exists():
        assert not list(folder.iterdir())
        assert "1 release, charged" in cli(options)
    assert len((folder / "demos.jsonl").read_text().splitlines()) == 2
    assert len(list(folder.iterdir())) == 2


def test_an_existing_file_and_texts_without_a_model_are_refused(
    place: Place, cli: Cli, table: str
) -> None:
    out = place.root / "mine.jsonl"
    out.write_text("mine")
    assert "out=mine.jsonl: expected a new file" in cli.refused(f"protect {table} --out {out}")
    assert out.read_text() == "mine"
    install_texts(place, letters())
    refused = cli.refused(f"protect letters --out {Path(place.root / 'x.jsonl')}")
    assert refused.startswith(
        "letters: no such texts were released; expected --generator MODEL, with which this "
        "command makes them; `dpicl run "
    )


def test_a_cap_that_is_raised_on_purpose_keeps_what_was_bought(
    place: Place, cli: Cli, table: str
) -> None:
    """Another number in the contract would be another contract, and every release a new one."""
    contract = place.root / "contracts" / f"{table}.yaml"
    contract.write_text(
        contract.read_text()
        .replace("epsilon: 1000", "epsilon: 1")
        .replace("replace-one", "add-or-remove-one")
    )
    release = f"protect {table} --method mst_tabicl --shots 2 --epsilon"
    cli(f"{release} 1 --out {place.root / 'first.jsonl'}")
    more = f"{release} 2 --out {place.root / 'more.jsonl'}"
    assert "spent 1 of cap 1" in cli.refused(more)
    assert cli(f"budget {table} --cap 3") == f"{table}: cap 3 (was 1), spent 1, left 2\n"
    assert "epsilon 3 of 3 is spent" in cli(more)
    assert "charged before and free now" in cli(f"{release} 1 --out {place.root / 'again.jsonl'}")
    assert (place.root / "first.jsonl").read_bytes() == (place.root / "again.jsonl").read_bytes()
    assert f"{table}: cap 2 (was 3), spent 3, nothing left to spend" in cli(
        f"budget {table} --cap 2"
    )
    for wrong in ("--cap 1", "nobody --cap 1", f"{table} --cap -1"):
        cli.refused(f"budget {wrong}")


def test_a_contract_lowers_a_cap_and_never_raises_one(place: Place, cli: Cli, table: str) -> None:
    """By what is charged, and by no call that is refused, until a command sets it; one that says
    something else then is told that it does not count, by `dpicl budget` too.
    """
    contract = place.root / "contracts" / f"{table}.yaml"
    contract.write_text(contract.read_text().replace("replace-one", "add-or-remove-one"))
    release = f"protect {table} --method mst_tabicl --shots 2 --epsilon"
    dry = f"run private --datasets {table} --methods mst_tabicl --epsilons 0.4 --seeds 0 --dry-run"
    cli(f"{release} 1 --out {place.root / 'first.jsonl'}")
    stated = contract.read_text()
    contract.write_text(stated.replace("epsilon: 1000", "epsilon: 1.5"))
    assert "spent 1 of cap 1.5" in cli.refused(f"{release} 0.9 --out {place.root / 'second.jsonl'}")
    contract.write_text(stated)
    cli(f"budget {table} --cap 3")
    asking = "budget", f"budget {table}", dry
    # the contract says what it said at the decision
    assert not any("warning" in cli(command) for command in asking)
    contract.write_text(stated.replace("epsilon: 1000", "epsilon: 1.5"))
    assert "spent 1 of cap 3" in cli.refused(f"{release} 2.5 --out {place.root / 'second.jsonl'}")
    contract.write_text(stated.replace("epsilon: 1000", "epsilon: 7"))
    told = (
        f"warning: account '{table}': the cap in the contract, epsilon 7, differs from the "
        f"ledger's, 3, which holds; `dpicl budget {table} --cap 7` changes it\n"
    )
    for command in (*asking, f"{release} 0.4 --out {place.root / 'third.jsonl'}"):
        assert told in cli(command)
    cli(f"budget {table} --cap 7")
    assert not any("warning" in cli(command) for command in asking)


@pytest.mark.quick("rows.csv-read_csv")
@pytest.mark.parametrize(
    ("name", "read"), [("rows.parquet", pq.read_table), ("rows.csv", pa_csv.read_csv)]
)
def test_a_table_is_released_with_its_certificate_and_again_for_nothing(
    place: Place, cli: Cli, table: str, name: str, read: Callable[[Path], pa.Table]
) -> None:
    outs = [place.root / folder / name for folder in ("first", "second")]
    for number, out in enumerate(outs):
        out.parent.mkdir()
        told = cli(f"synth {table} --epsilon 1 --rows 250 --out {out}")
        assert f"{name}: 250 rows of 5 columns" in told
        assert ("charged before and free now" if number else "charged now") in told
        assert f"{name}: " in cli(f"verify {out}")
    assert outs[0].read_bytes() == outs[1].read_bytes() and read(outs[0]).shape == (250, 5)
    demos = place.root / "demos.jsonl"
    told = cli(f"protect {table} --epsilon 1 --shots 7 --out {demos}")
    assert "charged before and free now" in told, "the same release demonstrates"
    demonstrations = [json.loads(line) for line in demos.read_text().splitlines()]
    assert len(demonstrations) == 7 and {one["contract"] for one in demonstrations} == {table}
    assert all(one["text"].endswith("Answer:") for one in demonstrations)
    assert {one["answer"] for one in demonstrations} <= {"Yes", "No"}
    assert not private_files(place) and not (place.home / "models").exists()
    form = outs[0].suffix.removeprefix(".")
    cli(f"protect {table} --epsilon 1 --as {form} --out {place.root / name}")
    assert len(read(place.root / name)) == 10_000
    outs[0].write_bytes(outs[0].read_bytes() + b" ")
    code, told = cli.ended(f"verify {outs[0]}")
    assert code == 1 and "it was changed, or is another one" in told


def test_groups_are_no_table_and_a_name_says_the_form(place: Place, cli: Cli, table: str) -> None:
    out = place.root / "rows.parquet"
    refused = cli.refused(f"synth {table} --method gdp_tabicl --out {out}")
    assert "expected one that releases a model of rows: ldp_tabicl, mst_tabicl" in refused
    assert not out.exists()
    assert "expected a name that ends in .parquet or .csv" in cli.refused(
        f"synth {table} --out rows.xlsx"
    )
    # what cannot be made of a release is refused before it is charged
    assert table not in cli("budget")


def test_options_are_written_as_in_a_pipeline(place: Place, cli: Cli, table: str) -> None:
    release = (
        f"protect {table} --trust local --epsilon 20 --shots 8 --option columns=2 "
        "--option estimator=tree"
    )
    cli(f"{release} --option 'shot_selection=[diverse, near]' --out {place.root / 'diverse.jsonl'}")
    again = cli(f"{release} --out {place.root / 'prototypes.jsonl'}")
    # which rows are shown costs nothing
    assert "charged before and free now" in again
    texts = [(place.root / f"{name}.jsonl").read_text() for name in ("diverse", "prototypes")]
    assert texts[0] != texts[1] and all(len(set(text.splitlines())) == 8 for text in texts)


def test_what_would_be_noise_at_the_stated_number_of_rows_is_refused_before_it_is_charged(
    place: Place, cli: Cli
) -> None:
    noisy, out = (
        install(place, shop("noisy", private=True, population=60)),
        place.root / "noisy.jsonl",
    )
    release = f"protect {noisy} --method gdp_tabicl --epsilon 0.2 --shots 2 --out {out}"
    run = (
        f"run private --datasets {noisy} --methods gdp_tabicl --epsilons 0.2 --shots 2 --model tiny"
    )
    for line in (release, run, f"{run} --dry-run"):
        sentence = cli.refused(line)
        assert "noisy: at 60 rows and epsilon 0.2" in sentence and "--anyway" in sentence
    assert not out.exists() and "noisy" not in cli("budget")
    assert "charged now" in cli(f"{release} --anyway")
    assert "charged" in cli(f"{run} --dry-run --anyway")


@pytest.mark.parametrize(
    ("command", "name", "other"),
    [
        ("protect {} --method gdp_tabicl --epsilon 1 --shots 2", "demos.jsonl", "--shots 4"),
        (
            "synth {0} --method mst_tabicl --epsilon 1 --rows 50 --card --plot {1}/p.svg",
            "rows.csv",
            "--rows 60",
        ),
    ],
)
def test_a_command_that_is_repeated_after_it_ended_ends_well_and_changes_nothing(
    place: Place, cli: Cli, table: str, command: str, name: str, other: str
) -> None:
    """As a scheduler repeats it."""
    folder = place.root / "out"
    folder.mkdir()
    out = folder / name
    line = f"{command.format(table, folder)} --out {out}"
    assert f"{name}: unchanged" not in cli(line)
    if (card := folder / "README.md").exists():  # licence and publisher are filled in
        card.write_text("license: cc0-1.0\n")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
    spent = cli(f"budget {table} --json")
    assert f"{name}: unchanged: " in cli(line)
    assert "\n" in cli(f"{line} --dry-run")
    assert spent == cli(f"budget {table} --json")
    for another in (f"{line} {other}", f"{line} --epsilon 1.5"):  # other bytes, or another release
        assert "expected a new file" in cli.refused(another)
    assert spent == cli(f"budget {table} --json")
    after = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
    assert after == before
    out.write_bytes(out.read_bytes() + b"\n")
    assert f"out={name}: expected a new file" in cli.refused(line)
