"""The only place that makes randomness.

Real releases draw from the operating system; benchmarks draw from named, seeded streams
so that a run can be repeated bit for bit. Both are the same AES-256 counter keystream and
differ only in where the key comes from, so the code that is audited is the code that runs.

    system_stream()                              key from `os.urandom`: a real release
    stream(run_seed, stage, dataset, replicate)  key from a name: simulation on public data
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

_BLOCK_BYTES = 1 << 16
_ZEROS = bytes(_BLOCK_BYTES)
Exact = TypeVar("Exact")
Output = TypeVar("Output")
Exact_contra = TypeVar("Exact_contra", contravariant=True)
Output_co = TypeVar("Output_co", covariant=True)


class Law(Protocol[Exact_contra, Output_co]):
    """How what leaves follows from an exact, private input, at random."""

    def draw(self, exact: Exact_contra, stream: Stream, /) -> Output_co:
        """What leaves."""
        ...


class Stream:
    """A keystream of uniformly random bits.

    `simulated` says whether a seed can repeat it; a released artefact records it.
    """

    def __init__(self, key: bytes, *, simulated: bool) -> None:
        self.simulated = simulated
        self._cipher: CipherContext = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
        self._block = b""
        self._position = 0

    def passes(self, law: Law[Exact, Output], exact: Exact) -> Output:
        """What leaves of an exact input by this law: the one way through which noise passes. An
        audit of made-up rows listens here; a stream of a release keeps nothing.
        """
        return law.draw(exact, self)

    def bytes(self, count: int) -> bytes:
        """`count` random bytes; small requests are served from one cached block."""
        if count > _BLOCK_BYTES:
            return self._cipher.update(bytes(count))
        if self._position + count > len(self._block):
            self._block = self._cipher.update(_ZEROS)
            self._position = 0
        self._position += count
        return self._block[self._position - count : self._position]

    def words(self, count: int, dtype: type[np.unsignedinteger]) -> np.ndarray:
        """`count` uniform unsigned integers of `dtype`, shape (count,)."""
        words = np.empty(count, dtype=dtype)
        left = words.view(np.uint8).data
        # what is encrypted stays in the processor's cache
        for start in range(0, len(left), _BLOCK_BYTES):
            block = left[start : start + _BLOCK_BYTES]
            self._cipher.update_into(_ZEROS[: len(block)], block)
        return words

    def below(self, bound: int) -> int:
        """An exactly uniform integer in 0..bound-1, for any positive bound."""
        bits = (bound - 1).bit_length()
        size = (bits + 7) // 8
        while True:
            value = int.from_bytes(self.bytes(size), "little") >> (8 * size - bits)
            if value < bound:
                return value

    def generator(self) -> np.random.Generator:
        """A numpy generator keyed by this stream, for post-processing and public splits only.

        PCG64 is not cryptographic: noise that a guarantee rests on never comes from here.
        """
        return np.random.Generator(np.random.PCG64(int.from_bytes(self.bytes(32), "little")))


def stream(run_seed: int, stage: str, dataset: str, replicate: str) -> Stream:
    """The named stream of one stage; the same four names always give the same bits."""
    name = json.dumps(["dpicl", 1, run_seed, stage, dataset, replicate])
    return Stream(hashlib.sha256(name.encode()).digest(), simulated=True)


def system_stream() -> Stream:
    """A stream keyed by the operating system; it cannot be repeated."""
    return Stream(os.urandom(32), simulated=False)


@dataclass(frozen=True)
class Draws:
    """The randomness of one run over one data set.

    `secret` streams carry a guarantee: they are simulated on benchmarks and drawn from the
    operating system otherwise. `public` streams order and sample what is already released;
    they are always seeded, so that repeating them shows nothing new.
    """

    run_seed: int
    dataset: str
    simulated: bool
    part: str = ""

    def of_batch(self, number: int) -> Draws:
        """For one batch of a table: streams of its own, so that it draws the same whichever batches
        are drawn for before it.
        """
        return replace(self, part=f",batch={number}")

    def of_rows_where(self, condition: str) -> Draws:
        """For rows that meet a condition: else those of two conditions would be drawn alike."""
        return replace(self, part=f",where={condition}")

    def secret(self, stage: str, replicate: str) -> Stream:
        """Randomness that a mechanism's guarantee rests on."""
        return self.public(stage, replicate) if self.simulated else system_stream()

    def public(self, stage: str, replicate: str) -> Stream:
        """Randomness for post-processing."""
        return stream(self.run_seed, stage, self.dataset, replicate + self.part)
