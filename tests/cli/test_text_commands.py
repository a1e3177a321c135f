"""Commands that show contracts and data sets know texts too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Place, call_main, complaint, new_place

Capture = pytest.CaptureFixture[str]
TEXTS = ("agnews", "dbpedia", "docstrings", "mit_director", "mit_genre", "trec")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = new_place(tmp_path / "place")
    with place.entered():
        yield place


def said(capsys: Capture, *arguments: str) -> str:
    """What a command that succeeds prints."""
    from flows.cli import main

    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as stopped:
        patch.setattr("sys.argv", ["dpicl", *arguments])
        main()
    out, err = capsys.readouterr()
    assert not stopped.value.code and not err, err
    return str(out)


def test_the_texts_named_here_are_all_there_are(place: Place) -> None:
    assert tuple(sorted(path.stem for path in (place.root / "contracts" / "texts").glob("*.yaml"))) == TEXTS


@pytest.mark.parametrize("name", TEXTS)
def test_check_and_show_know_every_contract(place: Place, capsys: Capture, name: str) -> None:
    checked = said(capsys, "contract", "check", str(place.root / "contracts" / "texts" / f"{name}.yaml"))
    assert checked.startswith(f"{name}.yaml: ok: texts of at most ") and "queries" in checked
    shown = said(capsys, "contract", "show", name)
    assert shown.startswith(f"{name}: ") and all(word in shown for word in ("benchmark", "subsets", "delta", "prompt"))


def test_data_list_tells_which_texts_are_at_hand(place: Place, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPICL_DATA", str(place.root / "nowhere"))
    lines = {line.split()[0]: line for line in said(capsys, "data", "list").splitlines() if line.split()}
    assert " yes " in lines["docstrings"] and all(" no " in lines[name] for name in TEXTS if name != "docstrings")


def test_texts_cannot_be_fetched(place: Place, capsys: Capture) -> None:
    assert "trec: texts are not fetched" in complaint(call_main(["data", "fetch", "trec"], capsys))


def test_a_broken_contract_of_texts_is_one_sentence(place: Place, capsys: Capture) -> None:
    path = place.root / "contracts" / "texts" / "trec.yaml"
    path.write_text(path.read_text().replace("rows: 80}", "rows: 79}"))
    told = complaint(call_main(["contract", "check", str(path)], capsys))
    assert "trec.yaml: task.labels.ABBR.rows: is 79, fewer than subsets x examples = 80 x 1 = 80" in told
