"""A model behind a server of ours scores as it does in this process; servers that others wrote are
in test_real_servers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpicl.models.local.tiny import build_tiny_model
from dpicl.models.local.transformers_backend import TransformersScorer
from dpicl.models.requests import CONTINUATIONS
from tests.library.endpoint_server import Habits, serving
from tests.library.lm.test_endpoint import opened
from tests.library.served_model import Local

LESSON = "Answer: Yes\nAnswer: No\nAnswer: Yes"
PROMPTS = [f"Row {number} is cold. Is it? Yes or No? Answer:" for number in range(12)] + [
    "Cold? Answer: ",
    "One word, Answer:",
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models"), [LESSON, *PROMPTS])


def test_an_echoing_server_scores_as_the_same_model_does_in_this_process(tiny: Path) -> None:
    with serving(Habits(), speaker=Local(tiny)) as server:
        scorer = opened(server)
        assert scorer.description.mode == "completions echo"  # untaught it lists no label
        for labels in (CONTINUATIONS, (" Maybe so, or not", " Yes")):
            far = scorer.score(PROMPTS, labels)
            near = TransformersScorer(str(tiny), device="cpu").score(PROMPTS, labels)
            assert np.abs(far - near).max() < 1e-4 < near.std()
