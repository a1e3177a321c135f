"""Attacks on what was released: how well membership of one planted record, or text, is inferred,
against what epsilon allows.

An attacker sees a release of one of two tables and says which one it was. The tables are made up,
or public: what an attack finds out about a private one would be released without being charged.
Mutants, whose noise is broken, must be found out beyond what epsilon allows: an attack that catches
nothing would prove nothing.
"""

from lab.audit.membership.attacks import Attacked, advantage_at_least, allowed
from lab.audit.membership.run import Inference, attack
from lab.audit.membership.targets import Target, made_up, of_benchmark
from lab.audit.membership.texts import made_up_texts

__all__ = [
    "Attacked",
    "Inference",
    "Target",
    "advantage_at_least",
    "allowed",
    "attack",
    "made_up",
    "made_up_texts",
    "of_benchmark",
]
