"""Stage `measure` as a retryable task."""

from __future__ import annotations

from dpicl.engine.stages import measure as stages
from tasks.wrapper import as_task

measure = as_task(stages.measure)
