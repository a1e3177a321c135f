"""MST-TabICL as a flow: ingest, validate, split, measure counts, model rows, serialise, score, evaluate."""

from __future__ import annotations

from prefect import flow

from flows.sweep import on_one_dataset, task_runner


@flow(name="mst-tabicl", flow_run_name="mst-tabicl {dataset}", task_runner=task_runner(), persist_result=False, retries=0)
def mst_tabicl(
    dataset: str,
    epsilons: list[float | str],
    shots: list[int],
    seeds: list[int],
    model: str = "tiny",
    run_id: str | None = None,
) -> str:
    """Run MST-TabICL on one data set; everything else as in pipeline `mst-tabicl`.

    Returns:
        The run's id.
    """
    return on_one_dataset("mst-tabicl", dataset, {"epsilons": epsilons, "shots": shots, "seeds": seeds, "model": model}, run_id)
