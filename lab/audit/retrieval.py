"""Audits of retrieval under an individual filter, with a neighbour that would displace others, and
of what it is to forget who took part.

Three prompts answer each query; one of those that hold a record of label `a` says `a`, any other
`b`. Nearness, filter, placement and noise are the method's own. A record has one use, and the noise
is for one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dpicl.ground.randomness import Stream
from dpicl.mechanisms.disjoint_subsets import LEFT_OUT
from dpicl.mechanisms.keyed_subsets import KEY_BYTES, identities, keyed_subsets, record_marks
from dpicl.mechanisms.noisy_max import gaussian_maxima
from dpicl.mechanisms.private_token import UNITS, TokenNoise
from dpicl.mechanisms.record_filter import near, takes_part, whole_points
from lab.audit.case import LESS_NOISE, AuditCase, Mutant, OutputEvent, Trial, less_noise
from lab.audit.ensembles import DELTA, EPSILON, SIGMA

PROMPTS, QUERIES, MOST = 3, 8, 1
_NOISE = TokenNoise("gaussian", SIGMA)
_ANGLES = (10, 20, 30, 40, 50, 60, 70, 80)
"""Of the other records, in degrees from the query: more queries than one use of each could answer
are nearest to another one each.
"""
_SIMILARITY = 0.1
Records = Sequence[tuple[int, str]]
"""Angle and label."""
Rule = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""From points, a query and the uses so far to who takes part."""


def by_filter(points: np.ndarray, query: np.ndarray, uses: np.ndarray) -> np.ndarray:
    """The right rule."""
    return takes_part(near(points, query, similarity=_SIMILARITY), uses, most=MOST)


def by_rank(points: np.ndarray, query: np.ndarray, uses: np.ndarray) -> np.ndarray:
    """Mutant: of those that have uses left the nearest one."""
    products = np.where(uses < MOST, points.astype(np.int64) @ query.astype(np.int64), -1)
    return np.asarray((np.arange(len(points)) == products.argmax()) & (uses < MOST))


def by_mean(points: np.ndarray, query: np.ndarray, uses: np.ndarray) -> np.ndarray:
    """Mutant: all share their uses, and stop where these are spent on average."""
    return near(points, query, similarity=_SIMILARITY) & (uses.mean() < MOST)


def noted_afterwards(points: np.ndarray, query: np.ndarray, uses: np.ndarray) -> np.ndarray:
    """Mutant: uses are noted after the answer, and who asks is gone by then."""
    return by_filter(points, query, np.zeros_like(uses))


def takers(records: Records, rule: Rule) -> list[np.ndarray]:
    """Who takes part in each of the queries, which are all alike: shape (records,)."""
    angles = np.radians([angle for angle, _ in records])
    points, uses = (
        whole_points(np.column_stack([np.cos(angles), np.sin(angles)])),
        np.zeros(len(records), dtype=np.int64),
    )
    (query,) = whole_points(np.array([[1.0, 0.0]]))
    taken = []
    for _ in range(QUERIES):
        taken.append(rule(points, query, uses))
        uses = uses + taken[-1]
    return taken


def _asked(
    tables: dict[bool, Records],
    events: dict[str, OutputEvent],
    rule: Rule = by_filter,
    noise: TokenNoise = _NOISE,
) -> Trial:
    """Runs of all queries, one after another: which label is selected in each, 0 for `a`."""
    assert noise.amount is not None
    variance = noise.amount**2 * noise.squared_movement
    taken = {which: takers(records, rule) for which, records in tables.items()}

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        key, says_a = (
            stream.bytes(KEY_BYTES),
            np.array([label == "a" for _, label in tables[which]]),
        )
        marks = record_marks(identities([f"{table}".encode() for table in tables[which]]), key=key)
        votes = []
        for query, rows in enumerate(taken[which]):
            places = keyed_subsets(
                marks, key=key, query=query, sampling_rate=SIGMA, subset_count=PROMPTS
            )
            some = len({*np.where(rows & says_a, places, LEFT_OUT).tolist()} - {LEFT_OUT})
            votes.append([some * UNITS, (PROMPTS - some) * UNITS])
        return gaussian_maxima(votes * count, variance=variance, stream=stream).reshape(
            count, QUERIES
        )

    return Trial(draw, events, delta=DELTA)


def _least(count: int) -> OutputEvent:
    return lambda selected: np.count_nonzero(selected == 0, axis=1) >= count


_OTHERS = [(angle, "b") for angle in _ANGLES]
_NEAREST = [(0, "a")]
_TABLES: dict[bool, Records] = {True: [*_NEAREST, *_OTHERS], False: _OTHERS}
_IN_TURN = [(angle, "ba"[place % 2]) for place, angle in enumerate(_ANGLES)]
_DISPLACED: dict[bool, Records] = {True: [*_NEAREST, *_IN_TURN], False: _IN_TURN}
"""By rank a record before them all moves each to the next query, where another label was."""
_FAR: dict[bool, Records] = {
    which: [*(_NEAREST if which else []), *[(90, "b")] * QUERIES] for which in (True, False)
}
"""Records that are near to nothing, so that on average hardly anything is spent."""
_FIRST: dict[str, OutputEvent] = {"a first": lambda selected: selected[:, 0] == 0}
_MANY = {f"{count} times a": _least(count) for count in (2, 3, 4, 5)}


def _alternating(selected: np.ndarray) -> np.ndarray:
    even, odd = (np.count_nonzero(selected[:, start::2] == 0, axis=1) for start in (0, 1))
    return np.asarray(even - odd >= 2)


CASES = (
    AuditCase(
        "record-filter",
        f"{QUERIES} queries to records with {MOST} use, by hard votes, at delta = {DELTA:.3f}",
        EPSILON,
        _asked(_TABLES, _FIRST),
        share=4,
        near=0.7,
    ).with_mutants(
        less_noise(_asked(_TABLES, _FIRST, noise=TokenNoise("gaussian", SIGMA / LESS_NOISE))),
        Mutant(
            "by-rank",
            "the nearest record takes part, so that one that is added displaces it to a later "
            "query",
            _asked(_DISPLACED, {"every second": _alternating}, by_rank),
        ),
        Mutant(
            "shared-uses",
            "what is spent is the mean over all records",
            _asked(_FAR, _MANY, by_mean),
        ),
        Mutant(
            "noted-afterwards",
            "uses are noted after the answer, which was seen by then",
            _asked(_TABLES, _MANY, noted_afterwards),
        ),
    ),
)
