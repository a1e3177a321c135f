"""Columns of numbers whose released rows lie at a bound: are the bounds right?

Rows outside the bounds are moved to them before noise is added, so that bounds which are wrong make
a column of one value; too wide ones put all rows into one bin. Nothing else of a release shows it.

Guarantee   none spent: post-processing of released rows.

    at a bound    in the first or last bin, which is at most a hundredth of the range
    asked about   from half of the rows on; where a bound is 0, or a column has few values, which
                  many rows may truly have, from nearly all of them on, as where that bin is wider
    in a part     nearly all rows in the first or last twentieth of the bounds, in several bins that
                  the release has chosen: few rows that noise puts elsewhere move the mean far

Not covered columns of up to three values; averages, which have no rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

from dpicl.contract.models import Contract
from dpicl.data.values import Meaning, RowForm

_MANY, NEARLY_ALL = 0.5, 0.98
_NARROW, _WIDE = 0.01, 0.5
"""Shares of the range: of a bin at a bound, and of the widest that is asked about."""
_PART = 0.05
"""Of the bounds, where bins are chosen."""
_FEWEST_VALUES, _FEW_VALUES = 4, 16


def doubted_bounds(form: RowForm, contract: Contract) -> Mapping[str, str]:
    """By column, the question about its bounds, where there is one.

    Args:
        form: that of released rows as `RowForm.seen` gives it.
    """
    label = None if contract.label is None or contract.label.has_rule else form.label
    found: dict[str, str] = {}
    for meaning in (*form.features, *([label] if label else [])):
        if not meaning.shares:
            continue
        question = _question(meaning)
        if not question and contract.numbers[meaning.column].bins is None:
            question = _part_question(meaning)
        if question:
            found.setdefault(meaning.column, question)
    return found


def _question(meaning: Meaning) -> str:
    ends = meaning.ends
    width = ends[-1] - ends[0]
    values = width / meaning.number.grain if meaning.number.grain else _FEW_VALUES + 1
    if values < _FEWEST_VALUES:
        return ""
    for place, side in ((0, "lower"), (len(meaning.shares) - 1, "upper")):
        part = (ends[place + 1] - ends[place]) / width
        bound = meaning.edges[0 if side == "lower" else -1]
        is_narrow = part <= _NARROW or values <= _FEW_VALUES
        is_usual = values <= _FEW_VALUES or (bound == 0 and meaning.number.plain)
        least = _MANY if is_narrow and not is_usual else NEARLY_ALL
        share = meaning.shares[place]
        if part > _WIDE or share < least:
            continue
        lies = f"at its {side} bound, {meaning.word(bound)}"
        if not is_narrow:
            lies = f"in the bin at its {side} bound, {meaning.names[place]}"
        return f"{share:.0%} of {meaning.column} lie {lies}: are the bounds right?"
    return ""


def _part_question(meaning: Meaning) -> str:
    """Whether nearly all rows are in a small part of the bounds, at one end."""
    ends, words, width = meaning.ends, meaning.end_names, meaning.ends[-1] - meaning.ends[0]
    below = list(accumulate(meaning.shares))
    found = [
        (part / width, mass, side, low, high)
        for place, share in enumerate(below[:-1], 1)
        for part, mass, side, low, high in (
            (ends[place] - ends[0], share, "first", words[0], words[place]),
            (ends[-1] - ends[place], 1 - share, "last", words[place], words[-1]),
        )
        if mass >= NEARLY_ALL
    ]
    part, mass, side, low, high = min(found, default=(1.0, 0.0, "", "", ""))
    if part > _PART:
        return ""
    return (
        f"{mass:.0%} of {meaning.column} lie in the {side} {part:.1%} of its bounds, {low} to "
        f"{high}, and what noise puts beyond moves their mean: are the bounds right?"
    )
