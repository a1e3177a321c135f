"""Importing this releases once with each method, so that forks of the importing process need not
warm up.

For the fork server only, which can do nothing before it forks but import.
"""

import gc
import logging
import os
import tempfile
from pathlib import Path

import distributed.nanny  # noqa: F401 - half a second for every new worker

from lab.benchmarks.crash.schedules import rig
from lab.benchmarks.crash.steps import release

logging.disable(logging.CRITICAL)
with (
    tempfile.TemporaryDirectory() as _folder,
    rig(Path(_folder) / "place") as _made,
    _made.place.entered(),
):
    os.environ["DPICL_LEDGER"] = f"sqlite:///{_made.place.home / 'ledger.db'}"
    for _method, _unit_folder in _made.folders.items():
        release(str(_unit_folder.run), _unit_folder.unit.key, _method)
gc.freeze()  # else a fork's first collection copies everything
