"""Servers that others wrote, with a real language model: who gives log-probabilities scores as in
this process, and who gives none is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from dpicl.ground.errors import ModelError
from dpicl.models.endpoint.scorer import EndpointScorer
from dpicl.models.local.transformers_backend import TransformersScorer
from dpicl.models.requests import CONTINUATIONS, Sampling
from dpicl.models.spec import ModelSpec
from tests.library.real_servers import (
    RealServer,
    free_port,
    in_float32,
    llama_cpp,
    smollm2,
    smollm2_folder,
    transformers_serve,
)

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(1800)]
SHOWN = (
    "Passenger 1 is a man of 40. Did he survive? Yes or No? Answer: No\nPassenger 2 is a girl of "
    "9. Did she survive? Yes or No? Answer: Yes\n"
)
PROMPTS = [
    f"{SHOWN}Passenger {number + 3} is a {who} of {20 + number}. Did {who} survive? Yes or No? "
    f"Answer:"
    for number in range(5)
    for who in ("man", "woman")
]
QUANTISED = 0.3
"""Nats. llama.cpp multiplies weights of 4 bits by states that it rounds to 8, at every layer; seen
at most over these prompts: 0.11.
"""


def endpoint(server: RealServer, **options: object) -> ModelSpec:
    return ModelSpec.model_validate(
        {
            "name": "far",
            "kind": "endpoint",
            "id": server.model,
            "url": server.url,
            "max_connections": 4,
            **options,
        }
    )


@pytest.fixture(scope="module")
def near() -> TransformersScorer:
    return TransformersScorer(str(smollm2_folder()), device="cpu")


@pytest.fixture(scope="module")
def float32(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return in_float32(smollm2(), tmp_path_factory.mktemp("gguf") / "smollm2-f32.gguf")


@pytest.fixture(scope="module")
def llama(float32: Path) -> Iterator[RealServer]:
    with llama_cpp(float32, float32.with_suffix(".log")) as server:
        yield server


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with transformers_serve(smollm2_folder(), tmp_path_factory.mktemp("serve") / "log") as server:
        yield server


def test_llama_cpp_in_float32_scores_as_this_process_does(
    llama: RealServer, near: TransformersScorer
) -> None:
    scorer = EndpointScorer(endpoint(llama))
    # its echo gives every token what its follower has, of a model without a start token: it is not
    # used
    assert scorer.description.mode == "completions top-20 logprobs"
    scores = scorer.score(PROMPTS, CONTINUATIONS)
    assert scorer.tally(PROMPTS, CONTINUATIONS)["scored"] == len(PROMPTS)
    assert np.abs(scores - near.score(PROMPTS, CONTINUATIONS)).max() < 1e-3


def test_llama_cpp_s_chat_is_the_chat_of_this_process(llama: RealServer) -> None:
    chat = TransformersScorer(str(smollm2_folder()), device="cpu", chat=True)
    scorer = EndpointScorer(endpoint(llama, api="chat"))
    scores = scorer.score(PROMPTS[:3], CONTINUATIONS)
    outcomes = scorer.tally(PROMPTS[:3], CONTINUATIONS)
    assert outcomes["scored"] == 3
    assert np.abs(scores - chat.score(PROMPTS[:3], CONTINUATIONS)).max() < 1e-3


def test_llama_cpp_with_quantised_products_is_near(
    near: TransformersScorer, tmp_path: Path
) -> None:
    with llama_cpp(smollm2(), tmp_path / "log") as server:
        apart = np.abs(
            EndpointScorer(endpoint(server)).score(PROMPTS, CONTINUATIONS)
            - near.score(PROMPTS, CONTINUATIONS)
        ).max()
    assert 1e-3 < apart < QUANTISED


def test_llama_cpp_writes_what_this_process_writes(
    llama: RealServer, near: TransformersScorer
) -> None:
    scorer = EndpointScorer(endpoint(llama), wanted="text")
    options = {"new_tokens": 12, "stop": ("\n",)}
    asked = ["The capital of France is", "Water boils at"]
    assert scorer.generate(asked, Sampling(**options)) == near.generate(asked, Sampling(**options))  # type: ignore[arg-type]


def test_answers_of_a_server_that_is_killed_are_kept_and_no_prompt_is_answered_twice(
    float32: Path, near: TransformersScorer, tmp_path: Path
) -> None:
    port, log = free_port(), tmp_path / "log"
    with ExitStack() as first:
        server = first.enter_context(llama_cpp(float32, log, port))
        scorer = EndpointScorer(endpoint(server))
        opening, kept = server.answered(), list[int]()

        def killed(done: int) -> None:
            """In the middle of what it is asked; of another thread, as a process's end is waited
            for.
            """
            kept.append(done)
            if done == 3:
                Thread(target=first.close).start()

        with pytest.raises(ModelError, match="expected a server that answers: start it"):
            scorer.score(PROMPTS, CONTINUATIONS, progress=killed)
    with llama_cpp(float32, log, port) as server:
        scores = scorer.score(PROMPTS, CONTINUATIONS)
        assert server.answered() - opening == len(PROMPTS)
    assert 3 <= len(kept) < len(PROMPTS)
    assert np.abs(scores - near.score(PROMPTS, CONTINUATIONS)).max() < 1e-3


def test_a_slow_server_is_waited_for(llama: RealServer, near: TransformersScorer) -> None:
    """It answers one at a time: of many that are sent at once the last wait for all others, longer
    than an attempt may take.
    """
    prompts = [f"{SHOWN * 4}{prompt}" for prompt in PROMPTS]
    scorer = EndpointScorer(endpoint(llama, max_connections=10, deadline_seconds=60))
    scores = scorer.score(prompts, CONTINUATIONS)
    assert np.abs(scores - near.score(prompts, CONTINUATIONS)).max() < 1e-3


def test_transformers_serve_which_ignores_what_it_is_asked_is_refused(serve: RealServer) -> None:
    with pytest.raises(ModelError) as refused:
        EndpointScorer(endpoint(serve))
    told = str(refused.value)
    assert (
        "completions echo: the reply does not repeat what was asked; completions top-20 logprobs, "
        "completions top-5 logprobs, chat" in told
    )
    assert told.endswith(
        "expected a server that gives log-probabilities, or `allow_fallback: true` to parse "
        "its text"
    )
    assert told.count("\n") == 0


def test_the_text_of_transformers_serve_is_parsed_where_that_is_allowed(
    serve: RealServer, near: TransformersScorer
) -> None:
    scorer = EndpointScorer(endpoint(serve, allow_fallback=True, api="completions"))
    assert scorer.description.mode == "completions generated"
    scores = scorer.score(PROMPTS[:3], CONTINUATIONS)
    outcomes = scorer.tally(PROMPTS[:3], CONTINUATIONS)
    assert outcomes["parsed"] == 3
    assert scores.argmax(1).tolist() == near.score(PROMPTS[:3], CONTINUATIONS).argmax(1).tolist()
