"""Served models: requests for a query, what the server has to read, and whether its scores are
those of the same model in this process.

The server keeps the beginnings that it has read, as vLLM does, but for what is echoed; it counts
tokens as words. Beside ours stands what an echo of every label takes. The bound is every distinct
beginning once, and a token of each prompt.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Literal

import numpy as np

from dpicl.home.settings import Settings
from dpicl.models.endpoint.protocol import chat_messages, public_prompt
from dpicl.models.endpoint.scorer import EndpointScorer
from dpicl.models.kinds.local import BUNDLED
from dpicl.models.local.tiny import build_tiny_model
from dpicl.models.local.transformers_backend import TransformersScorer
from dpicl.models.requests import CONTINUATIONS
from dpicl.models.spec import ModelSpec
from lab.benchmarks.figures import Figures, sized
from lab.benchmarks.model import prompts_of, rows_of
from tests.library.endpoint_server import Habits, Hashes, Pairs, beginnings, serving, truth
from tests.library.served_model import Chatting, Local, taught, with_template

COMPARED, LESSONS = sized(500, 4), sized(400, 40)
TURN = "\n[assistant]\n"
DELAY = 0.02


class Sure(Hashes):
    """Knows that a label comes next."""

    def read(self, text: str) -> Pairs:
        """See `Speaker`."""
        return [
            (token, value and value / (100 if f"{token} " in "".join(CONTINUATIONS) + " " else 1))
            for token, value in super().read(text)
        ]

    def next(self, text: str, blank: str) -> Pairs:
        """See `Speaker`."""
        return [
            (token, truth(text, token) / (100 if token in CONTINUATIONS else 1))
            for token, _ in super().next(text, blank)
        ]


def _spec(
    url: str, connections: int = 32, api: Literal["completions", "chat"] = "completions"
) -> ModelSpec:
    return ModelSpec(
        name="far", kind="endpoint", id="m", url=url, api=api, max_connections=connections
    )


def prefill(figures: Figures, prompts: list[str], name: str) -> None:
    """Requests and words read, for a query."""
    with serving(Habits(delay_seconds=DELAY), speaker=Sure()) as server:
        scorer = EndpointScorer(_spec(server.url))
        scorer.score(prompts[:1], CONTINUATIONS)  # how labels are cut
        opening, server.prefilled, server.begun = len(server.requests), 0, set()
        scorer.score(prompts[1:], CONTINUATIONS)
        least = (
            len({beginning for prompt in prompts[1:] for beginning in beginnings(prompt)[:-1]})
            + len(prompts)
            - 1
        )
        echoed = sum(len(beginnings(prompt)) + 1 for prompt in prompts[1:]) * len(CONTINUATIONS)
        figures.at_most(
            f"requests per query, {name}",
            (len(server.requests) - opening) / len(set(prompts[1:])),
            1,
        )
        print(f"{name}: echoing every label reads {echoed / least:.1f}x the bound")
        figures.at_most(f"tokens read over the bound, {name}", server.prefilled / least, 1.1, "x")


def agreement(figures: Figures, prompts: list[str]) -> None:
    """The bundled model behind a server and in this process."""
    with serving(Habits(), speaker=Local(BUNDLED)) as server:
        scorer = EndpointScorer(_spec(server.url, connections=2))
        far, near = (
            scorer.score(prompts, CONTINUATIONS),
            TransformersScorer(str(BUNDLED), device="cpu").score(prompts, CONTINUATIONS),
        )
    print(f"the server's mode: {scorer.description.mode}")
    figures.at_most(
        f"served and local, {len(prompts)} prompts, nats apart",
        float(np.abs(far - near).max()),
        1e-4,
    )


def chat_agreement(figures: Figures, prompts: list[str]) -> None:
    """A small model with a chat template, which was taught that a label comes next, behind a server
    and in this process.

    It reads the endings of prompts: it lists no label after what is much longer than its lessons.
    """
    prompts = [text[-100 - place % 300 :] for place, text in enumerate(prompts)]
    asked = (public_prompt(CONTINUATIONS), *prompts[::10])
    lessons = [
        f"{chat_messages(text, CONTINUATIONS)[0]['content']}{TURN}{label.strip()}"
        for text in asked
        for label in CONTINUATIONS
    ]
    with tempfile.TemporaryDirectory() as home:
        plain = build_tiny_model(Path(home), [*prompts, "Yes\nNo\n" * 50])
        template = (
            "<s>{% for one in messages %}{{ one.content }}{% endfor %}{{ " + repr(TURN) + " }}"
        )
        folder = with_template(
            taught(plain, lessons, Path(home) / "taught", steps=LESSONS),
            Path(home) / "chat",
            template,
        )
        with serving(Habits(), speaker=Chatting(folder)) as server:
            scorer = EndpointScorer(_spec(server.url, connections=2, api="chat"))
            far = scorer.score(prompts, CONTINUATIONS)
        near = TransformersScorer(str(folder), device="cpu", chat=True).score(
            prompts, CONTINUATIONS
        )
    figures.at_most(
        f"served and local chat, {len(prompts)} prompts, nats apart",
        float(np.abs(far - near).max()),
        1e-4,
    )


def measure(figures: Figures) -> None:
    """Everything, on adult with eight demonstrations."""
    contract, split = rows_of(Settings.from_environment(), "adult")
    cells = {
        method: prompts_of(method, split, contract, 0) for method in ("gdp_tabicl", "ldp_tabicl")
    }
    for method, prompts in cells.items():
        cell, texts = next((cell, texts) for cell, texts in prompts.items() if cell.epsilon == 1.0)
        prefill(figures, texts, f"adult {method} {cell.shots} rows")
    compared = [text for prompts in cells.values() for texts in prompts.values() for text in texts][
        :COMPARED
    ]
    agreement(figures, compared)
    chat_agreement(figures, compared)


if __name__ == "__main__":
    _figures = Figures()
    measure(_figures)
    _figures.finish()
