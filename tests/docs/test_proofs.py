"""The page of proofs names nothing that is not there: tests, modules, functions; and has every
method and every lemma.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from dpicl.data.reading.stability import STEPS
from dpicl.methods import METHODS
from tests.docs.pages import DOCS, ROOT

PAGE = (DOCS / "proofs.md").read_text("utf-8")
LEMMAS = "ABCDEFG"
_NAMED = re.compile(r"`([^`\n]+)`")
_TEST, _PATH, _DOTTED = (
    re.compile(pattern)
    for pattern in (r"test_\w+", r"(?:dpicl|tests|lab|docs)/[\w/.-]+", r"[a-z_]+(?:\.\w+)+")
)


STATED = {"source.deliveries", "checks", "invalid", "refuse", "similarity", "participations"} | {
    "lean4",
    "elan",
    "dpicl audit --all",
    "dpicl audit transcripts",
}
"""Keys of contracts and options, packages of others, commands."""


@cache
def names_in(path: Path) -> frozenset[str]:
    """What a module defines at its top."""
    tree = ast.parse(path.read_text("utf-8"))
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return frozenset(found)


@cache
def files_of_tests(folder: Path) -> dict[str, list[Path]]:
    """Files by the name of a test."""
    files: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        for name in re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE):
            files.setdefault(name, []).append(path)
    return files


def has(dotted: str) -> bool:
    """Whether some module `a/b.py` of the package has what `a.b.name` says."""
    *module, name = dotted.split(".")
    files = (ROOT / "dpicl").rglob(f"{'/'.join(module)}.py")
    return any(name in names_in(path) for path in files)


def missing(text: str) -> list[str]:
    """What a text names in backticks and is not there."""
    lost = []
    for name in _NAMED.findall(text):
        if _TEST.fullmatch(name):
            there = name in files_of_tests(ROOT / "tests")
        elif _PATH.fullmatch(name):
            there = (ROOT / name).exists()
        elif _DOTTED.fullmatch(name):
            there = has(name) or name in STATED
        elif re.fullmatch(r"[A-Z]\w+|[a-z]+_\w+", name):
            there = name in METHODS or any(
                name in names_in(path) for path in (ROOT / "dpicl").rglob("*.py")
            )
        else:
            there = name in STATED
        if not there:
            lost.append(name)
    return lost


def test_every_test_module_and_function_on_the_page_is_there() -> None:
    assert missing(PAGE) == []


@pytest.mark.parametrize(
    "name",
    ["test_that_is_not_there", "dpicl/nowhere.py", "filters.nothing", "NoSuchClass", "no_function"],
)
def test_a_name_of_nothing_would_be_noticed(name: str) -> None:
    assert missing(f"a `{name}`, and `filters.Spent` of `dpicl/accounting/filters.py`") == [name]


def test_every_lemma_has_a_claim_a_proof_and_a_check() -> None:
    for lemma in LEMMAS:
        (row,) = re.findall(rf"^\| {lemma} \|.*$", PAGE, re.MULTILINE)
        assert any(_TEST.fullmatch(name) for name in _NAMED.findall(row)), lemma
        (text,) = re.findall(
            rf"^### Lemma {lemma}: .*?(?=^### |\Z)", PAGE, re.MULTILINE | re.DOTALL
        )
        assert "*Claim" in text and "*Proof.*" in text and "∎" in text, lemma


def test_a_check_of_a_lemma_is_in_the_file_that_is_said() -> None:
    here = ROOT / "tests" / "oracles" / "test_lemmas.py"
    for lemma in LEMMAS:
        (row,) = re.findall(rf"^\| {lemma} \|.*$", PAGE, re.MULTILINE)
        of_file = here
        for part in re.split(r"; ", row.split("|")[-2]):
            said = [name for name in _NAMED.findall(part) if name.startswith("tests/")]
            of_file = ROOT / said[0] if said else here
            for name in _NAMED.findall(part):
                if _TEST.fullmatch(name):
                    assert of_file in files_of_tests(ROOT / "tests")[name], name


def test_every_method_is_proved() -> None:
    for name, method in METHODS.items():
        assert re.search(rf"^### {re.escape(method.title)}\b", PAGE, re.MULTILINE), name


def test_the_page_says_which_steps_move_more_than_a_row() -> None:
    assert [step.name for step in STEPS if step.stability != 1] == ["ask"]
    assert "stability 2" in PAGE
