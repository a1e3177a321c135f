"""Deliveries: a file for each period, read once; one that is not there, and one that comes late,
mean what the contract says.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl.data.reading.source import read_deliveries, were_read
from dpicl.ground.errors import (
    DataError,
    DeclarationError,
    LedgerRefusedError,
    PrivacyError,
    SourceError,
)
from dpicl.home.accounts import addresses_of, open_ledger
from dpicl.home.settings import Settings
from dpicl.release import Release
from dpicl.release.horizon import Horizon, release_planned
from dpicl.runs import plan as planning
from tests.harness import Place, new_place
from tests.library.series_contracts import (
    FIRST,
    NAME,
    after,
    series_contract,
    series_tree,
    visit,
    visits,
)
from tests.tasks.test_series import (
    DAYS,
    as_csv,
    counts,
    declare,
    horizon_of,
    killed_at,
    night,
    planned,
    published,
    same,
    spent,
)
from tests.tasks.test_series_run import made, nightly_place, planned_run, told

Row = dict[str, Any]
SOURCE = {"deliveries": NAME}
_DAYS = [(FIRST.replace(day=day)).isoformat() for day in range(1, DAYS + 1)]


def tree(*, undelivered: str | None = None, **changes: Any) -> dict[str, Any]:
    said = {} if undelivered is None else {"undelivered": undelivered}
    return series_tree(source={**SOURCE, **said}, **changes)


def without_day(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != "day"}


def put(root: Path, day: int | str, rows: list[Row], kind: str = "csv") -> Path:
    """A delivery."""
    folder = root / "data" / NAME
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{day if isinstance(day, str) else _DAYS[day - 1]}.{kind}"
    plain = [without_day(row) for row in rows]
    if kind == "parquet":
        pq.write_table(
            pa.Table.from_pylist([*plain, without_day(visit("", 1))]).slice(0, len(plain)), path
        )
    else:
        path.write_text(as_csv(plain) if plain else ",".join(without_day(visit("", 1))) + "\n")
    return path


def of_day(day: int) -> list[Row]:
    return [row for row in visits() if row["day"] == _DAYS[day - 1]]


@pytest.fixture
def place(place: Place) -> Place:
    declare(place, tree())
    for day in range(1, 6):
        put(place.root, day, of_day(day), "parquet" if day == 3 else "csv")
    return place


def test_rows_belong_to_the_period_of_their_file_and_a_year_costs_what_its_first_night_does(
    place: Place,
) -> None:
    night(2)
    assert counts(2) == [len(of_day(day)) for day in (1, 2)]
    assert spent() == (pytest.approx(2, rel=0.01), 3)
    night(5)
    assert counts(5) == [len(of_day(day)) for day in range(1, 6)]
    assert spent() == (pytest.approx(2, rel=0.01), 6)


def test_the_series_is_the_one_that_a_column_of_days_makes(place: Place, tmp_path: Path) -> None:
    """The same rows enter, of the same persons."""
    night(5)
    ours = counts(5)
    other = new_place(tmp_path / "other")
    declare(other)
    (other.root / "data" / f"{NAME}.csv").write_text(as_csv(visits()))
    with other.entered():
        night(5)
        assert counts(5) == ours


def test_a_delivery_that_is_not_there_is_refused_before_anything_is_charged_and_a_file_without_rows_is_one(  # noqa: E501
    place: Place,
) -> None:
    expected = (
        r"visits: 2026-03-06 is not delivered yet; expected visits/2026-03-06 with \.csv or .*, "
        r"without rows if nothing arrived"
    )
    with pytest.raises(SourceError, match=expected):
        night(6)
    with open_ledger(Settings.current()) as ledger:
        assert not ledger.entries(NAME)
    # what is there can be released
    assert "5 periods released now" in night(6, until=_DAYS[4]).spent[1]
    with pytest.raises(SourceError, match=expected):
        night(6)
    for day, kind in ((6, "csv"), (7, "parquet")):
        put(place.root, day, [], kind)
    night(7)
    assert counts(7)[5:] == [0, 0] and len(published()) == 7


def test_no_file_is_nothing_where_the_contract_says_so(place: Place) -> None:
    declare(place, tree(undelivered="empty"))
    night(7)
    assert counts(7)[5:] == [0, 0]
    put(place.root, 6, of_day(6))
    put(place.root, 8, of_day(8))
    night(8)
    # what comes late enters nowhere
    assert counts(8)[5:] == [0, 0, len(of_day(8))]


def test_a_delivery_is_not_read_again_once_it_was_counted(place: Place) -> None:
    """Changed, removed, spoilt, or of another kind: it is late."""
    night(4)
    before, ours = published(), counts(4)
    put(place.root, 1, [visit(f"late{who}", 1) for who in range(500)])
    put(place.root, 2, []).write_text("no table at all")
    (place.root / "data" / NAME / f"{_DAYS[2]}.parquet").unlink()
    night(5)
    assert same(published()[:4], before) and counts(5) == [*ours, len(of_day(5))]
    assert Release(night(5, until=_DAYS[2], window=2)).arrow(9).num_rows == 9


def test_a_killed_night_is_made_from_what_it_froze_though_its_delivery_is_gone(
    place: Place,
) -> None:
    with killed_at(Horizon, "_released"):
        night(1)
    path = place.root / "data" / NAME / f"{_DAYS[0]}.csv"
    path.unlink()
    night(2)
    assert counts(2) == [len(of_day(1)), len(of_day(2))]


def test_counts_that_go_after_their_delivery_was_left_unread_are_not_frozen_as_none(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    night(1)
    with horizon_of() as horizon:
        first = horizon.frozen.read(1)
        assert first is not None
        horizon.frozen.freeze(2, first.counts, first.entered, before=first.name)
    make = Horizon.make

    def loses(self: Horizon, *arguments: Any) -> Any:
        (place.home / "series" / self.release.release_id / "00002").unlink()
        return make(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(Horizon, "make", loses)
        with pytest.raises(
            LedgerRefusedError,
            match="the counts of period 2 are gone since its delivery was left unread; start again",
        ):
            night(2)
    night(2)
    assert counts(2) == [len(of_day(1)), len(of_day(2))]


def test_what_else_lies_in_the_folder_is_refused_unless_it_is_of_another_time(place: Place) -> None:
    folder = place.root / "data" / NAME
    for name in ("2026-02-28.csv", "2027-01-01.parquet", ".2026-03-06.csv", "_SUCCESS"):
        (folder / name).write_text("not read")
    night(5)
    for name, refused in (
        (
            "2026-03.csv",
            "holds files that are named by no period; expected names such as 2026-03-01 with .csv",
        ),
        ("2026-02-30.csv", "holds files that are named by no period"),
        ("2026-03-06.docx", "holds files that are named by no period"),
        ("2026-03-05.csv.gz", "has two files for 2026-03-05; expected one"),
    ):
        (folder / name).write_text("secret")
        with pytest.raises(DataError, match=refused) as told:
            night(6)
        assert "secret" not in str(told.value)
        (folder / name).unlink()


def test_a_run_reads_the_deliveries_that_its_horizons_lack_and_none_where_nothing_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = nightly_place(tmp_path / "place", epsilons=[2, 1])
    declare(
        place, series_tree(source={**SOURCE, "ignore": ["day"]}, queries={"file": "public.csv"})
    )
    for day in range(1, 5):
        put(place.root, day, of_day(day))
    with place.entered():
        night(2)
        put(place.root, 5, of_day(5))
        monkeypatch.setattr(planning, "clock", lambda: after(4))
        assert all("4 of 12 in all" in one for one in told(made(planned_run("fourth"))))
        assert counts(4)[1] == len(of_day(2))
        for path in (place.root / "data" / NAME).iterdir():
            path.unlink()
        assert all(
            "0 periods released now, 4 of 12" in one
            for one in told(made(planned_run("again", window=2)))
        )
        monkeypatch.setattr(planning, "clock", lambda: after(5))
        fifth = planned_run("fifth")
        with pytest.raises(SourceError, match="2026-03-05 is not delivered yet"):
            made(fifth)


def test_other_methods_refuse_deliveries(place: Place) -> None:
    with pytest.raises(PrivacyError, match="come in deliveries"):
        release_planned(planned(1, method="aim_tabicl"), Settings.current())


def test_a_contract_that_names_a_delivery_or_the_folder_charges_the_same_account(
    place: Place,
) -> None:
    ours, folder = (
        Settings.current(),
        series_contract(series_tree(source={"folder": NAME, "arrived": "day"})),
    )
    assert addresses_of(series_contract(tree()), ours) == addresses_of(folder, ours)


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"source": {**SOURCE, "arrived": "day"}}, "source.arrived: is given beside `deliveries`"),
        ({"source": {**SOURCE, "file": "v.csv"}}, "more than one place for the rows"),
        (
            {"source": {"file": "v.csv", "arrived": "day", "undelivered": "empty"}},
            "source.undelivered: has no meaning without",
        ),
        (
            {"source": {"file": "v.csv", "arrived": "day", "undelivered": "refused"}},
            "source.undelivered: has no meaning without",
        ),
        ({"queries": {"file": f"{NAME}/2026-03-01.csv"}}, "queries: is one of the private files"),
        ({"releases": {}}, "source.deliveries: has no meaning without a horizon"),
        ({"checks": [{"rule": "row_count", "at_least": 5}]}, "is row_count of deliveries"),
        ({"checks": [{"rule": "unique"}]}, "is unique of deliveries"),
    ],
)
def test_what_a_contract_of_deliveries_may_not_say(
    changes: Mapping[str, Any], refused: str
) -> None:
    with pytest.raises(DeclarationError, match=refused):
        series_contract(series_tree(**{"source": SOURCE, **changes}))


Deliveries = dict[int, list[Row]]
_ROWS = st.lists(
    st.builds(visit, st.sampled_from("abc"), st.just(1), age=st.sampled_from([20, 40])), max_size=3
)


@settings(max_examples=25, deadline=None)
@given(
    deliveries=st.dictionaries(st.integers(1, 5), _ROWS),
    read=st.sets(st.integers(1, 5)),
    at=st.integers(1, 5),
)
def test_a_row_more_in_a_file_is_a_row_more_of_its_period(
    tmp_path_factory: pytest.TempPathFactory, deliveries: Deliveries, read: set[int], at: int
) -> None:
    """Stability 1: where files are read, and where it is left unread."""
    contract = series_contract(tree(undelivered="empty"))

    def rows(of: Deliveries) -> list[tuple[Any, ...]]:
        root = tmp_path_factory.mktemp("deliveries")
        (root / "data" / NAME).mkdir(parents=True)
        for day, own in of.items():
            put(root, day, own, "parquet" if day % 2 else "csv")
        made = read_deliveries(contract, root / "data", read)
        assert list(were_read(made)) == sorted(read)
        return sorted(tuple(row.values()) for row in made.to_pylist())

    more = rows({**deliveries, at: [*deliveries.get(at, []), visit("new", 1)]})
    before = rows(deliveries)
    for row in before:
        more.remove(row)
    assert [row[-1] for row in more] == ([at] if at in read else [])
