"""An audit of how records are placed into prompts: by a sample of hashes of what they hold."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpicl.accounting.guarantee import amplified_epsilon
from dpicl.ground.randomness import Stream
from dpicl.mechanisms.disjoint_subsets import LEFT_OUT
from dpicl.mechanisms.keyed_subsets import KEY_BYTES, identities, keyed_subsets, record_marks
from dpicl.mechanisms.noisy_max import exponential_maxima
from dpicl.mechanisms.private_token import UNITS, TokenNoise
from lab.audit.case import LESS_NOISE, AuditCase, Mutant, Trial, less_noise

RATE, NOMINAL = Fraction(1, 2), Fraction(2)
PROMPTS, MANY_PROMPTS = 2, 4
"""With few the loss of one row is likeliest to be seen; with many those show that move together."""
_COMMON, _ROW = b"a", b"b"
_HALF = [_COMMON, _ROW] * 10
_ALIKE = {which: [_ROW] * which + [_COMMON] * 4 for which in (True, False)}
"""Equal records, before which another is inserted."""
_HALVES = {which: _HALF + [_COMMON] * which + _HALF for which in (True, False)}
"""Records in turn, in two halves between which another is inserted."""


@dataclass(frozen=True)
class _Keyed:
    """The right placement into so many prompts, at a rate."""

    prompts: int = PROMPTS
    rate: Fraction = RATE

    def places(self, marks: np.ndarray, key: bytes, query: int) -> np.ndarray:
        """The prompt of every record."""
        return keyed_subsets(
            marks, key=key, query=query, sampling_rate=self.rate, subset_count=self.prompts
        )


class _InTurn(_Keyed):
    """Mutant: record i is dealt to prompt i mod M, if it takes part."""

    def places(self, marks: np.ndarray, key: bytes, query: int) -> np.ndarray:
        """By the order of the records."""
        left_out = super().places(marks, key, query) == LEFT_OUT
        return np.where(left_out, LEFT_OUT, np.arange(len(marks)) % self.prompts)


def _placed(
    placement: _Keyed, tables: dict[bool, list[bytes]] = _ALIKE, epsilon: Fraction = NOMINAL
) -> Trial:
    """A prompt answers `b` if it holds one; whether `a` is selected, or `b`."""
    noise = TokenNoise("exponential", epsilon)

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        key, records = stream.bytes(KEY_BYTES), tables[which]
        marks, owned = record_marks(identities(records), key=key), np.array(records) == _ROW
        placed = [placement.places(marks, key, query)[owned].tolist() for query in range(count)]
        holding = [len({*places} - {LEFT_OUT}) for places in placed]
        votes = [[(placement.prompts - some) * UNITS, some * UNITS] for some in holding]
        return exponential_maxima(votes, epsilon=noise.amount, spread=noise.spread, stream=stream)

    return Trial(draw, {"a": lambda selected: selected == 0, "b": lambda selected: selected == 1})


CASES = (
    AuditCase(
        "keyed-subsets",
        "label selected by prompts of keyed subsets of a sample",
        amplified_epsilon(float(NOMINAL), RATE),
        _placed(_Keyed()),
        share=10,
    ).with_mutants(
        less_noise(_placed(_Keyed(), epsilon=NOMINAL * LESS_NOISE)),
        Mutant(
            "no-subsample",
            "every row takes part, yet amplification is claimed",
            _placed(_Keyed(rate=Fraction(1))),
        ),
        Mutant(
            "in-turn",
            "records are dealt out in turn, so that one that is inserted moves all behind it",
            _placed(_InTurn(MANY_PROMPTS), _HALVES),
        ),
    ),
)
