"""Stage `aggregate` as a retryable task."""

from dpicl.engine.stages.draw import draw_stage
from tasks.wrapper import as_task

aggregate = as_task(draw_stage("aggregate"))
