"""The head of a module that states its terms, as fields: what it says of trust, unit, neighbours,
guarantee and limits.

Guarantee   none spent: reads docstrings.
"""

from __future__ import annotations

import inspect
import re
import sys

FIELDS = ("Trust", "Unit", "Neighbours", "Guarantee", "Paper", "Symbols", "Not covered")
"""In the order in which a head states them; equations stand before the symbols."""


def head_of(docstring: str) -> tuple[str, dict[str, str]]:
    """A docstring's first sentence, and the fields of its head, each on one line."""
    found, field = dict[str, list[str]](), ""
    for line in inspect.cleandoc(docstring).splitlines():
        start = re.match(rf"({'|'.join(FIELDS)})\s+(\S.*)", line)
        if start:
            field = start[1]
            found[field] = [start[2]]
        elif line.startswith(" ") and field:
            found[field].append(line)
        else:
            field = ""
    sentence = " ".join(docstring.partition("\n\n")[0].split())
    return sentence, {name: " ".join(" ".join(lines).split()) for name, lines in found.items()}


def head_of_method(method: object) -> dict[str, str]:
    """The fields of the head of a method's module; none of one without a head."""
    return head_of(sys.modules[type(method).__module__].__doc__ or "")[1]
