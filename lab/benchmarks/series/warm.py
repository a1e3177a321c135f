"""Importing this makes a night of a series once, so that forks of the importing process need not
warm up; for the fork server only.
"""

import gc
import random
import tempfile
from pathlib import Path

from lab.benchmarks.series.kills import make_night, new_horizon

with tempfile.TemporaryDirectory() as _folder:
    make_night(new_horizon(Path(_folder), random.Random(0)), 1, None, None)
gc.freeze()  # else a fork's first collection copies everything
