"""Stage `ingest` as a retryable task."""

from dpicl.engine.stages import ingest as stages
from tasks.wrapper import as_task

ingest = as_task(stages.ingest)
