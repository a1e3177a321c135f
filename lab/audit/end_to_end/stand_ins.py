"""Stand-ins that a claim is made under: another draw, a clock that stands, and nothing slow after a
draw.

Each replaces functions of the product where they are called from, and puts them back at the end.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import FunctionType
from typing import Any
from unittest.mock import patch

import numpy as np

from dpicl.contract import Contract
from dpicl.data.central.exact_counts import row_encoding
from dpicl.ground.randomness import Stream, system_stream
from dpicl.ground.types import ReleasedRows
from dpicl.ledger.keys import KEY_BYTES, keyed_hash
from dpicl.methods import dp_icl
from dpicl.methods.mst_tabicl import MstTabicl
from dpicl.release.journal import FileJournal, KeptVotes
from dpicl.release.releases import NamedRelease

_NOON = "2031-01-01T12:00:00.000+00:00"


@contextmanager
def everywhere(name: str, made: Callable[[Any], Any]) -> Iterator[None]:
    """Replace a function of that name in every module of ours that has it; `made` makes the new one
    from the old.
    """
    modules = [
        module
        for path, module in list(sys.modules.items())
        if path.split(".")[0] == "dpicl" and isinstance(vars(module).get(name), FunctionType)
    ]
    with ExitStack() as stack:
        for module in modules:
            stack.enter_context(replaced(module, name, made))
        yield


def replaced(owner: Any, name: str, made: Callable[[Any], Any]) -> AbstractContextManager[Any]:
    """Replace one attribute of a module or class; `made` makes the new one from the old."""
    return patch.object(owner, name, made(getattr(owner, name)))


class ReplayedDraws:
    """The draws of one world, which another world's are replaced by: what else differs is not due
    to noise.

    The other world's own draw is made first, so that its rows are read and its failures happen.
    """

    def __init__(self) -> None:
        self._drawn: dict[Any, Any] = {}

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """In the first world: record every draw. In the second: put the recorded ones in the place
        of its own.
        """
        publish, answer = NamedRelease.publish, dp_icl.answer

        def published(named: NamedRelease, ledger: Any, content: bytes) -> Any:
            # of a horizon's, each of which is a release
            period = named.charge.parameters.get("index")
            drawn = self._drawn.setdefault((named.method, named.key, period), content)
            return publish(named, ledger, drawn)

        def answered(job: Any, *arguments: Any) -> Any:
            return self._drawn.setdefault(("answers", tuple(job.plans)), answer(job, *arguments))

        with (
            patch.object(NamedRelease, "publish", published),
            patch.object(dp_icl, "answer", answered),
        ):
            yield


@contextmanager
def standing_clock() -> Iterator[None]:
    """It is always the same time in the ledger, and durations are nothing: how long work takes is
    in the threat model.
    """
    with (
        patch.multiple(time, perf_counter=lambda: 0.0, process_time=lambda: 0.0),
        everywhere("now", lambda _: lambda: _NOON),
    ):
        yield


@contextmanager
def nothing_slow() -> Iterator[None]:
    """Rows of a graphical model without fitting it."""

    def rows(_method: MstTabicl, _counted: Any, contract: Contract, *_: Any) -> ReleasedRows:
        return ReleasedRows(np.zeros((8, len(row_encoding(contract).sizes)), dtype=np.uint8))

    with patch.object(MstTabicl, "rows", rows):
        yield


@contextmanager
def fresh_journal() -> Iterator[None]:
    """A release of a model is drawn as if for the first time: seeds of its own, and nothing left of
    the draw before.
    """
    seed = system_stream().bytes(KEY_BYTES)

    def stream(_journal: Any, key: str, name: str) -> Stream:
        return Stream(bytes.fromhex(keyed_hash(seed, key, name)), simulated=False)

    with (
        patch.multiple(
            FileJournal,
            stream=stream,
            read=lambda *_: None,
            keep=lambda _journal, _key, _step, tokens: tokens,
        ),
        patch.multiple(KeptVotes, read=lambda *_: None, write=lambda *_: None),
    ):
        yield
