"""Stage `advance` as a retryable task: a series goes on until the last period that is over."""

from dpicl.engine.stages import advance as stages
from tasks.wrapper import as_task

advance = as_task(stages.advance)
