"""Stage `probe` as a retryable task."""

from dpicl.engine.stages import probe as stages
from tasks.wrapper import as_task

probe = as_task(stages.probe)
