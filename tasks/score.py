"""Stage `score` as a retryable task."""

from dpicl.engine.stages import score as stages
from tasks.wrapper import as_task

score = as_task(stages.score)
