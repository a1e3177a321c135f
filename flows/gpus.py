"""One local worker per GPU: a model is loaded once on each, and scoring waits for these workers."""

from __future__ import annotations

from typing import Any

import dask
from distributed import Nanny

from dpicl.processes import VISIBLE, gpus_here

GPU = "GPU"
"""Dask's usual name of the resource; workers started by hand say `--resources GPU=1`."""


class LocalWorker(Nanny):
    """A worker process of the local cluster; the first ones own a GPU each, if there are some, the
    others see none.
    """

    def __init__(self, scheduler: str, *, name: int, **options: Any) -> None:
        gpus = gpus_here()
        if gpus:
            own = gpus[name : name + 1]
            options["resources"] = {GPU: len(own)} if own else {}
            options["env"] = {**(options.get("env") or {}), VISIBLE: ",".join(own)}
        super().__init__(scheduler, name=name, **options)


def on_gpus(client: Any) -> Any:
    """A context in which tasks are handed to workers with a GPU, if the cluster has such."""
    return dask.annotate(**({"resources": {GPU: 1}} if any(_gpus_by_worker(client)) else {}))


def scoring_workers(client: Any) -> int:
    """How many workers ask models: those with a GPU, if the cluster has such, else all; at least
    one.
    """
    found = _gpus_by_worker(client)
    return max(1, sum(map(bool, found)) or len(found))


def _gpus_by_worker(client: Any) -> list[float]:
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return [worker["resources"].get(GPU, 0) for worker in workers]
