"""Released rows of bins as demonstrations: in the words of queries, each number drawn inside its
bin.

A bin that ends at a bound may be very wide: numbers are drawn from it as if it were at most twice
as wide as the one beside it. They have the decimal places that the contract states, and no more
than its prompts show.

Guarantee   none spent: post-processing of released rows, by the contract's bins and public streams.
"""

from __future__ import annotations

import numpy as np

from dpicl.contract.columns.base import MISSING
from dpicl.contract.columns.number import placed
from dpicl.contract.models import Contract
from dpicl.tabular.prompts.serialize import central_demonstrations, longest_text
from dpicl.tabular.values import Meaning, central_form
from dpicl.types import ReleasedGroup, ReleasedGroups


def row_demonstrations(bins: np.ndarray, shares: np.ndarray, contract: Contract) -> list[str]:
    """One demonstration per row, answer included.

    Args:
        bins: as `central.bins` codes rows, shape (rows, columns), the label last.
        shares: where in its bin each number lies, in [0, 1): shape (rows, features).
    """
    meanings = central_form(contract).features
    columns = [
        _values(meaning, bins[:, place], shares[:, place], contract)
        for place, meaning in enumerate(meanings)
    ]
    return _texts(columns, bins[:, -1].tolist(), contract)


def longest_demonstration(contract: Contract) -> str:
    """The longest text of a row or of averages that the contract allows: public."""
    choices = [_choices(contract, name) for name in contract.features]

    def texts(places: np.ndarray) -> list[str]:
        columns = [
            [some[place] for place in column]
            for some, column in zip(choices, places.T.tolist(), strict=False)
        ]
        return _texts(columns, places[:, -1].tolist(), contract)

    return longest_text([*map(len, choices), contract.target.count], texts)


def _texts(columns: list[list[float | str]], labels: list[int], contract: Contract) -> list[str]:
    rows = zip(*columns, strict=True) if columns else ((),) * len(labels)
    groups = (
        ReleasedGroup((), dict(zip(contract.features, row, strict=True)), label)
        for row, label in zip(rows, labels, strict=True)
    )
    return central_demonstrations(ReleasedGroups(tuple(groups)), contract)


def _values(
    meaning: Meaning, codes: np.ndarray, shares: np.ndarray, contract: Contract
) -> list[float | str]:
    if meaning.categories:
        return contract.columns[meaning.column].values(codes)
    column = contract.numbers[meaning.column]
    edges = list(meaning.edges)
    edges[0], edges[-1] = (
        max(edges[0], 3 * edges[1] - 2 * edges[2]),
        min(edges[-1], 3 * edges[-2] - 2 * edges[-3]),
    )
    missing, digits = codes == len(edges) - 1, min(meaning.digits, column.decimals)
    numbers = placed(edges, digits, np.where(missing, 0, codes), shares).tolist()
    return [
        MISSING if none else number for none, number in zip(missing.tolist(), numbers, strict=True)
    ]


def _choices(contract: Contract, name: str) -> list[float | str]:
    """Among what a column may hold, of every text that a number leads to one of the longest: at
    ends and cuts, and one last digit beside them.
    """
    column = contract.numbers.get(name)
    if column is None:
        return list(contract.listed[name].categories)
    words = contract.prompts.central.words.values() if contract.prompts else ()
    cuts = [
        *column.bounds,
        *column.edges(contract.cuts_of(name)),
        *(cut for word in words if word.field == name for cut in word.cuts),
    ]
    beside = np.add.outer(cuts, np.array([-1, 0, 1]) * 10.0**-column.decimals)
    return [
        *np.unique(np.clip(beside, *column.bounds)).tolist(),
        *([MISSING] if column.nullable else []),
    ]
