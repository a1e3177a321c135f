"""Stage `charge` as a retryable task."""

from dpicl.engine.stages import charge as stages
from tasks.wrapper import as_task

charge = as_task(stages.charge)
