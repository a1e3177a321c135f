"""The suite of Great Expectations that a contract amounts to, and a user's own expectations beside
it.

CONTRACTS/expectations/NAME.json       the contract's rules, by `python -m tasks.expectations`; a
                                       run refuses one of an older contract
CONTRACTS/expectations/NAME.own.json   yours, in the same form: a run stops where one that is
                                       critical does not hold, before anything is charged

Without the first file a run makes the suite from the contract.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from dpicl.checks import Rule
from dpicl.contract import Contract, TextContract
from dpicl.engine.files import write_json
from dpicl.engine.settings import Settings
from dpicl.errors import DeclarationError
from dpicl.tabular.reading.checks import rules_of
from dpicl.text.checks import text_rules
from dpicl.yaml_file import read_declaration, validate

FOLDER = "expectations"
REFUSED = {"catch_exceptions", "condition_parser", "result_format", "row_condition"}
"""Arguments that would show rows, or are run as code by pandas."""
RARER_LABEL = "__rarer_label__"
"""A column that is computed for a suite: 1 in rows of the label that is rarer."""


class Expectation(BaseModel):
    """One expectation, as Great Expectations writes it; what else stands there decides nothing. Of
    the user's own only those that are `critical`, as they are where nothing is said, stop a run.
    """

    type: Annotated[str, Field(pattern="^expect_[a-z_0-9]+$")]
    arguments: Annotated[dict[str, Any], Field(alias="kwargs")] = {}
    severity: Literal["critical", "warning", "info"] = "critical"

    @property
    def column(self) -> str:
        """Of what it is about; empty if of the table."""
        return str(self.arguments.get("column") or "")


class OwnSuite(BaseModel):
    """A user's own expectations."""

    expectations: tuple[Expectation, ...]


def suite(contract: Contract | TextContract) -> dict[str, Any]:
    """Every rule of a contract as an expectation, in the order of the rules."""
    made = []
    for rule in text_rules(contract) if isinstance(contract, TextContract) else rules_of(contract):
        kind, arguments = _expectation(rule, contract)
        severity = "critical" if rule.severity == "fail" else "warning"
        meta = {"rule": rule.rule, "notes": rule.description}
        made.append({"type": kind, "kwargs": arguments, "severity": severity, "meta": meta})
    return {"name": contract.name, "expectations": made}


def _expectation(rule: Rule, contract: Contract | TextContract) -> tuple[str, dict[str, Any]]:
    column, at_least = {"column": rule.column}, {"min_value": rule.at_least}
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        "row_count": ("expect_table_row_count_to_be_between", at_least),
        "both_labels": ("expect_column_sum_to_be_between", {"column": RARER_LABEL, **at_least}),
        "no_missing": ("expect_column_values_to_not_be_null", column),
        "no_empty": ("expect_column_value_lengths_to_be_between", {**column, "min_value": 1}),
    }
    if rule.rule in kinds:
        return kinds[rule.rule]
    if isinstance(contract, TextContract):
        if rule.rule == "text_length":
            return "expect_column_value_lengths_to_be_between", {
                **column,
                "max_value": contract.max_characters,
            }
        return "expect_column_values_to_be_in_set", {
            **column,
            "value_set": list(contract.demonstrated),
        }
    if rule.column is None:
        return "expect_compound_columns_to_be_unique", {
            "column_list": list(contract.columns),
            "ignore_row_if": "never",
        }
    if rule.rule == "unique":
        return "expect_column_values_to_be_unique", column
    kind, values = contract.columns[rule.column].expectation
    return kind, {**column, **values}


def _file(settings: Settings, name: str) -> Path:
    """Beside the contract: a suite of the shipped one is none of the user's own."""
    file = settings.contract_files().get(name, settings.contracts / name)
    return (
        (file.parent.parent if settings.is_of_texts(file) else file.parent)
        / FOLDER
        / f"{name}.json"
    )


def _read(file: Path) -> Any:
    try:
        return json.loads(read_declaration(file))
    except (ValueError, RecursionError):
        raise DeclarationError(
            f"{FOLDER}/{file.name}", "", "is not JSON", "a suite of Great Expectations"
        ) from None


def checked_suite(contract: Contract | TextContract, settings: Settings) -> tuple[Expectation, ...]:
    """The contract's suite, from its file if there is one.

    Raises:
        DeclarationError: the file is of another contract than today's.
    """
    wanted, file = suite(contract), _file(settings, contract.name)
    if file.exists() and _read(file) != json.loads(json.dumps(wanted)):
        expected = "what `python -m tasks.expectations` writes, or no such file"
        raise DeclarationError(
            f"{FOLDER}/{file.name}", "", "is not what the contract says now", expected
        )
    return tuple(Expectation.model_validate(one) for one in wanted["expectations"])


def own_expectations(name: str, settings: Settings) -> tuple[Expectation, ...]:
    """A user's own expectations of a data set; none without a file.

    Raises:
        DeclarationError: the file is not of that form, or asks for more than whether an expectation
            holds.
    """
    file = settings.contracts / FOLDER / f"{name}.own.json"
    if not file.exists():
        return ()
    own = validate(OwnSuite, _read(file), f"{FOLDER}/{file.name}").expectations
    for number, one in enumerate(own):
        for key in sorted(one.arguments.keys() & REFUSED):
            raise DeclarationError(
                f"{FOLDER}/{file.name}",
                f"expectations.{number}.kwargs.{key}",
                "is not allowed",
                "no such key",
            )
    return own


def main() -> None:
    """Write the suite of every contract in the user's own folder."""
    settings = Settings.from_environment()
    for name in settings.own_names():
        write_json(_file(settings, name), suite(settings.declared(name)), replace=True)
    sys.stdout.write(f"{settings.contracts / FOLDER}\n")


if __name__ == "__main__":
    main()
