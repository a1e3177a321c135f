"""A recorder of what passes a stream, and a replayer that forces it upon neighbouring rows."""

from __future__ import annotations

import copy
import hashlib
import pickle
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from dpicl.ground.randomness import Draws, Exact, Law, Output, Stream
from dpicl.methods.text_method import Memory

Bits = bytes


class Diverged(AssertionError):
    """On neighbouring rows something else is asked for, or comes out: rows decide what happens."""


@dataclass(frozen=True)
class Step:
    """What passed: a law, its exact input, and what left."""

    stream: str
    law: Law[Any, Any]
    exact: Any
    output: Any


@dataclass(frozen=True)
class Coins:
    """Uniform bits that no law asked for: to sample rows, to place them, to break ties."""

    drawn: np.ndarray | bytes


@dataclass(frozen=True)
class ForcedStep:
    """A step on two neighbours: `exact` of those it was drawn on, `other` of the neighbouring
    rows.
    """

    stream: str
    law: Law[Any, Any]
    exact: Any
    other: Any
    output: Any


class Open(Protocol):
    """A secret stream by its name."""

    def __call__(self, name: str, *, again: bool = False) -> Stream:
        """It, with the bits it had before where it is taken up `again`."""
        ...


@dataclass
class Transcript:
    """All that passed, by the stream's name and how often it was opened."""

    seed: int
    passed: dict[tuple[str, int], list[Step | Coins]] = field(default_factory=dict)

    def opened(self, name: str, *, again: bool = False) -> Stream:
        """A stream that is recorded; of one name other bits each time, unless it is taken up
        `again`.
        """
        times = sum(other == name for other, _ in self.passed)
        entries = self.passed.setdefault((name, times), [])
        key = hashlib.sha256(f"{self.seed}\n{name}\n{0 if again else times}".encode()).digest()
        before = self.passed[name, 0] if again and times else None
        return _Recorded(key, name, entries, before)


class _Recorded(Stream):
    """Draws, and keeps what it drew from. Bits that were given `before` may serve for the same once
    more, and for nothing else: noise that two inputs share is no noise.
    """

    def __init__(
        self, key: bytes, name: str, entries: list[Step | Coins], before: list[Step | Coins] | None
    ) -> None:
        super().__init__(key, simulated=True)
        self._name, self._entries, self._is_inside = name, entries, False
        self._before = None if before is None else iter(before)

    def passes(self, law: Law[Exact, Output], exact: Exact) -> Output:
        """See `Stream`."""
        given = copy.deepcopy(exact)
        if self._before is not None:
            first = next(self._before, None)
            if not isinstance(first, Step) or pickle.dumps((first.law, first.exact)) != (
                pickle.dumps((law, given))
            ):
                raise Diverged(f"stream {self._name!r}: gives the same bits to another input")
        self._is_inside = True
        try:
            output = law.draw(exact, self)
        finally:
            self._is_inside = False
        self._entries.append(Step(self._name, law, given, copy.deepcopy(output)))
        return output

    def bytes(self, count: int) -> bytes:
        """See `Stream`."""
        drawn = super().bytes(count)
        if not self._is_inside:
            self._entries.append(Coins(drawn))
        return drawn

    def words(self, count: int, dtype: type[np.unsignedinteger]) -> np.ndarray:
        """See `Stream`."""
        drawn = super().words(count, dtype)
        if not self._is_inside:
            self._entries.append(Coins(drawn.copy()))
        return drawn


@dataclass
class Forcing:
    """A transcript that is forced upon neighbouring rows, of which at most so many differ, and the
    steps that were taken with it.
    """

    transcript: Transcript
    rows: int
    steps: list[ForcedStep] = field(default_factory=list)
    _opened: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _left: list[Callable[[], int]] = field(default_factory=list)

    def opened(self, name: str, *, again: bool = False) -> Stream:
        """The recorded stream of that name once more. Raises Diverged: there was none."""
        times = self._opened[name]
        self._opened[name] += 1
        entries = self.transcript.passed.get((name, times))
        if entries is None:
            raise Diverged(f"stream {name!r} is opened {times + 1} times, and was {times} times")
        forced = _Forced(name, entries, self)
        self._left.append(forced.left)
        return forced

    def finish(self) -> list[ForcedStep]:
        """All steps. Raises Diverged: some were not asked for on the neighbouring rows."""
        missing = sum(left() for left in self._left)
        missing += sum(
            len(entries)
            for (name, times), entries in self.transcript.passed.items()
            if times >= self._opened[name]
        )
        if missing:
            raise Diverged(f"{missing} steps are not asked for on the neighbouring rows")
        return self.steps


class _Forced(Stream):
    """Gives what was drawn before, whatever it is asked for on."""

    def __init__(self, name: str, entries: Sequence[Step | Coins], forcing: Forcing) -> None:
        super().__init__(bytes(32), simulated=True)
        self._name, self._entries, self._forcing = name, iter(entries), forcing

    def left(self) -> int:
        """How many entries were not asked for."""
        return sum(1 for entry in self._entries if not self._is_of_few(entry))

    def passes(self, law: Law[Exact, Output], exact: Exact) -> Output:
        """See `Stream`. Raises Diverged: another law draws here."""
        step = next(self._entries, None)
        if not isinstance(step, Step) or step.law != law:
            raise Diverged(f"stream {self._name!r} is asked for {law}, and was for {_of(step)}")
        self._forcing.steps.append(
            ForcedStep(self._name, law, step.exact, copy.deepcopy(exact), step.output)
        )
        return copy.deepcopy(step.output)

    def bytes(self, count: int) -> bytes:
        """See `Stream`. Raises Diverged: so many were not asked for."""
        coins = self._coins(next(self._entries, None))
        if not isinstance(coins, bytes) or len(coins) != count:
            raise Diverged(f"stream {self._name!r} is asked for {count} bytes, and was not")
        return coins

    def words(self, count: int, dtype: type[np.unsignedinteger]) -> np.ndarray:
        """See `Stream`: rows that come last have coins of 0, which sample them. Raises Diverged: so
        many were not asked for, and rows that differ do not explain it.
        """
        entry = next(self._entries, None)
        if entry is None and count <= self._forcing.rows:
            return np.zeros(count, dtype=dtype)
        coins = self._coins(entry)
        if not isinstance(coins, np.ndarray) or coins.dtype != dtype:
            raise Diverged(f"stream {self._name!r} is asked for {count} words, and was not")
        if abs(len(coins) - count) > self._forcing.rows:
            raise Diverged(f"stream {self._name!r}: {count} words, and were {len(coins)}")
        drawn = np.zeros(count, dtype=dtype)
        both = min(count, len(coins))
        drawn[:both] = coins[:both]
        return drawn

    def _coins(self, entry: Step | Coins | None) -> np.ndarray | Bits:
        if not isinstance(entry, Coins):
            raise Diverged(f"stream {self._name!r} is asked for bits, and was for {_of(entry)}")
        return entry.drawn

    def _is_of_few(self, entry: Step | Coins) -> bool:
        """Whether these are coins of the rows that differ alone."""
        return (
            isinstance(entry, Coins)
            and isinstance(entry.drawn, np.ndarray)
            and len(entry.drawn) <= self._forcing.rows
        )


def _of(entry: Step | Coins | None) -> str:
    if entry is None:
        return "nothing more"
    return str(entry.law) if isinstance(entry, Step) else "bits"


@dataclass(frozen=True, kw_only=True)
class HeardDraws(Draws):
    """Draws of a table's method whose secret streams are a transcript's."""

    opened: Open

    def secret(self, stage: str, replicate: str) -> Stream:
        """See `Draws`."""
        return self.opened(f"{stage} {replicate}{self.part}")


class HeardMemory(Memory):
    """Secrets and votes of a method on texts, of a transcript."""

    def __init__(self, draws: Draws, opened: Open) -> None:
        super().__init__(draws)
        self._opened = opened

    def stream(self, key: str, name: str) -> Stream:
        """See `Memory`."""
        return self._opened(f"{key} {name}", again=True)
