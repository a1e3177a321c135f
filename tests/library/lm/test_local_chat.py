"""Claims about a local model that is queried as a chat: the messages, tokens and labels of a served
chat.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from dpicl.ground.errors import ModelError
from dpicl.models.endpoint.protocol import chat_messages
from dpicl.models.local.tiny import build_tiny_model
from dpicl.models.local.transformers_backend import TransformersScorer
from dpicl.models.requests import Sampling
from tests.library.served_model import with_template

torch.set_num_threads(1)  # small batches on a busy machine

TEMPLATE = (
    "<s>{% for one in messages %}[{{ one.role }}]\n{{ one.content }}\n{% endfor %}{% if "
    "add_generation_prompt %}[assistant]\n{% endif %}"
)
LABELS = [" No", " Yes", " a clerk"]
PROMPTS = [
    f"The person is {20 + line} years old.\nDoes this person earn more? Yes or No? Answer:"
    + " " * (line % 2)
    for line in range(6)
]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models"), PROMPTS)


@pytest.fixture(scope="module")
def folder(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_template(plain, tmp_path_factory.mktemp("chat") / "model", TEMPLATE)


def test_labels_are_scored_after_the_template_without_their_blanks(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    scores = TransformersScorer(str(folder), device="cpu", chat=True).score(PROMPTS, LABELS)
    for prompt, row in zip(PROMPTS, scores, strict=True):
        before = tokenizer.apply_chat_template(
            chat_messages(prompt.rstrip(), LABELS), add_generation_prompt=True
        ).input_ids
        for label, score in zip(LABELS, row, strict=True):
            ids = [*before, *tokenizer(label.strip(), add_special_tokens=False).input_ids]
            with torch.inference_mode():
                logs = model(torch.tensor([ids])).logits[0].log_softmax(-1)
            expected = sum(
                float(logs[place - 1, ids[place]]) for place in range(len(before), len(ids))
            )
            assert score == pytest.approx(expected, abs=1e-4)


def test_a_template_that_writes_the_day_s_date_writes_the_same_tomorrow(
    plain: Path, tmp_path: Path
) -> None:
    told = (
        "{% for part in strftime_now('%d %b %Y').split() %}{{ 'person' if part == '2026' else "
        "'old' }} {% endfor %}"
    )
    scores = [
        TransformersScorer(
            str(with_template(plain, tmp_path / name, text + TEMPLATE)), device="cpu", chat=True
        ).score(PROMPTS, LABELS)
        for name, text in (("dated", told), ("plain", "old old person "))
    ]
    assert np.array_equal(*scores)


@pytest.fixture(scope="module")
def both(folder: Path) -> list[TransformersScorer]:
    """As a chat, and as it completes."""
    return [TransformersScorer(str(folder), device="cpu", chat=chat) for chat in (True, False)]


def test_a_text_is_written_after_the_template(both: list[TransformersScorer]) -> None:
    chat, completed = both
    # the tokenizer puts the start token before a completion
    template = f"[user]\n{PROMPTS[0]}\n[assistant]\n"
    assert chat.generate(PROMPTS[:1], Sampling(new_tokens=6)) == [
        text.lstrip() for text in completed.generate([template], Sampling(new_tokens=6))
    ]


def test_votes_are_on_bare_prompts_all_the_same(both: list[TransformersScorer]) -> None:
    assert len({one.encode(PROMPTS[0]) for one in both}) == len({one.leading for one in both}) == 1


def test_the_description_says_how_it_is_queried(both: list[TransformersScorer]) -> None:
    assert [one.description.mode for one in both] == ["chat template", ""]
    chat, completed = (one.score(PROMPTS, LABELS) for one in both)
    assert np.abs(chat - completed).max() > 0.1


@pytest.mark.parametrize(
    "template, told",
    [
        (None, "has no chat template"),
        ("{{ messages[0].role }}", "does not write out a message"),
        ("{{ messages.__class__.__mro__[1].__subclasses__() }}", "has a chat template that fails"),
        ("{% include '/etc/passwd' %}", "has a chat template that fails"),
        ("{{ raise_exception('no') }}", "has a chat template that fails"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused(
    plain: Path, tmp_path: Path, template: str | None, told: str
) -> None:
    home = plain if template is None else with_template(plain, tmp_path / "model", template)
    with pytest.raises(ModelError, match=told) as error:
        TransformersScorer(str(home), device="cpu", chat=True)
    assert "; expected api completions" in str(error.value)
