"""Processes of tests that end with them."""

from __future__ import annotations

import subprocess
import sys


def stop_with_parent(process: int) -> subprocess.Popen[bytes]:
    """A guard that stops a process once this one is gone, even if it was killed."""
    script = f"import os, signal, sys; sys.stdin.read(); os.kill({process}, signal.SIGTERM)"
    return subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603 - our own command
