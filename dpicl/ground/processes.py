"""Processes that are forked from one that has imported everything: started in a way that works in
any temporary folder.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver, get_context, resource_tracker, util
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

from dpicl.ground.shutdown import PASSING, SIGNALS

VISIBLE = "CUDA_VISIBLE_DEVICES"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
"""The environment of processes that share the processors among themselves."""
OWN_GROUP = "dpicl.ground.process_group"
"""Preloaded first, where no signal to the group of the program may reach its processes."""
_LONGEST_ADDRESS = 107
"""Bytes of a Unix socket's path that Linux takes (`man 7 unix`, less the closing zero)."""
_BELOW_FOLDER = len("/pymp-12345678/listener-12345678")


def fork_server(
    preload: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> ForkServerContext | SpawnContext:
    """Start this process's fork server, unless it runs, and give the context that makes processes
    with it.

    Its socket lies in the temporary folder (`TMPDIR`); where that path is too long for a socket, as
    scratch folders of batch systems are, only the socket moves to `/tmp`.

    Args:
        preload: modules that are imported before the first fork.
        environment: variables that must be there by then, where this process has none of that name.
    """
    if sys.platform == "win32":  # which has no fork: each process imports everything itself
        return get_context("spawn")
    context = get_context("forkserver")
    if preload:
        context.set_forkserver_preload(list(preload))
    # A stopped program has unregistered nothing, of which its tracker would warn.
    wanted = {"PYTHONWARNINGS": "ignore:resource_tracker", **(environment or {})}
    added = {name: value for name, value in wanted.items() if name not in os.environ}
    before = tempfile.tempdir
    if len(os.fsencode(tempfile.gettempdir())) + _BELOW_FOLDER > _LONGEST_ADDRESS:
        tempfile.tempdir = "/tmp"  # noqa: S108 the socket's own folder there is made with mkdtemp
    try:
        os.environ.update(added)
        resource_tracker.ensure_running()  # which would let through what is blocked
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS if OWN_GROUP in preload else ())
        forkserver.ensure_running()
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        PASSING[Path(util.get_temp_dir())] = None
    finally:
        tempfile.tempdir = before
        for name in added:
            del os.environ[name]
    return context


def gpus_here() -> list[str]:
    """The devices that may be used: those of CUDA_VISIBLE_DEVICES, else all of this machine."""
    named = os.environ.get(VISIBLE)
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip()]
    return sorted(path.name.removeprefix("nvidia") for path in Path("/dev").glob("nvidia[0-9]*"))
