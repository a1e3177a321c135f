"""DP few-shot generation as a flow: ingest, validate, split, charge, generate, release, serialise, score, evaluate."""

from __future__ import annotations

from prefect import flow

from flows.sweep import on_one_dataset, task_runner


@flow(
    name="few-shot-generation",
    flow_run_name="few-shot-generation {dataset}",
    task_runner=task_runner(),
    persist_result=False,
    retries=0,
)
def few_shot_generation(
    dataset: str,
    epsilons: list[float | str],
    shots: list[int],
    seeds: list[int],
    model: str = "tiny",
    run_id: str | None = None,
) -> str:
    """Run DP few-shot generation on one set of texts; everything else as in pipeline `few-shot-generation`.

    Returns:
        The run's id.
    """
    changes = {"epsilons": epsilons, "shots": shots, "seeds": seeds, "model": model}
    return on_one_dataset("few-shot-generation", dataset, changes, run_id)
