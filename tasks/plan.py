"""Planning: a pipeline's name and a user's changes become the plan of a run folder."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dpicl.contract import Contract
from dpicl.errors import DeclarationError, ParameterError
from dpicl.lm.egress import check_egress
from dpicl.lm.models import ModelSpec, resolve_model
from dpicl.methods.common import check_supported
from dpicl.pipeline import Pipeline, Pipelines, Unit, find_pipeline, load_pipelines, override, units_of
from dpicl.tabular.source import find_rows
from tasks.quote import check_budget
from tasks.run_folder import Plan, read_plan, run_folder, write_plan
from tasks.settings import Settings, power_watts


def make_plan(pipeline_name: str, changes: Mapping[str, Any], run_id: str | None, *, resume: bool = False) -> Path:
    """Check everything that can be checked before any private byte is read, and write the plan.

    Args:
        changes: fields of the pipeline that replace the file's.
        run_id: folder name of the run; made from the pipeline and the time if None.
        resume: go on with the run `run_id` and its own plan.

    Returns:
        The run's folder.

    Raises:
        DpiclError: a name, value or file breaks a rule; nothing was written.
    """
    settings = Settings.from_environment()
    power_watts()
    if resume and run_id is not None:
        folder = run_folder(settings, run_id)
        read_plan(folder)
        return folder
    pipelines = load_pipelines(settings.pipelines)
    pipeline = override(find_pipeline(pipelines, pipeline_name), dict(changes))
    model = resolve_model(pipeline.model, registry(pipelines, settings.pipelines.name))
    _check_grid(pipeline, model, settings)
    _check_caps(pipeline, settings)
    run_id = run_id or f"{pipeline_name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    folder = run_folder(settings, run_id)
    write_plan(folder, Plan(run_id, pipeline_name, pipeline, model))
    return folder


def registry(pipelines: Pipelines, file: str) -> dict[str, ModelSpec]:
    """The models that pipelines.yaml names.

    Raises:
        DeclarationError: an entry breaks a rule.
    """
    models = {}
    for name, entry in pipelines.models.items():
        try:
            models[name] = ModelSpec.model_validate({**entry, "name": name})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(["models", name, *map(str, first["loc"])])
            raise DeclarationError(
                file, key, first["msg"].removeprefix("Value error, "), "a model of kind tiny, transformers, endpoint or fake"
            ) from None
    return models


def _check_grid(pipeline: Pipeline, model: ModelSpec, settings: Settings) -> None:
    """Every data set has a contract, and every contract allows what the grid asks of it and tells the model."""
    for name in pipeline.datasets:
        contract = settings.contract(name)
        units = [unit for unit in units_of(pipeline) if unit.dataset == name]
        for unit in units:
            _check_shots(contract, unit)
            check_egress(contract, unit, model)
            check_supported(contract, unit)
        if units:
            find_rows(contract, data_folder=settings.data, cache_folder=settings.cache)


def _check_caps(pipeline: Pipeline, settings: Settings) -> None:
    """Refuse what passes a cap; benchmarks have none and are not asked."""
    capped = {name for name in pipeline.datasets if not settings.contract(name).privacy.budget.benchmark}
    if capped:
        check_budget([unit for unit in units_of(pipeline) if unit.dataset in capped], settings)


def _check_shots(contract: Contract, unit: Unit) -> None:
    missing = [shots for shots in unit.shots if shots not in contract.shots]
    if missing and unit.method == "gdp_tabicl":
        raise ParameterError("shots", missing[0], f"one of {', '.join(map(str, contract.shots))}: {contract.name} has groups for these")
