"""The number of calls at once follows what a server bears, and a dead server is told from a busy
one.
"""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.models.endpoint.client import ROUNDS, AdaptiveLimiter


def test_it_doubles_a_round_until_the_first_congestion_and_then_grows_by_one() -> None:
    limiter, limits = AdaptiveLimiter(64, 2), []
    for _ in range(4):
        for _ in range(int(limiter.limit)):
            limiter.succeeded()
        limits.append(limiter.limit)
    assert limits == [4, 8, 16, 32]
    limiter.failed(limiter.era, congested=True, alive=True)
    for _ in range(16):
        limiter.succeeded()
    assert 16.9 < limiter.limit < 17


def test_calls_that_were_congested_together_halve_it_once() -> None:
    limiter = AdaptiveLimiter(64, 32)
    era = limiter.era
    for _ in range(20):
        limiter.failed(era, congested=True, alive=True)
    assert limiter.limit == 16
    limiter.failed(limiter.era, congested=True, alive=True)
    assert limiter.limit == 8


@given(
    st.lists(st.sampled_from(["good", "bad", "congested", "late"]), max_size=200),
    st.integers(1, 64),
    st.floats(0.1, 100),
)
def test_it_stays_between_one_and_the_most(events: list[str], most: int, start: float) -> None:
    limiter = AdaptiveLimiter(most, start)
    for event in events:
        if event == "good":
            limiter.succeeded()
        else:
            limiter.failed(limiter.era - (event == "late"), congested=event != "bad", alive=False)
        assert 1 <= limiter.limit <= most


@pytest.mark.parametrize("alive, down", [(False, True), (True, False)])
def test_a_server_is_down_after_rounds_of_failures_of_all_calls_under_way(
    alive: bool, down: bool
) -> None:
    async def failures(calls: int) -> list[bool]:
        limiter = AdaptiveLimiter(calls, calls)
        for _ in range(calls):
            await limiter.__aenter__()
        return [limiter.failed(0, congested=False, alive=alive) for _ in range(calls * ROUNDS)]

    told = asyncio.run(failures(5))
    assert told == [False] * (5 * ROUNDS - 1) + [down]


@given(st.integers(1, 5), st.integers(1, 40))
def test_everybody_gets_through_and_never_more_at_once_than_the_limit(
    limit: int, calls: int
) -> None:
    most: list[int] = []

    async def through() -> None:
        limiter, inside = AdaptiveLimiter(limit, limit), 0

        async def call(number: int) -> None:
            nonlocal inside
            async with limiter:
                inside += 1
                most.append(inside)
                for _ in range(number % 3):
                    await asyncio.sleep(0)
                inside -= 1

        async with asyncio.timeout(10):
            await asyncio.gather(*map(call, range(calls)))

    asyncio.run(through())
    assert len(most) == calls and max(most) <= limit
