"""A Great Expectations suite generated from the contract's rules.

Great Expectations drops expectation types that it does not know and may quote private rows
in its results; both are guarded against here: the number of evaluated expectations must
match, and results are asked for as booleans only.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from dpicl.checks import Rule
from dpicl.contract import Contract, Declared, TextContract
from dpicl.contract.models import CategoryColumn
from dpicl.engine.artefacts import table_folder
from dpicl.engine.batches import Batches
from dpicl.engine.files import read_json, read_table
from dpicl.engine.settings import Settings
from dpicl.errors import RunError
from dpicl.tabular.reading.checks import rules_of
from dpicl.tabular.reading.encode import label_codes
from dpicl.text.checks import short_labels, text_rules
from dpicl.types import PrivateTable

LABEL_COLUMN, SHORT_COLUMN = "__label__", "__short_labels__"


def expectation(rule: Rule, contract: Declared) -> dict[str, Any]:
    """One rule as an expectation; bounds, categories and labels are the contract's."""
    if isinstance(contract, TextContract):
        return _of_texts(rule, contract)
    assert isinstance(contract, Contract)
    return _of_table(rule, contract)


def _of_texts(rule: Rule, contract: TextContract) -> dict[str, Any]:
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        "row_count": ("expect_table_row_count_to_be_between", {"min_value": rule.at_least}),
        "label_rows": ("expect_column_max_to_be_between", {"column": SHORT_COLUMN, "max_value": 0}),
        "no_empty": ("expect_column_value_lengths_to_be_between", {"column": rule.column, "min_value": 1}),
        "text_length": ("expect_column_value_lengths_to_be_between", {"column": rule.column, "max_value": contract.max_characters}),
        "known_labels": ("expect_column_values_to_be_in_set", {"column": rule.column, "value_set": list(contract.demonstrated)}),
    }
    kind, kwargs = kinds[rule.rule]
    return {"type": kind, "kwargs": kwargs}


def _of_table(rule: Rule, contract: Contract) -> dict[str, Any]:
    if rule.rule == "row_count":
        return {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": rule.at_least}}
    if rule.rule == "both_labels":
        return {"type": "expect_column_unique_value_count_to_be_between", "kwargs": {"column": LABEL_COLUMN, "min_value": 2}}
    kwargs: dict[str, Any] = {"column": rule.column}
    if rule.rule == "no_missing":
        return {"type": "expect_column_values_to_not_be_null", "kwargs": kwargs}
    if rule.rule == "unique":
        return {"type": "expect_column_values_to_be_unique", "kwargs": kwargs}
    declared = contract.columns[str(rule.column)]
    if isinstance(declared, CategoryColumn):
        return {"type": "expect_column_values_to_be_in_set", "kwargs": {**kwargs, "value_set": list(declared.categories)}}
    low, high = declared.bounds
    return {"type": "expect_column_values_to_be_between", "kwargs": {**kwargs, "min_value": low, "max_value": high}}


def check_suite(run: str, dataset: str) -> None:
    """Evaluate the suite on a table that is whole; batches would have to stand in one frame.

    Raises:
        RunError: it does not say of a rule what our own check says.
    """
    settings = Settings.from_environment()
    if Batches.find(settings, dataset, Path(run)) is not None:
        return
    contract = settings.declared(dataset)
    table = read_table(table_folder(settings, dataset, Path(run)) / "private_table.parquet")
    rules = text_rules(contract) if isinstance(contract, TextContract) else rules_of(contract)
    ours = [row["holds"] for row in read_json(Path(run) / "validation" / f"{dataset}.json")]
    for rule, held, expected in zip(rules, evaluate(table, rules, contract), ours, strict=True):
        if held != expected:
            raise RunError(f"validate {contract.name}: Great Expectations and our check of {rule.rule} disagree on column {rule.column!r}")


def evaluate(table: pa.Table, rules: tuple[Rule, ...], contract: Declared) -> list[bool]:
    """Whether each rule holds, in the order of `rules`.

    Raises:
        RunError: the suite did not evaluate every rule, so that its silence means nothing.
    """
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx  # 3.6 s and 250 MB: only where a table is validated

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}  # type: ignore[assignment]
    asset = context.data_sources.add_pandas("private").add_dataframe_asset("table")
    batch = asset.add_batch_definition_whole_dataframe("whole").get_batch(batch_parameters={"dataframe": _frame(table, contract)})
    wanted = [{**expectation(rule, contract), "meta": {"rule": number}} for number, rule in enumerate(rules)]
    suite = gx.ExpectationSuite(name=contract.name, expectations=wanted)
    found = batch.validate(suite, result_format="BOOLEAN_ONLY")
    holds = {int(result.expectation_config.meta["rule"]): bool(result.success) for result in found.results if result.expectation_config}
    if len(holds) != len(rules):
        raise RunError(f"validate {contract.name}: {len(holds)} of {len(rules)} checks were evaluated")
    return [holds[number] for number in range(len(rules))]


def _frame(table: pa.Table, contract: Declared) -> pd.DataFrame:
    if isinstance(contract, TextContract):
        return table.to_pandas().assign(**{SHORT_COLUMN: short_labels(table, contract)})
    assert isinstance(contract, Contract)
    frame = table.to_pandas(categories=[], strings_to_categorical=False)
    for name, column in contract.columns.items():
        if isinstance(column, CategoryColumn):
            frame[name] = table.column(name).cast(pa.string()).to_pandas()
    frame[LABEL_COLUMN] = label_codes(PrivateTable(table), contract)
    return frame
