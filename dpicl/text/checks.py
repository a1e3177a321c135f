"""What every text must satisfy before it is used: rules from the contract, and counts of what
breaks them.

The same list of rules can be turned into the suite of a validation framework. Results are counts,
never texts. None is about all texts
together: a label's `min_rows` decides the price alone, and that fewer were refused would tell how
few there are.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from dpicl.checks import Rule, Violation
from dpicl.contract.text import TextContract


def text_rules(contract: TextContract) -> tuple[Rule, ...]:
    """The rules of every set of texts, in a fixed order; `known_labels` only where labels are a
    public list.
    """
    known = Rule("known_labels", "label", "fail", None, "label holds only labels of the contract")
    return (
        Rule("no_empty", "label", "fail", None, "label is never empty"),
        Rule("no_empty", "text", "fail", None, "text is never empty"),
        *([known] if contract.is_classification else []),
        Rule(
            "text_length",
            "text",
            "warn",
            None,
            f"text has at most {contract.max_characters} characters; longer ones are cut",
        ),
    )


def text_violations(table: pa.Table, contract: TextContract) -> tuple[Violation, ...]:
    """The broken rules of a table, in the order of `text_rules`.

    Args:
        table: as `load_texts` returns it, shape (texts, 3).
    """
    violations = []
    for rule in text_rules(contract):
        values = pc.fill_null(table.column(rule.column), "")
        if rule.rule == "no_empty":
            broken = pc.equal(values, "")
        elif rule.rule == "known_labels":
            broken = pc.invert(pc.is_in(values, pa.array(contract.demonstrated, pa.string())))
        else:
            assert rule.rule == "text_length", rule.rule
            broken = pc.greater(pc.utf8_length(values), contract.max_characters)
        if count := int(pc.sum(broken).as_py() or 0):
            violations.append(Violation(rule, count))
    return tuple(violations)
