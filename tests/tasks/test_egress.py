"""A model that others run is refused what is private: before a row is read, and before it is
called.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from dpicl.runs.plan import make_plan
from tasks.stages import charge, ingest, randomise, reconstruct, release, serialize, split
from tests.harness import Place, complaint, install, new_place, shop, shop_rows

GRID = {
    "methods": ["ldp_tabicl"],
    "datasets": ["shop"],
    "epsilons": ["inf"],
    "shots": [1],
    "seeds": [0],
    "model": "far",
}
UNIT = "ldp_tabicl__shop__seed0"
SCORE = "import sys; from tasks.stages import score; score.fn(*sys.argv[1:3], 0)"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An installation with a public table and a model that others run, at an address of a hub."""
    made = new_place(tmp_path / "place")
    pipelines = yaml.safe_load((made.root / "pipelines.yaml").read_text())
    pipelines["models"]["far"] = {"kind": "transformers", "id": "far/away", "trust": "remote"}
    (made.root / "pipelines.yaml").write_text(yaml.safe_dump(pipelines, sort_keys=False))
    install(made, shop(), shop_rows(60))
    return made


@contextmanager
def counted() -> Iterator[tuple[str, list[object]]]:
    """A hub that hangs up on everybody; gives its address and its callers."""
    callers: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as door:

        def answer() -> None:
            while True:
                try:
                    call, caller = door.accept()
                except OSError:
                    return
                callers.append(caller)
                call.close()

        threading.Thread(target=answer, daemon=True).start()
        yield f"http://127.0.0.1:{door.getsockname()[1]}", callers
        door.shutdown(socket.SHUT_RDWR)


def test_a_private_table_s_true_rows_are_refused_before_anything_is_read(place: Place) -> None:
    install(place, shop(private=True), "this is no table: whoever reads it fails")
    finished = place.dpicl(
        "run",
        "private",
        "--datasets",
        "shop",
        "--epsilons",
        "1,inf",
        "--shots",
        "1",
        "--model",
        "far",
    )
    assert (
        "model 'far' has trust 'remote', and epsilon=inf sends it rows without noise (1 cell"
        in complaint(finished)
    )
    assert not (place.home / "runs").exists() and not (place.home / "private").exists()


def scored(place: Place, run: Path, hub: str) -> str:
    """Score a unit in a process of its own; gives its last words."""
    environment = {
        **os.environ,
        **place.environment,
        "HF_ENDPOINT": hub,
        "HF_HUB_OFFLINE": "0",
        "HF_HOME": str(place.root / "hub"),
    }
    finished = subprocess.run(
        [sys.executable, "-c", SCORE, str(run), UNIT],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return finished.stderr.strip().splitlines()[-1]


@pytest.mark.exhaustive
def test_a_table_that_is_no_longer_public_is_refused_before_the_model_is_called(
    place: Place,
) -> None:
    with place.entered():
        run = make_plan("demo", GRID, "r")
        for stage in (ingest, split):
            stage.fn(str(run), "shop")
        for stage in (charge, randomise, release, reconstruct, serialize):
            stage.fn(str(run), UNIT)
    with counted() as (hub, callers):
        install(place, shop(private=True), shop_rows(60))
        assert "PrivacyError: shop: model 'far' has trust 'remote'" in scored(place, run, hub)
        assert not callers and not (run / "model.json").exists()
        install(place, shop(), shop_rows(60))
        scored(place, run, hub)
        assert callers, "a public table's model is called: the count above means something"
