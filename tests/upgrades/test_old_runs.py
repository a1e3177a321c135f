"""Runs of earlier programs: today's reads them, reports on them, and goes on with them for nothing
or says why not.

`data/*.tar.xz` are the state folders of three small runs of `demo` on the bundled table, made by
the program as it was early on its first day (`first`), that evening (`second`) and the next morning
(`third`), as they were left; only reports, which are made again, and empty folders are taken out.
"""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from pathlib import Path

import pytest

from dpicl.accounting.ledger.models import SCHEMA
from tests.harness import Place, call_main, complaint, new_place, rows, said

Capture = pytest.CaptureFixture[str]
DATA = Path(__file__).parent / "data"
RUNS = ("first", "second", "third")
GDP = "gdp_tabicl__breast_cancer__seed0"


def unpacked(name: str, root: Path) -> Place:
    """An installation in which that run was made."""
    place = new_place(root / name)
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        archive.extractall(place.home, filter="data")
    return place


@pytest.mark.quick("third")
@pytest.mark.parametrize(
    "name", ["first", pytest.param("second", marks=pytest.mark.exhaustive), "third"]
)
def test_an_old_run_is_reported_and_its_budget_shown(
    tmp_path: Path, capsys: Capture, name: str
) -> None:
    place = unpacked(name, tmp_path)
    with place.entered():
        said(capsys, "report", name)
        told = said(capsys, "budget")
        assert "15 records, chain intact" in told and re.search(
            r"breast_cancer-clients .* 2 *$", told, re.MULTILINE
        )
        assert "published" in said(capsys, "budget", "breast_cancer")
        assert f"schema {SCHEMA}, 15 records" in said(capsys, "ledger", "upgrade")
        assert "belong to data assets" in complaint(
            call_main(("ledger", "downgrade", "0001"), capsys)
        )
    page = (place.run(name) / "report.html").read_text()
    accuracies = {
        row["accuracy"] for row in rows(place.run(name) / "results.csv") if row["system"] == "icl"
    }
    assert len(accuracies) > 1 and all(f"{float(accuracy):.3f}" in page for accuracy in accuracies)


def test_a_run_of_another_version_is_not_gone_on_with(tmp_path: Path, capsys: Capture) -> None:
    """Its plan does not say so yet; the noise of averages has been drawn otherwise since."""
    place = unpacked("first", tmp_path)
    shutil.rmtree(place.run("first") / "units" / GDP)
    with place.entered():
        told = complaint(call_main(("run", "--resume", "first"), capsys))
    assert told == "run first: it was begun by another version of gdp_tabicl; start a new run"


@pytest.mark.parametrize("name", [pytest.param("second", marks=pytest.mark.exhaustive), "third"])
def test_an_old_run_that_was_cut_off_is_gone_on_with_for_nothing(tmp_path: Path, name: str) -> None:
    """Releases have the names that they had: they are read, not drawn and charged again; results of
    both times stand in one report.
    """
    from dpicl.engine.plan import make_plan
    from tests.tasks.stages import steps

    place = unpacked(name, tmp_path)
    run = place.run(name)
    before = {
        file: (run / "units" / GDP / file).read_bytes()
        for file in ("demonstrations.json", "released_groups.json", "prompts.parquet")
    }
    accuracies = _accuracies(run)
    shutil.rmtree(run / "units" / GDP)
    with place.entered():
        make_plan("demo", {}, name, resume=True)
        for stage, references in steps(str(run)):
            stage(*references)
    assert {file: (run / "units" / GDP / file).read_bytes() for file in before} == before
    assert json.loads((run / "units" / GDP / "releases.json").read_text())["charged_now"] == 0
    found = _accuracies(run)
    assert (
        len(accuracies) > 8
        and {key: found[key] for key in accuracies} == accuracies
        and (run / "report.html").exists()
    )


def _accuracies(run: Path) -> dict[tuple[str, ...], str]:
    """Of what the model answered: by method, epsilon, shots and system."""
    found = rows(run / "results.csv")
    return {
        (row["method"], row["epsilon"], row["shots"], row["system"]): row["accuracy"]
        for row in found
        if row["system"] not in ("lr", "nb")
    }


@pytest.mark.parametrize("name", RUNS)
def test_the_stored_folders_name_no_machine(name: str) -> None:
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None and not re.search(
                rb"/(tmp|home|root|work|Users)/", file.read()
            ), member.name
    assert sum(path.stat().st_size for path in DATA.iterdir()) < 200 << 10
