"""A report as Markdown."""

from __future__ import annotations

from dpicl.engine.files import harmless
from dpicl.report.blocks import (
    Banner,
    Block,
    Bullets,
    Cell,
    Code,
    Fold,
    Heading,
    Pairs,
    Report,
    Table,
    Text,
)

_SPECIAL = str.maketrans(
    {character: f"&#{ord(character)};" for character in "|`*[]"}
    | {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": " ", "\r": " "}
)


def to_markdown(report: Report) -> str:
    """The whole report; a section of figures alone is left out."""
    parts = [f"# {escaped(report.title)}", escaped(report.about), *map(_block, report.opening)]
    for section in report.sections:
        blocks = (
            [] if section.is_page_only else [text for text in map(_block, section.blocks) if text]
        )
        if blocks:
            parts += [f"## {escaped(section.title)}", *blocks]
    return "\n\n".join(filter(None, parts)) + "\n"


def escaped(text: str) -> str:
    """Text that cannot open a tag, a link, a table cell or a line, nor be a formula where a table
    is pasted.
    """
    return str(harmless(text)).translate(_SPECIAL)


def _block(block: Block) -> str:
    match block:
        case Text(text):
            return escaped(text)
        case Banner(lead, text):
            return f"> **{escaped(lead)}** {escaped(text)}"
        case Heading(text):
            return f"### {escaped(text)}"
        case Bullets(items):
            return "\n".join(f"- {escaped(item)}" for item in items)
        case Pairs(pairs, are_tiles):
            return (
                ""
                if are_tiles
                else "\n".join(f"- {escaped(name)}: {escaped(text)}" for name, text in pairs)
            )
        case Code(text):
            return "\n".join(f"    {line}" for line in text.splitlines())
        case Table(_, head, rows):
            aligned = (
                "---" if cell is head[0] or cell.mark in ("text", "prose") else "---:"
                for cell in head
            )
            return "\n".join([_row(head), f"|{'|'.join(aligned)}|", *map(_row, rows)])
        case Fold(title, blocks, level):
            return "\n\n".join(
                filter(
                    None, [f"{'#' * level} {escaped(title)}" if level else "", *map(_block, blocks)]
                )
            )
        case _:
            return ""


def _row(cells: tuple[Cell, ...]) -> str:
    row = "|"
    for cell in cells:
        text = f"**{escaped(cell.text)}**" if cell.mark == "above" else escaped(cell.text)
        beside = (f", {escaped(cell.note)}" if cell.note else "") + (
            f" ({escaped(cell.quoted)})" if cell.quoted else ""
        )
        row += f"{' ' * bool(cell.text)}{text}{beside} |"
    return row
