"""The blocks of a report, as plain text, and how each is rendered as HTML and as Markdown, which
escape it.

The page of HTML fetches nothing and runs one script of ours, which sorts and filters; all is
readable without it. Its figures are inline SVG of Matplotlib's in the page's colours, light or
dark. Markdown leaves out figures and tiles, whose contents are in a sentence or table too.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from importlib import resources
from textwrap import fill
from typing import TYPE_CHECKING, Any

from dpicl.ground.files import harmless

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as MatplotlibFigure


@dataclass(frozen=True)
class Paragraph:
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
class TableCell:
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
    def of_text(*heads: str) -> tuple[TableCell, ...]:
        """Heads of columns of text."""
        return tuple(TableCell(head, mark="text") for head in heads)


AnyCell = str | TableCell


def _as_cell(cell: AnyCell) -> TableCell:
    return TableCell(cell) if isinstance(cell, str) else cell


@dataclass(frozen=True)
class TableBlock:
    """Rows below a head; the first cell of a row names it."""

    label: str
    head: tuple[TableCell, ...]
    rows: tuple[tuple[TableCell, ...], ...]

    @staticmethod
    def of(
        label: str, heads: Iterable[AnyCell], rows: Iterable[Iterable[AnyCell]], texts: int = 1
    ) -> TableBlock:
        """Of cells, or their texts alone; so many of the first columns hold texts, whose heads are
        given as such.
        """
        head = tuple(
            TableCell(cell, mark="text" * (place < texts)) if isinstance(cell, str) else cell
            for place, cell in enumerate(heads)
        )
        return TableBlock(label, head, tuple(tuple(map(_as_cell, row)) for row in rows))


@dataclass(frozen=True)
class Figure:
    """An `<svg>` element of ours below its label; Markdown leaves it out."""

    label: str
    svg: str
    caption: str = ""
    narrow: str = ""
    """The same for a phone's width, where `svg` is wider than `PHONE`."""


@dataclass(frozen=True)
class FoldedBlock:
    """Blocks that are opened by their title, beside which a note stands, or by a link to the
    anchor. Markdown shows them below a heading of this level, of level 0 without one.
    """

    title: str
    blocks: tuple[Block, ...]
    level: int = 0
    is_open: bool = False
    note: str = ""
    anchor: str = ""


Block = Paragraph | Banner | Heading | Bullets | Pairs | Code | TableBlock | Figure | FoldedBlock


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
    """The whole page: title, what run it is of, what comes before the first section, the sections,
    and the sentence that is the answer, right below the title.
    """

    title: str
    about: str
    opening: tuple[Block, ...]
    sections: tuple[Section, ...]
    answer: str = ""


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'">
<title>{title} · dpicl report</title>
<style>
{style}</style>
</head>
<body>
<div class="page">
<nav class="toc" aria-label="Contents">
<p>Contents</p>
<ul>
<li><a href="#answer">In short</a></li>
{contents}
</ul>
</nav>
<main>
<header id="answer">
<h1>{title}</h1>{answer}
<p class="meta">{about}</p>
{opening}
</header>
{sections}
</main>
</div>
<script>{script}</script>
</body>
</html>
"""  # noqa: E501


def to_html(report: Report) -> str:
    """The whole report."""
    script = resources.files("dpicl.report").joinpath("page.js").read_text("utf-8")
    return _PAGE.format(
        title=_text(report.title),
        about=_text(report.about),
        style=style_sheet(),
        script=script,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        contents="\n".join(
            f'<li><a href="#{section.name}">{_text(section.title)}</a></li>'
            for section in report.sections
        ),
        answer=f"\n{_block(Paragraph(report.answer, 'lead'))}" if report.answer else "",
        opening=_blocks(report.opening),
        sections="\n".join(
            f'\n<section id="{section.name}">\n<h2>{_text(section.title)}</h2>\n'
            f"{_blocks(section.blocks)}\n</section>"
            for section in report.sections
        ),
    )


def style_sheet() -> str:
    """The page's style: its first lines set the colours, in light and dark."""
    return resources.files("dpicl.report").joinpath("style.css").read_text("utf-8")


def _text(text: str) -> str:
    return escape(text, quote=False)


def _blocks(blocks: Iterable[Block]) -> str:
    return "\n".join(map(_block, blocks))


def _block(block: Block) -> str:
    match block:
        case Paragraph(text, kind):
            # no line ends beside a sign
            unbroken = _text(text).replace(" = ", "\u00a0=\u00a0").replace(" ± ", "\u00a0±\u00a0")
            return f"<p{_class(kind)}>{unbroken}</p>"
        case Banner(lead, text, is_note):
            return (
                f'<p class="banner{" note" * is_note}" role="note"><strong>{_text(lead)}</strong> '
                f"{_text(text)}</p>"
            )
        case Heading(text):
            return f"<h3>{_text(text)}</h3>"
        case Bullets(items):
            return f"<ul>{''.join(f'<li>{_text(item)}</li>' for item in items)}</ul>"
        case Pairs(pairs, are_tiles):
            inner = "".join(
                f"<div><dt>{_text(name)}</dt><dd>{_text(text)}</dd></div>\n" for name, text in pairs
            )
            return f'<dl class="{"tiles" if are_tiles else "facts"}">\n{inner}</dl>'
        case Code(text):
            return f"<pre>{_text(text)}</pre>"
        case TableBlock():
            return (
                f'<div class="scroll" tabindex="0" role="region" '
                f'aria-label="{escape(block.label)}">{_table(block)}</div>'
            )
        case Figure(label, svg, caption, narrow):
            below = f"<figcaption>{_text(caption)}</figcaption>" if caption else ""
            drawn = (
                f'<div class="wide">{svg}</div><div class="phone">{narrow}</div>' if narrow else svg
            )
            return f"<h3>{_text(label)}</h3>\n<figure>{drawn}{below}</figure>"
        case FoldedBlock(title, blocks, _, is_open, note, anchor):
            beside = f" <small>{_text(note)}</small>" if note else ""
            # a link to what is in it opens it
            inner = (
                f'<div id="{escape(anchor)}">{_blocks(blocks)}</div>' if anchor else _blocks(blocks)
            )
            return f"<details{' open' * is_open}><summary>{_text(title)}{beside}</summary>\n{inner}\n</details>"  # noqa: E501


def _table(table: TableBlock) -> str:
    kinds = [cell.mark for cell in table.head]
    head = ""
    rows = []
    for cell in table.head:
        text = (
            cell.text[:1].upper() + cell.text[1:] if cell.mark in ("text", "prose") else cell.text
        )
        head += f'<th{_class(cell.mark)} scope="col">{_cell(TableCell(text, cell.note))}</th>'
    for first, *others in table.rows:
        marked = zip(others, kinds[1:], strict=True)
        cells = "".join(
            f"<td{_class(f'{kind} {cell.mark}'.strip())}>{_cell(cell, kind)}</td>"
            for cell, kind in marked
        )
        rows.append(f'<tr><th scope="row">{_cell(first)}</th>{cells}</tr>')
    body = "\n".join(rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _cell(cell: TableCell, kind: str = "") -> str:
    """The deviation of a mean stands back; of what is the same in every row, below it."""
    mean, sign, deviation = _text(cell.text).partition(" ± ")
    tag = "small" if kind == "aside" else "i"
    small = "".join(f"<small>{_text(text)}</small>" for text in (cell.note, cell.quoted) if text)
    shown = f'<a href="#{escape(cell.link)}">{mean}</a>' if cell.link else mean
    return (f"{shown} <{tag}>± {deviation}</{tag}>" if sign else shown) + small


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


_SPECIAL = str.maketrans(
    {character: f"&#{ord(character)};" for character in "|`*[]"}
    | {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": " ", "\r": " "}
)


def to_markdown(report: Report) -> str:
    """The whole report; a section of figures alone is left out."""
    parts = [
        f"# {escaped(report.title)}",
        escaped(report.answer),
        escaped(report.about),
        *map(_markdown_block, report.opening),
    ]
    for section in report.sections:
        blocks = (
            []
            if section.is_page_only
            else [text for text in map(_markdown_block, section.blocks) if text]
        )
        if blocks:
            parts += [f"## {escaped(section.title)}", *blocks]
    return "\n\n".join(filter(None, parts)) + "\n"


def escaped(text: str) -> str:
    """Text that cannot open a tag, a link, a table cell or a line, nor be a formula where a table
    is pasted.
    """
    return str(harmless(text)).translate(_SPECIAL)


def _markdown_block(block: Block) -> str:
    match block:
        case Paragraph(text):
            return escaped(text)
        case Banner(lead, text):
            return f"> **{escaped(lead)}** {escaped(text)}"
        case Heading(text):
            return f"### {escaped(text)}"
        case Bullets(items):
            return "\n".join(f"- {escaped(item)}" for item in items)
        case Pairs(pairs, are_tiles):
            if are_tiles:
                return ""
            return "\n".join(f"- {escaped(name)}: {escaped(text)}" for name, text in pairs)
        case Code(text):
            return "\n".join(f"    {line}" for line in text.splitlines())
        case TableBlock(_, head, rows):
            aligned = (
                "---" if cell is head[0] or cell.mark in ("text", "prose") else "---:"
                for cell in head
            )
            return "\n".join([_row(head), f"|{'|'.join(aligned)}|", *map(_row, rows)])
        case FoldedBlock(title, blocks, level):
            return "\n\n".join(
                filter(
                    None,
                    [
                        f"{'#' * level} {escaped(title)}" if level else "",
                        *map(_markdown_block, blocks),
                    ],
                )
            )
        case _:
            return ""


def _row(cells: tuple[TableCell, ...]) -> str:
    row = "|"
    for cell in cells:
        text = f"**{escaped(cell.text)}**" if cell.mark == "above" else escaped(cell.text)
        beside = (f", {escaped(cell.note)}" if cell.note else "") + (
            f" ({escaped(cell.quoted)})" if cell.quoted else ""
        )
        row += f"{' ' * bool(cell.text)}{text}{beside} |"
    return row


INK = "#010101"
MUTED = "#010102"
GRID = "#010103"
PAPER = "#010104"
SERIES = ("#010111", "#010112", "#010113", "#010114", "#010115", "#010116")
BASELINES = ("#010121", "#010122", "#010123")
_VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    PAPER: "--paper",
    **{colour: f"--series-{i}" for i, colour in enumerate(SERIES, 1)},
    **{colour: f"--baseline-{i}" for i, colour in enumerate(BASELINES, 1)},
}
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "dpicl",
    "font.size": 9,
    "text.color": INK,
    "axes.facecolor": "none",
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": False,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
}


PHONE, WIDE = 4.1, 8.0
"""Inches; as wide a figure's letters can be read on a phone, and as wide as a page's text."""


@contextmanager
def drawing(width: float, height: float) -> Iterator[MatplotlibFigure]:
    """An empty figure on the page's own background, and the style in which it is built and drawn;
    size in inches.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        yield Figure(figsize=(width, height), facecolor="none", layout="constrained")


def legend(
    figure: MatplotlibFigure, panels: Iterable[Axes], columns: int, size: float, *, handle: float
) -> None:
    """What all panels have labels of, once, above them; lengths in letters of this size."""
    entries = {
        fill(label, 46): shown
        for axes in panels
        for shown, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if entries:
        figure.legend(
            entries.values(),
            entries.keys(),
            loc="outside upper left",
            ncols=columns,
            fontsize=size,
            handlelength=handle,
            columnspacing=min(handle, 2.0),
        )


def to_svg(figure: MatplotlibFigure, description: str) -> str:
    """An `<svg>` element with a text alternative and nothing to fetch."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.StringIO()
    FigureCanvasSVG(figure).print_svg(
        buffer, metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
    )  # type: ignore[no-untyped-call]
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # several figures share one page
    for marker, variable in _VARIABLES.items():
        svg = svg.replace(marker, f"var({variable})")
    size = re.search(r'viewBox="0 0 ([\d.]+)', svg)
    width = f"{float(size[1]) / 0.72:.0f}px" if size else "100%"
    head = f'<svg role="img" aria-label="{escape(description)}" style="max-width: {width}"'
    return re.sub(r"^<svg", head, re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2)).strip()


def standalone(svg: str) -> str:
    """A figure as a file of its own, on the page's ground and in its colours: for a README."""
    colours = style_sheet().partition("\n* {")[0]
    head, _, body = svg.partition(">")
    head = (
        head
        if "xmlns=" in head
        else head.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    )
    ground = '<rect width="100%" height="100%" style="fill: var(--paper)"/>'
    return f'{head} font-family="sans-serif"><style>{colours}</style>{ground}{body}\n'
