"""From a voter's logits to a vote in whole numbers, for numpy and torch alike.

Everything is computed per voter, from its own logits z at the candidates, in float64:

    (1)  probability   v_j = floor(p_j S),                           p = softmax(z)
    (2)  relative      v_j = floor(p_j / max p S)
    (3)  logit         v_j = floor((1 - min(max z - z_j, c) / c) S)
    (4)  difference    v_j = round(min(max(ln p_j - ln o_j, -c), c) / c S),  o of the public prompt
         at the same candidates,
                       beside  u_j = round(ln o_j B S / c)  of the public prompt itself

Whatever the arithmetic does, v_j is a whole number in 0..S, in (4) in -S..S, and of kind (1) their
sum is at most S: numbers are clamped, and a vote whose sum is larger after all counts nothing. So
one voter's vote that is exchanged for another, or for none, moves

    (1)  the sums by an l2 norm of at most sqrt(2) S: |u - v|^2 = |u|^2 + |v|^2 - 2 uv <= 2 S^2
    (2)  the difference of two candidates' sums by at most 2 S
    (3)  the same
    (4)  the difference of two candidates' sums by at most 4 S

and a voter that comes or goes moves the sums by an l2 norm of at most S in (1), every sum by 0..S
and the difference of two by at most S in (2) and (3), and every sum by -S..S in (4). A voter with a
logit that is not finite votes 0 for all.

Source  (1) and (2) arXiv 2309.11765, algorithm 1; (3) arXiv 2407.12108, clipped logits; (4) arXiv
        2507.02974, logits there.
"""

from __future__ import annotations

from typing import Any

from dpicl.lm.votes.voting import VoteRule

_BELOW_ONE = 1 - 1e-9
"""Rounding errors of a softmax over fewer than 2^22 candidates are smaller, so that no vote's sum
exceeds S.
"""
_LEAST_PUBLIC = -(1 << 60)
"""Of (4): with it, sums fit 64 bits."""


def candidates_of(logits: Any, known: Any, rule: VoteRule, xp: Any) -> Any:
    """The likeliest tokens after the public prompt, the likeliest first; of equal ones the lower
    id.

    Of `difference` also those that are less than 2 c below the last of them: no voters lift others
    among the K likeliest.

    Args:
        logits: shape (vocabulary,); tokens of -inf are no candidates.
        known: ids that may be written, ascending.
        rule: how many.
        xp: numpy or torch, whichever the arrays are of.

    Returns:
        Ids, shape (candidates,), of the kind of `known`.
    """
    return candidates_of_all(logits[None], known, rule, xp)[0]


def candidates_of_all(logits: Any, known: Any, rule: VoteRule, xp: Any) -> list[Any]:
    """`candidates_of` every row of logits, shape (rows, vocabulary)."""
    public = logits[:, known]
    possible, size = public > -float("inf"), public.shape[1]
    count, margin = (
        min(rule.candidates or size, size),
        2 * rule.clip if rule.kind == "difference" and rule.clip is not None else 0.0,
    )
    if not count or not len(public):
        return [known[:0]] * len(public)
    least = (
        xp.topk(public, count).values[:, -1:]
        if hasattr(xp, "topk")
        else xp.partition(public, -count)[:, -count][:, None]
    )
    # few of many, which are sorted alone, in rows that are padded to the longest
    near = possible & (public >= least - margin)
    sizes, found = near.sum(1).tolist(), xp.nonzero(near)
    lines, places = found if isinstance(found, tuple) else found.T
    columns = (xp.cumsum(near, 1) - 1)[lines, places]
    values = xp.full_like(public[:, : max(sizes)], -float("inf"))
    ids = xp.zeros_like(values, dtype=known.dtype)
    values[lines, columns], ids[lines, columns] = public[lines, places], known[places]
    ids = ids[xp.arange(len(ids))[:, None], xp.argsort(-values, stable=True)]
    return [
        row[: size if margin else min(size, count)] for row, size in zip(ids, sizes, strict=True)
    ]


def public_votes(logits: Any, rule: VoteRule, xp: Any) -> Any:
    """What the public prompt counts in (4), by its logits at the candidates: shape (candidates,),
    int64.
    """
    return counted_chances(log_chances(xp.asarray(logits, dtype=xp.float64), xp), rule, xp)


def counted_chances(chances: Any, rule: VoteRule, xp: Any) -> Any:
    """The same by log-probabilities in float64, of any shape."""
    assert rule.voters is not None and rule.clip is not None
    weighted = chances * (rule.voters * rule.units / rule.clip)
    return xp.asarray(xp.clip(xp.round(weighted), _LEAST_PUBLIC, 0), dtype=xp.int64)


def log_chances(logits: Any, xp: Any) -> Any:
    """Of float64 logits, over the last axis."""
    gaps = logits - xp.amax(logits, -1, keepdims=True)
    gaps -= xp.log(xp.exp(gaps).sum(-1, keepdims=True))
    return gaps


def whole_votes(
    logits: Any, rule: VoteRule, xp: Any, public: Any = None, present: Any = None
) -> Any:
    """Every voter's vote by the equations above.

    Args:
        logits: at the candidates, shape (voters, candidates).
        rule: kind, units and clip.
        xp: numpy or torch, whichever the array is of.
        public: of `difference` only: the public prompt's logits at the candidates, shape
            (candidates,); or, of voters of several texts, what `log_chances` makes of each voter's
            own, shape (voters, candidates).
        present: of texts with unlike numbers of candidates, which cells are candidates at all:
            shape (voters, candidates), bool; the others get no vote.

    Returns:
        Shape (voters, candidates), int64.
    """
    sizes = abs(logits) if present is None else xp.where(present, abs(logits), 0.0)
    counted = xp.amax(sizes, 1, keepdims=True) < float("inf")  # which a number that is none is not
    logits = xp.asarray(logits, dtype=xp.float64)
    if not counted.all():
        logits = xp.where(counted, logits, 0.0)
    if present is not None:
        logits, counted = xp.where(present, logits, -float("inf")), counted & present
    if rule.kind == "difference":
        assert rule.clip is not None
        chances = (
            public
            if len(public.shape) == 2
            else log_chances(xp.asarray(public, dtype=xp.float64), xp)
        )
        moved = log_chances(logits, xp)
        moved -= chances
        moved *= rule.units / rule.clip
        return xp.asarray(
            xp.where(counted, xp.clip(xp.round(moved), -rule.units, rule.units), 0.0),
            dtype=xp.int64,
        )
    gaps = logits - xp.amax(logits, axis=1, keepdims=True)
    if rule.clip is not None:
        shares = 1 + xp.clip(gaps, -rule.clip, 0) / rule.clip
    else:
        shares = xp.exp(gaps)
        if rule.kind == "probability":
            shares = shares / shares.sum(axis=1, keepdims=True) * _BELOW_ONE
    votes = xp.asarray(xp.clip(xp.floor(shares * rule.units), 0, rule.units), dtype=xp.int64)
    if rule.kind == "probability":
        counted = counted & (votes.sum(axis=1, keepdims=True) <= rule.units)
    return xp.where(counted, votes, 0)
