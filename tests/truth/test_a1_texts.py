"""A1: texts are released however few there are, and an ensemble answers; reports are counted where
there are none.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpicl.data import text_files
from dpicl.data import text_files as checks
from dpicl.ground.errors import DataError
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.methods.collection import Collection
from dpicl.methods.options import EnsembleOptions
from dpicl.models.spec import ModelSpec
from dpicl.release.collected import collect, count_collection
from dpicl.release.query_session import EnsembleRequest, QuerySession
from tests.harness import Place, install, install_texts, letters, run_here, shop, shop_rows
from tests.library.text_contracts import as_extraction, as_free_text, lines, records

MANY = records(40)
TEXTS = {
    "no text": [],
    "one text": MANY[:1],
    "two texts": MANY[:2],
    "one label": MANY[::2],
    "one label and a text": [*MANY[::2], MANY[1]],
    "fewer than subsets": MANY[:3],
    "equal texts": MANY[:1] * 9,
}


def charges(account: str) -> list[float]:
    with open_ledger(Settings.from_environment()) as ledger:
        ledger.verify()
        return [entry.release.guarantee.epsilon for entry in ledger.entries(account)]


def generated(
    place: Place,
    texts: list[dict[str, Any]],
    name: str,
    change: Any = lambda content: None,
    **options: Any,
) -> dict[str, Any]:
    content = letters(name, private=True)
    change(content)
    install_texts(place, content, lines(texts), lines(records(4)))
    run = run_here(
        f"run-{name}",
        "few-shot-generation",
        datasets=[name],
        epsilons=[4],
        shots=[2],
        seeds=[0],
        model="fake",
        options={"few_shot_generation": options},
    )
    (path,) = run.glob("units/*/released_texts.json")
    (written,) = json.loads(path.read_text()).values()
    return {
        "labels": sorted(one["label"] for one in written),
        "charged": charges(name),
        "report": (run / "report.md").exists(),
    }


@pytest.mark.exhaustive
def test_demonstrations_are_written_from_any_number_of_texts(place: Place) -> None:
    usual = generated(place, MANY, "usual")
    for number, (name, texts) in enumerate(TEXTS.items()):
        assert generated(place, texts, f"few{number}") == usual, name


@pytest.mark.quick("options3")
@pytest.mark.parametrize(
    "options",
    [
        {"mechanism": "exponential"},
        {"mechanism": "exponential", "batches": "fixed", "private_tokens": 2},
        {"mechanism": "clipped-logits", "batches": "fixed"},
        {"mechanism": "invisible-ink", "batches": "fixed", "voters": 2},
    ],
)
def test_by_every_mechanism(place: Place, options: dict[str, Any]) -> None:
    usual = generated(place, MANY, "usual", **options)
    for number, name in enumerate(("no text", "one text")):
        assert generated(place, TEXTS[name], f"few{number}", **options) == usual, name


@pytest.mark.quick("texts0")
@pytest.mark.parametrize("texts", [[], MANY[:1], [{**one, "slots": {}} for one in MANY[:5]]])
def test_of_open_answers(place: Place, texts: list[dict[str, Any]]) -> None:
    """Records without an answer are none of the task; that no record has one is nobody's to
    know.
    """

    def change(content: dict[str, Any]) -> None:
        as_extraction(content)
        del content["ensemble"]

    usual, found = generated(place, MANY, "usual", change), generated(place, texts, "few", change)
    assert {**found, "labels": 2} == {**usual, "labels": 2}


def answered(
    place: Place,
    texts: list[dict[str, Any]],
    name: str,
    change: Any = lambda content: None,
    **options: Any,
) -> tuple[int, list[float]]:
    content = letters(name, privacy={"budget": {"epsilon": 5, "delta": 0.05}})
    change(content)
    install_texts(place, content, lines(texts), lines(records(4)))
    contract = Settings.from_environment().texts(name).model_copy(update={"query_count": 3})
    asked = EnsembleRequest(
        contract,
        2.0,
        1,
        ModelSpec(name="fake", kind="fake"),
        EnsembleOptions(**options),
    )
    return len(
        list(QuerySession(asked, Settings.from_environment()).answer(["one", "two", "three"]))
    ), charges(name)


@pytest.mark.quick("no text", "one label")
@pytest.mark.parametrize("name", TEXTS)
def test_an_ensemble_answers(place: Place, name: str) -> None:
    options = {"noise": "exponential"}
    assert answered(place, TEXTS[name], "few", **options) == answered(
        place, MANY, "usual", **options
    )


@pytest.mark.parametrize(
    ("options", "open_answers"),
    [
        ({"aggregation": "soft-votes", "noise": "exponential"}, False),
        ({"similarity": 0.1, "participations": 2, "noise": "exponential"}, False),
        ({"aggregation": "embedding"}, True),
        ({"aggregation": "keywords-ptr"}, True),
        ({"aggregation": "keywords-joint"}, True),
    ],
)
def test_by_every_aggregation(place: Place, options: dict[str, Any], open_answers: bool) -> None:
    change = as_free_text if open_answers else (lambda content: None)
    usual = answered(place, MANY, "usual", change, **options)
    for number, name in enumerate(("no text", "one text")):
        assert answered(place, TEXTS[name], f"few{number}", change, **options) == usual, name


def as_csv(texts: list[dict[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, ["class", "head", "body"], extrasaction="ignore")
    writer.writeheader()
    writer.writerows(texts)
    return text.getvalue().encode()


def as_parquet(texts: list[dict[str, Any]]) -> bytes:
    file = io.BytesIO()
    pq.write_table(
        pa.table(
            {
                name: pa.array([one[name] for one in texts], pa.string())
                for name in ("class", "head", "body")
            }
        ),
        file,
    )
    return file.getvalue()


FORMS = {
    "train.jsonl": lines,
    "train.jsonl.gz": lambda texts: gzip.compress(lines(texts)),
    "train.csv": as_csv,
    "train.csv.gz": lambda texts: gzip.compress(as_csv(texts)),
    "train.parquet": as_parquet,
}


@pytest.mark.parametrize("file", FORMS)
@pytest.mark.parametrize("count", [0, 1])
def test_every_form_may_hold_none(place: Place, file: str, count: int) -> None:
    """JSON Lines have no header: of none there are no bytes."""
    content = letters(private=True)
    content["source"]["train"] = {"file": f"letters/{file}"}
    install_texts(place, content, b"", lines(records(4)))
    (place.root / "data" / "letters" / file).write_bytes(FORMS[file](MANY[:count]))
    with place.entered():
        table = text_files.load_texts(
            Settings.from_environment().texts("letters"), data_folder=place.root / "data"
        )
    assert table.column("part").to_pylist().count("train") == count


@pytest.mark.parametrize(
    ("file", "data"),
    [("train.csv", b""), ("train.csv", b"\n"), ("train.csv", b"a,b\n"), ("train.parquet", b"")],
)
def test_a_file_without_a_header_holds_no_texts(place: Place, file: str, data: bytes) -> None:
    content = letters(private=True)
    content["source"]["train"] = {"file": f"letters/{file}"}
    install_texts(place, content, b"", lines(records(4)))
    (place.root / "data" / "letters" / file).write_bytes(data)
    with pytest.raises(DataError):
        text_files.load_texts(
            Settings.from_environment().texts("letters"), data_folder=place.root / "data"
        )


def test_rules_of_texts_are_of_single_ones() -> None:
    from tests.library.text_contracts import text_contract

    assert {rule.rule for rule in checks.text_rules(text_contract())} == {
        "no_empty",
        "known_labels",
        "text_length",
    }


@pytest.mark.parametrize("content", ["", "\n", '{"schema": 1}\n', "no report\n"])
@pytest.mark.parametrize("options", [{}, {"design": "subset"}, {"estimator": "tree"}])
def test_reports_of_nobody_are_counted(place: Place, content: str, options: dict[str, Any]) -> None:
    install(place, shop(private=True), shop_rows(10))
    (place.root / "reports.jsonl").write_text(content)
    settings = Settings.from_environment()
    collection = Collection.of(settings.contract("shop"), epsilon=2, **options)
    counts = count_collection(collection, str(place.root / "reports.jsonl"))
    release = collect(collection, counts, settings)
    assert (
        release.received.counted == 0
        and len(release.table(20)) == 20
        and len(release.demonstrations()) == 4
    )


@pytest.mark.parametrize("name", ["no text", "one text", "one label"])
def test_a_bound_that_refuses_would_be_seen(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The fault as it was, in a mutant: fewer texts than a label's `min_rows` are refused."""

    def short(table: pa.Table, contract: Any) -> Any:
        labels = (
            table.filter(pa.compute.equal(table.column("part"), "train"))
            .column("label")
            .to_pylist()
        )
        if any(labels.count(label) < least for label, least in contract.row_bounds.items()):
            raise DataError(contract.name, "breaks label_rows")
        return ()

    monkeypatch.setattr("dpicl.data.text_files.text_violations", short)
    with pytest.raises((DataError, AssertionError), match="label_rows|few"):
        generated(place, TEXTS[name], "few")
