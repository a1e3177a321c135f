"""Made-up tables of a contract's shape, whose label a classifier learns as well as it is said to.

Guarantee   none needed: the contract, a number of rows and the strength of the signal are public,
            and no row is read.

    (1)  z_j = sqrt(c_j) f . l_j + sqrt(1 - c_j) e      of column j: one to three factors f that
         columns share, normal noise e
    (2)  x_j                                            z_j cut at the quantiles of the column's
         shares
    (3)  y                                              by the odds b + s sum of w_j g_j(x_j) over
         the columns that say something
    (4)  s                                              so that logistic regression on these very
         rows has the stated AUC

Drawn anew for every population: shares of bins (of a number smooth and skewed, of categories even
or not), how much columns have in common, a quarter to all of the columns that say something, rising
or uneven effects g, shares of the label. Codes of a label that is No or Yes, or a number, are cut
from one score; every class has a score of its own.

Symbols     c_j share of z_j that is common, l_j loadings, w_j weights, b shares of the label.
Not covered interactions of columns in (3), clusters of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtri, softmax

from dpicl.contract.models import Contract
from dpicl.planning.judge import Quality, fitted_quality
from dpicl.tabular.central.bins import row_encoding
from dpicl.tabular.reading.encode import LocalEncoding
from dpicl.tabular.reading.parse import typed_table
from dpicl.tabular.values import central_form
from dpicl.types import PrivateTable

FRESH, _TRIES, _CLOSE, _SAMPLE, _STRONGEST = 3000, 4, 0.005, 4000, 12.0
_COMMON, _MOST_COMMON, _SAYING = (0.0, 0.2, 0.5), 0.85, (0.25, 0.5, 1.0)


@dataclass(frozen=True)
class Population:
    """One made-up table, and fresh rows that judge what is learned from it.

    Attributes:
        table: of the contract's types; the fresh rows come last.
        codes: of all rows on the contract's bins, label last: shape (rows + fresh, columns), uint8.
        rows: how many are not fresh.
        truth: what a classifier fitted on the true rows makes of the fresh ones; None where nothing
            is predicted.
    """

    table: PrivateTable
    codes: np.ndarray
    rows: int
    truth: Quality | None


def population(
    contract: Contract, rows: int, signal: float, rng: np.random.Generator
) -> Population:
    """A population of so many rows, and `FRESH` more.

    Args:
        signal: AUC of logistic regression on the true rows, the mean over answers where there are
            several.
    """
    encoding = row_encoding(contract)
    is_ordered = [name in contract.numbers for name in contract.features]
    columns, shares = _columns(encoding.sizes[:-1], is_ordered, rows + FRESH, rng)
    if contract.target.count == 1:
        codes, truth = np.column_stack([columns, np.zeros(len(columns), np.uint8)]), None
    else:
        codes, truth = _labelled(
            columns,
            shares,
            is_ordered,
            encoding,
            contract.target.kind == "classes",
            signal,
            rows,
            rng,
        )
    values = central_form(contract).table(codes, contract, rng)
    for name, column in contract.columns.items():  # that of a published split says nothing
        if name not in values.column_names:
            values = values.append_column(name, [[column.any_value] * len(codes)])
    if contract.privacy.person:  # of whom each has one row
        values = values.append_column(
            contract.privacy.person.id_column, [list(map(str, range(len(codes))))]
        )
    if contract.source.arrived:  # all at once
        values = values.append_column(
            contract.source.arrived, [[str(contract.releases.first)] * len(codes)]
        )
    if contract.source.sign:  # to stay
        values = values.append_column(contract.source.sign, [["1"] * len(codes)])
    return Population(
        PrivateTable(typed_table(values, contract, "made-up rows")), codes, rows, truth
    )


def _columns(
    sizes: Sequence[int], is_ordered: Sequence[bool], count: int, rng: np.random.Generator
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Equations (1) and (2): codes of shape (count, columns), uint8, and every column's shares."""
    common = np.minimum(rng.choice(_COMMON) * rng.random(len(sizes)) * 1.5, _MOST_COMMON)
    loadings = rng.normal(size=(len(sizes), int(rng.integers(1, 4))))
    loadings *= np.sqrt(common / (loadings**2).sum(axis=1))[:, np.newaxis]
    z = rng.normal(size=(count, loadings.shape[1])) @ loadings.T + np.sqrt(1 - common) * rng.normal(
        size=(count, len(sizes))
    )
    evenness, codes, shares = rng.choice([0.7, 2.0, 5.0]), np.empty(z.shape, np.uint8), []
    for place, size in enumerate(sizes):
        share = rng.dirichlet(np.full(size, evenness))
        if is_ordered[place]:
            low, high = np.exp(rng.normal(0.5, 0.6, 2)) - 1
            middles = (np.arange(size) + 0.5) / size
            smooth = middles**low * (1 - middles) ** high
            share = 0.9 * smooth / smooth.sum() + 0.1 * rng.dirichlet(np.ones(size))
        shares.append(share)
        codes[:, place] = np.searchsorted(
            ndtri(np.minimum(np.cumsum(share)[:-1], 1 - 1e-12)), z[:, place]
        )
    return codes, shares


def _labelled(
    columns: np.ndarray,
    shares: Sequence[np.ndarray],
    is_ordered: Sequence[bool],
    encoding: LocalEncoding,
    of_classes: bool,
    signal: float,
    rows: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, Quality]:
    """Equations (3) and (4): codes with the label, and what a classifier makes of the fresh
    rows.
    """
    answers = encoding.sizes[-1]
    scores = np.column_stack(
        [_score(columns, shares, is_ordered, rng) for _ in range(answers if of_classes else 1)]
    )
    if answers == 2:
        positive = np.clip(rng.beta(3, 5), 0.08, 0.92)
        of_label = np.array([1 - positive, positive])
    else:
        of_label = rng.dirichlet(np.full(answers, 3.0))
    chances = _class_chances if of_classes else _ordered_chances
    uniform, goal = rng.random(len(columns)), signal
    for _ in range(_TRIES):
        strength = _strength(scores[:_SAMPLE], of_label, chances, goal)
        label = (
            uniform[:, np.newaxis] > np.cumsum(chances(strength, scores, of_label), axis=1)[:, :-1]
        ).sum(axis=1)
        codes = np.column_stack([columns, label.astype(np.uint8)])
        truth = fitted_quality(codes[:rows], codes[rows:], encoding)
        if abs(truth.auc - signal) < _CLOSE:
            break
        goal = float(np.clip(goal + signal - truth.auc, 0.51, 0.999))
    return codes, truth


def _score(
    columns: np.ndarray,
    shares: Sequence[np.ndarray],
    is_ordered: Sequence[bool],
    rng: np.random.Generator,
) -> np.ndarray:
    """The sum of equation (3) with a deviation of 1: shape (rows,)."""
    count = columns.shape[1]
    saying = rng.choice(count, max(1, round(float(rng.choice(_SAYING)) * count)), replace=False)
    weights, score = rng.lognormal(0, 0.7, (count,)), np.zeros(len(columns))
    for place in saying.tolist():
        share = shares[place]
        effect: np.ndarray = rng.normal(size=len(share))
        if is_ordered[place]:
            rising = np.linspace(-1, 1, len(share)) * rng.choice([-1, 1])
            effect = rising + rng.choice([0.0, 0.5]) * np.cumsum(effect) / np.sqrt(len(share))
        effect = effect - share @ effect
        score += weights[place] * np.take(
            effect / max(float(np.sqrt(share @ effect**2)), 1e-9), columns[:, place]
        )
    return (score - score.mean()) / max(score.std(), 1e-9)


def _strength(
    scores: np.ndarray, of_label: np.ndarray, chances: Callable[..., np.ndarray], goal: float
) -> float:
    """The s at which labels that are drawn by the chances have this AUC, the mean over answers."""
    low, high = 0.0, _STRONGEST
    for _ in range(16):
        middle, aucs = (low + high) / 2, []
        for chance in np.sort(chances(middle, scores, of_label), axis=0).T:
            others = np.cumsum(1 - chance) - (1 - chance) / 2
            aucs.append(chance @ others / (chance.sum() * (1 - chance).sum()))
        low, high = (middle, high) if np.mean(aucs) < goal else (low, middle)
    return (low + high) / 2


def _ordered_chances(strength: float, scores: np.ndarray, of_label: np.ndarray) -> np.ndarray:
    """Of every code, cut from one score: shape (rows, answers)."""
    x, low, high = (
        strength * scores,
        np.full(len(of_label) - 1, -40.0),
        np.full(len(of_label) - 1, 40.0),
    )
    some, wanted = x[:_SAMPLE], np.cumsum(of_label)[:-1]
    for _ in range(30):
        middle = (low + high) / 2
        is_low = expit(middle - some).mean(axis=0) < wanted
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    below = np.column_stack([np.zeros(len(x)), expit(low - x), np.ones(len(x))])
    return np.diff(below, axis=1)


def _class_chances(strength: float, scores: np.ndarray, of_label: np.ndarray) -> np.ndarray:
    """Of every class, each with a score of its own: shape (rows, answers)."""
    x, b = strength * scores, np.log(of_label)
    for _ in range(20):
        b += np.log(of_label / np.maximum(softmax(x[:_SAMPLE] + b, axis=1).mean(axis=0), 1e-12))
    return np.asarray(softmax(x + b, axis=1))
