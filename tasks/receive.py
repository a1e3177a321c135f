"""Stage `receive` as a retryable task."""

from dpicl.engine.stages import receive as stages
from tasks.wrapper import as_task

receive = as_task(stages.receive)
