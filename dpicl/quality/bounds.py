"""Columns of numbers whose released rows lie at a bound: are the bounds right?

Rows outside the bounds are moved to them before noise is added, so that bounds which are wrong make
a column of one value; too wide ones put all rows into one bin. Nothing else of a release shows it.

Guarantee   none spent: post-processing of released rows.

    at a bound    in the first or last bin, which is at most a hundredth of the range
    asked about   from half of the rows on; where a bound is 0, or a column has few values, which
                  many rows may truly have, from nearly all of them on, as where that bin is wider

Not covered columns of up to three values; averages, which have no rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpicl.contract.models import Contract
from dpicl.data.values import Meaning, RowForm

_MANY, _NEARLY_ALL = 0.5, 0.98
_NARROW, _WIDE = 0.01, 0.5
"""Shares of the range: of a bin at a bound, and of the widest that is asked about."""
_FEWEST_VALUES, _FEW_VALUES = 4, 16


def doubted_bounds(form: RowForm, contract: Contract) -> Mapping[str, str]:
    """By column, the question about its bounds, where there is one.

    Args:
        form: that of released rows as `RowForm.seen` gives it.
    """
    label = None if contract.label is None or contract.label.has_rule else form.label
    found: dict[str, str] = {}
    for meaning in (*form.features, *([label] if label else [])):
        if meaning.shares and (question := _question(meaning)):
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
        least = _MANY if is_narrow and not is_usual else _NEARLY_ALL
        share = meaning.shares[place]
        if part > _WIDE or share < least:
            continue
        lies = f"at its {side} bound, {meaning.word(bound)}"
        if not is_narrow:
            lies = f"in the bin at its {side} bound, {meaning.names[place]}"
        return f"{share:.0%} of {meaning.column} lie {lies}: are the bounds right?"
    return ""
