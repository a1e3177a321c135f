"""Stage `generate` as a retryable task: a model writes from private rows, on a worker."""

from dpicl.engine.stages import generate as stages
from tasks.wrapper import as_task

generate = as_task(stages.generate)
