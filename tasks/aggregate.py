"""Stage `aggregate` as a retryable task."""

from __future__ import annotations

from dpicl.engine.stages.draw import draw_stage
from tasks.wrapper import as_task

aggregate = as_task(draw_stage("aggregate"))
