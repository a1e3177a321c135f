"""Stage `prepare` as a retryable task: batches are read, checked, split, and evaluated by Great Expectations."""

from dpicl.engine.stage import stage
from dpicl.engine.stages import ingest as stages
from tasks.validate import evaluate_part
from tasks.wrapper import as_task


@stage("prepare", "prepare {dataset} {part}")
def prepare_and_evaluate(run: str, dataset: str, part: int, parts: int) -> str:
    """Prepare a piece of work, and evaluate its batches by Great Expectations."""
    counts = stages.prepare_part(run, dataset, part, parts)
    evaluate_part(run, dataset, part, parts)
    return counts


prepare_batches = as_task(stages.prepare_batches, prepare_and_evaluate)
