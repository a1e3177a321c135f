"""Stage `validate` as a retryable task: our own rules decide, and Great Expectations must not say otherwise."""

from __future__ import annotations

from dpicl.engine.stage import stage
from dpicl.engine.stages import validate as stages
from tasks.expectations import check_suite
from tasks.wrapper import as_task


def _validate(run: str, dataset: str) -> str:
    counts = stages.check_rules(run, dataset)
    check_suite(run, dataset)
    return counts


validate = as_task(stage("validate", "validate {dataset}", _validate))
