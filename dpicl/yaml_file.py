"""Reading a declaration file: safe YAML, no duplicate keys, no aliases, one-sentence errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from dpicl.errors import DeclarationError

MAX_BYTES = 1 << 20
_PLAIN = {
    "Value error, ": "",
    "Input should be ": "",
    "String should have": "text with",
    "String should match pattern": "text of the form",
    "Tuple should have": "a list with",
    "Dictionary should have": "a mapping with",
    "a valid tuple": "a list",
    "a valid string": "text",
    "a valid dictionary": "a mapping",
    " or object to extract fields from": "",
    " after validation": "",
}
"""How pydantic puts it, and how a reader of YAML would."""
_PYDANTIC = re.compile("|".join(map(re.escape, _PLAIN)))
Model = TypeVar("Model", bound=BaseModel)


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses duplicate keys, aliases and tags, and keeps `yes` and `no` as text."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if event.anchor is not None:
            raise _problem(event, "an anchor or alias; expected the value written out")
        if getattr(event, "tag", None) is not None:
            raise _problem(event, "a tag; expected a plain value")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str | int):
                raise _problem(key_node, "a key is not a word; expected `word: value`")
            if key in seen:
                raise _problem(key_node, f"key {key!r} stands twice; expected every key once")
            seen.add(key)
        return super().construct_mapping(node, deep)


def _problem(place: Any, rule: str) -> yaml.YAMLError:
    """A rule that an event or node breaks."""
    return yaml.constructor.ConstructorError(None, None, rule, place.start_mark)


def _bool_constructor(loader: _Loader, node: yaml.ScalarNode) -> bool | str:
    """Only `true` and `false` are booleans: `no` is a category in many tables."""
    text = str(node.value)
    return text.lower() == "true" if text.lower() in ("true", "false") else text


_Loader.add_constructor("tag:yaml.org,2002:bool", _bool_constructor)


def read_yaml(path: Path) -> Any:
    """Parse one declaration file.

    Raises:
        DeclarationError: the file is missing, too large, not UTF-8 or not valid YAML.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DeclarationError(path.name, "", f"cannot be read ({error.strerror})", "a YAML file") from None
    if len(raw) > MAX_BYTES:
        raise DeclarationError(path.name, "", f"has {len(raw)} bytes", f"at most {MAX_BYTES}")
    try:
        return yaml.load(raw.decode("utf-8"), Loader=_Loader)  # noqa: S506 - a SafeLoader, hardened
    except UnicodeDecodeError:
        raise DeclarationError(path.name, "", "is not UTF-8", "text in UTF-8") from None
    except yaml.YAMLError as error:
        raise DeclarationError(path.name, *_yaml_problem(error)) from None
    except (RecursionError, ValueError, OverflowError):
        raise DeclarationError(path.name, "", "cannot be parsed", "plain, flat YAML") from None


def _yaml_problem(error: yaml.YAMLError) -> tuple[str, str]:
    mark = getattr(error, "problem_mark", None)
    line = f"line {mark.line + 1}" if mark is not None else ""
    return line, str(getattr(error, "problem", None) or "is not valid YAML")


def validate(model: type[Model], content: Any, file: str) -> Model:
    """Check parsed content against a pydantic model.

    Raises:
        DeclarationError: for the first broken rule, naming file, key and expected shape.
    """
    if not isinstance(content, dict):
        raise DeclarationError(file, "", "is empty or not a mapping", "`key: value` lines")
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise DeclarationError(file, _key(first, content), *_explain(first, len(error.errors()))) from None


def _key(error: Any, content: Any) -> str:
    """Path of the value as the file has it: pydantic's also names the types that it tried."""
    path = []
    for position, part in enumerate(error["loc"]):
        inside = part in content if isinstance(content, dict) else isinstance(content, list | tuple) and part in range(len(content))
        if inside:
            content = content[part]
        if inside or (error["type"] == "missing" and position == len(error["loc"]) - 1):
            path.append(str(part))
    return ".".join(path)


def _explain(error: Any, total: int) -> tuple[str, str]:
    """Rule and expected shape of one pydantic error."""
    more = f" (and {total - 1} more)" if total > 1 else ""
    if error["type"] == "extra_forbidden":
        return "unknown key" + more, "one of the keys that the schema lists"
    if error["type"] == "missing":
        return "missing" + more, "this key"
    if error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return f"has no known {error['ctx']['discriminator']}" + more, error["ctx"].get("expected_tags", "this key")
    message = _PYDANTIC.sub(lambda found: _PLAIN[found[0]], error["msg"])
    rule, _, expected = message.partition("; expected ")
    if expected:
        return rule + more, expected
    return f"got {str(error['input'])[:60]!r}" + more, rule
