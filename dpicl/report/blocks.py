"""The blocks of a report, as plain text: `html.py` and `markdown.py` render each of them, and
escape it.

Markdown leaves out figures and tiles, whose contents are in a sentence or table too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Text:
    """A paragraph; `kind` is a class of the style sheet."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class Banner:
    """What must be known before any number is read."""

    lead: str
    text: str
    is_note: bool = False


@dataclass(frozen=True)
class Heading:
    """A heading inside a section."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """Sentences, one below the other."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Pairs:
    """Names with what belongs to them: facts, or tiles with one number each, which Markdown leaves
    out.
    """

    pairs: tuple[tuple[str, str], ...]
    are_tiles: bool = False


@dataclass(frozen=True)
class Code:
    """Text in which nothing has a meaning."""

    text: str


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, a note, what is quoted beside it, how it is marked, and the fold
    that its text opens.

    A mark is a class of the style sheet; in a table's head it holds for the whole column, and no
    mark aligns numbers.
    """

    text: str
    note: str = ""
    quoted: str = ""
    mark: str = ""
    link: str = ""

    @staticmethod
    def of_text(*heads: str) -> tuple[Cell, ...]:
        """Heads of columns of text."""
        return tuple(Cell(head, mark="text") for head in heads)


@dataclass(frozen=True)
class Table:
    """Rows below a head; the first cell of a row names it."""

    label: str
    head: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Figure:
    """An `<svg>` element of ours below its label; Markdown leaves it out."""

    label: str
    svg: str
    caption: str = ""
    is_narrow: bool = False
    """Whether it is drawn for a phone's width; others are scrolled there."""


@dataclass(frozen=True)
class Fold:
    """Blocks that are opened by their title, beside which a note stands, or by a link to the
    anchor. Markdown shows them below a heading of this level, of level 0 without one.
    """

    title: str
    blocks: tuple[Block, ...]
    level: int = 0
    is_open: bool = False
    note: str = ""
    anchor: str = ""


@dataclass(frozen=True)
class Section:
    """A heading that the contents list, and what stands below it; Markdown leaves out what is for
    the page only.
    """

    name: str
    title: str
    blocks: tuple[Block, ...]
    is_page_only: bool = False


@dataclass(frozen=True)
class Report:
    """The whole page: title, what run it is of, what comes before the first section, and the
    sections.
    """

    title: str
    about: str
    opening: tuple[Block, ...]
    sections: tuple[Section, ...]


Block = Text | Banner | Heading | Bullets | Pairs | Code | Table | Figure | Fold
