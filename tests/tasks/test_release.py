"""A release as a program uses it: a table, demonstrations and a predictor, all of them for the
price of one charge.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpicl
from dpicl.ground.errors import DpiclError, ParameterError
from dpicl.methods import DEFAULTS
from dpicl.release.certificate_files import public_key, verify_file
from tests.harness import Place, install, new_place, python, shop, shop_rows

HOLDS_ROWS = ("mst_tabicl", "ldp_tabicl")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A private table of 400 customers."""
    place = new_place(tmp_path_factory.mktemp("releases") / "place")
    install(place, shop(private=True), shop_rows(400))
    yield place


def released(
    place: Place, method: str | None = None, *, trust: str = "central", **options: object
) -> dpicl.Release:
    session = dpicl.Session(
        place.home, data=place.root / "data", contracts=place.root / "contracts"
    )
    return session.protect("shop", method=method, trust=trust, epsilon=2, shots=2, options=options)


@pytest.mark.parametrize("method", HOLDS_ROWS)
def test_a_table_has_any_number_of_rows_in_the_contracts_types(place: Place, method: str) -> None:
    release = released(place, method)
    table = release.table(5000)
    contract = release.contract
    assert len(table) == 5000
    assert list(table.columns) == [name for name in contract.columns if name in table.columns]
    assert contract.label.column in table.columns
    kinds = {"category": pa.string(), "integer": pa.int64(), "real": pa.float64()}
    rows = table.to_arrow()
    for name in table.columns:
        kind = rows.schema.field(name).type
        assert kind == kinds[contract.columns[name].type] or (
            kind == pa.large_string() and contract.columns[name].type == "category"
        )
    # the same again
    assert table.equals(released(place, method).table(5000))
    assert len(release.table(3)) == 3 and len(release.table()) == 10_000
    assert type(table[table.columns[:2]]) is pd.DataFrame and type(table.copy()) is pd.DataFrame
    sample = table.head(200).drop_duplicates()
    # rows come in no order
    assert len(sample) > 5


@pytest.mark.exhaustive
def test_quality_takes_a_number_of_simulations(place: Place) -> None:
    release = released(place)
    assert release.quality(4).epsilon == 2
    assert release.quality(4).scores == release.quality(4).scores
    with pytest.raises(ParameterError, match="simulations=3: expected a whole number, 4 or more"):
        release.quality(3)


@pytest.mark.parametrize("count", [0, -1, 1.5, True, 10**9])
def test_another_number_of_rows_is_one_sentence(place: Place, count: object) -> None:
    with pytest.raises(ParameterError, match="(rows|n)=.*: expected a whole number"):
        released(place).table(count)  # type: ignore[arg-type]


def test_files_hold_the_table_and_a_changed_one_is_not_written_as_released(
    place: Place, tmp_path: Path
) -> None:
    table = released(place).table(50)
    table.to_parquet(tmp_path / "shop.parquet")
    table.to_csv(tmp_path / "shop.csv", index=False)
    assert pq.read_table(tmp_path / "shop.parquet").equals(released(place).arrow(50))
    read = pd.read_csv(tmp_path / "shop.csv", dtype=dict(table.dtypes))
    pd.testing.assert_frame_equal(read, pd.DataFrame(table))
    assert table.to_csv(None).startswith(",")
    for name, options in (
        ("german.csv", {"sep": ";", "decimal": ","}),
        ("numbered.csv", {"index": True}),
        ("packed.csv.gz", {"float_format": "%.2f"}),
    ):
        table.to_csv(tmp_path / name, **options)
        verify_file(tmp_path / name, key=public_key(released(place).published.settings))
    assert (tmp_path / "german.csv").read_text().startswith(";".join(table.columns))
    assert pd.read_csv(tmp_path / "packed.csv.gz").shape == table.shape
    table.to_parquet(tmp_path / "fast.parquet", compression="snappy")
    verify_file(tmp_path / "fast.parquet", key=public_key(released(place).published.settings))
    for options in ({}, {"sep": ";"}):  # no parameter of a command is named to a program
        with pytest.raises(ParameterError, match="^shop.csv: expected a new file; .* remove it, o"):
            released(place).table(40).to_csv(tmp_path / "shop.csv", **options)
    with pytest.raises(DpiclError, match="a certificate is of one whole file; expected no `mode`"):
        table.to_csv(tmp_path / "german.csv", mode="a")
    table.iloc[0, 0] = (
        table.iloc[1, 0] if table.iloc[0, 0] != table.iloc[1, 0] else table.iloc[0, 0] + 1
    )
    with pytest.raises(DpiclError, match="was changed since it was released"):
        table.to_parquet(tmp_path / "changed.parquet")
    assert not (tmp_path / "changed.parquet").exists()
    pd.DataFrame(table).to_parquet(tmp_path / "changed.parquet")


@pytest.mark.quick("mst_tabicl")
@pytest.mark.parametrize("method", HOLDS_ROWS)
def test_any_number_of_demonstrations_is_free(place: Place, method: str) -> None:
    release = released(place, method)
    for k in (1, 3, 20_000):
        demonstrations = release.demonstrations(k)
        assert len(demonstrations) == len(demonstrations.text().splitlines()) == k
        assert {answer for _, answer in demonstrations} <= {"Yes", "No"}
        assert all(text.endswith(demonstrations.question) for text, _ in demonstrations)
    assert release.demonstrations() == release.demonstrations(2)


def test_a_release_of_groups_says_what_it_cannot_make(place: Place) -> None:
    release = released(place, "gdp_tabicl")
    assert len(release.demonstrations(2)) == 2
    with pytest.raises(
        ParameterError, match="k=4: expected 2: GDP-TabICL releases groups for one number"
    ):
        release.demonstrations(4)
    for make in (release.table, release.predictor):
        with pytest.raises(
            ParameterError,
            match="expected one that releases a model of rows: ldp_tabicl, mst_tabicl",
        ):
            make()
    assert "<b>" in release._repr_html_()


def test_packages_that_are_not_there_are_one_sentence(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = released(place)
    for name, make in (
        ("polars", release.table(3).to_polars),
        ("datasets", release.demonstrations().to_datasets),
    ):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(
            DpiclError, match=f"needs the package {name}; type `pip install {name}`"
        ):
            make()


def test_whole_numbers_may_be_of_any_type(place: Place) -> None:
    session = dpicl.Session(
        place.home, data=place.root / "data", contracts=place.root / "contracts"
    )
    (first, *others) = (
        session.protect("shop", method="mst_tabicl", epsilon=1, shots=shots)  # type: ignore[arg-type]
        for shots in (4, 4.0, np.int64(4))
    )
    assert len(first.demonstrations()) == 4 and len(first.table(np.int64(7))) == 7
    for other in others:
        assert other.demonstrations().text() == first.demonstrations().text()


def test_options_of_a_method_are_options_of_the_release(place: Place) -> None:
    chosen = released(place, "ldp_tabicl", design="one-column", estimator="tree")
    assert chosen.published.planned.options.ldp_tabicl.design == "one-column"
    assert not chosen.table(100).equals(released(place, "ldp_tabicl").table(100))
    with pytest.raises(DpiclError, match="options of the release: options.ldp_tabicl.design"):
        released(place, "ldp_tabicl", design="none of them")
    with pytest.raises(ParameterError, match="expected those of one release"):
        released(
            place, "ldp_tabicl", variants={"other": {"design": "subset", "estimator": "log-linear"}}
        )


@pytest.mark.exhaustive
def test_rows_are_exported_without_scikit_learn(place: Place) -> None:
    program = (
        "import sys, dpicl\n"
        f"session = dpicl.Session({str(place.home)!r}, data={str(place.root / 'data')!r}, "
        f"contracts={str(place.root / 'contracts')!r})\n"
        "session.protect('shop', epsilon=2).arrow(100)\n"
        "print([name for name in ('sklearn', 'torch', 'prefect') if name in sys.modules])"
    )
    assert python(program, folder=place.root) == "[]"


@pytest.mark.quick("options3")
@pytest.mark.parametrize(
    "options",
    [{}, {"design": "subset", "estimator": "tree"}, {"design": "pairs"}, {"estimator": "simplex"}],
)
def test_a_quote_knows_the_release_of_the_same_options(
    place: Place, options: dict[str, str]
) -> None:
    session = dpicl.Session(
        place.home, data=place.root / "data", contracts=place.root / "contracts"
    )
    how = {"method": DEFAULTS["local"], "epsilon": 3, "options": options}
    session.protect("shop", **how)
    (quoted,) = session.quote("shop", **how)
    assert (quoted.releases, quoted.charged_before) == (1, 1)
