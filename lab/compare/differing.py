"""What differs between two runs, and what each cost: from their plans, manifests and times."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from dpicl.contract.base import IN_FULL
from dpicl.report import words
from dpicl.report.load import Manifest, Run
from dpicl.report.opening import paid
from dpicl.report.sentences import named
from dpicl.report.tables import is_queried
from lab.compare.sides import Side

ASKING = ("score", "consult", "generate")
"""Stages in which a model is asked."""
_SHOWN = 12
"""Characters of a digest that tell it from another."""
_ELSEWHERE = ("title", "model", "generator", "reports", "schedule")
"""Keys of a pipeline that are no part of what is done, or have a row of their own."""


def differing(first: Side, second: Side) -> list[tuple[str, str, str]]:
    """Names of facts, with what they are in both runs: model and costs always, all others where
    they differ.
    """
    costs = [dict(_costs(side)) for side in (first, second)]
    facts = [dict(_facts(side)) for side in (first, second)]
    rows = [(name, costs[0][name], costs[1][name]) for name in costs[0]]
    for name in dict.fromkeys([*facts[0], *facts[1]]):
        one, other = (known.get(name, words.DASH) for known in facts)
        if one != other:
            rows.append((name, one, other))
    return rows


def _costs(side: Side) -> Iterator[tuple[str, str]]:
    manifest, run = side.run.manifest, side.run
    model = manifest.model
    yield (
        "model",
        named(model.model_copy(update={"digest": (model.digest or "")[:_SHOWN]}))
        if model
        else side.plan.model.name,
    )
    yield (
        "charged",
        "; ".join(paid(manifest)).removeprefix("charged: ") or words.DASH
        if manifest.created_utc
        else "`dpicl budget` shows it; the run is not finished",
    )
    seconds = float(run.timings["seconds"].sum()) if len(run.timings) else math.nan
    yield "time, all stages added up", words.duration(seconds)
    yield "answers a second, while a model is asked", words.number(_speed(run), 1)


def _speed(run: Run) -> float:
    """By the numbers of queries that the results state, which are noisy where the real ones are
    private.
    """
    results = run.results
    asked = [_times_asked(result, run.manifest.grid.draws) for result in results["system"]]
    seconds = float(run.timings.loc[run.timings["stage"].isin(ASKING), "seconds"].sum())
    return (
        float((results["query_count"] * asked).sum()) / seconds
        if seconds and len(results)
        else math.nan
    )


def _times_asked(system: str, draws: int) -> int:
    """How often a query was asked for these results alone: of averaged draws the first is a result
    of its own.
    """
    if system.startswith("averaged"):
        return draws - 1
    return int(is_queried(system) and system != "majority" and not system.endswith("-calibrated"))


def _facts(side: Side) -> Iterator[tuple[str, str]]:
    manifest, plan = side.run.manifest, side.plan
    if manifest.writer:
        yield "generator", manifest.writer
    yield "pipeline", plan.pipeline_name
    pipeline = {
        name: value
        for name, value in plan.pipeline.model_dump(mode="json", context=IN_FULL).items()
        if name not in _ELSEWHERE
    }
    # JSON has no infinity
    yield from _flat(
        {**pipeline, "epsilons": [words.epsilon(epsilon) for epsilon in plan.pipeline.epsilons]}
    )
    yield from ((f"period of {name}", plan.period_of(name)) for name in plan.pipeline.datasets)
    yield from (
        (f"contract {name}", used.digest[:_SHOWN]) for name, used in manifest.contracts.items()
    )
    yield from ((f"queries of {name}", digest[:_SHOWN]) for name, digest in side.queries.items())
    for report in manifest.reports:
        yield (
            f"reports counted, collection {report.collection[:_SHOWN]}",
            f"{report.received.counted:,}, release {report.release[:_SHOWN]}",
        )
    if manifest.created_utc:
        yield from _versions(manifest)


def _versions(manifest: Manifest) -> Iterator[tuple[str, str]]:
    yield "version of dpicl", manifest.dpicl_version
    for method, versions in manifest.methods.items():
        yield from (
            (f"{method}, {name.replace('_', ' ')}", str(version))
            for name, version in versions.items()
        )
    yield from (
        (f"version of {name}", version) for name, version in manifest.versions.items() if version
    )
    yield from (("machine, " + name, str(value)) for name, value in manifest.machine.items())


def _flat(content: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Keys with those that they are below, and values as a pipeline has them."""
    for name, value in content.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{above}{name}.")
        else:
            yield (
                f"{above}{name}",
                ", ".join(map(str, value))
                if isinstance(value, list)
                else words.DASH
                if value is None
                else str(value),
            )
