"""Stage `consult` as a retryable task: a model answers with private rows, on a worker."""

from dpicl.engine.stages import consult as stages
from tasks.wrapper import as_task

consult = as_task(stages.consult)
