"""Stage `serialize` as a retryable task."""

from dpicl.engine.stages import score as stages
from tasks.wrapper import as_task

serialize = as_task(stages.serialize)
