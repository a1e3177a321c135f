"""Exact transcripts: what a method drew on some rows is forced upon it on neighbouring ones, and
the exact log-ratios of all noisy steps are added up.

Guarantee   none is spent: rows are made up. A transcript holds exact inputs, and so it is neither
            stored nor shown; nothing of the product makes one.
Paper       none; the definition of differential privacy, step by step. For all outputs o of a
            mechanism of steps with laws L_i, each given what came before:

    (1)  ln P[o | D] - ln P[o | D'] = sum_i  ln L_i(o_i | x_i) - ln L_i(o_i | x'_i)

A transcript sees what sampling cannot: that the same steps are asked for whatever the rows are,
that what is released follows from what was drawn and from nothing else, and how far each step is
from its own part of the price. It says nothing of outputs that were not drawn.
"""

from lab.audit.transcripts.cases import cases_of, every_case
from lab.audit.transcripts.record import Diverged
from lab.audit.transcripts.run import Tally, audit_transcripts

__all__ = ["Diverged", "Tally", "audit_transcripts", "cases_of", "every_case"]
