"""A model that others run is refused what is private: before a row is read, and before it is
called.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.harness import Place, complaint, install, new_place, shop, shop_rows


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An installation with a public table and a model that others run, at an address of a hub."""
    made = new_place(tmp_path / "place")
    pipelines = yaml.safe_load((made.root / "pipelines.yaml").read_text())
    pipelines["models"]["far"] = {"kind": "transformers", "id": "far/away", "trust": "remote"}
    (made.root / "pipelines.yaml").write_text(yaml.safe_dump(pipelines, sort_keys=False))
    install(made, shop(), shop_rows(60))
    return made


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
