"""What every worker needs, imported: local workers are forks of one process that has done so.

Dask starts its workers with MALLOC_TRIM_THRESHOLD_, after which glibc maps every larger buffer anew
and gives it back at once: a third of a processor's time goes into clearing pages. So what one
product of matrices has freed is kept for the next.
"""

import ctypes
import gc

import scipy.stats  # noqa: F401 - what a command may do without is imported late

import dpicl.report.content
import dpicl.runs.worth  # noqa: F401
import tasks.on_worker  # noqa: F401 - for what it imports
from dpicl.ground.printable import filter_streams
from dpicl.models.opening import import_backend

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
_BYTES = 1 << 30
_MOST_BYTES_OF_OLD = 1 << 25


def _keep_freed_memory() -> None:
    """Nothing where the allocator has no such setting."""
    tell = getattr(ctypes.pythonapi, "mallopt", None)
    # With the second alone every buffer would be mapped anew; old versions take no more than 32 MiB
    # for the first.
    if tell is not None and (
        tell(_MMAP_THRESHOLD, _BYTES) or tell(_MMAP_THRESHOLD, _MOST_BYTES_OF_OLD)
    ):
        tell(_TRIM_THRESHOLD, _BYTES)


filter_streams()
_keep_freed_memory()
import_backend()
gc.freeze()  # else a fork's first collection copies everything
