"""One filter for what reaches a terminal: marks that a terminal obeys are shown in place of being
obeyed.

A file, a model or a library may have written them. What passes here is everything that a program of
ours writes on standard output and standard error, tables and progress apart, whose own colours and
moves `dpicl.cli.terminal` lets through. They are shown as JSON writes them, so that JSON stays
JSON.

What only the holder of the rows may see: on a terminal, and in no log, file, page or message.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterable
from typing import Any

_MARKS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # all but the tab and the end of a line
    # direction, and what is not seen
    "\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
    "\ud800-\udfff]"
)
_ALL = re.compile(rf"[\t\n]|{_MARKS.pattern}")


def printable(text: str, *, lines: bool = True) -> str:
    """The text, control and direction marks as JSON escapes them; ends of lines and tabs stay where
    there may be `lines`.
    """
    if text.isprintable():
        return text
    return (_MARKS if lines else _ALL).sub(lambda mark: json.dumps(mark[0])[1:-1], text)


class _Filtered:
    """A stream of text, through the filter."""

    def __init__(self, stream: Any) -> None:
        self.unfiltered = stream

    def write(self, text: str) -> int:
        """All of the text, as it may be shown."""
        self.unfiltered.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """One after another."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unfiltered, name)


def filter_streams() -> None:
    """From now on what this process writes on standard output and standard error passes the filter,
    logs that go there too.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or isinstance(stream, _Filtered):
            continue
        filtered: Any = _Filtered(stream)
        setattr(sys, name, filtered)
        for logger in (logging.root, *logging.root.manager.loggerDict.values()):
            for handler in getattr(logger, "handlers", ()):
                if isinstance(handler, logging.StreamHandler) and handler.stream is stream:
                    handler.setStream(filtered)


def unfiltered(stream: Any) -> Any:
    """The stream itself, for what is filtered already and has colours of its own."""
    return stream.unfiltered if isinstance(stream, _Filtered) else stream


def is_read_by_holder() -> bool:
    """Whether a person at a terminal reads standard error: in a file, a log or a mail it would be
    stored.
    """
    return sys.stderr is not None and sys.stderr.isatty()


def tell_holder(sentence: str) -> bool:
    """Print a private fact to a person at a terminal; whether there is one."""
    if not is_read_by_holder():
        return False
    sys.stderr.write(f"note: {sentence}\n")
    return True


def tell_left_out(where: str, *, left_out: int, mended: int = 0) -> None:
    """How many rows were left out, or have a value that was taken as missing, for what they hold by
    themselves.
    """
    if left_out:
        tell_holder(f"{where}: {left_out} rows that break the contract by themselves are left out")
    if mended:
        tell_holder(
            f"{where}: {mended} values that break the contract by themselves are taken as missing"
        )
