"""A report as one page of HTML that fetches nothing and runs one script of ours, which sorts and
filters; all is readable without it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape
from importlib import resources

from dpicl.report.blocks import (
    Banner,
    Block,
    Bullets,
    Cell,
    Code,
    Figure,
    Fold,
    Heading,
    Pairs,
    Report,
    Table,
    Text,
)

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
<h1>{title}</h1>
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
            f'<li><a href="#{one.name}">{_text(one.title)}</a></li>' for one in report.sections
        ),
        opening=_blocks(report.opening),
        sections="\n".join(
            f"\n<section "
            f'id="{one.name}">\n<h2>{_text(one.title)}</h2>\n{_blocks(one.blocks)}\n</section>'
            for one in report.sections
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
        case Text(text, kind):
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
        case Table():
            return _scrolled(block.label, _table(block))
        case Figure(label, svg, caption, is_narrow):
            below = f"<figcaption>{_text(caption)}</figcaption>" if caption else ""
            drawn = svg if is_narrow else _scrolled(f"Figure, {label}", svg)
            return f"<h3>{_text(label)}</h3>\n<figure{_class('narrow' * is_narrow)}>{drawn}{below}</figure>"  # noqa: E501
        case Fold(title, blocks, _, is_open, note, anchor):
            beside = f" <small>{_text(note)}</small>" if note else ""
            # a link to what is in it opens it
            inner = (
                f'<div id="{escape(anchor)}">{_blocks(blocks)}</div>' if anchor else _blocks(blocks)
            )
            return f"<details{' open' * is_open}><summary>{_text(title)}{beside}</summary>\n{inner}\n</details>"  # noqa: E501


def _scrolled(label: str, inner: str) -> str:
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">{inner}</div>'
    )


def _table(table: Table) -> str:
    kinds, head, rows = [cell.mark for cell in table.head], "", []
    for cell in table.head:
        text = (
            cell.text[:1].upper() + cell.text[1:] if cell.mark in ("text", "prose") else cell.text
        )
        head += f'<th{_class(cell.mark)} scope="col">{_cell(Cell(text, cell.note))}</th>'
    for first, *others in table.rows:
        marked = zip(others, kinds[1:], strict=True)
        cells = "".join(
            f"<td{_class(f'{kind} {cell.mark}'.strip())}>{_cell(cell, kind)}</td>"
            for cell, kind in marked
        )
        rows.append(f'<tr><th scope="row">{_cell(first)}</th>{cells}</tr>')
    body = "\n".join(rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _cell(cell: Cell, kind: str = "") -> str:
    """The deviation of a mean stands back; of what is the same in every row, below it."""
    mean, sign, deviation = _text(cell.text).partition(" ± ")
    tag = "small" if kind == "aside" else "i"
    small = "".join(f"<small>{_text(text)}</small>" for text in (cell.note, cell.quoted) if text)
    shown = f'<a href="#{escape(cell.link)}">{mean}</a>' if cell.link else mean
    return (f"{shown} <{tag}>± {deviation}</{tag}>" if sign else shown) + small


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
