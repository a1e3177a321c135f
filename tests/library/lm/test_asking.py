"""Claims about the public questions that decide how a model is asked, and what they decide."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from dpicl.ground.errors import ModelError
from dpicl.models.asking import AskedBy, asked_by, public_questions
from dpicl.models.kinds.fake import HashScorer
from dpicl.models.local.gguf_file import SMOLLM2
from dpicl.models.local.model_files import chat_template
from dpicl.models.local.tiny import build_tiny_model
from dpicl.models.local.transformers_backend import TransformersScorer
from dpicl.models.opening import close_scorers, open_scorer
from dpicl.models.requests import ModelDescription, Progress, overlap
from dpicl.models.spec import ModelSpec
from tests.library.lm.test_local_chat import LABELS, PROMPTS, TEMPLATE
from tests.library.served_model import with_template

QUESTIONS = public_questions()


@dataclass(frozen=True)
class Sure:
    """Gives the right answer to every public question this log-probability, and the others less;
    None cannot be asked.
    """

    right: float | None

    @property
    def description(self) -> ModelDescription:
        return HashScorer("sure").description

    def score(
        self,
        prompts: Sequence[str],
        continuations: Sequence[str],
        *,
        progress: Progress | None = None,
    ) -> np.ndarray:
        if self.right is None:
            raise ModelError("model 'sure' cannot be asked; expected another")
        labels = [label.strip() for label in continuations]
        right = {one.prompt: one.labels[one.right] for one in QUESTIONS}
        return np.array(
            [[self.right if label == right[one] else -90.0 for label in labels] for one in prompts]
        )


def test_the_questions_favour_no_label_and_have_both_kinds_of_prompts() -> None:
    assert 24 <= len(QUESTIONS) <= 40 and len({one.prompt for one in QUESTIONS}) == len(QUESTIONS)
    for labels in {one.labels for one in QUESTIONS}:
        own = [one for one in QUESTIONS if one.labels == labels]
        assert len({*Counter(one.right for one in own).values()}) == 1 and {
            one.right for one in own
        } == {*range(len(labels))}
        cues = [one.prompt.rpartition("\n")[2].split(" ")[-1] for one in own]
        shots = [one.prompt.count(cue) - 1 for one, cue in zip(own, cues, strict=True)]
        assert Counter(shots) == {0: len(own) // 2, len(labels): len(own) // 2}, (
            "half zero-shot, half with one demonstration a label"
        )
        assert not overlap(labels)


@pytest.mark.parametrize(
    "chat, completed, decided",
    [
        (-0.5, -1.0, AskedBy("chat", -0.5, -1.0, 24)),
        (-1.0, -1.0, AskedBy("chat", -1.0, -1.0, 24)),
        (-1.5, -1.0, AskedBy("completions", -1.5, -1.0, 24)),
        (None, -1.0, AskedBy("completions", None, -1.0, 24)),
        (-1.0, None, AskedBy("chat", -1.0, None, 24)),
        (None, None, AskedBy("completions", None, None, 24)),
        (math.nan, -1.0, AskedBy("completions", None, -1.0, 24)),
    ],
)
def test_a_template_is_used_where_right_answers_are_no_less_likely_by_it(
    chat: float | None, completed: float | None, decided: AskedBy
) -> None:
    assert asked_by(Sure(chat), Sure(completed)) == decided


def test_a_model_without_a_template_completes() -> None:
    assert asked_by(None, Sure(-2.0)) == AskedBy("completions", None, -2.0, 24)


def test_a_decision_is_told_with_both_means() -> None:
    assert AskedBy("chat", -0.41, -1.5, 24).sentence == (
        "asked by its chat template: of 24 public questions the right answers have a mean "
        "log-probability of -0.41 nats by its chat "
        "template, -1.50 by completion"
    )
    assert (
        "and it cannot be asked by its chat template"
        in AskedBy("completions", None, -1.0, 24).sentence
    )
    assert (
        AskedBy("chat").sentence
        == "asked by its chat template, as for what its account was charged before"
    )


def test_both_ways_are_one_loaded_model_and_answer_as_each_alone(tmp_path: Path) -> None:
    folder = with_template(build_tiny_model(tmp_path, PROMPTS), tmp_path / "chat", TEMPLATE)
    spec = ModelSpec(name="m", kind="transformers", id=str(folder), device="cpu")
    opened = {
        api: open_scorer(spec.model_copy(update={"api": api}), models_folder=tmp_path, corpus=())
        for api in ("auto", "completions", "chat")
    }
    try:
        assert opened["auto"] is opened["completions"]
        assert opened["auto"]._model is opened["chat"]._model  # type: ignore[attr-defined]
        assert (opened["auto"].description.mode, opened["chat"].description.mode) == (
            "",
            "chat template",
        )
        for api, chat in (("completions", False), ("chat", True)):
            alone = TransformersScorer(str(folder), device="cpu", chat=chat)
            assert np.array_equal(opened[api].score(PROMPTS, LABELS), alone.score(PROMPTS, LABELS))
    finally:
        close_scorers()


@pytest.mark.parametrize(
    "files, found",
    [
        ({}, ""),
        ({"tokenizer_config.json": "{}"}, ""),
        ({"tokenizer_config.json": "no JSON"}, ""),
        ({"tokenizer_config.json": '{"chat_template": "{{ a }}"}'}, '"{{ a }}"'),
        (
            {
                "tokenizer_config.json": '{"chat_template": "{{ a }}"}',
                "chat_template.jinja": "{{ b }}",
            },
            "{{ b }}",
        ),
    ],
)
def test_a_template_is_found_without_loading_anything(
    tmp_path: Path, files: dict[str, str], found: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    assert chat_template(tmp_path) == found


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
def test_smollm2_completes_since_its_template_makes_right_answers_less_likely() -> None:
    try:
        # its folder, or from the index
        scorer = TransformersScorer(os.environ.get("DPICL_SMOLLM2", SMOLLM2.id), device="cpu")
    except ModelError as error:
        if "pip does not get" in str(error):
            pytest.skip(f"no index answers: {error}")
        raise
    decided = asked_by(scorer.by_template, scorer)
    assert decided.api == "completions"
    assert decided.chat == pytest.approx(-3.17, abs=0.05) and decided.completions == pytest.approx(
        -1.59, abs=0.05
    )
