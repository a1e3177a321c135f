"""Claims about the fake scorer, and about what importing the language-model layer loads."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl.models.kinds.fake import HashScorer
from dpicl.models.requests import prompt_digest

unhurried = settings(deadline=None)
ANSWERS = (" No", " Yes")
prompts_strategy = st.lists(st.text(max_size=20), max_size=8)


@unhurried
@given(prompts_strategy, st.randoms())
def test_a_fake_score_depends_on_its_prompt_alone(prompts: list[str], random: object) -> None:
    shuffled = list(range(len(prompts)))
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    scores = HashScorer().score(prompts, ANSWERS)
    again = HashScorer().score([prompts[index] for index in shuffled], ANSWERS)
    assert scores.shape == (len(prompts), 2)
    assert scores.dtype == np.float64
    assert (scores <= 0).all()
    assert np.array_equal(again, scores[shuffled])


def test_a_fake_score_is_the_same_on_every_machine() -> None:
    assert HashScorer().score(["Is it?"], [" Yes"])[0, 0] == pytest.approx(
        -0.3329232329260936, abs=1e-15
    )


def test_fake_answers_are_about_half_yes() -> None:
    scores = HashScorer().score([str(number) for number in range(2000)], ANSWERS)
    assert 0.45 < (scores[:, 1] > scores[:, 0]).mean() < 0.55


def test_equal_prompts_have_one_digest() -> None:
    assert prompt_digest("a") == prompt_digest("a") != prompt_digest("b")
    assert len(prompt_digest("a")) == 32


def test_importing_the_layer_loads_neither_torch_nor_transformers() -> None:
    code = (
        "import sys, dpicl.models; sys.exit(bool({'torch', 'transformers', 'huggingface_hub'} & "
        "set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
