"""What children of a test process need, imported: they are forks of one process that has done so.

For the fork server only. What it does not import, and what it does not freeze, costs every child up
to some seconds.
"""

from __future__ import annotations

import gc
import importlib
import pkgutil
from contextlib import suppress

import dpicl.cli
import tests.tasks.in_batches  # noqa: F401 - for what it imports

_COMMANDS = [
    module.name
    for module in pkgutil.walk_packages(dpicl.cli.__path__, "dpicl.cli.")
    if not module.name.endswith("__main__")
]
for _name in (
    *_COMMANDS,
    "diffprivlib.models",
    "dp_accounting.pld.pld_privacy_accountant",
    "pyarrow.dataset",
    "torch",
):
    with suppress(ImportError):  # not every installation has all of them
        importlib.import_module(_name)
gc.freeze()  # else a fork's first collection copies everything
