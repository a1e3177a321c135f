"""What was perhaps meant is asked for, wherever a name is not known."""

from __future__ import annotations

import pytest

from dpicl.ground.errors import closest

COLUMNS = ("Alter (Jahre)", "gekündigt?", "Landkreis")


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("Alter", COLUMNS, "Alter (Jahre)"),
        ("alter", COLUMNS, "Alter (Jahre)"),
        ("gekuendigt", COLUMNS, "gekündigt?"),
        ("gekundigt", COLUMNS, "gekündigt?"),
        ("LANDKREIS", COLUMNS, "Landkreis"),
        ("aim", ("mst_tabicl", "aim_tabicl"), "aim_tabicl"),
        ("--epsilonn", ("--epsilon", "--json", "--option"), "--epsilon"),
        ("a", COLUMNS, None),
        ("Umsatz", COLUMNS, None),
        ("Alter", (), None),
    ],
)
def test_a_similar_name_or_one_that_goes_on_is_meant(
    name: str, known: tuple[str, ...], meant: str | None
) -> None:
    assert closest(name, known) == meant
