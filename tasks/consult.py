"""Stage `consult` as a retryable task."""

from __future__ import annotations

from dpicl.engine.stages import consult as stages
from tasks.wrapper import as_task

consult = as_task(stages.consult)
release_answers = as_task(stages.release_answers)
