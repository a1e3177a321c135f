"""The endpoint back end against a server on this machine: its pace, and what faults do to
answers.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
import urllib.request
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from pydantic import SecretStr

from dpicl.models.endpoint.client import Client, Usage
from dpicl.models.endpoint.protocol import RequestMode
from dpicl.models.endpoint.scorer import EndpointScorer
from dpicl.models.endpoint.ways import LabelRequest, ListWay
from dpicl.models.kinds.fake import HashScorer
from dpicl.models.requests import CONTINUATIONS
from dpicl.models.spec import ModelSpec
from lab.benchmarks.figures import Figures, bench, sized
from tests.library.endpoint_server import Habits, serving

CONNECTIONS = (1, 8, 64, 256)
MODEL_SECONDS = 0.02
FAULTS = (*("429", "500", "503", "truncate", "cut", "close") * 4, "stall")
CALLS, FAULTY = sized(10_000, 200), 10
"""Prompts, and every how manieth request meets a fault."""


def _serve(pipe: Connection, habits: Habits) -> None:
    with serving(habits) as server:
        pipe.send(server.url)
        pipe.recv()


@contextmanager
def elsewhere(habits: Habits) -> Iterator[str]:
    """A server in a process of its own."""
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe()
    process = processes.Process(target=_serve, args=(theirs, habits))
    process.start()
    try:
        yield ours.recv()
    finally:
        ours.send("stop")
        process.join()


async def _paced(url: str, connections: int, count: int) -> tuple[float, np.ndarray]:
    """Seconds for all calls, and for each."""
    client = Client(
        ModelSpec(name="m", kind="endpoint", id="m", url=url, max_connections=connections),
        SecretStr(""),
        Usage(),
        connections,
    )
    prompts, seconds = (
        iter(
            [
                LabelRequest(f"Row {number} of {connections}. Answer:", CONTINUATIONS)
                for number in range(count)
            ]
        ),
        [],
    )
    async with aclosing(client):
        asker = ListWay(
            client,
            RequestMode("completions", "top-20 logprobs", 20),
            LabelRequest.public(CONTINUATIONS),
        )

        async def one_by_one() -> None:
            for prompt in prompts:
                started = time.perf_counter()
                await asker.answer(prompt)
                seconds.append(time.perf_counter() - started)

        started = time.perf_counter()
        await asyncio.gather(*(one_by_one() for _ in range(connections)))
        return time.perf_counter() - started, np.array(seconds)


def pace(figures: Figures) -> None:
    """Calls per second by number of connections, where the model takes a fiftieth of a second."""
    rates = {}
    with elsewhere(Habits(delay_seconds=MODEL_SECONDS)) as url:
        for connections in CONNECTIONS:
            count = sized(100, 4) * min(connections, 40)
            wall, seconds = asyncio.run(_paced(url, connections, count))
            rates[connections] = count / wall
            low, high = np.percentile(seconds, [50, 99]) * 1000
            print(
                f"{connections:4} connections: {rates[connections]:7.0f} calls per second, p50 "
                f"{low:6.1f} ms, p99 {high:6.1f} ms"
            )
    figures.at_least("endpoint-64-connections-over-1", rates[64] / rates[1], 5, "x")
    figures.at_least("endpoint-256-connections-over-64", rates[256] / rates[64], 0.7, "x")


def faults(figures: Figures) -> None:
    """Ten thousand prompts, every tenth request thwarted: all are answered rightly, none twice."""
    prompts = [f"Row {number}. Answer:" for number in range(CALLS)]
    with elsewhere(Habits(echo="ignores", faults=FAULTS, fault_every=FAULTY)) as url:
        spec = ModelSpec(
            name="m",
            kind="endpoint",
            id="m",
            url=url,
            api="completions",
            max_connections=64,
            deadline_seconds=20,
        )
        started = time.perf_counter()
        scorer = EndpointScorer(spec)
        scores = scorer.score(prompts, CONTINUATIONS)
        print(
            f"{CALLS} prompts with {100 // FAULTY} % faults: {time.perf_counter() - started:.0f} "
            f"s, {_shown(scorer.tally(prompts, CONTINUATIONS))}"
        )
        with urllib.request.urlopen(f"{url}/stats") as answer:
            stats = json.loads(answer.read())
    right = (scores == HashScorer().score(prompts, CONTINUATIONS)).all(axis=1)
    figures.exactly("endpoint-10000-calls-answered", int(right.sum()), CALLS)
    figures.exactly("endpoint-answered-twice", stats["answered_twice"], 0)


def _shown(tally: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in tally.items())


def measure(figures: Figures) -> None:
    """Everything."""
    pace(figures)
    faults(figures)


PARTS = (pace, faults)

if __name__ == "__main__":
    bench(PARTS)
