"""Stage `aggregate` as a retryable task."""

from __future__ import annotations

from dpicl.engine.stages import aggregate as stages
from tasks.wrapper import as_task

aggregate = as_task(stages.aggregate)
