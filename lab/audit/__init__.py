"""Audits: how much an attacker really tells two neighbours apart, against what is stated.

An audit runs a mechanism many times on two worst-case neighbours and bounds its epsilon from
below; a bound above the stated epsilon is a bug. It is run again on mutants, which must be
caught: an audit that catches nothing would prove nothing.
"""

from lab.audit.case import SURE, AuditCase, Mutant, epsilon_at_least
from lab.audit.run import CASES, OTHERS, AuditResult, MutantResult, find_case, run_audits

__all__ = [
    "CASES",
    "OTHERS",
    "SURE",
    "AuditCase",
    "AuditResult",
    "Mutant",
    "MutantResult",
    "epsilon_at_least",
    "find_case",
    "run_audits",
]
