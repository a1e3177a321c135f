"""A real model behind a server scores as it does in this process; and a server that others wrote."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dpicl.errors import ModelError
from dpicl.lm.endpoint.protocol import chat_messages, public_prompt
from dpicl.lm.endpoint.scorer import EndpointScorer
from dpicl.lm.local.tiny import build_tiny_model
from dpicl.lm.local.transformers_backend import TransformersScorer
from dpicl.lm.requests import CONTINUATIONS
from dpicl.lm.spec import ModelSpec
from tests.library import served_model
from tests.library.endpoint_server import Habits, serving
from tests.library.served_model import Local

LESSON = "Answer: Yes\nAnswer: No\nAnswer: Yes"
PROMPTS = [f"Row {number} is cold. Is it? Yes or No? Answer:" for number in range(12)] + ["Cold? Answer: ", "One word, Answer:"]
SERVED = all(importlib.util.find_spec(name) for name in ("openai", "accelerate", "fastapi", "uvicorn"))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models"), [LESSON, *PROMPTS])


@pytest.fixture(scope="module")
def taught(tiny: Path) -> Path:
    """The tiny model after a lesson: it knows what an answer is."""
    return served_model.taught(tiny, [LESSON, *(prompt + " Yes" for prompt in PROMPTS[:12])], tiny.parent / "taught")


def test_an_echoing_server_scores_as_the_same_model_does_in_this_process(tiny: Path) -> None:
    with serving(Habits(), speaker=Local(tiny)) as server:
        scorer = EndpointScorer(ModelSpec(name="far", kind="endpoint", id="m", url=server.url))
        assert scorer.description.mode == "completions echo"  # untaught it lists no label
        for labels in (CONTINUATIONS, (" Maybe so, or not", " Yes")):
            far, near = scorer.score(PROMPTS, labels), TransformersScorer(str(tiny), device="cpu").score(PROMPTS, labels)
            assert np.abs(far - near).max() < 1e-4 < near.std()


@pytest.mark.exhaustive
def test_listed_first_tokens_are_those_of_the_same_model_in_this_process(taught: Path) -> None:
    prompts = PROMPTS[:12]
    with serving(Habits(echo="ignores"), speaker=Local(taught)) as server:
        scorer = EndpointScorer(ModelSpec(name="far", kind="endpoint", id="m", url=server.url))
        assert scorer.description.mode == "completions top-20 logprobs"
        scores, counts = scorer.score(prompts, CONTINUATIONS), scorer.tally(prompts, CONTINUATIONS)
        near = TransformersScorer(str(taught), device="cpu").score(prompts, CONTINUATIONS)
    assert counts["scored"] == len(prompts) and np.abs(scores - near).max() < 1e-4


@pytest.mark.exhaustive
def test_a_served_chat_is_the_same_experiment_as_a_chat_in_this_process(tmp_path: Path) -> None:
    plain = build_tiny_model(tmp_path, [LESSON, *PROMPTS, "Yes\nNo\n" * 50])  # either is one token
    template = "<s>{% for one in messages %}{{ one.content }}{% endfor %}{{ '\\n[assistant]\\n' }}"
    asked = [prompt.rstrip() for prompt in (public_prompt(CONTINUATIONS), *PROMPTS)]
    lessons = [
        f"{chat_messages(text, CONTINUATIONS)[0]['content']}\n[assistant]\n{label.strip()}" for text in asked for label in CONTINUATIONS
    ]
    folder = served_model.with_template(served_model.taught(plain, lessons, tmp_path / "taught"), tmp_path / "chat", template)
    with serving(Habits(), speaker=served_model.Chatting(folder)) as server:
        scorer = EndpointScorer(ModelSpec(name="far", kind="endpoint", id="m", url=server.url, api="chat"))
        scores, counts = scorer.score(PROMPTS, CONTINUATIONS), scorer.tally(PROMPTS, CONTINUATIONS)
    near = TransformersScorer(str(folder), device="cpu", chat=True).score(PROMPTS, CONTINUATIONS)
    assert counts["scored"] == len(PROMPTS) and np.abs(scores - near).max() < 1e-4


@pytest.fixture(scope="module")
def transformers_serve(taught: Path) -> Iterator[tuple[str, str]]:
    """`transformers serve` with the taught model: its address and the model's name."""
    if not SERVED:
        pytest.skip("transformers serve needs the packages of transformers[serving]")
    model = str(taught)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "transformers.cli.transformers",
        "serve",
        model,
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--device",
        "cpu",
    ]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env={**os.environ, "HF_HUB_OFFLINE": "1"}, **quiet) as process:  # type: ignore[call-overload]
        try:
            _until_healthy(f"http://127.0.0.1:{port}/health", process)
            yield f"http://127.0.0.1:{port}/v1", model
        finally:
            process.kill()


def _until_healthy(url: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        try:
            urllib.request.urlopen(url, timeout=2).close()
            return
        except OSError:
            assert process.poll() is None
            time.sleep(0.2)
    raise AssertionError("the server does not start")


def test_a_real_server_that_ignores_what_it_is_asked_is_seen_through(transformers_serve: tuple[str, str]) -> None:
    url, model = transformers_serve
    with pytest.raises(ModelError) as refused:
        EndpointScorer(ModelSpec(name="far", kind="endpoint", id=model, url=url))
    assert (
        "completions echo: the reply does not repeat what was asked; completions top-20 logprobs, completions top-5 logprobs, chat"
        in str(refused.value)
    )


def test_a_real_server_s_text_is_parsed_where_that_is_allowed(transformers_serve: tuple[str, str]) -> None:
    url, model = transformers_serve
    scorer = EndpointScorer(ModelSpec(name="far", kind="endpoint", id=model, url=url, allow_fallback=True, api="completions"))
    assert scorer.description.mode == "completions generated"
    scores, counts = scorer.score(PROMPTS[:3], CONTINUATIONS), scorer.tally(PROMPTS[:3], CONTINUATIONS)
    assert scores.argmax(1).tolist() == [1] * 3 and counts["parsed"] == 3 and counts["completion_tokens"] > 0
