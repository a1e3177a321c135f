"""Stage `count` as a retryable task."""

from dpicl.engine.stages import draw as stages
from tasks.wrapper import as_task

count = as_task(stages.count)
