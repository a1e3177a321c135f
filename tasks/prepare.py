"""Stage `prepare` as a retryable task."""

from __future__ import annotations

from dpicl.engine.stages import prepare as stages
from tasks.wrapper import as_task

prepare_batches = as_task(stages.prepare_batches)
