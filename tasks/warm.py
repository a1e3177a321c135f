"""What every worker needs, imported: local workers are forks of one process that has done so."""

import gc

from dpicl.engine.stages import consult, fit_baselines, generate, probe, score  # noqa: F401 - for what they import
from dpicl.lm.models import import_backend
from tasks import wrapper  # noqa: F401 - the same

import_backend()
gc.freeze()  # else a fork's first collection copies everything
