"""What a notebook shows of a release: what it is, a few rows, what was promised and spent."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from dpicl.errors import ParameterError

if TYPE_CHECKING:
    from dpicl.release.release import Release

_ROWS = 5


def page_of(release: Release) -> str:
    """A fragment of HTML."""
    head = f"<b>{escape(release.dataset)}</b>, released by {escape(release.method)} at &epsilon; = {release.epsilon:g}"
    sentences = (release.statement, *release.spent, *release.caveats)
    notes = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f"<div><p>{head}</p>{_sample(release)}<ul>{notes}</ul></div>"


def _sample(release: Release) -> str:
    """A few rows, or the demonstrations where there are none."""
    try:
        rows = release.arrow(_ROWS)
    except ParameterError:
        return "".join(f"<p>{escape(text)} <b>{escape(answer)}</b></p>" for text, answer in release.demonstrations())
    heads = "".join(f"<th>{escape(name)}</th>" for name in rows.column_names)
    cells = ("".join(f"<td>{escape(str(value))}</td>" for value in row.values()) for row in rows.to_pylist())
    return f"<table><tr>{heads}</tr>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"
