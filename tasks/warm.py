"""What every worker needs, imported: local workers are forks of one process that has done so."""

import gc

import tasks.consult
import tasks.fit_baselines
import tasks.generate
import tasks.probe
import tasks.score  # noqa: F401 - for what they import
from dpicl.lm.models import import_backend
from dpicl.printable import filter_streams
from tasks.memory import keep_freed_memory

filter_streams()
keep_freed_memory()
import_backend()
gc.freeze()  # else a fork's first collection copies everything
