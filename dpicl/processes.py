"""Processes that are forked from one that has imported everything: started in a way that works in any temporary folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from multiprocessing import forkserver, get_context
from multiprocessing.context import ForkServerContext

_LONGEST_ADDRESS = 107
"""Bytes of a Unix socket's path that Linux takes (`man 7 unix`, less the closing zero)."""
_BELOW_FOLDER = len("/pymp-12345678/listener-12345678")


def fork_server(preload: Sequence[str] = ()) -> ForkServerContext:
    """Start this process's fork server, unless it runs, and give the context that makes processes with it.

    Its socket lies in the temporary folder (`TMPDIR`); where that path is too long for a socket, as scratch folders of batch systems
    are, only the socket moves to `/tmp`.

    Args:
        preload: modules that are imported before the first fork.
    """
    context = get_context("forkserver")
    if preload:
        context.set_forkserver_preload(list(preload))
    before = tempfile.tempdir
    if len(os.fsencode(tempfile.gettempdir())) + _BELOW_FOLDER > _LONGEST_ADDRESS:
        tempfile.tempdir = "/tmp"  # noqa: S108 the socket's own folder there is made with mkdtemp
    try:
        forkserver.ensure_running()
    finally:
        tempfile.tempdir = before
    return context
