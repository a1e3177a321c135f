"""A table of texts: for a terminal's own, for plain text, and for a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class PlainTable:
    """Rows below heads, as many cells each."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        """Columns as wide as their widest cell, two spaces between them."""
        lines = (self.heads, *self.rows)
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )

    @property
    def html(self) -> str:
        """The same as HTML."""
        heads = "".join(f"<th>{escape(head)}</th>" for head in self.heads)
        rows = (
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self.rows
        )
        return f"<table><tr>{heads}</tr>{''.join(rows)}</table>"
