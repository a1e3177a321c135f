"""Stage `reconstruct` as a retryable task."""

from dpicl.engine.stages.draw import derive_stage
from tasks.wrapper import as_task

reconstruct = as_task(derive_stage("reconstruct"))
