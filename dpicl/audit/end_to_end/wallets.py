"""A client who randomises for themselves, whose cap is their own."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from unittest.mock import patch

import yaml

from dpicl.audit.end_to_end.commands import Said, heard
from dpicl.audit.end_to_end.world import Declaration, World, new_world
from dpicl.client import __main__ as client

_RECORD = b"spent,city,member\n50,north,no\n"
_FORMS = (("once.yaml", 2.0), ("again.yaml", 1000.0))
"""The collector's contracts, with the cap that each states."""


def wallet_keeps_its_cap() -> list[str]:
    """A contract with a larger cap gets no more than the cap that the holder set at the first collection."""
    with new_world(Declaration(neighbours="replace-one")) as world, world.entered():
        for file, cap in _FORMS:
            form = Declaration(neighbours="replace-one", cap=cap).contract()
            (world.root / file).write_text(yaml.safe_dump(form | {"name": file.split(".")[0]}))
        first = _collect(world, _FORMS[0][0], "2", ("--cap", "2"))
        again = [_collect(world, _FORMS[1][0], epsilon, ()) for epsilon in ("12", "0.1")]
    if first.code:
        return [f"the first collection is refused: {first.err}"]
    return [f"collection {number} is answered after the cap is spent" for number, said in enumerate(again, 2) if said.code == 0]


def _collect(world: World, form: str, epsilon: str, more: Sequence[str]) -> Said:
    typed = ["client", str(world.root / form), "--epsilon", epsilon, "--memory", str(world.root / "wallet.jsonl"), *more]

    def work() -> None:
        record = SimpleNamespace(buffer=io.BytesIO(_RECORD))
        with patch.object(sys, "argv", typed), patch.object(sys, "stdin", record):
            sys.exit(client.main())

    return heard(work)
