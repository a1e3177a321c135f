"""A card and a Croissant file beside a release: other programs read them, with the types of
the columns, what was promised, and nothing of the rows.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlcroissant
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq
import pytest
import yaml
from huggingface_hub import DatasetCard

from dpicl.release.card import _size
from dpicl.release.certificate import Certificate
from dpicl.release.certificate_files import certificate_of
from tests.cli.conftest import Cli
from tests.harness import Place, charged, install, shop, shop_rows


@pytest.fixture
def table(place: Place) -> str:
    return install(place, shop(private=True))


def released(place: Place, cli: Cli, table: str, name: str) -> Path:
    """A file of a release, with its card."""
    folder = place.root / "published"
    folder.mkdir()
    out = folder / name
    command = "protect" if name.endswith("jsonl") else "synth"
    cli(f"{command} {table} --out {out} --epsilon 0.5 --card")
    return out


def place_columns(table: str) -> Any:
    """Columns of the contract of this name."""
    assert table == "shop"
    return shop()["columns"]


@pytest.mark.parametrize(
    ("rows", "size"), [(1, "n<1K"), (999, "n<1K"), (1000, "1K<n<10K"), (10**7, "n>10M")]
)
def test_sizes_are_named_as_the_hub_names_them(rows: int, size: str) -> None:
    assert _size(rows) == size


def croissant_of(out: Path) -> Any:
    return json.loads((out.parent / "croissant.json").read_text())


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv", "demos.jsonl"])
def test_croissant_is_valid_and_reads_the_rows(
    place: Place, cli: Cli, table: str, name: str
) -> None:
    out = released(place, cli, table, name)
    dataset = mlcroissant.Dataset(out.parent / "croissant.json")
    assert not dataset.metadata.ctx.issues.errors
    left = {one.split('"')[1].rpartition("/")[2] for one in dataset.metadata.ctx.issues.warnings}
    assert left == {"license", "version", "citeAs"}  # the publisher's
    first = next(iter(dataset.records("rows")))
    fields = {key.removeprefix("rows/") for key in first}
    read = {"jsonl": pa_json.read_json, "csv": pa_csv.read_csv, "parquet": pq.read_table}
    assert fields == set(read[name.partition(".")[2]](out).column_names)


def test_card_page_and_terminal_say_the_same_of_its_quality(
    place: Place, cli: Cli, table: str
) -> None:
    out, page = place.root / "rows.csv", place.root / "quality.html"
    line = f"synth {table} --out {out} --epsilon 0.5 --rows 300 --card --quality {page}"
    told = cli(line)
    card = (out.parent / "README.md").read_text().partition("## Quality")[2].partition("## ")[0]
    sentences = [line[2:-1] for line in card.splitlines() if line.startswith("- ")]
    assert len(sentences) > 2
    shown = page.read_text()
    for sentence in sentences:
        assert sentence[1:] in told
    assert str(round(float(told.partition("as exact as counting ")[2].split()[0]))) in shown


def test_all_say_how_many_rows_of_a_person_entered_and_not_how_many_were_left_out(
    place: Place, cli: Cli
) -> None:
    """The page, the card and what a release prints."""
    header, *lines = shop_rows(120).splitlines()
    who = (f"customer-{number % 40}" for number in range(120))
    rows = [f"who,{header}", *(f"{name},{row}" for name, row in zip(who, lines, strict=True)), ""]
    contract = shop(private=True)
    contract["privacy"] |= {"unit": "person", "person": {"id_column": "who", "max_rows": 2}}
    contract["privacy"]["neighbours"] = "add-or-remove-one"
    install(place, contract, "\n".join(rows))
    out, page = place.root / "rows.csv", place.root / "quality.html"
    line = f"synth shop --out {out} --epsilon 2 --anyway --rows 300 --card --quality {page}"
    code, told, _ = cli.whole(line)
    assert code == 0
    sentence = (
        "At most 2 rows of each person entered, drawn at random: who has more weighs less in the "
        "release than in the table."
    )
    texts = [told, page.read_text(), (out.parent / "README.md").read_text()]
    assert [text.count(sentence) for text in texts] == [1, 1, 1]
    assert ": adding or removing all rows of one person changes" in certificate_of(out).read_text()


def test_both_say_what_the_certificate_says(place: Place, cli: Cli, table: str) -> None:
    out = released(place, cli, table, "rows.parquet")
    certificate = Certificate.from_json(certificate_of(out).read_bytes())
    card = DatasetCard.load(out.parent / "README.md")
    stated = croissant_of(out)
    assert card.data.license is None and "license" not in stated
    assert certificate.certifies in card.text and certificate.certifies in stated["description"]
    assert card.data.configs == [{"config_name": "default", "data_files": out.name}]
    features = {one["name"]: one["dtype"] for one in card.data.dataset_info["features"]}
    assert set(features) == set(pq.read_schema(out).names) and features["age"] == "int64"
    assert "Source: t, whose licence is: l." in card.text
    rows = pq.read_metadata(out).num_rows
    assert card.data.size_categories == ["10K<n<100K" if rows >= 10_000 else "1K<n<10K"]
    assert card.data.dataset_info["splits"] == [{"name": "train", "num_examples": rows}]
    assert f"{rows:,} rows of " in card.text
    low, high = place_columns(table)["age"]["bounds"]
    assert f"| age | int64 | {low} to {high}" in card.text
    quality = card.text.partition("## Quality")[2].partition("## ")[0]
    assert "- Error of single columns: " in quality
    loss = certificate.privacy_loss
    assert stated["dpicl:epsilon"] == "0.5" and float(stated["dpicl:delta"]) == 0
    assert stated["dpicl:unit"] == loss.privacy_unit
    assert stated["dpicl:neighbours"] == loss.neighbours
    assert stated["dpicl:method"] == certificate.implementation.method
    for name in ("unit", "neighbours", "epsilon", "delta", "method"):
        assert f"| {name} | {stated[f'dpicl:{name}']} |" in card.text
    assert certificate.product.file is not None
    (file,) = stated["distribution"]
    assert (file["contentUrl"], file["sha256"]) == (out.name, certificate.product.file.sha256)


def test_a_card_of_private_records_says_so_and_all_that_is_not_covered(
    place: Place, cli: Cli
) -> None:
    """Of the method that is used where none is named, in words and not by another's name."""
    content = shop(private=True)
    unpublished = {
        name: value
        for name, value in content["source"].items()
        if name not in ("title", "licence", "citation")
    }
    text = released(place, cli, install(place, content | {"source": unpublished}), "rows.csv")
    card = (text.parent / "README.md").read_text()
    assert "Source: Private records, which are not published and have no public licence." in card
    assert "\nPrivate records.\n" not in card and "seed" not in card
    not_covered = card.partition("## Not covered")[2].partition("##")[0]
    assert "- Queries, which are sent as they are;" in not_covered and "`" not in not_covered


def test_what_stands_in_their_place_is_refused_before_a_charge(
    place: Place, cli: Cli, table: str
) -> None:
    (place.root / "README.md").write_text("mine")
    out = place.root / "rows.csv"
    assert "README.md: expected a new file" in cli.refused(f"synth {table} --out {out} --card")
    demos = place.root / "demos.txt"
    assert ".jsonl file of the same form" in cli.refused(
        f"protect {table} --out {demos} --as text --card"
    )
    with place.entered():
        assert not charged()
    assert not out.exists() and (place.root / "README.md").read_text() == "mine"


def test_a_card_is_of_a_file_of_its_release(place: Place, cli: Cli, table: str) -> None:
    import dpicl
    from dpicl.ground.errors import CertificateError, ParameterError

    out = released(place, cli, table, "rows.parquet")
    for name in ("README.md", "croissant.json"):
        (out.parent / name).unlink()
    with place.entered():
        session = dpicl.Session(place.home)
        other = session.protect(table, epsilon=0.25)
        with pytest.raises(ParameterError, match="a file that this release wrote"):
            other.card(out)
        same = session.protect(table, epsilon=0.5)
        same.card(out)
        same.card(out)  # the same again
        (out.parent / "README.md").write_text("mine")
        stands = (
            "^README.md: expected a new file; another one stands there: remove it, or write "
            "rows.parquet into another folder$"
        )
        with pytest.raises(ParameterError, match=stands):
            same.card(out)
        out.write_bytes(out.read_bytes() + b" ")
        with pytest.raises(CertificateError):
            same.card(out)


def test_columns_of_any_name_and_words_of_any_kind_stay_readable(place: Place, cli: Cli) -> None:
    contract = shop("odd", private=True)
    contract["description"] = "Customers: --- | of a shop #1."
    name = install(place, contract)
    out = released(place, cli, name, "rows.csv")
    card = DatasetCard.load(out.parent / "README.md")
    front = (out.parent / "README.md").read_text().split("---\n")[1]
    assert yaml.safe_load(front)["pretty_name"] == name == card.data.pretty_name
    assert mlcroissant.Dataset(out.parent / "croissant.json").metadata.name == name


def test_a_file_of_rows_on_a_condition_says_so_everywhere(
    place: Place, cli: Cli, table: str
) -> None:
    """In one form, however it was typed; a file without one says nothing of it."""
    whole = released(place, cli, table, "rows.csv")
    name, values = next(
        (name, column["categories"])
        for name, column in place_columns(table).items()
        if column["type"] == "category"
    )
    said = f"Only rows on a condition: {name} is {' or '.join(sorted(map(str, values[:2])))}."
    for folder, typed in (("one", values[:2]), ("two", values[1::-1])):
        out = place.root / folder / "part.csv"
        out.parent.mkdir()
        where = f"{name}={'|'.join(map(str, typed))}"
        cli(f"synth {table} --out {out} --epsilon 0.5 --rows 300 --card --where {where}")
        certificate = Certificate.from_json(certificate_of(out).read_bytes())
        assert certificate.product.file is not None
        assert certificate.product.file.only_rows == said
        assert said in certificate.to_page()
        assert said in croissant_of(out)["description"]
        card = (out.parent / "README.md").read_text()
        assert said in card and "Of all rows of the release" in card
        assert not mlcroissant.Dataset(out.parent / "croissant.json").metadata.ctx.issues.errors
    assert (place.root / "one/part.csv").read_bytes() == out.read_bytes()
    plain = (whole.parent / "README.md").read_text() + certificate_of(whole).read_text()
    assert "condition" not in plain.replace("unconditional", "")
