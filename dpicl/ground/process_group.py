"""Imported first by a fork server: it and its forks are a group of their own, which no signal to
the program's group reaches.

The program alone is told to stop, and ends them all (`shutdown`). A signal that falls into their
start would end in a traceback.
"""

from __future__ import annotations

import os
import signal

from dpicl.ground.shutdown import SIGNALS

os.setpgrp()
for sign in SIGNALS:
    signal.signal(sign, signal.SIG_IGN)  # and forget what came before
signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # see `processes.fork_server`
for sign in set(SIGNALS) - {signal.SIGINT}:
    signal.signal(sign, signal.SIG_DFL)
