"""Stage `evaluate` as a retryable task."""

from dpicl.engine.stages import evaluate as stages
from tasks.wrapper import as_task

evaluate = as_task(stages.evaluate)
