"""The net: every field that an observer of runs sends is on the list of what leaves, with nothing
else, and is the same between neighbours.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.audit.end_to_end.claims import apart
from lab.audit.end_to_end.commands import run
from lab.audit.end_to_end.leaves import LEAVES, OBSERVED, leaf_of
from lab.audit.end_to_end.observation import Observation, observed, without_nonces
from lab.audit.end_to_end.stand_ins import ReplayedDraws
from lab.audit.end_to_end.world import ROWS, Declaration, base_rows, newcomer
from tests.observers import fields, lineage_server, mlflow_server, told_to_mlflow

COLUMNS = ("spent", "city", "member")


def told(variable: str, url: str, take: Callable[[], list[Any]]) -> list[dict[str, bytes]]:
    """Every field that was sent of a run on a table and on neighbours of it, and on one whose rows
    break the contract.
    """
    declaration, replay = Declaration(measured="public queries"), ReplayedDraws()
    some = base_rows(declaration)
    tables = (
        some,
        [*some, newcomer(declaration)],
        some[: ROWS // 2],
        [{**some[0], "spent": 104}, *some[1:]],
    )
    sent = []
    with apart(declaration) as world, replay.recorded():
        for rows in tables:
            world.forget()
            world.put(rows, declaration.kind, COLUMNS)
            os.environ[variable] = url
            seen = observed(world, run("gdp_tabicl"))
            assert variable not in seen.seen["log"].decode(), seen.seen["log"]
            events = take()
            assert events
            sent.append(
                {
                    name: value
                    for number, event in enumerate(events)
                    for name, value in fields(event, f"{number}")
                }
            )
    return sent


def check(sink: str, sent: list[dict[str, bytes]]) -> None:
    """All fields are listed, none that is compared differs, and whatever is listed was there."""
    observations, listed = [], set()
    for one in sent:
        shown = {}
        for name, value in one.items():
            number, _, path = name.partition("/")
            leaf = leaf_of(f"{sink}/{path}")
            assert leaf is not None, f"{sink}/{path} is not on the list of what leaves"
            listed.add(leaf)
            if leaf.is_compared:
                shown[f"artifact {number}{len(shown)}"] = without_nonces(name.encode() + value)
        observations.append(Observation(shown))
    first, *others = observations
    assert [first.differing(other) for other in others] == [[]] * len(others)
    expected = {leaf for leaf in OBSERVED if leaf.pattern.startswith(f"{sink}/")}
    never = {leaf.pattern for leaf in expected - listed}
    # of texts, or of numbers
    assert all(name.startswith("mlflow/data/metrics/") for name in never), never


def test_what_openlineage_is_sent_is_listed_and_the_same() -> None:
    with lineage_server() as (url, events):

        def take() -> list[Any]:
            taken, events[:] = list(events), []
            return taken

        sent = told("OPENLINEAGE_URL", url, take)
    check("openlineage", sent)


@pytest.mark.exhaustive
def test_what_mlflow_is_sent_is_listed_and_the_same(tmp_path: Path) -> None:
    with mlflow_server(tmp_path / "mlflow") as url:
        sent = told("MLFLOW_TRACKING_URI", url, lambda: told_to_mlflow(url)[:1])
    check("mlflow", sent)


@pytest.mark.parametrize(
    "name",
    [
        "openlineage/run/facets/environmentVariables",
        "openlineage/job/facets/sourceCodeLocation/url",
        "openlineage/inputs/0/facets/dataSource/uri",
        "openlineage/outputs/0/outputFacets/outputStatistics/rowCount",
        "mlflow/data/tags/mlflow.user",
        "mlflow/data/tags/mlflow.source.name",
        "mlflow/data/params/query",
        "mlflow/data/metrics/shop/gdp_tabicl/rows",
        "mlflow/artifacts/shop/rows.csv",
    ],
)
def test_what_clients_could_send_besides_is_not_on_it(name: str) -> None:
    assert leaf_of(name) is None
    assert set(OBSERVED) <= set(LEAVES)
