"""What a mistake of the machine is: one function replaced, and the claim that must catch it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

from lab.audit.end_to_end.claims import Broken
from lab.audit.end_to_end.stand_ins import everywhere, replaced
from lab.audit.end_to_end.suite import CLAIMS


@dataclass(frozen=True)
class MachineMutant:
    """One mistake, and the claim that catches it."""

    name: str
    claim: str
    patched: Callable[[], AbstractContextManager[Any]]
    caught_by: Callable[[], Broken]


MUTANTS: dict[str, MachineMutant] = {}
Made = Callable[[Any], Any]


def mistake(
    name: str,
    claim: str,
    function: str,
    owner: Any = None,
    caught_by: Callable[[], Broken] | None = None,
) -> Callable[[Made], Made]:
    """What makes a mistaken function of the right one: of that name in a module or class, or
    everywhere.
    """

    def known(made: Made) -> Made:
        patched = (
            partial(everywhere, function, made)
            if owner is None
            else partial(replaced, owner, function, made)
        )
        MUTANTS[name] = MachineMutant(name, claim, patched, caught_by or CLAIMS[claim])
        return made

    return known


def caught(mutant: MachineMutant) -> Broken:
    """What breaks the claim while the mistake is made; empty if the claim is blind to it."""
    with mutant.patched():
        return mutant.caught_by()
