"""The stages that close a run: all results in one place, and the report."""

from __future__ import annotations

from pathlib import Path

from dpicl.engine.collect import collect
from dpicl.engine.order import Step
from dpicl.engine.stage import stage
from dpicl.report import build_report

collect_run = stage("collect", "collect", collect, "owner")
write_report = stage("report", "report", lambda run: str(build_report(Path(run))[0].name), "owner")


def report_steps(run: Path) -> list[Step]:
    """What closes a run."""
    return [Step(one, (str(run),)) for one in (collect_run, write_report)]
