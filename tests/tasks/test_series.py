"""A table that grows, released night after night: one charge, each night once, whatever becomes of
the table, and any window free.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml

import dpicl
from dpicl.ground.errors import BudgetError, DpiclError, LedgerRefusedError, ParameterError
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.installation.clean import clean
from dpicl.installation.restore import adopt, back_up, restore
from dpicl.methods.counted_horizon import Arrays
from dpicl.release import Release
from dpicl.release.horizon import FrozenPeriods, Horizon, release_planned
from dpicl.release.one_release import RELEASE_LOCK, planned_table
from dpicl.release.request import ReleaseRequest
from dpicl.release.rows import Rows
from dpicl.runs.forecast import series_forecasts
from tests.harness import Place, complaint
from tests.library.series_contracts import NAME, after, of_rows, series_tree, visit, visits

DAYS = 12


@pytest.fixture
def place(place: Place) -> Place:
    declare(place)
    put(place, visits())
    return place


def declare(place: Place, tree: dict[str, Any] | None = None) -> None:
    (place.root / "contracts" / f"{NAME}.yaml").write_text(
        yaml.safe_dump(tree or series_tree(), sort_keys=False)
    )


def as_csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0] if rows else visit("", 1)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def table_of(place: Place) -> Path:
    """The file of the rows."""
    return place.root / "data" / f"{NAME}.csv"


def put(place: Place, rows: list[dict[str, Any]]) -> None:
    table_of(place).write_text(as_csv(rows))


def planned(epsilon: float = 2, *, name: str = NAME, shots: int = 2, **how: Any) -> Any:
    request = ReleaseRequest(dataset=name, epsilon=epsilon, shots=shots, **how)
    return planned_table(request, Settings.current())


def night(day: int, *, settings: Settings | None = None, plan: Any = None, **how: Any) -> Any:
    """What the night after a day releases."""
    settings = settings or Settings.current()
    return release_planned(plan or planned(), settings, now=after(day), **how)


class KilledError(BaseException):
    """In place of a signal."""


@contextmanager
def killed_at(owner: type, method: str) -> Iterator[None]:
    """What is done inside dies where this is called."""

    def killed(*_: object) -> None:
        raise KilledError

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(owner, method, killed)
        with pytest.raises(KilledError):
            yield


@contextmanager
def horizon_of(settings: Settings | None = None, plan: Any = None) -> Iterator[Horizon]:
    settings = settings or Settings.current()
    with open_ledger(settings) as ledger:
        yield Horizon.of(ledger, plan or planned(), settings)


def published(settings: Settings | None = None, plan: Any = None) -> list[Arrays]:
    """What stands of all nights."""
    with horizon_of(settings, plan) as horizon:
        return horizon.published(DAYS)


def counts(days: int) -> list[int]:
    """Rows that entered each period."""
    with horizon_of() as horizon:
        return [int(one.counts.tables[0, 3].sum()) for one in horizon.frozen.history(days)]


def same(one: list[Arrays], other: list[Arrays]) -> bool:
    return len(one) == len(other) and all(
        first.keys() == second.keys()
        and all(np.array_equal(first[name], second[name]) for name in first)
        for first, second in zip(one, other, strict=True)
    )


def spent() -> tuple[float, int]:
    """Of the account; and how many releases it knows."""
    with open_ledger(Settings.current()) as ledger:
        ledger.verify()
        return ledger.spent(NAME).epsilon, len(ledger.entries(NAME))


def test_a_night_is_not_released_before_it_is_over(place: Place) -> None:
    with pytest.raises(
        ParameterError, match=r"period=2026-03-01: expected a period of visits that is over in UTC"
    ):
        night(0)
    with pytest.raises(ParameterError, match="a period of visits that is over"):
        night(2, until="2026-03-03")
    with pytest.raises(ParameterError, match="one of the horizon's 12"):
        release_planned(planned(period="2027-01-01"), Settings.current())
    with open_ledger(Settings.current()) as ledger:
        # nothing was charged
        assert not ledger.accounts() or not ledger.entries(NAME)


def test_any_window_of_any_night_is_free_and_reads_no_row(place: Place) -> None:
    night(7)
    table_of(place).rename(place.root / "data" / "gone")
    table_of(place).write_text("no table at all")
    stands = published()
    for until, window in (
        (None, None),
        (None, 3),
        ("2026-03-05", None),
        ("2026-03-05", 2),
        (None, 900),
    ):
        made = Release(night(7, until=until, window=window))
        assert made.arrow(50).num_rows == 50 and "released now, 7 of 12 in all" in made.spent[1]
    assert same(published(), stands)
    assert "rows are of 2026-03-04 to 2026-03-05" in night(7, until="2026-03-05", window=2).spent[1]


def test_late_rows_and_changed_rows_never_change_the_past(place: Place) -> None:
    night(6)
    before = published()
    put(
        place,
        [visit(f"late{i}", 2, age=80, buys="yes") for i in range(5000)]
        + [row for row in visits() if row["day"] > "2026-03-06"],
    )
    night(7)
    assert same(published()[:6], before)
    window = {len(one.columns): one for one in night(7, window=7).drawn.marginals}
    # none of the five thousand entered
    assert abs(window[2].counts.sum() - 90) < 8 * window[2].scale * window[2].counts.size ** 0.5


def test_a_person_enters_with_as_many_rows_as_the_contract_says_whatever_the_nights(
    place: Place,
) -> None:
    """Twelve rows of everybody, three of which may enter; also where nights are made one by one."""
    put(place, [visit(f"p{who}", day) for who in range(300) for day in range(1, DAYS + 1)])
    for day in (2, 3, 7, 11):
        night(day)
    assert counts(11) == [300, 300, 300, *[0] * 8]


def test_what_is_frozen_decides_though_the_table_is_another_one_by_the_time_of_the_draw(
    place: Place,
) -> None:
    """A night that was killed between freezing and drawing, and a table that was emptied since."""

    with killed_at(Horizon, "_released"):
        night(1)
    put(place, [visit("nobody", 9), visit("else", 9, buys="yes")])
    night(1)
    assert counts(1) == [sum(row["day"] == "2026-03-01" for row in visits())]


def test_lost_or_exchanged_counts_are_refused_and_windows_stand(place: Place) -> None:
    night(4)
    stands, (folder,) = published(), (place.home / "series").iterdir()
    content = (folder / "00003").read_bytes()
    for change, refused in (
        (lambda: (folder / "00003").unlink(), "the counts of period 3 are lost"),
        (
            lambda: (folder / "00003").write_bytes(content[:-1]),
            "the counts of period 3 are damaged",
        ),
        (
            lambda: (folder / "00003").write_bytes((folder / "00002").read_bytes()),
            "the counts of period 3 are damaged",
        ),
    ):
        change()
        with pytest.raises(LedgerRefusedError, match=f"{refused}.*a new horizon"):
            night(5)
        assert same(published(), stands) and Release(night(4)).arrow(9).num_rows == 9
        (folder / "00003").write_bytes(content)
    night(5)


def test_counts_that_were_frozen_anew_are_refused_by_the_charge_of_those_before(
    place: Place,
) -> None:
    """The last night's file is lost after its charge and before its draw, and another one stands
    there.
    """
    night(1)
    with (
        horizon_of() as horizon,
        pytest.raises(LedgerRefusedError, match="is charged already|are lost, or others"),
    ):
        first = horizon.frozen.read(1)
        assert first is not None
        made = horizon.frozen.freeze(2, first.counts, first.entered, before=first.name)
        horizon._named(horizon.part(2, made.name)).reserve(horizon.ledger)  # noqa: SLF001
        (place.home / "series" / horizon.release.release_id / "00002").unlink()
        horizon.frozen.freeze(2, first.counts, first.entered, before=first.name)
        night(2)


def test_a_horizon_does_not_go_on_in_a_ledger_that_came_back(place: Place, tmp_path: Path) -> None:
    """From a backup, or from receipts: which nights were drawn since is not known. What stands can
    be used.
    """
    settings = Settings.current()
    night(3)
    back_up(settings, tmp_path / "backup", tmp_path / "key")
    stands = published()
    night(5)
    bare = Settings(
        tmp_path / "bare",
        settings.data,
        settings.contracts,
        settings.pipelines,
        tmp_path / "bare" / "runs",
    )
    restore(bare, tmp_path / "backup", tmp_path / "key")
    with open_ledger(bare) as ledger:
        ledger.set_cap(NAME, 3.0, 1e-6)
    assert same(published(bare), stands) and not (bare.home / "series").exists()
    assert Release(night(3, settings=bare)).arrow(9).num_rows == 9
    with pytest.raises(LedgerRefusedError, match="a new horizon"):
        night(4, settings=bare)
    (settings.home / "ledger.db").unlink()
    (settings.home / "ledger.anchor.json").unlink()
    adopt(settings)
    assert len(published()) == 5
    table_of(place).write_text("no table at all")
    with pytest.raises(LedgerRefusedError, match="came back from a backup or from receipts"):
        night(6)
    assert [one.what for one in clean(settings, 9999) if "horizon" in one.what] == [
        "counts of a horizon that cannot go on"
    ]


def test_private_counts_go_with_the_last_night_and_not_before(place: Place) -> None:
    night(11)
    (folder,) = (place.home / "series").iterdir()
    assert sorted(path.stat().st_mode & 0o777 for path in folder.iterdir()) == [0o600] * 11
    assert folder.stat().st_mode & 0o777 == 0o700
    assert not [one for one in clean(Settings.current(), 9999) if not one.is_run]
    assert len(list(folder.iterdir())) == 11
    night(12)
    assert not folder.exists() and len(published()) == 12
    assert Release(night(40, until="2026-03-09", window=4)).arrow(9).num_rows == 9


def test_counts_of_a_horizon_that_is_over_or_cannot_go_on_are_cleaned_away(place: Place) -> None:
    """A horizon that nobody goes on with, as its contract or epsilon was changed, would keep them
    for ever.
    """
    night(3)
    night(3, plan=planned(1))
    assert len(list((place.home / "series").iterdir())) == 2
    assert not [one for one in clean(Settings.current(), 9999) if "horizon" in one.what]
    gone = [one.what for one in clean(Settings.current(), 30) if "horizon" in one.what]
    assert gone == ["counts of a horizon that is over"] * 2
    assert not list((place.home / "series").iterdir())
    # what is published stands
    assert "0 periods released now" in night(3).spent[1]


def test_files_of_counts_say_nothing_without_the_key(place: Place) -> None:
    put(place, [visit(f"p{who}", 1) for who in range(3000)])
    night(1)
    with horizon_of() as horizon:
        where = horizon.release.release_id, NAME, horizon.series
        other = FrozenPeriods(horizon.settings, bytes(32), *where)
        with pytest.raises(LedgerRefusedError, match="damaged, or of another installation"):
            other.read(1)


def test_rows_are_protected_where_the_contract_says_so(place: Place) -> None:
    declare(place, of_rows(source={"file": f"{NAME}.csv", "arrived": "day", "ignore": ["who"]}))
    night(4)
    with horizon_of() as horizon:
        (first, *_) = horizon.frozen.history(4)
    assert horizon.release.guarantee.unit == "row" and not len(first.entered.persons)


def test_the_program_that_holds_the_rows_gives_those_of_the_night(place: Place) -> None:
    """A data frame that grows, and an account by name."""
    tree = series_tree(source={"arrived": "day"})
    rows, session = visits(), dpicl.Session()
    made = session.protect(pa.Table.from_pylist(rows[:100]), tree, epsilon=2, account="visitors")
    again = session.protect(
        pa.Table.from_pylist(rows), tree, epsilon=2, account="visitors", window=2
    )
    assert made.arrow(9).num_rows == again.arrow(9).num_rows == 9
    (account,) = session.budget()
    assert (account.account, account.releases) == ("visitors", DAYS + 1)


@pytest.mark.exhaustive
def test_a_page_over_all_periods_reads_no_row(place: Place) -> None:
    night(9)
    table_of(place).unlink()
    made = place.dpicl(f"series {NAME} --epsilon 2 --window 3 --out page.html")
    assert made.returncode == 0 and made.stdout == "page.html: 9 of 12 periods\n", made.stderr
    page = (place.root / "page.html").read_text()
    for words in (
        "Series of visits",
        "2026-03-09",
        "Rows by period",
        "chance without drift",
        "All 12 periods",
        "Expected error by period",
        "The contract declares no public rows",
    ):
        assert words in page
    for changed, refused in {
        "other.html --epsilon 1": "no period of this horizon is released",
        "page.html --epsilon 2": "a new file",
    }.items():
        assert refused in complaint(place.dpicl(f"series {NAME} --out {changed}"))


def test_counts_of_a_night_are_those_of_its_rows(place: Place) -> None:
    """At next to no noise: the windows of what was published. Each sum has a deviation of 1.4
    scales, six of which are never reached by chance; a day more or less would be thirty rows and
    more.
    """
    tree = series_tree()
    tree["privacy"]["budget"]["epsilon"] = 500
    tree["privacy"]["person"] |= {"max_rows_in_horizon": 12}
    declare(place, tree)
    put(place, arrived := visits(persons=600))
    made = night(10, plan=planned(400), window=4)
    of_window = [row["age"] for row in arrived if "2026-03-07" <= row["day"] <= "2026-03-10"]
    ages, _ = np.histogram(of_window, [18, 30, 60, 91])
    (window,) = [one for one in made.drawn.marginals if one.columns == (0, 3)]
    assert np.abs(window.counts.sum(axis=1) - ages).max() < 6 * 2**0.5 * window.scale < 30


def left_of(place: Place) -> list[Path]:
    """Frozen counts, and folders of private rows."""
    private = Settings.current().private_home
    return [*(place.home / "series").glob("*/*"), *private.glob("*/protect-*")]


def test_a_last_night_that_was_killed_after_its_publish_leaves_nothing_once_a_window_is_asked_for(
    place: Place,
) -> None:
    """Exact counts, and a plain copy of the table that a killed command could not remove."""

    with killed_at(FrozenPeriods, "forget"):
        night(DAYS)
    copy = Settings.current().private_home / NAME / "protect-visits-killed"
    copy.mkdir(parents=True)
    (copy / RELEASE_LOCK).touch()
    (copy / "rows").write_text("plain")
    assert len(published()) == DAYS and len(left_of(place)) == DAYS + 1
    night(DAYS, until="2026-03-05")
    assert not left_of(place)


@pytest.mark.quick("0")
@pytest.mark.parametrize("made", [0, DAYS - 1])
def test_a_twin_that_read_its_rows_before_the_horizon_ended_releases_the_same_and_leaves_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, made: int
) -> None:
    if made:
        night(made)
    read = Rows.train
    stands: list[Arrays] = []

    def late(rows: Rows) -> Any:
        table = read(rows)
        monkeypatch.setattr(Rows, "train", read)
        night(DAYS)
        stands.extend(published())
        return table

    monkeypatch.setattr(Rows, "train", late)
    ours = night(DAYS)
    assert same(published(), stands) and not left_of(place)
    assert Release(ours).arrow(9).num_rows == 9 and "12 of 12 in all" in ours.spent[1]


def test_counts_that_go_while_they_are_frozen_are_refused_with_a_sentence(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpicl.release.horizon.write_whole", lambda path, write: None)
    with pytest.raises(LedgerRefusedError, match="visits: the counts of period 1 are gone"):
        night(1)


def test_rows_that_break_a_rule_are_refused_before_the_horizon_is_charged(place: Place) -> None:
    declare(
        place, series_tree(source={"file": f"{NAME}.csv", "arrived": "day", "invalid": "refuse"})
    )
    put(place, [*visits(), visit("p1", 1, city="nowhere")])
    with pytest.raises(DpiclError, match="city"):
        night(1)
    with open_ledger(Settings.current()) as ledger:
        assert not ledger.entries(NAME)
    put(place, visits())
    night(1)


def test_a_cap_refuses_before_a_row_is_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*arguments: object) -> None:
        raise AssertionError("rows were read")

    monkeypatch.setattr(Rows, "read", read)
    with pytest.raises(BudgetError, match="of cap 3"):
        night(1, plan=planned(3.5))


def test_a_forecast_looks_no_further_than_the_calendar(place: Place) -> None:
    """Two horizons of 12 days end with the year 9999, and the budget would last for more than
    twenty.
    """
    declare(place, series_tree(releases={"every": "day", "horizon": 12, "first": "9999-12-01"}))
    with horizon_of() as horizon:
        horizon.charge()
    with open_ledger(Settings.current()) as ledger:
        ledger.set_cap(NAME, 200.0, 1e-3)
    ((told,), _) = series_forecasts(Settings.current())
    assert (told.last, told.more, told.until) == ("9999-12-12", 1, "9999-12-24")
