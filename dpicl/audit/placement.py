"""Audits of how records are placed into the prompts of an ensemble: where one more must change one prompt only."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpicl.accounting.amplification import amplified_epsilon
from dpicl.accounting.guarantee import Neighbours
from dpicl.audit.bounds import Trial
from dpicl.audit.case import LESS_NOISE, AuditCase, Mutant, less_noise
from dpicl.mechanisms.disjoint_subsets import LEFT_OUT
from dpicl.mechanisms.keyed_subsets import KEY_BYTES, identities, keyed_subsets, record_marks
from dpicl.mechanisms.noisy_max import exponential_maxima
from dpicl.mechanisms.private_token import UNITS, TokenNoise
from dpicl.randomness import Stream

RATE, NOMINAL = Fraction(1, 2), Fraction(2)
PROMPTS, MANY_PROMPTS = 2, 4
"""With few the loss of one row is likeliest to be seen; with many those show that move together."""
_COMMON, _ROW = b"a", b"b"
_ROWS = 4
_REPEATS = 10


@dataclass(frozen=True)
class _Keyed:
    """The right placement into so many prompts, at a rate."""

    prompts: int = PROMPTS
    rate: Fraction = RATE

    def places(self, marks: np.ndarray, key: bytes, query: int) -> np.ndarray:
        """The prompt of every record."""
        return keyed_subsets(marks, key=key, query=query, sampling_rate=self.rate, subset_count=self.prompts)


class _InTurn(_Keyed):
    """Mutant: record i is dealt to prompt i mod M, if it takes part."""

    def places(self, marks: np.ndarray, key: bytes, query: int) -> np.ndarray:
        """By the order of the records."""
        left_out = super().places(marks, key, query) == LEFT_OUT
        return np.where(left_out, LEFT_OUT, np.arange(len(marks)) % self.prompts)


def _placed(placement: _Keyed, tables: dict[bool, list[bytes]], epsilon: Fraction = NOMINAL) -> Trial:
    """A prompt answers `b` if it holds one; whether `a` is elected, or `b`."""
    noise = TokenNoise("exponential", epsilon)

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        key, records = stream.bytes(KEY_BYTES), tables[which]
        marks, owned = record_marks(identities(records), key=key), np.array(records) == _ROW
        placed = [placement.places(marks, key, query)[owned].tolist() for query in range(count)]
        holding = [len({*places} - {LEFT_OUT}) for places in placed]
        ballots = [[(placement.prompts - some) * UNITS, some * UNITS] for some in holding]
        return exponential_maxima(ballots, epsilon=noise.amount, spread=noise.spread, stream=stream)

    return Trial(draw, {"a": lambda elected: elected == 0, "b": lambda elected: elected == 1})


def keyed_case() -> AuditCase:
    """Equal records, before which another is inserted; or, for records in turn, two halves between which one is."""
    tables = {which: [_ROW] * which + [_COMMON] * _ROWS for which in (True, False)}
    half = [_COMMON, _ROW] * _REPEATS
    halves = {which: half + [_COMMON] * which + half for which in (True, False)}
    return AuditCase(
        "keyed-subsets",
        "label elected by prompts of keyed subsets of a sample",
        amplified_epsilon(float(NOMINAL), RATE),
        Neighbours.ADD_OR_REMOVE_ONE,
        "row",
        _placed(_Keyed(), tables),
        (
            less_noise(_placed(_Keyed(), tables, NOMINAL * LESS_NOISE)),
            Mutant("no-subsample", "every row takes part, yet amplification is claimed", _placed(_Keyed(rate=Fraction(1)), tables)),
            Mutant(
                "in-turn",
                "records are dealt out in turn, so that one that is inserted moves all behind it",
                _placed(_InTurn(MANY_PROMPTS), halves),
            ),
        ),
        share=10,
    )
