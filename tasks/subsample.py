"""Stage `subsample` as a retryable task."""

from dpicl.engine.stages.draw import prepare_stage
from tasks.wrapper import as_task

subsample = as_task(prepare_stage("subsample"))
