"""A model that others run is refused what is private before a row is read; that it is before it is
called as well is in tests/library/lm/test_lm_egress.py.
"""

from __future__ import annotations

from tests.cli.conftest import Cli
from tests.harness import Place, edited, install, shop


def test_a_private_table_s_true_rows_are_refused_before_anything_is_read(
    place: Place, cli: Cli
) -> None:
    with edited(place.root / "pipelines.yaml") as pipelines:
        pipelines["models"]["far"] = {"kind": "transformers", "id": "far/away", "trust": "remote"}
    install(place, shop(private=True), "this is no table: whoever reads it fails")
    asked = "run private --datasets shop --epsilons 1,inf --shots 1 --model far"
    sentence = cli.refused(asked)
    assert (
        "model 'far' has trust 'remote', and epsilon=inf sends it rows without noise (1 cell"
        in sentence
    )
    assert not (place.home / "runs").exists() and not (place.home / "private").exists()
