"""The suite of Great Expectations that a contract amounts to, and a user's own expectations beside
it.

CONTRACTS/expectations/NAME.json       the contract's rules, by `python -m tasks.expectations`; a
                                       run refuses one of an older contract
CONTRACTS/expectations/NAME.own.json   yours, in the same form: a run stops where one that is
                                       critical does not hold, before anything is charged

Without the first file a run makes the suite from the contract.

Whether expectations hold, by Great Expectations, and nothing else of its results.

Stages `validate` and `prepare` with Great Expectations: our rules decide, it must not say
otherwise; a user's own expectations hold.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from pydantic import BaseModel, Field

from dpicl.contract import Contract, TextContract
from dpicl.data.reading.checks import RELATION, rules_of
from dpicl.data.reading.encode import label_codes
from dpicl.data.text_files import text_rules
from dpicl.ground.errors import DataError, DeclarationError, RunError
from dpicl.ground.files import PRIVATE_MODE, read_json, write_json, write_text
from dpicl.ground.printable import tell_holder
from dpicl.ground.types import DataRule, PrivateTable
from dpicl.ground.validation import validate
from dpicl.ground.yaml_file import read_declaration
from dpicl.home.settings import Settings
from dpicl.release.table_files import Batches, check_open
from dpicl.runs import prepare
from dpicl.runs import prepare as stages
from dpicl.runs.run_folder import rows_of
from dpicl.runs.stage import Verdicts, stage

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
    """Every rule of a contract as an expectation, in the order of the rules; but relations, for
    which there is none.
    """
    made = []
    for rule in text_rules(contract) if isinstance(contract, TextContract) else rules_of(contract):
        if rule.rule == RELATION:
            continue
        kind, arguments = _expectation(rule, contract)
        severity = "critical" if rule.severity == "fail" else "warning"
        meta = {"rule": rule.rule, "notes": rule.description}
        made.append({"type": kind, "kwargs": arguments, "severity": severity, "meta": meta})
    return {"name": contract.name, "expectations": made}


def _expectation(rule: DataRule, contract: Contract | TextContract) -> tuple[str, dict[str, Any]]:
    column = {"column": rule.column}
    at_least = {"min_value": rule.at_least}
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
    return kind, column | values


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
    wanted = suite(contract)
    file = _file(settings, contract.name)
    if file.exists() and _read(file) != json.loads(json.dumps(wanted)):
        expected = "what `python -m tasks.expectations` writes, or no such file"
        raise DeclarationError(
            f"{FOLDER}/{file.name}", "", "is not what the contract says now", expected
        )
    return tuple(Expectation.model_validate(expectation) for expectation in wanted["expectations"])


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
    for number, expectation in enumerate(own):
        for key in sorted(expectation.arguments.keys() & REFUSED):
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


Verdict = bool | None
"""Whether an expectation holds; None where it could not be evaluated."""
_AT_ONCE = ("unique", "increasing", "decreasing")
"""Words in the names of expectations about single values that compare rows."""
_BY_CHANCE = re.compile(r"(?<=collapse-body)-[0-9a-f-]{36}|(?<=png)\?d=[0-9TZ.]+")
"""Names and times in a page, without which the same verdicts are the same bytes."""
_LOADS_NOTHING = """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">"""  # noqa: E501


def evaluate(
    table: pa.Table, expectations: Sequence[Expectation], contract: Contract | TextContract
) -> list[Verdict]:
    """Whether each expectation holds of the rows, in their order."""
    gx = _great_expectations()
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
    )

    numbered = [
        {
            "type": expectation.type,
            "kwargs": dict(expectation.arguments),
            "meta": {"number": number},
        }
        for number, expectation in enumerate(expectations)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pandas, too, which may quote a value
        context = gx.get_context(
            mode="ephemeral",
            project_config=DataContextConfig(store_backend_defaults=InMemoryStoreBackendDefaults()),
        )
        context.variables.progress_bars = {"globally": False}
        asset = context.data_sources.add_pandas("private").add_dataframe_asset("table")
        batch = asset.add_batch_definition_whole_dataframe("whole").get_batch(
            batch_parameters={"dataframe": _frame(table, contract)}
        )
        result = batch.validate(
            gx.ExpectationSuite(name=contract.name, expectations=numbered),
            result_format="BOOLEAN_ONLY",
        )
    verdicts: dict[int, Verdict] = {}
    for outcome in result.results:
        # of one exception, or of several by the metric that raised it
        told = outcome.exception_info or {}
        raised = any(
            each["raised_exception"]
            for each in ([told] if "raised_exception" in told else told.values())
        )
        verdicts[outcome.expectation_config.meta["number"]] = (
            None if raised else bool(outcome.success)
        )
    # an unknown one would be dropped
    return [verdicts.get(number) for number in range(len(expectations))]


def _great_expectations() -> Any:
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations  # 3.6 s and 250 MB: only where a table is validated

    log = logging.getLogger("great_expectations")
    log.propagate = False
    log.handlers = [logging.NullHandler()]
    return great_expectations


def _frame(table: pa.Table, contract: Contract | TextContract) -> pd.DataFrame:
    if isinstance(contract, TextContract):
        # a missing text is an empty one: Great Expectations would pass over it
        return table.to_pandas().fillna("")
    frame = table.to_pandas(categories=[], strings_to_categorical=False)
    for name in contract.listed:
        frame[name] = table.column(name).cast(pa.string()).to_pandas()
    if contract.label is None:
        return frame
    labelled = table.column(contract.label.column).is_valid()
    codes = label_codes(PrivateTable(table.filter(labelled)), contract)
    frame[RARER_LABEL] = 0
    # of two equally rare ones the later
    rarest = np.bincount(codes, minlength=contract.target.count)[::-1].argmin()
    frame.loc[labelled.to_numpy(), RARER_LABEL] = (
        codes == contract.target.count - 1 - rarest
    ).astype(int)
    return frame


def implementation(expectation: Expectation) -> type[Any] | None:
    """The class of an expectation; None if there is none of this name and these arguments."""
    _great_expectations()
    from great_expectations.exceptions import GreatExpectationsError
    from great_expectations.expectations.registry import get_expectation_impl

    try:
        kind: type[Any] = get_expectation_impl(expectation.type)
        kind(**expectation.arguments)
    except (GreatExpectationsError, ValueError, TypeError):
        return None
    return kind


def is_row_by_row(expectation: Expectation) -> bool:
    """Whether it holds of a table if and only if it holds of every batch of its rows."""
    from great_expectations.expectations.expectation import (
        ColumnMapExpectation,
        ColumnPairMapExpectation,
        MulticolumnMapExpectation,
    )

    kind = implementation(expectation)
    single = kind is not None and issubclass(
        kind, ColumnMapExpectation | ColumnPairMapExpectation | MulticolumnMapExpectation
    )
    return (
        single
        and expectation.arguments.get("mostly", 1) == 1
        and not any(word in expectation.type for word in _AT_ONCE)
    )


def page(
    name: str, run: str, expectations: Sequence[Expectation], verdicts: Sequence[Verdict]
) -> str:
    """Data Docs of what was evaluated, as a page that loads nothing and runs no script."""
    gx = _great_expectations()
    from great_expectations.core import (
        ExpectationSuiteValidationResult,
        ExpectationValidationResult,
    )
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
    from great_expectations.render.renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaPageView
    from great_expectations.validator.validation_statistics import calc_validation_statistics

    configured = [
        ExpectationConfiguration(type=expectation.type, kwargs=dict(expectation.arguments))
        for expectation in expectations
    ]
    results = [
        ExpectationValidationResult(success=bool(held), expectation_config=expectation)
        for expectation, held in zip(configured, verdicts, strict=True)
    ]
    statistics = calc_validation_statistics(results)._asdict()
    meta = {
        "run_id": {"run_name": run, "run_time": "1970-01-01T00:00:00+00:00"},
        "great_expectations_version": gx.__version__,
    }
    whole = ExpectationSuiteValidationResult(
        statistics.pop("success"), results, name, statistics=statistics, meta=meta
    )
    html: str = DefaultJinjaPageView().render(ValidationResultsPageRenderer().render(whole))
    return _BY_CHANCE.sub("", html).replace("<head>", f"<head>{_LOADS_NOTHING}", 1)


@stage("validate")
def check_and_evaluate(run: str, dataset: str) -> str:
    """Check the rules, then evaluate them by Great Expectations."""
    counts = stages.write_verdicts(run, dataset)
    check_expectations(Path(run), dataset)
    return counts


def check_expectations(run: Path, dataset: str) -> None:
    """Evaluate the contract's suite and the user's own; write what holds, as Data Docs and as JSON,
    among the run's verdicts.

    Of a table in batches every batch is evaluated alone: expectations about single rows, others are
    left to our own rules.

    Raises:
        DeclarationError: a suite is out of date, or one of the user's expectations is none that
            could be evaluated.
        DataError: one of the user's expectations that are critical does not hold; names it and the
            column.
        RunError: Great Expectations says of a rule what our own check does not.
    """
    settings = Settings.current()
    private = rows_of(str(run), dataset)
    contract = settings.declared(dataset)
    batches = private.batches
    rules, own = _suites(contract, settings, in_batches=batches is not None)
    written = Verdicts.of(run, contract, settings)
    ours = [row["holds"] for row in written.rules(dataset) or () if row["rule"] != RELATION]
    if batches is None:
        verdicts = evaluate(private.whole(), (*rules, *own), contract)
    else:
        ours = [held for held, rule in zip(ours, rules, strict=True) if is_row_by_row(rule)]
        rules = tuple(rule for rule in rules if is_row_by_row(rule))
        verdicts = _all_hold(
            batch_verdicts(batches, number, (*rules, *own)) for number in range(batches.count)
        )
    evaluated = (*rules, *own)
    shown = [
        {
            **expectation.model_dump(by_alias=True),
            "own": number >= len(rules),
            "holds": verdicts[number],
        }
        for number, expectation in enumerate(evaluated)
    ]
    written.write(f"{FOLDER}/{dataset}.json", shown)
    write_text(
        written.folder / FOLDER / f"{dataset}.html",
        page(dataset, run.name, evaluated, verdicts),
        mode=written.mode,
        replace=True,
    )
    for one, held, verdict in zip(rules, ours, verdicts, strict=False):
        # of a batch, rows that are held out from all may be gone
        if verdict != held and (batches is None or held):
            raise RunError(
                f"validate {dataset}: Great Expectations and our own check disagree on "
                f"{one.type}, column {one.column!r}"
            )
    for one, verdict in zip(own, verdicts[len(rules) :], strict=True):
        if not verdict and one.severity == "critical":
            rule = "breaks" if verdict is False else "cannot be evaluated by"
            raise DataError(dataset, f"{rule} your own {one.type}", column=one.column)
        if not verdict:
            tell_holder(
                f"{dataset}: your own {one.type}{f' of {one.column}' * bool(one.column)} does not "
                f"hold, and only warns"
            )


def _suites(
    contract: Contract | TextContract, settings: Settings, *, in_batches: bool
) -> tuple[tuple[Expectation, ...], ...]:
    """The contract's and the user's own, which are checked."""
    rules = checked_suite(contract, settings)
    own = own_expectations(contract.name, settings)
    for number, expectation in enumerate(own):
        file = f"{FOLDER}/{contract.name}.own.json"
        key = f"expectations.{number}"
        if implementation(expectation) is None:
            raise DeclarationError(
                file,
                key,
                f"Great Expectations has no {expectation.type} with such kwargs",
                "one of its gallery",
            )
        if in_batches and not is_row_by_row(expectation):
            raise DeclarationError(
                file,
                key,
                f"{expectation.type} needs all rows at once",
                "one about single rows: the table is read in batches",
            )
    return rules, own


@stage("prepare")
def prepare_and_evaluate(run: str, dataset: str, part: int, parts: int) -> str:
    """Prepare a piece of work, and evaluate its batches by Great Expectations."""
    counts = prepare.prepare_part(run, dataset, part, parts)
    settings = Settings.current()
    batches = rows_of(run, dataset).batches
    assert batches is not None
    rules, own = _suites(batches.contract, settings, in_batches=True)
    wanted = (*filter(is_row_by_row, rules), *own)
    for number in batches.numbers(part, parts):
        batch_verdicts(batches, number, wanted)
    return counts


def _all_hold(parts: Iterable[list[Verdict]]) -> list[Verdict]:
    return [None if None in verdict else all(verdict) for verdict in zip(*parts, strict=True)]


def batch_verdicts(
    batches: Batches, number: int, expectations: Sequence[Expectation]
) -> list[Verdict]:
    """Of one batch and expectations about single rows; evaluated once, and kept among its private
    files.
    """
    file = batches.place / f"expectations-{number:05}.json"
    wanted = [expectation.model_dump(by_alias=True) for expectation in expectations]
    stored = read_json(file) if file.exists() else {}
    if stored.get("expectations") != wanted:
        tables = [
            table for table in (batches.train(number).data, batches.test(number)) if table.num_rows
        ]
        stored = {
            "expectations": wanted,
            "holds": _all_hold(evaluate(table, expectations, batches.contract) for table in tables),
        }
        check_open(batches.place)
        write_json(file, stored, mode=PRIVATE_MODE, replace=True)
    verdicts: list[Verdict] = stored["holds"]
    return verdicts


if __name__ == "__main__":
    main()
