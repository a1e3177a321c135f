"""Stage `measure` as a retryable task."""

from dpicl.engine.stages.draw import draw_stage
from tasks.wrapper import as_task

measure = as_task(draw_stage("measure"))
