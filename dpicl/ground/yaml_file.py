"""Reading a declaration file: safe YAML, no duplicate keys, no aliases, one-sentence errors.

A scalar without quotes is a number only in the notation of JSON, and a boolean only as `true` or
`false`: `010`, `1_000`, `12:30`, `0x1f`, `yes` and `2020-01-01` are read as text, not as the 8,
1000, 750, 31, true and date of YAML 1.1.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from dpicl.ground.errors import DeclarationError

MAX_BYTES = 1 << 18
MAX_VALUES = 20_000
MAX_DEPTH = 20
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
Model = TypeVar("Model", bound=BaseModel)


_BASES: Any = (
    (yaml.composer.Composer, yaml.CSafeLoader) if yaml.__with_libyaml__ else (yaml.SafeLoader,)
)
"""Events of libyaml where PyYAML was built with it, as its wheels are: a fifth of the time. It
takes tabs between words, and has other words for errors.
"""


class _Loader(*_BASES):  # type: ignore[misc]
    """SafeLoader that refuses duplicate keys, aliases, tags and deep nesting, and reads unusual
    scalars as text.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    _values = _depth = 0

    def __init__(self, stream: str) -> None:
        _BASES[-1].__init__(self, stream)
        yaml.composer.Composer.__init__(self)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()
        if event.anchor is not None:
            raise _problem(event, "an anchor or alias; expected the value written out")
        if getattr(event, "tag", None) is not None:
            raise _problem(event, "a tag; expected a plain value")
        self._values += 1
        if self._values > MAX_VALUES:
            raise _problem(event, f"one value too many; expected at most {MAX_VALUES} in a file")
        if self._depth == MAX_DEPTH:
            raise _problem(event, f"nested too deep; expected at most {MAX_DEPTH} levels")
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str | int):
                raise _problem(key_node, "a key is not a word; expected `word: value`")
            if str(key) in seen:  # 1 and "1" would meet where keys are text
                raise _problem(
                    key_node, f"key {str(key)[:60]!r} is repeated; expected every key once"
                )
            seen.add(str(key))
        return super().construct_mapping(node, deep)


def _problem(place: Any, rule: str) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, rule, place.start_mark)


_NUMBER = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?"
_SCALARS = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"0|-?[1-9][0-9]*", list("-0123456789")),
    "float": (rf"{_NUMBER}|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", list("-+.0123456789")),
    "merge": (r"<<", ["<"]),
}
"""What a scalar without quotes is read as: pattern of the whole, and its possible first
characters.
"""
for _kind, (_pattern, _first) in _SCALARS.items():
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_kind}", re.compile(rf"(?:{_pattern})\Z"), _first
    )


def is_number(text: str) -> bool:
    """Whether a text is a number in the notation of JSON, as it stands in files and is typed in
    commands: not `1_0`, `+1`, ` 1` or `1,5`.
    """
    return re.fullmatch(_NUMBER, text, re.ASCII) is not None


def typed_value(text: str) -> int | float | str:
    """A word that is typed in a command, as a file would have it: a number if it is written as one,
    else text.
    """
    if not is_number(text):
        return text
    return int(text) if text.removeprefix("-").isdecimal() else float(text)


def read_yaml(path: Path) -> Any:
    """Parse one declaration file.

    Raises:
        DeclarationError: the file is missing, too large, not UTF-8 or not valid YAML.
    """
    return parse_yaml(read_declaration(path), path.name)


def read_declaration(path: Path) -> bytes:
    """The bytes of a declaration file.

    Raises:
        DeclarationError: the file is missing or too large.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise DeclarationError(path.name, "", "cannot be read (not a file)", "a YAML file")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise DeclarationError(
            path.name, "", f"cannot be read ({error.strerror})", "a YAML file"
        ) from None
    except ValueError:
        raise DeclarationError(path.name, "", "is no path", "a name without NUL") from None
    if len(raw) > MAX_BYTES:
        raise DeclarationError(
            path.name, "", f"has {max(status.st_size, len(raw))} bytes", f"at most {MAX_BYTES}"
        )
    return raw


def parse_yaml(raw: bytes, file: str) -> Any:
    """The parsed content of a declaration file of this name.

    Raises:
        DeclarationError: it is not UTF-8 or not valid YAML.
    """
    try:
        text = raw.decode("utf-8")
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader, hardened
    except UnicodeDecodeError:
        raise DeclarationError(file, "", "is not UTF-8", "text in UTF-8") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = str(getattr(error, "problem", None) or "is not valid YAML")
        # libyaml is a line further where a file ends too early
        last = max(1, len(text.splitlines()))
        raise DeclarationError(
            file, f"line {min(mark.line + 1, last)}" if mark is not None else "", problem
        ) from None
    except (ValueError, OverflowError):
        raise DeclarationError(file, "", "cannot be parsed", "plain, flat YAML") from None


def validate(model: type[Model], content: Any, file: str) -> Model:
    """Validate parsed content with a pydantic model.

    Raises:
        DeclarationError: for the first broken rule, naming file, key and expected shape.
    """
    if not isinstance(content, dict):
        raise DeclarationError(file, "", "is empty or not a mapping", "`key: value` lines")
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise DeclarationError(
            file, _key(first, content), *_explain(first, len(error.errors()))
        ) from None


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


def _explain(error: Any, total: int) -> tuple[str, str]:
    more = f" (and {total - 1} more)" if total > 1 else ""
    if error["type"] == "extra_forbidden":
        return "unknown key" + more, "one of the keys that the schema lists"
    if error["type"] == "missing":
        return "missing" + more, "this key"
    if error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return f"has no known {error['ctx']['discriminator']}" + more, error["ctx"].get(
            "expected_tags", "this key"
        )
    if error["type"] == "string_type" and not isinstance(error["input"], dict | list):
        return f"got {str(error['input'])[:60]!r} without quotes" + more, "text; put it in quotes"
    message = _PYDANTIC.sub(lambda match: _PLAIN[match[0]], error["msg"])
    if error["input"] is None:  # `key:` and nothing after it, or what a first contract leaves open
        return "is not filled in" + more, message.rpartition("; expected ")[2]
    rule, _, expected = message.partition("; expected ")
    if expected:
        return rule + more, expected
    return f"got {str(error['input'])[:60]!r}" + more, rule
