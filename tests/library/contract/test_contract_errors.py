"""A broken contract is answered with one sentence: file, key, rule and the expected shape."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpicl.contract import load_contract, parse_contract
from dpicl.ground.errors import DeclarationError
from dpicl.ground.yaml_file import parse_yaml
from tests.library.examples import one_sentence, put, tree

ROOT = Path(__file__).resolve().parents[3]


def _drop(*path: str | int) -> Callable[[Any], None]:
    def change(content: Any) -> None:
        for part in path[:-1]:
            content = content[part]
        del content[path[-1]]

    return change


def _private_digest(content: Any) -> None:
    content["source"]["content_sha256"] = "0" * 64
    content["privacy"]["budget"] = {"epsilon": 1}


AGE, SPENT, COLOUR, CENTRAL = (
    ("columns", "age"),
    ("columns", "spent"),
    ("columns", "colour"),
    ("prompts", "central"),
)
BROKEN: dict[str, tuple[Callable[[Any], None], str, str]] = {
    "unknown key": (put("colums")(1), "colums", "unknown key"),
    "unknown key below": (put(*AGE, "bound")([0, 1]), "columns.age.bound", "unknown key"),
    "missing key": (_drop("columns"), "columns", "missing; expected this key"),
    "missing key below": (
        _drop(*AGE, "bounds"),
        "columns.age.bounds",
        "missing; expected this key",
    ),
    "unknown type": (
        put(*AGE, "type")("interger"),
        "columns.age",
        "expected 'integer', 'real', 'date', 'datetime', 'category'",
    ),
    "no type": (_drop(*AGE, "type"), "columns.age", "has no known 'type'"),
    "column is a list": (put(*AGE)([1]), "columns.age", "expected a mapping"),
    "bounds reversed": (
        put(*AGE, "bounds")([120, 0]),
        "columns.age.bounds",
        "expected [low, high] with low < high",
    ),
    "bounds equal": (
        put(*AGE, "bounds")([5, 5]),
        "columns.age.bounds",
        "expected [low, high] with low < high",
    ),
    "bounds of text": (
        put(*AGE, "bounds")(["a", 1]),
        "columns.age.bounds.0",
        "expected a whole number",
    ),
    "one bound": (put(*AGE, "bounds")([1]), "columns.age.bounds.1", "missing"),
    "bounds without end": (
        put(*SPENT, "bounds")([0, float("inf")]),
        "columns.spent.bounds.1",
        "expected a finite number",
    ),
    "bounds not a number": (
        put(*SPENT, "bounds")([float("nan"), 1]),
        "columns.spent.bounds.0",
        "expected a finite number",
    ),
    "bounds beyond doubles": (
        put(*AGE, "bounds")([0, 2**60]),
        "columns.age.bounds",
        "both from -2^53 to 2^53",
    ),
    "step too wide": (
        put(*SPENT, "step")(1000),
        "columns.spent",
        "expected 1 to 2^53 steps between them",
    ),
    "step too fine": (
        put(*SPENT, "step")(1e-300),
        "columns.spent",
        "expected 1 to 2^53 steps between them",
    ),
    "step zero": (put(*SPENT, "step")(0), "columns.spent.step", "expected greater than 0"),
    "cut above the bounds": (
        put("local", 0, "cuts")([200]),
        "local.band.cuts",
        "expected rising cuts above 0 and up to 120",
    ),
    "cut at the lower bound": (
        put("label")({"column": "age", "cuts": [0], "question": "?"}),
        "label.cuts",
        "leaves a part empty",
    ),
    "cuts between the same whole numbers": (
        put("groups", 3)([{"column": "age", "cuts": [4.2, 4.5]}]),
        "groups.3.0.cuts",
        "leaves a part empty",
    ),
    "falling cuts": (put("local", 2, "cuts")([50, 10]), "local.2", "expected rising cut points"),
    "falling cuts of a word": (
        put(*CENTRAL, "words", "Note")(
            {"field": "age", "cuts": [50, 10], "texts": ["a", "b", "c"]}
        ),
        "prompts.central.words.Note.cuts",
        "expected rising cuts",
    ),
    "cuts of categories": (
        put("local", 1)({"name": "c", "column": "colour", "cuts": [1], "texts": ["a", "b"]}),
        "local.c.cuts",
        "expected `parts` with lists of categories",
    ),
    "parts of a number": (
        put("local", 0)(
            {"name": "b", "column": "age", "parts": [["1"], "rest"], "texts": ["a", "b"]}
        ),
        "local.b.parts",
        "expected `cuts` with numbers",
    ),
    "rule twice": (
        put("label", "cuts")([1]),
        "label",
        "expected `cuts` or `parts`, or none of them",
    ),
    "label with three parts": (
        put("label", "parts")([["no"], ["yes"], ["twice"]]),
        "label",
        "expected two, negative first",
    ),
    "unknown category": (
        put("label", "parts")([["no"], ["perhaps"]]),
        "label.parts",
        "expected one of: no, yes, twice",
    ),
    "category in two parts": (
        put("label", "parts")([["no", "yes"], ["yes", "twice"]]),
        "label.parts",
        "expected disjoint parts",
    ),
    "category in no part": (
        put("label", "parts")([["no"], ["yes"]]),
        "label.parts",
        "leaves out 'twice'",
    ),
    "empty part": (
        put("label", "parts")([["no", "yes", "twice"], "rest"]),
        "label.parts",
        "has an empty part",
    ),
    "category twice": (
        put(*COLOUR, "categories")(["red", "red"]),
        "columns.colour",
        "expected distinct categories",
    ),
    "no categories": (
        put(*COLOUR, "categories")([]),
        "columns.colour.categories",
        "expected a list with at least 1 item",
    ),
    "text for an unknown category": (
        put(*COLOUR, "texts")({"pink": "p"}),
        "columns.colour",
        "expected only listed categories",
    ),
    "texts too few": (put("local", 0, "texts")(["young"]), "local.0", "expected one text per part"),
    "template names a missing column": (
        put(*CENTRAL, "text")("{agee}"),
        "prompts.central.text",
        "expected one of: Note, age",
    ),
    "template names the label": (
        put(*CENTRAL, "text")("{bought}"),
        "prompts.central.text",
        "place {bought} names no field",
    ),
    "template with a format": (
        put(*CENTRAL, "text")("{age:>9}"),
        "prompts.central.text",
        "names no field",
    ),
    "place without a name": (put(*CENTRAL, "text")("{}"), "prompts.central.text", "names no field"),
    "brace not closed": (
        put(*CENTRAL, "text")("{age"),
        "prompts.central.text",
        "expected places written {field}",
    ),
    "brace not opened": (
        put("prompts", "local", "text")("band}"),
        "prompts.local.text",
        "expected places written {field}",
    ),
    "word without texts": (
        put(*CENTRAL, "words", "Note")({"field": "age", "texts": []}),
        "prompts.central.words.Note",
        "expected either `cuts` or `parts`",
    ),
    "word of a missing field": (
        put(*CENTRAL, "words", "Note", "field")("agee"),
        "prompts.central.words.Note.field",
        "expected one of: age, spent",
    ),
    "word that hides a column": (
        put(*CENTRAL, "words", "age")({"field": "spent", "cuts": [1], "texts": ["a", "b"]}),
        "prompts.central.words.age",
        "another name",
    ),
    "groups that make another number": (
        put("groups", 4)(["label"]),
        "groups.4",
        "the keys make 2 = 2 groups; expected 4 groups",
    ),
    "groups without keys": (put("groups", 4)([]), "groups.4", "expected 4 groups"),
    "groups of one": (put("groups", 1)([]), "groups.1", "expected greater than or equal to 2"),
    "groups by one column twice": (
        put("groups", 4)(["label", {"column": "bought", "parts": [["no"], "rest"]}]),
        "groups.4",
        "expected distinct columns",
    ),
    "groups by another rule for the label": (
        put("groups", 2)([{"column": "bought", "parts": ["rest", ["no"]]}]),
        "groups.2",
        "expected the key `label`",
    ),
    "group key misspelt": (
        put("groups", 2)(["lable"]),
        "groups.2.0",
        "expected `label`, or a mapping with column and cuts or parts",
    ),
    "group of a missing column": (
        put("groups", 2)([{"column": "agee", "cuts": [3]}]),
        "groups.2.0.column",
        "expected one of: age",
    ),
    "attribute of the label": (
        put("local", 0)(
            {"name": "b", "column": "bought", "parts": [["no"], "rest"], "texts": ["a", "b"]}
        ),
        "local.b.column",
        "expected a feature column",
    ),
    "attribute called label": (
        put("local", 0, "name")("label"),
        "local",
        "expected distinct names other than 'label'",
    ),
    "too many levels": (
        lambda content: content.update(
            local=[
                {
                    "name": "a",
                    "column": "spent",
                    "cuts": [0.3 * (place + 1) for place in range(290)],
                    "texts": ["x"] * 291,
                }
            ]
        ),
        "local.a",
        "expected at most 256",
    ),
    "check of a missing column": (
        put("checks", 0, "column")("agee"),
        "checks.0.column",
        "expected one of: age",
    ),
    "unknown check": (
        put("checks", 0, "rule")("in_bound"),
        "checks.0.rule",
        "expected 'in_bounds'",
    ),
    "rate zero": (
        put("privacy", "sampling_rate")(0),
        "privacy.sampling_rate",
        "expected a rate in (0, 1]",
    ),
    "rate above one": (
        put("privacy", "sampling_rate")("3/2"),
        "privacy.sampling_rate",
        "expected a rate in (0, 1]",
    ),
    "rate of text": (
        put("privacy", "sampling_rate")("often"),
        "privacy.sampling_rate",
        "expected a number or a fraction",
    ),
    "rate over zero": (
        put("privacy", "sampling_rate")("1/0"),
        "privacy.sampling_rate",
        "expected a number or a fraction",
    ),
    "rate with a huge exponent": (
        put("privacy", "sampling_rate")("1e999999999"),
        "privacy.sampling_rate",
        "expected a number",
    ),
    "rate with a tiny exponent": (
        put("privacy", "sampling_rate")("1e-999999999"),
        "privacy.sampling_rate",
        "expected a rate",
    ),
    "a plain hash of private rows": (
        _private_digest,
        "source.content_sha256",
        "against which guesses can be tried; expected no such key but",
    ),
    "budget missing": (
        put("privacy", "budget")({}),
        "privacy.budget",
        "expected `benchmark: true` or `epsilon: CAP`",
    ),
    "budget twice": (
        put("privacy", "budget")({"benchmark": True, "epsilon": 1}),
        "privacy.budget",
        "not both",
    ),
    "budget negative": (
        put("privacy", "budget")({"epsilon": -1}),
        "privacy.budget.epsilon",
        "expected greater than 0",
    ),
    "neighbours": (
        put("privacy", "neighbours")("both"),
        "privacy.neighbours",
        "expected 'add-or-remove-one' or 'replace-one'",
    ),
    "person without an id": (
        put("privacy", "unit")("person"),
        "privacy",
        "expected `person:` exactly when `unit: person`",
    ),
    "a benchmark without a split": (
        lambda content: content.pop("split"),
        "split",
        "how a benchmark's rows are held out",
    ),
    "queries of private rows": (
        lambda content: content.update(
            privacy={"budget": {"epsilon": 1}},
            queries={"file": content["source"]["file"]},
            split={"test_fraction": 0.2},
        ),
        "queries",
        "is one of the private files",
    ),
    "queries of a benchmark": (
        put("queries")({"file": "public.csv"}),
        "queries",
        "its held-out rows are public",
    ),
    "a charge on a benchmark": (
        put("split", "evaluation_epsilon")(1),
        "split.evaluation_epsilon",
        "nothing is charged",
    ),
    "an evaluation for nothing": (
        put("split", "evaluation_epsilon")(0),
        "split.evaluation_epsilon",
        "expected",
    ),
    "two ways to measure": (
        lambda content: content.update(
            privacy={"budget": {"epsilon": 1}},
            queries={"file": "public.csv"},
            split={"test_fraction": 0.2, "evaluation_epsilon": 1},
        ),
        "queries",
        "one of both to measure on",
    ),
    "split missing": (
        put("split")({}),
        "split",
        "expected column, train and test, or test_fraction",
    ),
    "split half": (
        put("split")({"column": "member", "train": "no"}),
        "split",
        "expected column, train and test",
    ),
    "split into the same rows": (
        put("split")({"column": "member", "train": "no", "test": "no"}),
        "split",
        "expected two different values",
    ),
    "split by an unknown value": (
        put("split")({"column": "member", "train": "no", "test": "maybe"}),
        "split.column",
        "expected a category column",
    ),
    "no source": (
        _drop("source", "file"),
        "source",
        "expected one of bundled, file, folder, deliveries, query, openml, uci",
    ),
    "absolute path": (
        put("source", "file")("/etc/passwd"),
        "source.file",
        "expected text of the form",
    ),
    "name": (put("name")("My Shop"), "name", "expected text of the form"),
    "version": (put("version")(3), "version", "expected 1 or 2"),
}


def test_the_contract_that_is_broken_below_is_whole() -> None:
    assert parse_contract(tree(), "shop.yaml").shots == (1, 2, 4, 8)


@pytest.mark.parametrize(("change", "key", "phrase"), BROKEN.values(), ids=BROKEN)
def test_a_broken_rule_is_one_sentence_with_its_key_and_the_expected_shape(
    change: Callable[[Any], None], key: str, phrase: str
) -> None:
    content = tree()
    change(content)
    with pytest.raises(DeclarationError) as caught:
        parse_contract(content, "shop.yaml")
    text = one_sentence(caught.value, "shop.yaml")
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
    with pytest.raises(DeclarationError, match=r"got 'a' \(and 1 more\)"):
        parse_contract(content, "shop.yaml")


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
