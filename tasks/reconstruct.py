"""Stage `reconstruct` as a retryable task."""

from __future__ import annotations

from dpicl.engine.stages import reconstruct as stages
from tasks.wrapper import as_task

reconstruct = as_task(stages.reconstruct)
