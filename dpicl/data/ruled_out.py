"""Conditions that no row can meet and keep the relations of its contract, whatever is released:
found by bounds, before anything is charged.

Each relation is looked at by itself. What only several of them rule out together is found when rows
are drawn.

Guarantee   none needed: the contract and the condition are public.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from dpicl.contract.models import Contract
from dpicl.contract.relations import Order, Relation, Sum
from dpicl.data.conditions import Asked, Condition
from dpicl.ground.errors import ParameterError


def check_can_be_met(contract: Contract, condition: Condition) -> None:
    """Refuse a condition that no value meets, as 8.5 of whole numbers, that a relation rules out,
    or that no released row has. Raises ParameterError: names them.
    """
    if not all(
        one.missing
        or one.categories
        or any(
            not contract.numbers[name].grain or math.ceil(low) <= high for low, high in one.ranges
        )
        for name, one in condition.asked.items()
    ):
        raise ParameterError("where", condition.words, "values that the columns can have")
    for relation in contract.relations:
        if condition.asked.keys() & {*relation.columns} and _rules_out(
            relation, contract, condition.asked
        ):
            raise ParameterError(
                "where",
                condition.words,
                f"a condition that a row can meet; `relations` of {contract.name} rule it out: "
                f"{relation}",
            )
    # last: another release may have such rows
    if any(not weights.sum() for weights in condition.weights.values()):
        raise ParameterError("where", condition.words, "values that released rows have")


def _rules_out(relation: Relation, contract: Contract, asked: Mapping[str, Asked]) -> bool:
    if not isinstance(relation, Order | Sum):
        return all(
            name in asked and asked[name].categories == frozenset({category})
            for name, category in relation.never.items()
        )

    def ranges(name: str) -> tuple[tuple[float, float], ...]:
        """Where its numbers may be; none where one may be missing, of which no relation is."""
        if name in asked:
            return () if asked[name].missing else asked[name].ranges
        column = contract.numbers[name]
        return () if column.nullable else ((column.bounds[0], column.bounds[1]),)

    def ends(name: str) -> tuple[float, float]:
        some = ranges(name) or ((-math.inf, math.inf),)
        return some[0][0], some[-1][1]

    if isinstance(relation, Sum):
        if not all(map(ranges, relation.columns)):
            return False
        low, high = (
            round(math.fsum(ends(name)[end] for name in relation.parts), 9) for end in (0, 1)
        )
        return all(first > high or last < low for first, last in ranges(relation.total))
    least = -math.inf
    for name in relation.rising:
        low, high = ends(name)
        if high < least or (high == least and not relation.or_equal):
            return True
        # what may be missing is not below the next
        least = max(least, low) if ranges(name) else -math.inf
    return False
