"""Audits of TabPATE's votes: a row that alone turns a teacher, and rows among which another is
inserted.

Placing rows, teaching, voting and noise are the method's own; a run is two queries or one.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dpicl.ground.randomness import Stream
from dpicl.mechanisms.keyed_subsets import KEY_BYTES
from dpicl.methods import tab_pate
from lab.audit.case import AuditCase, Mutant, Trial

EPSILON, TEACHERS = 2.0, 8
_SIZES = (2, 2)
"""One column and the label."""
Place = Callable[[np.ndarray, Stream], np.ndarray]
Noise = Callable[[np.ndarray, Stream], np.ndarray]


def _keyed(codes: np.ndarray, stream: Stream) -> np.ndarray:
    return tab_pate.teachers_of(codes, None, teachers=TEACHERS, key=stream.bytes(KEY_BYTES))


def in_turn(codes: np.ndarray, stream: Stream) -> np.ndarray:
    """Mutant: row i is dealt to teacher i mod M."""
    return np.arange(len(codes)) % TEACHERS


def _noise(times: float = 1) -> Noise:
    return lambda exact, stream: tab_pate.noisy_votes(
        exact, epsilon=Fraction(EPSILON * times), stream=stream
    )


_USUAL = _noise()


def _votes(
    rows: dict[bool, np.ndarray], queries: int, place: Place = _keyed, noise: Noise = _USUAL
) -> Trial:
    """Votes for the second label, of which all the queries ask in the same words; the events are
    that all are this many or more.
    """
    asked, none = np.zeros((queries, 1), dtype=np.int64), len(rows[False]) // 4

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        def release() -> int:
            exact = tab_pate.votes(
                rows[which], place(rows[which], stream), asked, _SIZES, teachers=TEACHERS
            )
            return int(noise(exact, stream)[:, 1].min())

        return np.array([release() for _ in range(count)])

    more = {f"{some} or more": lambda least, some=some: least >= some for some in (1, 2, none)}
    return Trial(draw, {**more, "none": lambda least: least <= 0})


_ALONE = {
    which: np.array([[0, 1]] * which, dtype=np.uint8).reshape(-1, 2) for which in (False, True)
}
"""No row, and one: its teacher says the second label of rows like it, and every other teacher the
first.
"""
_PARTS = np.array([[0, 1], [0, 0]] * TEACHERS, dtype=np.uint8)
_INSERTED = {which: np.vstack([_PARTS, *[_PARTS[:1]] * which, _PARTS]) for which in (False, True)}
"""Labels in turn, in two halves between which a row is inserted: dealt in turn, every teacher's
rows are others then.
"""
CASES = (
    AuditCase(
        "tab-pate-votes",
        f"votes of {TEACHERS} teachers on two queries",
        EPSILON,
        _votes(_ALONE, 2),
        share=20,
        near=0.5,
    ).with_mutants(
        Mutant("half-noise", "noise of half the scale", _votes(_ALONE, 2, noise=_noise(2))),
        Mutant(
            "exact-votes",
            "votes are released without noise",
            _votes(_ALONE, 2, noise=lambda exact, _: exact),
        ),
        Mutant(
            "dealt-in-turn",
            "rows are dealt to teachers in turn, so that one inserted changes many",
            _votes(_INSERTED, 1, in_turn),
        ),
    ),
)
