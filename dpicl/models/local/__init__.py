"""Models that run in this process: the only modules that import torch and transformers."""

import os

# Before torch is there: threads that wait for each other by spinning take twelve times the
# processor time on a machine that is not idle.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
