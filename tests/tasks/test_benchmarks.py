"""`benchmark: true` holds for content that is published, and for nothing that only says so:
whatever reads it, and however it was changed.
"""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from dpicl.contract import Contract, TextContract, load_contract
from dpicl.contract.load import edition
from dpicl.data.reading.batches import Facts, prepare
from dpicl.ground.cache import row_digests
from dpicl.ground.errors import DpiclError, PrivacyError
from dpicl.home.benchmarks import (
    REGISTRY,
    _comes_with_a_package,
    check_published,
    check_unlisted,
    content_digest,
    known_when_read,
    published_digests,
    read_content,
)
from dpicl.home.settings import Settings
from dpicl.runs.plan import make_plan
from tasks.stages import ingest, split
from tests.cli.conftest import Cli
from tests.harness import (
    Place,
    charged,
    complaint,
    grid_of,
    install,
    install_texts,
    letters,
    publish,
    shop,
)
from tests.library.examples import private_contract, random_table, small_contract

ROOT = Path(__file__).resolve().parents[2]
CONTRACT = small_contract()
REFUSED = (
    "says `benchmark: true` of rows that are not published; expected `budget: {epsilon: CAP}`, "
    "or, if anyone may learn them, `dpicl data publish"
)


@pytest.fixture
def place(place: Place) -> Place:
    """A table and a set of texts that say they are benchmarks, which nobody has published."""
    install(place, shop())
    install_texts(place, letters())
    (place.home / REGISTRY).unlink()
    return place


def _protect(place: Place, cli: Cli) -> tuple[int, str]:
    for path in place.root.glob("demos.jsonl*"):  # and its certificate
        path.unlink()
    return cli.ended(f"protect shop --shots 2 --out {place.root / 'demos.jsonl'}")


def test_a_table_is_protected_as_a_benchmark_only_while_it_is_the_published_one(
    place: Place, cli: Cli
) -> None:
    assert complaint(_protect(place, cli)) == f"shop: {REFUSED} shop`"
    assert not charged()
    assert not list((place.home / "released").glob("*/*"))
    assert not (place.root / "demos.jsonl").exists()
    assert "60 rows" in cli("data publish shop --yes")
    assert _protect(place, cli)[0] == 0
    before = charged()
    rows = place.root / "data" / "shop.csv"
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:-1]))
    assert REFUSED in complaint(_protect(place, cli))
    assert charged() == before


def test_texts_that_are_not_published_answer_nothing(place: Place, cli: Cli) -> None:
    asking = "ask 'a query' --contract letters --model fake --count 4"
    assert cli.refused(asking) == f"letters: {REFUSED} letters`"
    assert not charged()
    publish(place, "letters")
    assert cli.ended(asking)[0] == 0


def test_the_command_refuses_before_workers_start_and_a_folder_is_made(
    place: Place, cli: Cli
) -> None:
    """It began a run, which failed half a minute later, and left its folder."""
    told = cli.refused("run demo --datasets shop --model fake --executor pool --run-id r")
    assert told == f"shop: {REFUSED} shop`" and not (place.home / "runs" / "r").exists()
    settings = Settings.from_environment()
    with pytest.raises(PrivacyError, match="letters: says `benchmark: true` of rows that are not"):
        check_unlisted([settings.declared("letters")], settings)


def test_public_rows_under_another_name_are_not_refused(place: Place) -> None:
    install(place, shop("stall"))
    (place.home / REGISTRY).unlink()
    publish(place, "shop")
    settings = Settings.from_environment()
    check_unlisted([settings.declared("stall")], settings)
    rows = place.root / "data" / "stall.csv"
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(PrivacyError, match="stall: says `benchmark: true` of rows that are not"):
        check_unlisted([settings.declared("stall")], settings)


def test_publishing_names_no_title_that_nobody_wrote(place: Place, cli: Cli) -> None:
    """`60 rows of Private records … become public`."""
    assert cli("data publish shop --yes").startswith("shop: 60 rows of t\n")
    install(place, shop("stall") | {"source": {"file": "stall.csv"}})
    assert cli("data publish stall --yes").startswith("stall: 60 rows\n")


@pytest.mark.parametrize(
    ("dataset", "pipeline"), [("shop", "demo"), ("letters", "few-shot-generation")]
)
def test_a_run_stops_before_its_split_is_written(place: Place, dataset: str, pipeline: str) -> None:
    changes = grid_of(dataset)
    run = str(make_plan(pipeline, changes, "r"))
    ingest.fn(run, dataset)
    with pytest.raises(PrivacyError, match="not published"):
        split.fn(run, dataset)
    assert [path.name for path in (place.home / "private" / dataset / "r").iterdir()] == [
        "private_table.arrow"
    ]
    publish(place, dataset)
    split.fn(run, dataset)


def test_the_command_asks_and_changes_nothing_without_an_answer(place: Place, cli: Cli) -> None:
    sentence = cli.refused("data publish shop")
    assert (
        sentence == "shop: nothing was published; without a terminal to confirm on, expected --yes"
    )
    assert not (place.home / REGISTRY).exists()
    for name in ("shop", "letters"):
        cli(f"data publish {name} --yes")
    assert stat.S_IMODE((place.home / REGISTRY).stat().st_mode) == 0o600
    assert set(json.loads((place.home / REGISTRY).read_text())) == {"shop", "letters"}


def test_a_table_with_a_budget_is_not_published(place: Place, cli: Cli) -> None:
    install(place, shop("till", private=True), "this is no table: whoever reads it fails")
    sentence = cli.refused("data publish till --yes")
    assert sentence.startswith(
        "till.yaml: privacy.budget: is of rows with something at stake; expected `benchmark: true`"
    )


def test_a_dry_run_says_that_it_cannot_know(place: Place, cli: Cli) -> None:
    asked = "run demo --model fake --dry-run --datasets"
    assert "shop: whether the rows are published is checked when they are read" in cli(
        f"{asked} shop"
    )
    assert "published" not in cli(f"{asked} breast_cancer")


def test_a_table_with_a_budget_is_not_even_digested(place: Place) -> None:
    def digest() -> str:
        raise AssertionError("digested")

    check_published(private_contract(), digest, Settings.from_environment())


DAMAGES: dict[str, str] = {
    "cut": '{"shop": ',
    "a list": "[]",
    "no digest": '{"shop": {}}',
    "text": '{"shop": "all"}',
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_registry_publishes_nothing(place: Place, damage: str) -> None:
    (place.home / REGISTRY).write_text(DAMAGES[damage])
    with pytest.raises(DpiclError, match=r"benchmarks\.json: is damaged"):
        check_published(CONTRACT, lambda: "all", Settings.from_environment())


def test_batches_have_the_digest_of_the_whole_table_however_they_are_cut() -> None:
    table = random_table(CONTRACT, 40, 0)
    for size in (1, 7, 40):
        facts = Facts.added(
            prepare(table.slice(start, size), CONTRACT).facts for start in range(0, 40, size)
        )
        assert facts.rows == 40 and facts.train_rows < 40
        assert facts.whole_digest(CONTRACT) == content_digest(CONTRACT, table)


@pytest.mark.quick("heart", "trec", "docstrings", "docvqa")
@pytest.mark.parametrize(
    "path", sorted((ROOT / "data_contracts").rglob("*.yaml")), ids=lambda path: str(path.stem)
)
def test_what_is_shipped_is_what_is_published(
    path: Path, data_folder: Path, tmp_path: Path
) -> None:
    contract, known = load_contract(path), row_digests()
    named = {contract.name: contract}
    if isinstance(contract, TextContract) and contract.source.published:
        named = {
            f"{contract.name}:{name}": edition(contract, name) for name in contract.source.slices
        }
    settings = Settings(tmp_path, data_folder, ROOT / "data_contracts", tmp_path, tmp_path)
    for name, one in named.items():
        # whose rows nobody may hand on
        without = one.source.bundled is not None or name == "docvqa"
        assert one.privacy.budget.benchmark and (name in known) != without
        if name in known:
            assert read_content(one, settings).digest == known[name]


def test_the_file_of_digests_is_what_the_module_writes(place: Place) -> None:
    settings = Settings.from_environment()
    for path in [*settings.contracts.glob("*.yaml"), *settings.contracts.glob("texts/*.yaml")]:
        if path.stem not in ("shop", "letters", "breast_cancer", "docstrings", "docvqa"):
            path.unlink()
    assert set(published_digests(settings)) == {"shop", "letters"}


def test_rows_come_with_a_package_only_where_nothing_else_is_read() -> None:
    bundled = load_contract(ROOT / "data_contracts" / "breast_cancer.yaml")
    assert isinstance(bundled, Contract)
    assert _comes_with_a_package(bundled)
    assert known_when_read([bundled]) == []
    for file in ("own.csv", "own.parquet", "s3://bucket/own.parquet"):
        mixed = bundled.model_copy(
            update={"source": bundled.source.model_copy(update={"file": file})}
        )
        # its rows may be those of the file
        assert not _comes_with_a_package(mixed)
        assert known_when_read([mixed]) == ["breast_cancer"]
