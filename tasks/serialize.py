"""Stage `serialize` as a retryable task."""

from dpicl.engine.stages import serialize as stages
from tasks.wrapper import as_task

serialize = as_task(stages.serialize)
