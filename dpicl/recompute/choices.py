"""What choices of a bounded range cost together, whoever chooses them one after another: a table of
the largest divergences, from the last choice back to the first.

Paper       [DDR20] Dong, Durfee and Rogers, optimal composition of exponential mechanisms (arXiv
            1909.13830); [ZDW22] Zhu, Dong and Wang, samples.

    (1)  one choice of range r: log-ratios t and t - r for some t in 0..r, the first with
         probability p(t) = (1 - e^(t - r)) / (1 - e^(-r))
    (2)  W_0(x) = max(0, 1 - e^x);   W_n(x) = max over t of  p W_(n-1)(x - t)
         + (1 - p) W_(n-1)(x - t + r)
    (3)  sampled at rate q, a row comes:  q W(ln(1 + (e^x - 1) / q));  one goes: by (4)
    (4)  the same two laws in the other order:  1 - e^x + e^x W(-x)

W is convex in e^x, so a line in e^x between two places of the grid lies above it: so does what is
computed from such lines. Between two places of t the line's value is a + b e^(-t) + c e^t.

Symbols     x a privacy loss in nats, W the largest delta at it, r the range, n choices.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

_CELLS = 24
"""Places of t within a range."""
_BEYOND = 40.0
"""Nats below 1 at which the table ends; beyond, W counts as at its end."""
_MOST_WORK = 300_000_000
"""Places times cells times choices: half a minute."""


class TooManyError(Exception):
    """The table would take too long."""


def divergences(losses: np.ndarray, reach: float, count: int, rate: float) -> np.ndarray:
    """The larger delta of both orders at each loss, where a row comes or goes; shape as `losses`,
    in nats. Raises TooManyError: there are too many choices of too large a range.
    """
    comes = _sampled(losses, reach, count, rate)
    goes = -np.expm1(losses) + np.exp(losses) * _sampled(-losses, reach, count, rate)
    return np.clip(np.maximum(comes, goes), 0.0, 1.0)


def largest_loss(reach: float, count: int, rate: float) -> float:
    """A loss at which the table is next to 0 or ends."""
    end = reach * (len(_table(reach, count)) - 1) / _CELLS
    return max(math.log1p(rate * math.expm1(min(end, 600.0))), end if rate == 1 else 0.0)


def _sampled(losses: np.ndarray, reach: float, count: int, rate: float) -> np.ndarray:
    """Equation (3) of a row that comes."""
    inside = 1 + np.expm1(losses) / rate
    positive = inside > 0
    places = np.log(np.where(positive, inside, 1.0))
    return np.where(positive, rate * _at(places, reach, count), -np.expm1(losses))


def _at(losses: np.ndarray, reach: float, count: int) -> np.ndarray:
    """W, by lines in e^x; below 0 by equation (4), since both orders are alike."""
    if count == 1:
        inner = np.clip(losses, -reach, reach)
        inside = np.expm1((inner - reach) / 2) ** 2 / -np.expm1(-reach)
        return np.where(losses < -reach, -np.expm1(losses), inside)
    table, step = _table(reach, count), reach / _CELLS
    sizes = np.abs(losses)
    left = np.minimum((sizes / step).astype(np.int64), len(table) - 1)
    right = np.minimum(left + 1, len(table) - 1)
    share = np.clip(np.expm1(sizes - left * step) / math.expm1(step), 0.0, 1.0)
    upper = table[left] + share * (table[right] - table[left])
    upper = np.where(sizes >= count * reach, 0.0, upper)
    return np.where(losses >= 0, upper, -np.expm1(-sizes) + np.exp(-sizes) * upper)


@lru_cache(maxsize=16)
def _table(reach: float, count: int) -> np.ndarray:
    """W_count at losses 0, r / cells, 2 r / cells, ..."""
    variance = count * reach**2 / 4
    length = min(count * reach, variance / 2 + math.sqrt(2 * variance * _BEYOND))
    places = math.ceil(length / reach * _CELLS) + 1
    if places * _CELLS * count > _MOST_WORK:
        raise TooManyError
    table = np.zeros(places)
    for _ in range(count):
        table = _before(table, reach)
    return table


def _before(table: np.ndarray, reach: float) -> np.ndarray:
    """W_n from W_(n-1); equation (2), the largest over all t of each cell."""
    sizes = np.arange(_CELLS, 0, -1) * (reach / _CELLS)
    whole = np.concatenate(
        [
            -np.expm1(-sizes) + np.exp(-sizes) * table[_CELLS:0:-1],
            table,
            np.full(_CELLS, table[-1]),
        ]
    )
    here = np.arange(len(table)) + _CELLS
    least, odds = math.exp(-reach), -math.expm1(-reach)
    best = np.zeros(len(table))
    for cell in range(_CELLS):
        # u = e^(-t) falls from `near` to `far` within the cell; both lines are linear in it
        near, far = (math.exp(-place * reach / _CELLS) for place in (cell, cell + 1))
        up = whole[here - cell], whole[here - cell - 1]
        down = whole[here - cell + _CELLS], whole[here - cell - 1 + _CELLS]
        slope_up, slope_down = ((line[0] - line[1]) / (near - far) for line in (up, down))
        first_up, first_down = up[1] - slope_up * far, down[1] - slope_down * far
        # p = (1 - least / u) / odds
        linear = slope_up - least * slope_down
        inverse = least * (first_down - first_up)
        constant = first_up - least * slope_up + least * slope_down - least * first_down
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = np.sqrt(inverse / linear)
        inner = np.where((linear < 0) & (inverse < 0), np.clip(inner, far, near), near)
        for u in (near, far, inner):
            best = np.maximum(best, (constant + linear * u + inverse / u) / odds)
    return best
