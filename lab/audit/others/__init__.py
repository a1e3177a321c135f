"""The same attacks on mechanisms of other libraries, at the epsilon that these state, and attacks
of others on what dpicl releases.

Others' packages run in environments and processes of their own (`make peers`). What they draw is
sampled: nobody but they can replay their noise. Faults that are known in public are positives which
the attacks must find; a mechanism without a known fault must not exceed what it states.
"""

from lab.audit.others.run import Finding, audit_target
from lab.audit.others.targets import TARGETS, Fault, Target, find_target

__all__ = ["TARGETS", "Fault", "Finding", "Target", "audit_target", "find_target"]
