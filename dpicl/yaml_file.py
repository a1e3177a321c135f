"""Reading a declaration file: safe YAML, no duplicate keys, no aliases, one-sentence errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from dpicl.errors import DeclarationError

MAX_BYTES = 1 << 20
Model = TypeVar("Model", bound=BaseModel)


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses duplicate keys and aliases, and keeps `yes` and `no` as text."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.constructor.ConstructorError(None, None, "aliases are not allowed", self.get_mark())
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str | int):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a word", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} stands twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


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
        raise DeclarationError(file, *_explain(first, len(error.errors()))) from None


def _explain(error: Any, total: int) -> tuple[str, str, str]:
    """Key, rule and expected shape of one pydantic error."""
    key = ".".join(str(part) for part in error["loc"])
    more = f" (and {total - 1} more)" if total > 1 else ""
    if error["type"] == "extra_forbidden":
        return key, "unknown key" + more, "one of the keys that the schema lists"
    if error["type"] == "missing":
        return key, "missing" + more, "this key"
    message = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    rule, _, expected = message.partition("; expected ")
    if expected:
        return key, rule + more, expected
    return key, f"got {str(error['input'])[:60]!r}" + more, rule
