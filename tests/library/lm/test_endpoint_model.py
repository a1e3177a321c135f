"""A model behind a server of ours scores as it does in this process; servers that others wrote are
in test_real_servers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

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
PROMPTS = [f"Row {number} is cold. Is it? Yes or No? Answer:" for number in range(12)] + [
    "Cold? Answer: ",
    "One word, Answer:",
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models"), [LESSON, *PROMPTS])


@pytest.fixture(scope="module")
def taught(tiny: Path) -> Path:
    """The tiny model after a lesson: it knows what an answer is."""
    return served_model.taught(
        tiny, [LESSON, *(prompt + " Yes" for prompt in PROMPTS[:12])], tiny.parent / "taught"
    )


def test_an_echoing_server_scores_as_the_same_model_does_in_this_process(tiny: Path) -> None:
    with serving(Habits(), speaker=Local(tiny)) as server:
        scorer = EndpointScorer(ModelSpec(name="far", kind="endpoint", id="m", url=server.url))
        assert scorer.description.mode == "completions echo"  # untaught it lists no label
        for labels in (CONTINUATIONS, (" Maybe so, or not", " Yes")):
            far, near = (
                scorer.score(PROMPTS, labels),
                TransformersScorer(str(tiny), device="cpu").score(PROMPTS, labels),
            )
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
        f"{chat_messages(text, CONTINUATIONS)[0]['content']}\n[assistant]\n{label.strip()}"
        for text in asked
        for label in CONTINUATIONS
    ]
    folder = served_model.with_template(
        served_model.taught(plain, lessons, tmp_path / "taught"), tmp_path / "chat", template
    )
    with serving(Habits(), speaker=served_model.Chatting(folder)) as server:
        scorer = EndpointScorer(
            ModelSpec(name="far", kind="endpoint", id="m", url=server.url, api="chat")
        )
        scores, counts = scorer.score(PROMPTS, CONTINUATIONS), scorer.tally(PROMPTS, CONTINUATIONS)
    near = TransformersScorer(str(folder), device="cpu", chat=True).score(PROMPTS, CONTINUATIONS)
    assert counts["scored"] == len(PROMPTS) and np.abs(scores - near).max() < 1e-4
