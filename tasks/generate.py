"""Stage `generate` as a retryable task."""

from __future__ import annotations

from dpicl.engine.stages import generate as stages
from tasks.wrapper import as_task

generate = as_task(stages.generate)
release_texts = as_task(stages.release_texts)
