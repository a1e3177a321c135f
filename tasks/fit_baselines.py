"""Stage `fit_baselines` as a retryable task."""

from dpicl.engine.stages import evaluate as stages
from tasks.wrapper import as_task

fit_baselines = as_task(stages.fit_baselines)
