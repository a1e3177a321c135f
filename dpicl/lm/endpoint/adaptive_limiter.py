"""How many calls are under way at once, and when a server has failed for good.

The limit doubles with every round of successes until the server is first congested, then
grows by one a round; it is halved whenever the server is congested, once for all calls
that were under way together. A call keeps its place while it waits to be repeated.
"""

from __future__ import annotations

import asyncio
from collections import deque

ROUNDS = 6
"""After so many failures in a row for every call that is under way the server counts as down."""


class AdaptiveLimiter:
    """Lets up to `limit` calls through; belongs to one event loop.

    Args:
        most: the limit's upper bound.
        start: the limit to start with.
    """

    def __init__(self, most: int, start: float) -> None:
        self.most, self.limit = most, min(max(start, 1.0), float(most))
        self.failures, self.era = 0, 0
        """Failures since the last success; number of times that the limit was halved."""
        self._active = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        while self._active >= int(self.limit):
            place = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
            await place
        self._active += 1

    async def __aexit__(self, *_: object) -> None:
        self._active -= 1
        self._wake()

    def succeeded(self) -> None:
        """A call was answered."""
        self.failures = 0
        self.limit = min(self.limit + (1 / self.limit if self.era else 1), float(self.most))
        self._wake()

    def failed(self, era: int, *, congested: bool, alive: bool) -> bool:
        """A call that began in `era` failed; gives whether the server counts as down.

        Args:
            congested: fewer calls at once would have helped.
            alive: the server answered, and put the call off.
        """
        self.failures += not alive
        if congested and era == self.era:
            self.limit, self.era = max(self.limit / 2, 1.0), era + 1
        return self.failures >= ROUNDS * max(self._active, 1)

    def _wake(self) -> None:
        for _ in range(min(int(self.limit) - self._active, len(self._waiting))):
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
