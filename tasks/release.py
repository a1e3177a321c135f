"""Stage `release` as a retryable task: what a model drafted is published."""

from dpicl.engine.stages import charge as stages
from tasks.wrapper import as_task

release = as_task(stages.release)
