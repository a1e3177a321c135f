"""A category is what is written in the file; nothing is turned into another text behind the
writer's back.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
import yaml

from dpicl.contract import Contract, load_contract
from dpicl.ground.errors import DataError, DeclarationError, DpiclError, ParameterError
from dpicl.ground.yaml_file import read_yaml
from tests.library.examples import ROOT, every_contract, one_sentence, tree

AS_WRITTEN = "010 12:30 0x1f 0o17 0b1 1_000 yes No on OFF y 2020-01-01 1:30.5 +5 .5 5. = 1e 0 7 -7"
"""Most of these are something else to a YAML 1.1 reader."""
NOT_TEXT = ["~", "null", "", "1.50", "1e5", "-0", "true", "False", ".inf", ".NaN", "-.inf"]


def load(folder: Path, category: str) -> Contract:
    """A contract whose `member` column has this category beside `yes!`, written without quotes."""
    content = tree()
    content["columns"]["member"]["categories"] = ["PLACE", "yes!"]
    content["columns"]["member"]["texts"] = {"yes!": "a member"}
    content["groups"] = {2: ["label"]}
    path = folder / "shop.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False).replace("PLACE", category))
    return load_contract(path)


@pytest.mark.parametrize("written", AS_WRITTEN.split())
def test_a_category_is_the_text_that_is_written(tmp_path: Path, written: str) -> None:
    assert load(tmp_path, written).columns["member"].categories == (written, "yes!")  # type: ignore[union-attr]


@pytest.mark.parametrize("written", NOT_TEXT)
def test_what_yaml_reads_as_no_text_is_refused_with_the_advice_to_quote_it(
    tmp_path: Path, written: str
) -> None:
    with pytest.raises(DeclarationError) as caught:
        load(tmp_path, written)
    sentence = one_sentence(caught.value, "shop.yaml")
    assert "columns.member.categories.0: got" in sentence
    assert "expected text; put it in quotes" in sentence
    quoted = written or "x"
    assert load(tmp_path, f'"{quoted}"').columns["member"].categories == (quoted, "yes!")


def test_numbers_and_truth_values_are_read_where_they_are_written_plainly(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: [0, -3, 12, 0.5, 1e-3, -2.5e+2, .inf, true, FALSE, ~]")
    assert str(read_yaml(tmp_path / "a.yaml")) == (
        "{'a': [0, -3, 12, 0.5, 0.001, -250.0, inf, True, False, None]}"
    )


@every_contract
def test_shipped_contracts_say_the_same_to_a_reader_that_takes_all_scalars_as_text(
    contract: Contract,
) -> None:
    """No category or text of theirs hangs on how YAML reads a scalar."""
    path = ROOT / "data_contracts" / f"{contract.name}.yaml"
    plain = yaml.load(path.read_text(), Loader=yaml.BaseLoader)  # noqa: S506 - texts only
    for name, column in plain["columns"].items():
        if column["type"] == "category":
            declared = contract.columns[name]
            assert declared.categories == tuple(column["categories"])
            assert declared.texts == column.get("texts", {})


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_never_ends_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    for path in (tmp_path / "pipe.yaml", Path("/dev/zero")):
        with pytest.raises(DeclarationError, match=r"cannot be read \(not a file\)"):
            read_yaml(path)
    with pytest.raises(DeclarationError, match="is no path"):
        read_yaml(tmp_path / "a\0b.yaml")


def test_messages_carry_no_control_or_direction_marks(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text('version: 1\n"\\e[31m\\u202eevil\\n": 1\n')
    with pytest.raises(DeclarationError) as caught:
        load_contract(tmp_path / "shop.yaml")
    assert str(caught.value).isprintable()
    assert str(DpiclError("a\x1b[0m\u2066b\nc")) == r"a\u001b[0m\u2066b\nc"


@pytest.mark.parametrize(
    "error",
    [
        DeclarationError("f", "k", "r", "e"),
        DataError("f", "r", column="c", count=2),
        ParameterError("n", 1, "2"),
    ],
    ids=type,
)
def test_errors_survive_the_way_between_processes(error: DpiclError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and vars(again) == vars(error)
    assert str(again) == str(error) == again.details()
