"""Stage `randomise` as a retryable task."""

from __future__ import annotations

from dpicl.engine.stages import randomise as stages
from tasks.wrapper import as_task

randomise = as_task(stages.randomise)
