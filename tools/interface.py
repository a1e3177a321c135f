"""The page of the Python interface: every name of `dpicl.__all__`, and the classes that these give,
as their signatures and docstrings have them. Nothing is imported for it.
"""

from __future__ import annotations

from collections.abc import Iterator

import griffe

from tools.words import ROOT, code, prose, table

_WIDTH = 88
_NAMED, _GIVEN = 2, 3
"""Levels of headings: of a name of the module, and of a class that one gives."""
_STARS = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}


def interface_page(written: str) -> str:
    """The module's names in their order, then what they give, by name."""
    package = griffe.load("dpicl", search_paths=[ROOT])
    assert isinstance(package, griffe.Module) and package.exports is not None
    named = [_real(package[str(name)]) for name in package.exports if not str(name).startswith("_")]
    given = {
        path: _real(package[path.removeprefix("dpicl.")])
        for entry in named
        for member in ([entry] if entry.is_function else _public(entry))
        for path in _paths(member)
    }
    classes = {
        entry.name: entry
        for entry in given.values()
        if entry.is_class and entry not in named and ".contract." not in entry.canonical_path
    }
    page = "# Python interface" + written
    page += (
        "`import dpicl` takes milliseconds: each name is imported when it is used. Errors are "
        "classes of `dpicl.ground.errors` below `DpiclError`.\n\n"
    )
    page += "".join(_entry(entry, _NAMED) for entry in named)
    page += "## What they give\n\nKeys of a contract are on [a page of their own](contract.md).\n\n"
    return page + "".join(_entry(classes[name], _GIVEN) for name in sorted(classes))


def _real(entry: griffe.Object | griffe.Alias) -> griffe.Object:
    """What a name stands for where it was imported from elsewhere."""
    return entry.final_target if isinstance(entry, griffe.Alias) else entry


def _public(entry: griffe.Object) -> list[griffe.Object]:
    """Methods and properties that have a docstring."""
    return [
        member
        for name, member in entry.members.items()
        if not name.startswith("_") and isinstance(member, griffe.Object) and member.docstring
    ]


def _paths(entry: griffe.Object) -> Iterator[str]:
    """Our own classes that a function returns or a property is."""
    returned = (
        entry.returns
        if isinstance(entry, griffe.Function)
        else entry.annotation
        if isinstance(entry, griffe.Attribute)
        else None
    )
    for part in returned.iterate() if isinstance(returned, griffe.Expr) else ():
        if isinstance(part, griffe.ExprName) and part.canonical_path.startswith("dpicl."):
            yield part.canonical_path


def _entry(entry: griffe.Object, level: int) -> str:
    """A heading, how it is called, what it is, and of a class its members."""
    page = f"{'#' * level} {entry.name}\n\n"
    is_made_by_us = level == _NAMED and "dataclass" in entry.labels
    called = entry.members.get("__init__") if entry.is_class else entry
    if isinstance(called, griffe.Function) and not is_made_by_us:
        page += _signature(entry.name, called)
    page += _told(entry)
    if not entry.is_class:
        return page
    public = _public(entry)
    rows = [
        [code(member.name), code(member.annotation), prose(member.docstring.value)]
        for member in public
        if isinstance(member, griffe.Attribute) and member.docstring
    ]
    page += table(("property", "type", "meaning"), rows) if rows else ""
    for member in public:
        if isinstance(member, griffe.Function):
            page += f"{'#' * (level + 1)} {entry.name}.{member.name}\n\n"
            page += _signature(member.name, member) + _told(member)
    return page


def _signature(name: str, function: griffe.Function) -> str:
    """One line where it fits, else a line for each parameter."""
    parts = list[str]()
    for parameter in function.parameters:
        if parameter.name in ("self", "cls"):
            continue
        is_keyword = parameter.kind is griffe.ParameterKind.keyword_only
        if is_keyword and not any(part.startswith("*") for part in parts):
            parts.append("*")
        stars = _STARS.get(parameter.kind, "")
        default = "" if stars or parameter.default is None else f" = {parameter.default}"
        parts.append(f"{stars}{parameter.name}: {parameter.annotation}{default}")
    ending = "" if function.name == "__init__" else f" -> {function.returns}"
    line = f"{name}({', '.join(parts)}){ending}"
    if len(line) > _WIDTH:
        line = f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){ending}"
    return f"```py\n{line}\n```\n\n"


def _told(entry: griffe.Object) -> str:
    """A docstring: its text, a table of arguments or attributes, and what is raised."""
    page = ""
    for section in entry.docstring.parse("google", warnings=False) if entry.docstring else ():
        if isinstance(section, griffe.DocstringSectionText):
            page += prose(section.value) + "\n\n"
        elif isinstance(section, griffe.DocstringSectionRaises):
            page += "".join(
                f"- Raises {code(error.annotation)}: {prose(error.description)}\n"
                for error in section.value
            )
            page += "\n"
        else:
            is_called = section.kind is griffe.DocstringSectionKind.parameters
            rows = [
                # of several names together the parser takes all but the first for a type
                [
                    code(f"{part.name} {part.annotation}" if part.name[-1] == "," else part.name),
                    prose(part.description),
                ]
                for part in section.value
            ]
            page += table(("argument" if is_called else "attribute", "meaning"), rows)
    return page
