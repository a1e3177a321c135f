"""Whether expectations hold, by Great Expectations, and nothing else of its results.

It may quote private rows in results, exceptions and log lines, and stores a digest of them in what
it calls meta: booleans are all that is taken from it, and its pages are made of those alone.
"""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from dpicl.contract import Contract, TextContract
from dpicl.tabular.reading.encode import label_codes
from dpicl.types import PrivateTable
from tasks.expectations import RARER_LABEL, Expectation

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
        {"type": one.type, "kwargs": dict(one.arguments), "meta": {"number": number}}
        for number, one in enumerate(expectations)
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
    for one in result.results:
        # of one exception, or of several by the metric that raised it
        told = one.exception_info or {}
        raised = any(
            each["raised_exception"]
            for each in ([told] if "raised_exception" in told else told.values())
        )
        verdicts[one.expectation_config.meta["number"]] = None if raised else bool(one.success)
    # an unknown one would be dropped
    return [verdicts.get(number) for number in range(len(expectations))]


def _great_expectations() -> Any:
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations  # 3.6 s and 250 MB: only where a table is validated

    log = logging.getLogger("great_expectations")
    log.propagate, log.handlers = False, [logging.NullHandler()]
    return great_expectations


def _frame(table: pa.Table, contract: Contract | TextContract) -> pd.DataFrame:
    if isinstance(contract, TextContract):
        return table.to_pandas()
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
        ExpectationConfiguration(type=one.type, kwargs=dict(one.arguments)) for one in expectations
    ]
    results = [
        ExpectationValidationResult(success=bool(held), expectation_config=one)
        for one, held in zip(configured, verdicts, strict=True)
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
