"""Whether declared content fits its schema, and if not, what is wrong: every problem as a sentence
that names the key, the rule, the expected shape and the key that may have been meant.

What a declaration says is public, so that its values are quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from dpicl.ground.errors import DeclarationError, did_you_mean, one_of

_PLAIN = {
    "Value error, ": "",
    "Input should be ": "",
    "String should have": "text with",
    "String should match pattern": "text of the form",
    "Tuple should have": "a list with",
    "Value should have": "text with",
    "Dictionary should have": "a mapping with",
    "a valid tuple": "a list",
    "a valid string": "text",
    "a valid dictionary": "a mapping",
    " or object to extract fields from": "",
    " after validation": "",
}
"""{phrase of pydantic: the same for a reader of YAML}."""
_PYDANTIC = re.compile("|".join(map(re.escape, _PLAIN)))
_MOST_KEYS = 20
"""Of a mapping, that a message lists."""
_MOST_PLACES = 3
"""Of a key that stands elsewhere, that a message names."""
_ANY = "…"
"""In a path: any name, or any number of a list."""
Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], content: Any, file: str, *, all_by: str = "") -> Model:
    """Validate parsed content with a pydantic model.

    Args:
        all_by: a command that shows all problems, where there is one.

    Raises:
        DeclarationError: for the first broken rule, naming file, key and expected shape; with all
            of them as its `problems`.
    """
    if not isinstance(content, dict):
        raise DeclarationError(file, "", "is empty or not a mapping", "`key: value` lines")
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise first_of(_problems(model, error, content, file), all_by) from None


def first_of(problems: Sequence[DeclarationError], all_by: str = "") -> DeclarationError:
    """The first of several, which says how many more there are, and has all as its `problems`: a
    traceback shows them as notes.
    """
    first, *others = problems
    if not others:
        return first
    shown = f": `{all_by}` shows all" if all_by else ""
    more = f" (and {len(others)} more{shown})"
    error = DeclarationError(first.file, first.key, first.rule, first.expected, more=more)
    error.problems = tuple(problems)
    for other in others:
        error.add_note(str(other))
    return error


def _problems(
    model: type[BaseModel], error: ValidationError, content: Any, file: str
) -> list[DeclarationError]:
    """A key that is not known and one that is missing are one problem where they are close."""
    unknown, others, meant = [], [], set[tuple[Any, ...]]()
    found = error.errors(include_url=False)
    missing = {one["loc"] for one in found if one["type"] == "missing"}
    for one in found:
        if one["type"] != "extra_forbidden":
            others.append(one)
            continue
        *parent, name = one["loc"]
        keys = _keys_at(model, parent)
        absent = [key for key in keys if (*parent, key) in missing]
        meant |= {(*parent, key) for key in get_close_matches(str(name), absent, 1)}
        here = _key(one, content).split(".")[:-1]
        place = _right_place(model, str(name), here)
        expected = (
            f"{place}{did_you_mean(str(name), keys)}" if place else _one_of_keys(str(name), keys)
        )
        unknown.append(DeclarationError(file, _key(one, content), "unknown key", expected))
    return unknown + [
        DeclarationError(file, *_explain(one, _key(one, content)))
        for one in others
        if one["loc"] not in meant
    ]


def _one_of_keys(name: str, keys: Sequence[str]) -> str:
    """All keys where they are few, else the closest."""
    if len(keys) <= _MOST_KEYS:
        return one_of(name, keys)
    return f"one of its {len(keys)} keys, which docs/reference lists{did_you_mean(name, keys)}"


def _keys_at(model: type[BaseModel], path: Sequence[Any]) -> list[str]:
    """Keys that a mapping of the content may have. Pydantic's path also names the types that it
    tried, which are no keys.
    """
    kinds: list[Any] = [model]
    for part in path:
        below = [one for kind in kinds for inner in _inside(kind, part) for one in _parts_of(inner)]
        kinds = below or [kind for kind in kinds if _is_called(kind, part)] or kinds
    return list(dict.fromkeys(key for kind in kinds for key in _keys_of(kind)))


def _right_place(model: type[BaseModel], name: str, here: Sequence[str]) -> str:
    """Where a key belongs that is known elsewhere; nothing where that is in many places, or here in
    a mapping of another kind.
    """
    places = _places_of(name, model)
    if len(places) > _MOST_PLACES or any(_fits(place, here) for place in places):
        return ""
    named = [f"below `{'.'.join(place)}`" if place else "at the top level" for place in places]
    return f"it {' or '.join(named)}" if named else ""


def _places_of(name: str, model: type[BaseModel]) -> list[tuple[str, ...]]:
    """Paths of the mappings that may have this key, wherever they are."""

    def search(
        kind: Any, path: tuple[str, ...], outer: frozenset[Any]
    ) -> Iterator[tuple[str, ...]]:
        for part in _parts_of(kind):
            if _is_model(part) and part not in outer:
                if name in _keys_of(part):
                    yield path
                for key, field in part.model_fields.items():
                    yield from search(field.annotation, (*path, field.alias or key), outer | {part})
            elif get_origin(part) in (dict, Mapping):
                yield from search(get_args(part)[1], (*path, _ANY), outer)
            elif get_origin(part) in (list, tuple):
                for inner in get_args(part):
                    yield from search(inner, (*path, _ANY), outer)

    return list(dict.fromkeys(search(model, (), frozenset())))


def _fits(place: Sequence[str], path: Sequence[str]) -> bool:
    """Whether the content's path is one of this place."""
    return len(place) == len(path) and all(
        part in (_ANY, own) for part, own in zip(place, path, strict=True)
    )


def _parts_of(kind: Any) -> Iterator[Any]:
    """The types that a value may have, one by one."""
    if get_origin(kind) is Annotated:
        yield from _parts_of(get_args(kind)[0])
    elif get_origin(kind) in (Union, UnionType):
        for part in get_args(kind):
            yield from _parts_of(part)
    else:
        yield kind


def _inside(kind: Any, part: Any) -> Iterator[Any]:
    """The type of what a value of this type has in this place."""
    if _is_model(kind):
        yield from (
            field.annotation
            for name, field in kind.model_fields.items()
            if part in (name, field.alias)
        )
    elif get_origin(kind) in (dict, Mapping):
        yield get_args(kind)[1]
    elif get_origin(kind) in (list, tuple) and isinstance(part, int):
        yield from (one for one in get_args(kind) if one is not Ellipsis)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _is_called(kind: Any, tag: Any) -> bool:
    return _is_model(kind) and (
        kind.__name__ == tag
        or any(
            get_origin(field.annotation) is Literal and tag in get_args(field.annotation)
            for field in kind.model_fields.values()
        )
    )


def _keys_of(kind: Any) -> list[str]:
    if not _is_model(kind):
        return []
    return [field.alias or name for name, field in kind.model_fields.items() if not field.exclude]


def _key(error: Any, content: Any) -> str:
    """Path of the value in the file. Pydantic's path also names the types that it tried."""
    path = []
    for position, key in enumerate(error["loc"]):
        inside = (
            key in content
            if isinstance(content, dict)
            else isinstance(content, list | tuple) and key in range(len(content))
        )
        if inside:
            content = content[key]
        if inside or (error["type"] == "missing" and position == len(error["loc"]) - 1):
            path.append(str(key))
    return ".".join(path)


def _explain(error: Any, key: str) -> tuple[str, str, str]:
    """Key, rule and expected shape."""
    if error["type"] == "missing":
        return key, "missing", "this key"
    if error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return _of_no_known_kind(error, key)
    if error["type"] == "string_type" and not isinstance(error["input"], dict | list):
        return key, f"got {_quoted(error)} without quotes", "text; put it in quotes"
    if error["type"] == "tuple_type" and isinstance(error["input"], dict) and error["input"]:
        entry = f"[{{{next(iter(error['input']))}: …}}]"
        return key, f"got {_quoted(error)}", f"a list: `{key.rpartition('.')[2]}: {entry}`"
    message = _PYDANTIC.sub(lambda match: _PLAIN[match[0]], error["msg"])
    if error["input"] is None:  # `key:` and nothing after it, or what a first contract leaves open
        return key, "is not filled in", message.rpartition("; expected ")[2]
    rule, _, expected = message.partition("; expected ")
    if expected:
        return key, rule, expected
    return key, f"got {_quoted(error)}", rule


def _of_no_known_kind(error: Any, key: str) -> tuple[str, str, str]:
    """A mapping whose `type`, say, is missing or has no meaning."""
    tag = error["ctx"]["discriminator"].strip("'")
    place = key if tag.endswith("()") else f"{key}.{tag}" if key else tag
    if error["type"] == "union_tag_not_found":
        close = get_close_matches(tag, map(str, error["input"]), 1)
        question = f"; did you mean it by {close[0]!r}?" if close else ""
        return place, "missing", f"this key{question}"
    known = re.findall("'([^']+)'", error["ctx"]["expected_tags"])
    if place == key:  # by a function: of keys that stand together none is misspelt
        return place, f"is {error['ctx']['tag']}", f"one of {', '.join(known)}"
    return place, f"got {error['ctx']['tag'][:60]!r}", one_of(error["ctx"]["tag"], known)


def _quoted(error: Any) -> str:
    return repr(str(error["input"])[:60])
