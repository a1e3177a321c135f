"""The stages that close a run: all results in one place, and the report."""

from __future__ import annotations

from pathlib import Path

from dpicl.engine.collect import collect
from dpicl.engine.execute import Step
from dpicl.engine.stage import stage
from dpicl.report import build_report

collect_run = stage("collect", "owner")(collect)
write_report = stage("report", "owner")(lambda run: str(build_report(Path(run))[0].name))


def report_steps(run: Path) -> list[Step]:
    """What closes a run."""
    return [Step(one, (str(run),)) for one in (collect_run, write_report)]
