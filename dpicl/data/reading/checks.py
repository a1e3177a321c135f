"""What a table must fulfil before it is used: rules from the contract, and counts of what breaks
them.

The same list of rules can be turned into the suite of a validation framework. Results are counts,
never values.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpicl.contract.models import Check, Contract
from dpicl.data.reading.encode import label_codes
from dpicl.data.reading.relations import breaks_of
from dpicl.ground.errors import DeclarationError
from dpicl.ground.types import DataRule, Table, Violation

RELATION: Final = "relation"
"""Rule of a relation of the contract, which stands in the place of a column: a row that breaks it
is that row's affair, and its holder is told.
"""


def rules_of(contract: Contract) -> tuple[DataRule, ...]:
    """The rules that every value must satisfy, overridden and extended by the contract's `checks`.

    None is about a table as a whole unless the contract states it: whether there is a release would
    tell of its rows.

    A check without a column stands for every column that its rule suits; `unique` without one is
    about whole rows. Raises DeclarationError: a check names a column that its rule does not suit,
    or gives `at_least` to a rule that counts nothing.
    """
    defaults = [
        *(
            Check(rule="no_missing", column=name)
            for name, column in contract.columns.items()
            if not column.nullable
        ),
        *(
            Check(rule="known_categories", column=name)
            for name in _suited("known_categories", contract)
        ),
        *(
            Check(rule="in_bounds", column=name, severity="warn")
            for name in _suited("in_bounds", contract)
        ),
    ]
    rules = {(check.rule, check.column): check for check in defaults}
    for number, check in enumerate(contract.checks):
        file = f"{contract.name}.yaml"
        key = f"checks.{number}"
        suited = _suited(check.rule, contract)
        if check.at_least is not None and check.rule not in ("row_count", "both_labels"):
            raise DeclarationError(
                file,
                f"{key}.at_least",
                f"has no meaning for {check.rule}",
                "row_count or both_labels",
            )
        if check.column is not None and check.column not in suited:
            expected = ", ".join(filter(None, suited)) or "no column: the rule is about the table"
            raise DeclarationError(
                file, f"{key}.column", f"{check.column!r} does not suit {check.rule}", expected
            )
        rules |= {
            (check.rule, column): check
            for column in ([check.column] if check.column in suited else suited)
        }
    return (
        *(_rule(check, column, contract) for (_, column), check in rules.items()),
        *(
            DataRule(RELATION, str(one), "warn", None, f"a row keeps `{one}`")
            for one in contract.relations
        ),
    )


def violations(table: pa.Table, contract: Contract) -> tuple[Violation, ...]:
    """The broken rules of a table of shape (rows, columns), typed as `read_table` returns it, in
    the order of `rules_of`.
    """
    counted = [Violation(rule, _count(table, rule, contract)) for rule in rules_of(contract)]
    return tuple(violation for violation in counted if violation.count)


def label_counts(table: pa.Table, contract: Contract) -> np.ndarray:
    """Rows of each code of `contract.target`, shape (codes,); a missing label counts only where the
    contract lets it be missing.
    """
    label = contract.label
    if (
        label is not None
        and not contract.columns[label.column].nullable
        and table.column(label.column).null_count
    ):
        table = table.filter(table.column(label.column).is_valid())
    return np.bincount(label_codes(Table(table), contract), minlength=contract.target.count)


def _suited(rule: str, contract: Contract) -> list[str | None]:
    """What a rule can be about: columns, or `None` for the table."""
    if rule in ("row_count", "both_labels"):
        return [None]
    suited = [
        name
        for name, column in contract.columns.items()
        if rule in ("no_missing", "unique", column.rule)
    ]
    return [None, *suited] if rule == "unique" else list(suited)


def _rule(check: Check, column: str | None, contract: Contract) -> DataRule:
    at_least = check.at_least or {"row_count": 2, "both_labels": 1}.get(check.rule)
    description = {
        "no_missing": f"{column} is never empty",
        "row_count": f"the table has at least {at_least} rows",
        "both_labels": f"each label has at least {at_least} {'row' if at_least == 1 else 'rows'}",
        "unique": f"{column or 'a row'} never repeats",
    }.get(check.rule) or f"{column} {contract.columns[str(column)].rule_text}"
    return DataRule(check.rule, column, check.severity, at_least, description)


def _count(table: pa.Table, rule: DataRule, contract: Contract) -> int:
    """How many values, rows or labels break a rule."""
    if rule.rule == RELATION:
        relation = next(one for one in contract.relations if str(one) == rule.column)
        return int(breaks_of(Table(table), relation, contract).sum())
    if rule.rule == "row_count":
        return max(0, int(rule.at_least or 0) - int(table.num_rows))
    if rule.rule == "both_labels":
        return int(np.sum(label_counts(table, contract) < int(rule.at_least or 0)))
    if rule.rule == "unique":
        columns = table.select([rule.column] if rule.column else table.column_names)
        return int(table.num_rows - columns.group_by(columns.column_names).aggregate([]).num_rows)
    name = str(rule.column)
    values = table.column(name)
    declared = contract.numbers.get(name)
    if rule.rule == "no_missing":
        return int(values.null_count)
    if declared is None:
        return contract.listed[name].unlisted(values)
    # one look at what nearly always lies between its bounds
    low, high = pc.min_max(values).values()
    if low.as_py() is None or (
        low.as_py() >= declared.bounds[0] and high.as_py() <= declared.bounds[1]
    ):
        return 0
    outside = pc.or_(pc.less(values, declared.bounds[0]), pc.greater(values, declared.bounds[1]))
    return int(pc.sum(outside).as_py() or 0)
