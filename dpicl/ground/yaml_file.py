"""Reading a declaration file: safe YAML, no duplicate keys, no aliases, one-sentence errors.

A scalar without quotes is a number only in the notation of JSON, and a boolean only as `true` or
`false`: `010`, `1_000`, `12:30`, `0x1f`, `yes` and `2020-01-01` are read as text, not as the 8,
1000, 750, 31, true and date of YAML 1.1.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from dpicl.ground.errors import DeclarationError

MAX_BYTES = 1 << 18
MAX_VALUES = 20_000
MAX_DEPTH = 20


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


def line_of(raw: bytes, key: str) -> int | None:
    """The line, from 1, of a key of a file that can be parsed, `columns.age.bounds.0` say; of what
    is missing, the line of what it is missing in; None where nothing of the key is there.
    """
    try:
        node = yaml.compose(raw.decode("utf-8"), Loader=_Loader)
    except (yaml.YAMLError, UnicodeDecodeError):
        return None
    line = None
    while key:
        step = next(
            (
                (name, mark, value)
                for name, mark, value in _below(node)
                if key == name or key.startswith(f"{name}.")
            ),
            None,
        )
        if step is None:
            break
        name, mark, node = step
        line, key = mark.line + 1, key[len(name) + 1 :]
    return line


def _below(node: Any) -> Iterator[tuple[str, Any, Any]]:
    """Names of what is in a mapping or list, longest first, each with its mark and value."""
    if isinstance(node, yaml.MappingNode):
        for key, value in sorted(node.value, key=lambda one: -len(one[0].value)):
            yield key.value, key.start_mark, value
    elif isinstance(node, yaml.SequenceNode):
        for place, value in enumerate(node.value):
            yield str(place), value.start_mark, value
