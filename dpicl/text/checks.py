"""What texts must fulfil before they are used: rules from the contract, and counts of what breaks them.

The same list of rules can be turned into the suite of a validation framework. Results are
counts, never texts; of labels that are too rare, only how many there are.
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from dpicl.checks import Rule, Violation
from dpicl.contract.text import TextContract
from dpicl.text.read import TRAIN

_OF_ALL = (
    Rule("row_count", None, "fail", 2, "there are at least 2 texts"),
    Rule("label_rows", None, "fail", None, "every label has at least as many private texts as the contract says"),
)
"""Of all texts: a delivery may have any number, as that it was refused would tell how few there are."""


def text_rules(contract: TextContract) -> tuple[Rule, ...]:
    """The rules of every set of texts, in a fixed order; `known_labels` only where labels are a public list."""
    known = Rule("known_labels", "label", "fail", None, "label holds only labels of the contract")
    return (
        Rule("no_empty", "label", "fail", None, "label is never empty"),
        Rule("no_empty", "text", "fail", None, "text is never empty"),
        *([known] if contract.is_classification else []),
        *(() if contract.is_delivered else _OF_ALL),
        Rule("text_length", "text", "warn", None, f"text has at most {contract.max_characters} characters; longer ones are cut"),
    )


def text_violations(table: pa.Table, contract: TextContract) -> tuple[Violation, ...]:
    """The broken rules of a table, in the order of `text_rules`.

    Args:
        table: as `load_texts` returns it, shape (texts, 3).
    """
    violations = []
    for rule in text_rules(contract):
        if rule.rule == "row_count":
            count = max(0, int(rule.at_least or 0) - int(table.num_rows))
        elif rule.rule == "label_rows":
            count = short_labels(table, contract)
        else:
            values = pc.fill_null(table.column(rule.column), "")
            if rule.rule == "no_empty":
                broken = pc.equal(values, "")
            elif rule.rule == "known_labels":
                broken = pc.invert(pc.is_in(values, pa.array(contract.demonstrated, pa.string())))
            else:
                assert rule.rule == "text_length", rule.rule
                broken = pc.greater(pc.utf8_length(values), contract.max_characters)
            count = int(pc.sum(broken).as_py() or 0)
        if count:
            violations.append(Violation(rule, count))
    return tuple(violations)


def short_labels(table: pa.Table, contract: TextContract) -> int:
    """How many labels have fewer private texts than the contract's lower bound; of open answers 1 or 0."""
    labels = table.filter(pc.equal(table.column("part"), TRAIN)).column("label").to_pylist()
    if not contract.is_classification:
        return int(len(labels) < contract.row_bounds[""])
    counts = Counter(labels)
    return sum(counts[label] < least for label, least in contract.row_bounds.items())
