"""How many rows a private table has is told where that is public, and nowhere else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dpicl.home.settings import Settings
from dpicl.runs.plan import make_plan
from dpicl.runs.stage import Verdicts
from tasks.stages import ingest, split, validate
from tests.harness import SMALL, install, install_texts, letters, new_place, shop, shop_rows
from tests.library.text_contracts import lines, records

ROWS = 83
PUBLIC = {
    "benchmark": {},
    "replace-one": {"neighbours": "replace-one", "budget": {"epsilon": 1000}},
}
PRIVATE = {
    "add-or-remove-one": {"budget": {"epsilon": 1000}},
    "persons": {
        "unit": "person",
        "neighbours": "replace-one",
        "person": {"id_column": "member_id", "max_rows": 2},
        "budget": {"epsilon": 1000},
    },
}


def messages(
    root: Path, privacy: dict[str, Any], *, texts: bool = False
) -> tuple[list[str], list[dict[str, Any]]]:
    """What the stages that read a table end with, and what is kept of its checks."""
    place, contract = new_place(root), (letters() if texts else shop())
    contract["privacy"] = {**contract["privacy"], **privacy}
    if texts:
        install_texts(place, contract, lines(records(ROWS)), lines(records(4)))
    else:
        header, *rows = shop_rows(ROWS).splitlines()
        ids = [f"{header},member_id", *(f"{row},{number}" for number, row in enumerate(rows))]
        install(place, contract, "\n".join(ids if "person" in privacy else [header, *rows]))
    name = contract["name"]
    methods = ["few_shot_generation"] if texts else ["mst_tabicl"]
    with place.entered():
        run = str(
            make_plan(
                "private",
                {**SMALL, "datasets": [name], "methods": methods, "epsilons": ["1"], "shots": [2]},
                "r",
            )
        )
        said = [stage.fn(run, name) for stage in (ingest, validate, split)]
        settings = Settings.current()
        return said, Verdicts.of(Path(run), settings.declared(name), settings).rules(name) or []


@pytest.mark.quick("replace-one")
@pytest.mark.parametrize("kind", PUBLIC)
def test_a_public_number_of_rows_is_told(tmp_path: Path, kind: str) -> None:
    said, checks = messages(tmp_path, PUBLIC[kind])
    assert said[0] == f"{ROWS} rows" and "rows to protect" in said[2]
    assert all(("values" in check) == (kind == "benchmark") for check in checks)


@pytest.mark.quick("persons")
@pytest.mark.parametrize("kind", PRIVATE)
def test_a_private_number_of_rows_is_not(tmp_path: Path, kind: str) -> None:
    said, checks = messages(tmp_path, PRIVATE[kind])
    assert not re.search(r"\d", said[0] + said[2]), said
    assert all("values" not in check for check in checks)


def test_a_private_number_of_texts_is_not_told(tmp_path: Path) -> None:
    said, _ = messages(tmp_path, {"budget": {"epsilon": 1000, "delta": 0.05}}, texts=True)
    assert not re.search(r"\d", said[0] + said[2]), said
