"""Stage `subsample` as a retryable task."""

from __future__ import annotations

from dpicl.engine.stages import subsample as stages
from tasks.wrapper import as_task

subsample = as_task(stages.subsample)
