"""LDP-TabICL as a flow: ingest, validate, split, randomise at the client, reconstruct, serialise, score, evaluate."""

from __future__ import annotations

from prefect import flow

from flows.sweep import on_one_dataset, task_runner


@flow(name="ldp-tabicl", flow_run_name="ldp-tabicl {dataset}", task_runner=task_runner(), persist_result=False, retries=0)
def ldp_tabicl(
    dataset: str,
    epsilons: list[float | str],
    shots: list[int],
    seeds: list[int],
    model: str = "tiny",
    run_id: str | None = None,
) -> str:
    """Run LDP-TabICL on one data set; everything else as in pipeline `ldp-tabicl`.

    Returns:
        The run's id.
    """
    return on_one_dataset("ldp-tabicl", dataset, {"epsilons": epsilons, "shots": shots, "seeds": seeds, "model": model}, run_id)
