"""DP-ICL as a flow: ingest, validate, split, charge, consult, release, serialise, score, evaluate."""

from __future__ import annotations

from prefect import flow

from flows.sweep import on_one_dataset, task_runner


@flow(
    name="dp-icl",
    flow_run_name="dp-icl {dataset}",
    task_runner=task_runner(),
    persist_result=False,
    retries=0,
)
def dp_icl(
    dataset: str,
    epsilons: list[float | str],
    shots: list[int],
    seeds: list[int],
    model: str = "tiny",
    run_id: str | None = None,
) -> str:
    """Run DP-ICL on one set of texts; everything else as in pipeline `dp-icl`.

    Returns:
        The run's id.
    """
    changes = {"epsilons": epsilons, "shots": shots, "seeds": seeds, "model": model}
    return on_one_dataset("dp-icl", dataset, changes, run_id)
