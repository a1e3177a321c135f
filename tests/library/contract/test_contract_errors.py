"""A broken contract is answered with one sentence: file, key, rule and the expected shape."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpicl.contract import load_contract, parse_contract
from dpicl.ground.errors import DeclarationError
from dpicl.ground.yaml_file import line_of, parse_yaml
from tests.library.examples import REMOVED, changed, one_sentence, tree

ROOT = Path(__file__).resolve().parents[3]


BROKEN: dict[str, tuple[Any, ...]] = {
    "unknown key": ("colums", 1, "one of these (did you mean 'columns'?): version"),
    "unknown key below": (
        "columns.age.bound",
        [0, 1],
        "bins, type, bounds, decimals, step; did you mean 'bounds'?",
    ),
    "unknown key of many": (
        "source.delimeter",
        "0",
        "26 keys, which docs/reference lists; did you mean 'delimiter'?",
    ),
    "unknown key in a list": ("checks.0.colum", "age", "; did you mean 'column'?"),
    "unknown key far from all": ("privacy.budget.qqqq", 1, "one of benchmark, epsilon, delta, by"),
    "key of another level": ("benchmark", True, "unknown key; expected it below `privacy.budget`"),
    "key of a level below": (
        "privacy.benchmark",
        True,
        "unknown key; expected it below `privacy.budget`",
    ),
    "key of a level above": ("source.split", {}, "unknown key; expected it at the top level"),
    "key of two other levels": ("file", "x", "expected it below `source` or below `queries`"),
    "key of another level or misspelt": (
        "checks.0.columns",
        "age",
        "expected it at the top level; did you mean 'column'?",
    ),
    "key of another kind here": ("columns.age.categories", ["a"], "expected one of invalid, "),
    "misspelt key that is missing": (
        {"columns.age.bounds": REMOVED, "columns.age.bouns": [0, 1]},
        None,
        "unknown key; expected one of",
        "columns.age.bouns",
    ),
    "missing key": ("columns", REMOVED, "missing; expected this key"),
    "missing key below": ("columns.age.bounds", REMOVED, "missing; expected this key"),
    "unknown type": (
        "columns.age.type",
        "interger",
        "integer, real, date, datetime, category, boolean; did you mean 'integer'?",
    ),
    "no type": ("columns.age.type", REMOVED, "missing; expected this key"),
    "type in another word": ("columns.age.type", "bool", "got 'bool'; expected one of integer, "),
    "type misspelt": (
        {"columns.age": {"typ": "category"}},
        None,
        "missing; expected this key; did you mean it by 'typ'?",
        "columns.age.type",
    ),
    "column is a list": ("columns.age", [1], "expected a mapping"),
    "bounds reversed": ("columns.age.bounds", [120, 0], "expected [low, high] with low < high"),
    "bounds equal": ("columns.age.bounds", [5, 5], "expected [low, high] with low < high"),
    "bounds of text": (
        "columns.age.bounds",
        ["a", 1],
        "expected a whole number",
        "columns.age.bounds.0",
    ),
    "one bound": ("columns.age.bounds", [1], "missing", "columns.age.bounds.1"),
    "bounds without end": (
        "columns.spent.bounds",
        [0, float("inf")],
        "expected a finite number",
        "columns.spent.bounds.1",
    ),
    "bounds not a number": (
        "columns.spent.bounds",
        [float("nan"), 1],
        "expected a finite number",
        "columns.spent.bounds.0",
    ),
    "bounds beyond doubles": ("columns.age.bounds", [0, 2**60], "both from -2^53 to 2^53"),
    "step too wide": (
        "columns.spent.step",
        1000,
        "expected 1 to 2^53 steps between them",
        "columns.spent",
    ),
    "step too fine": (
        "columns.spent.step",
        1e-300,
        "expected 1 to 2^53 steps between them",
        "columns.spent",
    ),
    "step zero": ("columns.spent.step", 0, "expected greater than 0"),
    "cut above the bounds": (
        "local.0.cuts",
        [200],
        "expected rising cuts above 0 and up to 120",
        "local.band.cuts",
    ),
    "cut at the lower bound": (
        "label",
        {"column": "age", "cuts": [0], "question": "?"},
        "leaves a part empty",
        "label.cuts",
    ),
    "cuts between the same whole numbers": (
        "groups.3",
        [{"column": "age", "cuts": [4.2, 4.5]}],
        "leaves a part empty",
        "groups.3.0.cuts",
    ),
    "falling cuts": ("local.2.cuts", [50, 10], "expected rising cut points", "local.2"),
    "falling cuts of a word": (
        "prompts.central.words.Note",
        {"field": "age", "cuts": [50, 10], "texts": ["a", "b", "c"]},
        "expected rising cuts",
        "prompts.central.words.Note.cuts",
    ),
    "cuts of categories": (
        "local.1",
        {"name": "c", "column": "colour", "cuts": [1], "texts": ["a", "b"]},
        "expected `parts` with lists of categories",
        "local.c.cuts",
    ),
    "parts of a number": (
        "local.0",
        {"name": "b", "column": "age", "parts": [["1"], "rest"], "texts": ["a", "b"]},
        "expected `cuts` with numbers",
        "local.b.parts",
    ),
    "rule twice": ("label.cuts", [1], "expected `cuts` or `parts`, or none of them", "label"),
    "label with three parts": (
        "label.parts",
        [["no"], ["yes"], ["twice"]],
        "expected two, negative first",
        "label",
    ),
    "unknown category": ("label.parts", [["no"], ["perhaps"]], "expected one of: no, yes, twice"),
    "category in two parts": (
        "label.parts",
        [["no", "yes"], ["yes", "twice"]],
        "expected disjoint parts",
    ),
    "category in no part": ("label.parts", [["no"], ["yes"]], "leaves out 'twice'"),
    "empty part": ("label.parts", [["no", "yes", "twice"], "rest"], "has an empty part"),
    "category twice": (
        "columns.colour.categories",
        ["red", "red"],
        "expected distinct categories",
        "columns.colour",
    ),
    "a mapping for a list": (
        "relations",
        {"rising": ["age", "colour"]},
        "expected a list: `relations: [{rising: …}]`",
    ),
    "a mapping for a list below": (
        "columns.colour.categories",
        {"red": 1},
        "expected a list: `categories: [{red: …}]`",
    ),
    "no categories": ("columns.colour.categories", [], "expected a list with at least 1 item"),
    "text for an unknown category": (
        "columns.colour.texts",
        {"pink": "p"},
        "expected only listed categories",
        "columns.colour",
    ),
    "texts too few": ("local.0.texts", ["young"], "expected one text per part", "local.0"),
    "template names a missing column": (
        "prompts.central.text",
        "{agee}",
        "expected one of Note, age",
    ),
    "template names the label": (
        "prompts.central.text",
        "{bought}",
        "place {bought} names no field",
    ),
    "template with a format": ("prompts.central.text", "{age:>9}", "names no field"),
    "place without a name": ("prompts.central.text", "{}", "names no field"),
    "brace not closed": ("prompts.central.text", "{age", "expected places written {field}"),
    "brace not opened": ("prompts.local.text", "band}", "expected places written {field}"),
    "word without texts": (
        "prompts.central.words.Note",
        {"field": "age", "texts": []},
        "expected either `cuts` or `parts`",
    ),
    "word of a missing field": (
        "prompts.central.words.Note.field",
        "agee",
        "expected one of age, spent",
    ),
    "word that hides a column": (
        "prompts.central.words.age",
        {"field": "spent", "cuts": [1], "texts": ["a", "b"]},
        "another name",
    ),
    "groups that make another number": (
        "groups.4",
        ["label"],
        "the keys make 2 = 2 groups; expected 4 groups",
    ),
    "groups without keys": ("groups.4", [], "expected 4 groups"),
    "groups of one": ("groups.1", [], "expected greater than or equal to 2"),
    "groups by one column twice": (
        "groups.4",
        ["label", {"column": "bought", "parts": [["no"], "rest"]}],
        "expected distinct columns",
    ),
    "groups by another rule for the label": (
        "groups.2",
        [{"column": "bought", "parts": ["rest", ["no"]]}],
        "expected the key `label`",
    ),
    "group key misspelt": (
        "groups.2",
        ["lable"],
        "expected `label`, or a mapping with column and cuts or parts",
        "groups.2.0",
    ),
    "group of a missing column": (
        "groups.2",
        [{"column": "agee", "cuts": [3]}],
        "expected one of age",
        "groups.2.0.column",
    ),
    "attribute of the label": (
        "local.0",
        {"name": "b", "column": "bought", "parts": [["no"], "rest"], "texts": ["a", "b"]},
        "expected a feature column",
        "local.b.column",
    ),
    "attribute called label": (
        "local.0.name",
        "label",
        "expected distinct names other than 'label'",
        "local",
    ),
    "too many levels": (
        "local.0",
        {
            "name": "a",
            "column": "spent",
            "cuts": [0.3 * place for place in range(1, 291)],
            "texts": ["x"] * 291,
        },
        "expected at most 256",
        "local.a",
    ),
    "check of a missing column": ("checks.0.column", "agee", "expected one of age"),
    "unknown check": ("checks.0.rule", "in_bound", "expected 'in_bounds'"),
    "rate zero": ("privacy.sampling_rate", 0, "expected a rate in (0, 1]"),
    "rate above one": ("privacy.sampling_rate", "3/2", "expected a rate in (0, 1]"),
    "rate of text": ("privacy.sampling_rate", "often", "expected a number or a fraction"),
    "rate over zero": ("privacy.sampling_rate", "1/0", "expected a number or a fraction"),
    "rate with a huge exponent": ("privacy.sampling_rate", "1e999999999", "expected a number"),
    "rate with a tiny exponent": ("privacy.sampling_rate", "1e-999999999", "expected a rate"),
    "a plain hash of private rows": (
        {"source.content_sha256": "0" * 64, "privacy.budget": {"epsilon": 1}},
        None,
        "against which guesses can be tried; expected no such key but",
        "source.content_sha256",
    ),
    "budget missing": ("privacy.budget", {}, "expected `benchmark: true` or `epsilon: CAP`"),
    "budget twice": ("privacy.budget", {"benchmark": True, "epsilon": 1}, "not both"),
    "budget negative": (
        "privacy.budget",
        {"epsilon": -1},
        "expected greater than 0",
        "privacy.budget.epsilon",
    ),
    "neighbours": ("privacy.neighbours", "both", "expected 'add-or-remove-one' or 'replace-one'"),
    "person without an id": (
        "privacy.unit",
        "person",
        "expected `person: {id_column: COLUMN, max_rows: NUMBER}` too",
        "privacy",
    ),
    "a benchmark without a split": ("split", REMOVED, "how a benchmark's rows are held out"),
    "queries of private rows": (
        {"privacy.budget": {"epsilon": 1}, "queries": {"file": "shop.csv"}},
        None,
        "is one of the private files",
        "queries",
    ),
    "queries of a benchmark": ("queries", {"file": "public.csv"}, "its held-out rows are public"),
    "a charge on a benchmark": ("split.evaluation_epsilon", 1, "nothing is charged"),
    "an evaluation for nothing": ("split.evaluation_epsilon", 0, "expected"),
    "two ways to measure": (
        {
            "privacy.budget": {"epsilon": 1},
            "queries": {"file": "public.csv"},
            "split.evaluation_epsilon": 1,
        },
        None,
        "one of both to measure on",
        "queries",
    ),
    "split missing": ("split", {}, "expected column, train and test, or test_fraction"),
    "split half": ("split", {"column": "member", "train": "no"}, "expected column, train and test"),
    "split into the same rows": (
        "split",
        {"column": "member", "train": "no", "test": "no"},
        "expected two different values",
    ),
    "split by an unknown value": (
        "split",
        {"column": "member", "train": "no", "test": "maybe"},
        "expected a category column",
        "split.column",
    ),
    "no source": (
        "source.file",
        REMOVED,
        "expected one of bundled, file, folder, deliveries, query, openml, uci",
        "source",
    ),
    "absolute path": ("source.file", "/etc/passwd", "expected text of the form"),
    "name": ("name", "My Shop", "expected text of the form"),
    "version": ("version", 3, "expected 1 or 2"),
    "bins at the lower bound": ("columns.age.bins", [0], "rising cuts above 0 and up to 120"),
    "a bin twice": ("columns.age.bins", [9, 9], "rising cuts"),
    "no bins": ("columns.age.bins", [], "at least 1 item"),
    "a folder beside a file": (
        "source.folder",
        "people",
        "expected `folder`, `deliveries`, `query` or `frame` alone",
        "source",
    ),
    "a query beside a file": (
        "source.query",
        {"url_env": "A", "sql": "SELECT 1"},
        "more than one place for the rows",
        "source",
    ),
}
"""Where another value is written, which, what is said, and of which key if not of that place."""


def test_the_contract_that_is_broken_below_is_whole() -> None:
    assert parse_contract(tree(), "shop.yaml").shots == (1, 2, 4, 8)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_one_sentence_with_its_key_and_the_expected_shape(name: str) -> None:
    place, value, phrase, *key = BROKEN[name]
    content = changed(tree(), place if isinstance(place, dict) else {place: value})
    with pytest.raises(DeclarationError) as caught:
        parse_contract(content, "shop.yaml")
    text = one_sentence(caught.value, "shop.yaml")
    (key,) = key or [place]
    assert text.startswith(f"shop.yaml: {key}: ") and phrase in text and "; expected " in text, text
    assert caught.value.key == key


GOOD = yaml.safe_dump(tree(), sort_keys=False)
FILES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "is empty or not a mapping; expected `key: value` lines"),
    "only a comment": (b"# soon\n", "is empty or not a mapping"),
    "a list": (b"- version: 1\n", "is empty or not a mapping; expected `key: value` lines"),
    "a word": (b"contract", "is empty or not a mapping"),
    "key twice": (
        (GOOD + "name: shop\n").encode(),
        "key 'name' is repeated; expected every key once",
    ),
    "key twice below": (
        GOOD.replace("  age:\n", "  age: {type: real, bounds: [0, 1]}\n  age:\n", 1).encode(),
        "key 'age' is repeated",
    ),
    "anchor": (
        GOOD.replace("version: 1", "version: &v 1").encode(),
        "line 1: an anchor or alias; expected the value written out",
    ),
    "alias": (b"a: [*x]\n", "an anchor or alias; expected the value written out"),
    "merge": (b"<<: {version: 1}\n", "line 1"),
    "tag": (b"version: !!python/name:os.system\n", "line 1: a tag; expected a plain value"),
    "tags that crash YAML readers": (b'version: !!int ""\n', "a tag; expected a plain value"),
    "tab": (
        b"version: 1\nname:\tshop\n\tdescription: d\n",
        "found a tab character that violates indentation",
    ),
    "key that is a list": (b"? [a]\n: b\n", "a key is not a word; expected `word: value`"),
    "key that is null": (b"null: 1\n", "a key is not a word"),
    "two documents": (GOOD.encode() + b"---\nb: 1\n", "another document"),
    "not closed": (b"version: [1\n", "line 1: did not find expected"),
    "control character": (b"version: \x00\n", "is not valid YAML"),
    "UTF-16": ("version: 1\n".encode("utf-16"), "is not UTF-8; expected text in UTF-8"),
    "Latin-1": ("description: naïve\n".encode("latin-1"), "is not UTF-8"),
    "huge": (b"# " + b"x" * (1 << 18), "has 262146 bytes; expected at most 262144"),
    "deep": (
        b"a: " + b"[" * 5000 + b"]" * 5000,
        "line 1: nested too deep; expected at most 20 levels",
    ),
    "deep and open": (b"{" * 50_000, "line 1: nested too deep; expected at most 20 levels"),
    "long": (
        b"a: [" + b"a," * 30_000 + b"]",
        "line 1: one value too many; expected at most 20000 in a file",
    ),
    "one key as number and text": (b'1: a\n"1": b\n', "line 2: key '1' is repeated"),
    "number of many digits": (
        b"version: " + b"9" * 5000,
        "cannot be parsed; expected plain, flat YAML",
    ),
}


@pytest.mark.parametrize(("raw", "phrase"), FILES.values(), ids=FILES)
def test_a_file_that_is_no_declaration_isone_sentence(
    tmp_path: Path, raw: bytes, phrase: str
) -> None:
    path = tmp_path / "shop.yaml"
    path.write_bytes(raw)
    with pytest.raises(DeclarationError) as caught:
        load_contract(path)
    assert phrase in one_sentence(caught.value, "shop.yaml")


def test_a_missing_file_a_folder_and_another_name_areone_sentence(tmp_path: Path) -> None:
    (tmp_path / "store.yaml").write_text(GOOD)
    for path, phrase in [
        (tmp_path / "none.yaml", "No such file"),
        (tmp_path, "cannot be read (not a file)"),
        (tmp_path / "store.yaml", "expected 'store', the file's own name"),
    ]:
        with pytest.raises(DeclarationError) as caught:
            load_contract(path)
        assert phrase in one_sentence(caught.value, path.name)


def test_several_slips_are_counted() -> None:
    content = tree()
    content["columns"]["age"]["bounds"] = ["a", "b"]
    with pytest.raises(
        DeclarationError, match=r"got 'a'; .* without quotes \(and 1 more\)"
    ) as caught:
        parse_contract(content, "shop.yaml")
    second = "shop.yaml: columns.age.bounds.1: got 'b'; expected a whole number"
    assert [problem.key for problem in caught.value.problems] == [
        "columns.age.bounds.0",
        "columns.age.bounds.1",
    ]
    assert str(caught.value.problems[1]).startswith(second[:50])
    assert caught.value.__notes__ == [str(caught.value.problems[1])], "a traceback shows them"


def test_broken_references_are_counted_too_and_the_command_that_shows_all_is_named(
    tmp_path: Path,
) -> None:
    content = changed(
        tree(), {"checks.0.column": "agee", "prompts.central.text": "{agee}", "name": "shop"}
    )
    path = tmp_path / "shop.yaml"
    path.write_text(yaml.safe_dump(content), "utf-8")
    with pytest.raises(
        DeclarationError, match=r"\(and 1 more: `dpicl contract check shop` shows all\)"
    ) as caught:
        load_contract(path)
    assert len({problem.key for problem in caught.value.problems}) == 2


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("columns.age.bounds.1", 5),
        ("columns.age.step", 4),
        ("columns.b.c", 6),
        ("label", 7),
        ("nothing", None),
        ("", None),
    ],
)
def test_a_key_is_found_by_its_line(key: str, line: int | None) -> None:
    text = b"name: a\n\ncolumns:\n  age:\n    bounds: [0, 1]\n  b.c: {}\nlabel: x\n"
    assert line_of(text, key) == line


def test_a_pyyaml_without_libyaml_reads_the_same() -> None:
    script = (
        "import yaml; yaml.__with_libyaml__ = False; del yaml.CSafeLoader; from pathlib import "
        "Path; from dpicl.ground import yaml_file;"
        "print(yaml_file._BASES == (yaml.SafeLoader,), "
        "repr(yaml_file.parse_yaml(Path('pipelines.yaml').read_bytes(), 'f')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"True {parse_yaml((ROOT / 'pipelines.yaml').read_bytes(), 'f')!r}\n"
