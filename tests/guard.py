"""Processes of tests: one that ends with them, and one that is killed in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import FrameType, ModuleType
from typing import Any


def stop_with_parent(process: int) -> subprocess.Popen[bytes]:
    """A guard that stops a process once this one is gone, even if it was killed."""
    script = f"import os, signal, sys; sys.stdin.read(); os.kill({process}, signal.SIGTERM)"
    return subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, start_new_session=True
    )  # noqa: S603 - our own command


def kill_before(line: int, module: ModuleType) -> None:
    """Kill this process before the line of that number, from 0, of those of a module that are
    carried out from now on.
    """
    left = [line]

    def local(_frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return local

    sys.settrace(
        lambda frame, _event, _argument: (
            local if frame.f_code.co_filename == module.__file__ else None
        )
    )
