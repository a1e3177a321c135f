"""Where a mutant's piece of code stands, and the file with the other one in its place."""

from __future__ import annotations

import ast
import copy
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

PACKAGES = ("dpicl", "tasks", "flows", "infra")
_ATOMS = (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_Steps = tuple[ast.AST, ...]
_Node = tuple[ast.AST, _Steps, str]
"""A node, what encloses it, outermost first, and names of the scopes, its own too, as `.a.b.`."""


@dataclass(frozen=True)
class Mutant:
    """One mistake: `old`, an expression or statements, becomes `new`.

    `within` names enclosing functions or classes, as `Class.method`; empty: it may stand anywhere.
    """

    id: str
    area: str
    says: str
    old: str
    new: str
    within: str = ""


def listed(file: Path) -> list[Mutant]:
    """All of them, in their order."""
    return [Mutant(**entry) for entry in yaml.safe_load(file.read_text("utf-8"))]


def with_heir(mutant: Mutant, heirs: Mapping[str, Mapping[str, str]]) -> Mutant:
    """The same mistake in the piece of code that took its place."""
    heir = heirs[mutant.id]
    return replace(mutant, old=heir["old"], new=heir["new"], within=heir.get("within", ""))


@dataclass(frozen=True)
class Place:
    """Where a piece stands: its nodes, and what encloses them, outermost first."""

    nodes: Sequence[ast.AST]
    around: _Steps


@dataclass
class Product:
    """The product's files by their paths; `root` holds the packages."""

    root: Path
    sources: dict[str, bytes] = field(init=False)
    _trees: dict[str, ast.Module] = field(default_factory=dict, init=False)
    _nodes: dict[str, Sequence[_Node]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        files = [
            file for package in PACKAGES for file in sorted((self.root / package).rglob("*.py"))
        ]
        named = {file.relative_to(self.root).as_posix(): file for file in files}
        self.sources = {name: file.read_bytes() for name, file in named.items()}

    def tree(self, name: str) -> ast.Module:
        """One file's."""
        if name not in self._trees:
            self._trees[name] = ast.parse(self.sources[name])
        return self._trees[name]

    def places(self, mutant: Mutant) -> list[tuple[str, Place]]:
        """All places of a mutant's piece, with their files."""
        words = [*_names(ast.parse(textwrap.dedent(mutant.old))), *mutant.within.split(".")]
        wanted = [word.encode() for word in words]
        files = [name for name, text in self.sources.items() if all(map(text.__contains__, wanted))]
        return [(name, place) for name in files for place in _places(self._walked(name), mutant)]

    def _walked(self, name: str) -> Sequence[_Node]:
        if name not in self._nodes:
            self._nodes[name] = [*_walk(self.tree(name), (), ".")]
        return self._nodes[name]

    def mutated(self, mutant: Mutant) -> tuple[str, bytes] | None:
        """The file with the mistake in it, or None where the piece stands nowhere or twice."""
        found = self.places(mutant)
        if len(found) != 1:
            return None
        ((name, place),) = found
        return name, _mutated(self.sources[name], place, mutant)


def _places(nodes: Sequence[_Node], mutant: Mutant) -> Iterator[Place]:
    body, _ = _pieces(mutant)
    scope = f".{mutant.within}." if mutant.within else ""
    for node, around, scopes in nodes:
        if scope not in scopes:
            continue
        if isinstance(body, ast.expr):
            if _same(node, body):
                yield Place([node], around)
            continue
        for block in _blocks(node):
            for start in range(len(block) - len(body) + 1):
                part = block[start : start + len(body)]
                if all(map(_same, part, body)):
                    yield Place(part, (*around, node))


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        for name in ("id", "attr", "arg"):
            if isinstance(getattr(node, name, None), str):
                yield getattr(node, name)


def _pieces(mutant: Mutant) -> tuple[ast.expr, ast.expr] | tuple[list[ast.stmt], list[ast.stmt]]:
    """Both as expressions, or both as statements where one is a statement."""
    old, new = (ast.parse(textwrap.dedent(text)).body for text in (mutant.old, mutant.new))
    if len(old) == len(new) == 1 and isinstance(old[0], ast.Expr) and isinstance(new[0], ast.Expr):
        return old[0].value, new[0].value
    return old, new


def _walk(node: ast.AST, around: _Steps, scopes: str) -> Iterator[_Node]:
    if isinstance(node, _SCOPES):
        scopes = f"{scopes}{node.name}."
    yield node, around, scopes
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, (*around, node), scopes)


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block


def _same(tree: Any, other: Any) -> bool:
    """Whether two trees say the same; where they stand does not matter."""
    if isinstance(tree, list):
        alike = isinstance(other, list) and len(tree) == len(other)
        return alike and all(map(_same, tree, other))
    if not isinstance(tree, ast.AST):
        return type(tree) is type(other) and bool(tree == other)
    if type(tree) is not type(other):
        return False
    fields = [name for name in tree._fields if name not in ("kind", "type_comment")]
    return all(_same(getattr(tree, name, None), getattr(other, name, None)) for name in fields)


def _mutated(source: bytes, place: Place, mutant: Mutant) -> bytes:
    """The file's text, changed there only; an f-string is written anew as a whole."""
    (_, new), first, last = _pieces(mutant), place.nodes[0], place.nodes[-1]
    if isinstance(new, ast.expr):
        outer = next((node for node in place.around if isinstance(node, ast.JoinedStr)), None)
        if outer is not None:
            text, first, last = ast.unparse(_with(outer, first, new)), outer, outer
        else:
            text = ast.unparse(new)
            text = text if isinstance(new, _ATOMS) else f"({text})"
    else:
        text = ast.unparse(ast.Module(new, []))
    starts: Any = first
    ends: Any = last
    text = text if isinstance(new, ast.expr) else text.replace("\n", "\n" + " " * starts.col_offset)
    lines = source.splitlines(keepends=True)
    start = sum(map(len, lines[: starts.lineno - 1])) + starts.col_offset
    end = sum(map(len, lines[: ends.end_lineno - 1])) + ends.end_col_offset
    return source[:start] + text.encode() + source[end:]


def _with(tree: ast.expr, node: ast.AST, new: ast.expr) -> ast.expr:
    """A copy of a tree with a node exchanged."""
    trail = copy.deepcopy(tree, {id(node): new})
    assert not _same(trail, tree)
    return trail
