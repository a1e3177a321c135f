"""Stage `split` as a retryable task."""

from dpicl.engine.stages import split as stages
from tasks.wrapper import as_task

split = as_task(stages.split)
