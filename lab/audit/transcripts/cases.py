"""All worlds that transcripts are made of, by method."""

from __future__ import annotations

from functools import lru_cache

from dpicl.ground.errors import ParameterError, one_of
from dpicl.methods import METHODS
from dpicl.methods.audited import is_ours
from lab.audit.transcripts import clients, series, tables, texts
from lab.audit.transcripts.worlds import Case


@lru_cache
def every_case() -> tuple[Case, ...]:
    """Those of all methods that are ours."""
    return (*tables.cases(), *clients.cases(), *series.cases(), *texts.cases())


def cases_of(method: str) -> tuple[Case, ...]:
    """Those of one method, of another package's too if it is one on tables. Raises ParameterError:
    there is no such method, or there are no worlds for it.
    """
    if method not in METHODS:
        raise ParameterError("METHOD", repr(method[:60]), one_of(method, METHODS))
    if is_ours(METHODS[method]):
        return tuple(case for case in every_case() if case.method == method)
    if METHODS[method].data != "table":
        expected = "a method on tables: of texts there are worlds for dpicl's own methods alone"
        raise ParameterError("METHOD", method, expected)
    return tuple(tables.cases_of(method, {"as it is": {}}))
