"""GDP-TabICL as a flow: ingest, validate, split, subsample and group, aggregate, serialise, score, evaluate."""

from __future__ import annotations

from prefect import flow

from flows.sweep import on_one_dataset, task_runner


@flow(name="gdp-tabicl", flow_run_name="gdp-tabicl {dataset}", task_runner=task_runner(), persist_result=False, retries=0)
def gdp_tabicl(
    dataset: str,
    epsilons: list[float | str],
    shots: list[int],
    seeds: list[int],
    model: str = "tiny",
    run_id: str | None = None,
) -> str:
    """Run GDP-TabICL on one data set; everything else as in pipeline `gdp-tabicl`.

    Returns:
        The run's id.
    """
    return on_one_dataset("gdp-tabicl", dataset, {"epsilons": epsilons, "shots": shots, "seeds": seeds, "model": model}, run_id)
