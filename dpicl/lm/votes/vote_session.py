"""Voters that stay for a whole text: every prompt is read once, then a token of each row at every step."""

from __future__ import annotations

from collections.abc import Sequence

from dpicl.lm.local.batching import Tokens
from dpicl.lm.local.growing_rows import GrowingRows, token_bytes
from dpicl.lm.local.vote_reader import FreshRows, LastLogits, Reader, count_votes
from dpicl.lm.votes.voting import OpenRequests, VoteRequest, VoteRule, Votes


class CachedSession:
    """A `VotingSession` that keeps what was read, and reads everything again where that fails, for memory or another reason."""

    def __init__(self, reader: Reader, ballots: Sequence[VoteRequest], rule: VoteRule) -> None:
        self._reader, self._rule, self._ballots = reader, rule, OpenRequests(ballots)
        size = token_bytes(reader)
        self._fresh: tuple[LastLogits, LastLogits] = (FreshRows(reader), FreshRows(reader))
        self._kept = None if size is None else (GrowingRows(reader, size), GrowingRows(reader, size))

    def vote(self, written: Sequence[Tokens | None]) -> list[Votes | None]:
        """See `VotingSession.vote`."""
        self._ballots.append(written)
        if self._kept is not None:
            try:
                return self._votes(self._kept)
            except Exception:  # noqa: BLE001 - of memory, of a model that cannot be read so, or one that comes again below
                self._kept = None
        return self._votes(self._fresh)

    def _votes(self, readers: tuple[LastLogits, LastLogits]) -> list[Votes | None]:
        return self._ballots.in_order(count_votes(self._reader, self._ballots.open, self._rule, *readers))
