"""Claims about scoring with a local model, checked against plain forward passes."""

from __future__ import annotations

import json
import shutil
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, normalizers, processors, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer

from dpicl.ground.errors import ModelError, ParameterError
from dpicl.models.local.tiny import build_tiny_model
from dpicl.models.local.transformers_backend import TransformersScorer

torch.set_num_threads(1)  # small batches on a busy machine

ANSWERS = [" No", " Yes"]
ROW = (
    "This person is {} years old and works as a clerk. Does this person earn more than $50,000? "
    "Yes or No? Answer:"
)
PROMPTS = [
    "\n".join(
        [ROW.format(17 + line * 7 + demo) + " Yes" for demo in range(line % 4)] + [ROW.format(line)]
    )
    for line in range(24)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models"), PROMPTS)


@pytest.fixture(scope="module")
def scorer(folder: Path) -> TransformersScorer:
    return TransformersScorer(str(folder), device="cpu", token_budget=1000)


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    """The tiny model once more, to be spoilt."""
    return Path(shutil.copytree(folder, tmp_path / "copy"))


@lru_cache
def load(folder: Path) -> tuple[Any, Any]:
    return AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)


def oracle(folder: Path, prompts: list[str], answers: list[str]) -> list[list[float]]:
    """The log-probability of every answer, one plain unpadded forward pass for each of its
    tokens.
    """
    tokenizer, model = load(folder)

    def of(prompt: str, answer: str) -> float:
        ids, total = tokenizer(prompt + answer).input_ids, 0.0
        for end in range(len(tokenizer(prompt).input_ids), len(ids)):
            with torch.no_grad():
                told = model(torch.tensor([ids[:end]])).logits[0, -1].log_softmax(-1)
            total += float(told[ids[end]])
        return total

    return [[of(prompt, answer) for answer in answers] for prompt in prompts]


@pytest.mark.parametrize(
    "answers", [ANSWERS, [" a wizard, Harry", " Yes", " a wizards", " person earn"]]
)
def test_scores_equal_plain_forward_passes_summed_over_an_answer_s_tokens(
    scorer: TransformersScorer, folder: Path, answers: list[str]
) -> None:
    scores = scorer.score(PROMPTS[:4], answers)
    assert np.abs(scores - oracle(folder, PROMPTS[:4], answers)).max() < 1e-5 * len(answers) / 2


def test_blanks_at_the_end_of_a_prompt_belong_to_the_answer(scorer: TransformersScorer) -> None:
    assert np.array_equal(
        scorer.score([PROMPTS[0] + " "], ["No", "Yes"]), scorer.score([PROMPTS[0]], ANSWERS)
    )


def test_the_order_of_prompts_changes_no_bit(scorer: TransformersScorer) -> None:
    order = np.random.default_rng(1).permutation(len(PROMPTS))
    assert np.array_equal(
        scorer.score([PROMPTS[index] for index in order], ANSWERS),
        scorer.score(PROMPTS, ANSWERS)[order],
    )


def test_repeated_prompts_are_read_once(folder: Path) -> None:
    scorer = TransformersScorer(str(folder), device="cpu")
    memory = limit_memory(scorer)
    once = scorer.score([PROMPTS[0], PROMPTS[1]], ANSWERS)
    read = sum(memory.batches)
    scores = scorer.score([PROMPTS[0], PROMPTS[1], PROMPTS[0]] * 9, ANSWERS)
    assert sum(memory.batches) == 2 * read
    assert np.array_equal(scores, np.vstack([once, once[:1]] * 9))


def test_progress_counts_the_prompts_that_are_finished(scorer: TransformersScorer) -> None:
    seen: list[int] = []
    scorer.score([*PROMPTS, PROMPTS[0]], [" a wizard", " person earn"], progress=seen.append)
    assert seen == sorted(seen) and len(seen) > 2 and seen[-1] == 25


def test_the_tokenizers_own_padding_is_irrelevant(scorer: TransformersScorer, copy: Path) -> None:
    assert AutoTokenizer.from_pretrained(copy).pad_token is None
    settings = json.loads((copy / "tokenizer_config.json").read_text())
    (copy / "tokenizer_config.json").write_text(
        json.dumps({**settings, "pad_token": "</s>", "padding_side": "right"})
    )
    padded = TransformersScorer(str(copy), device="cpu", token_budget=1000)
    assert np.array_equal(padded.score(PROMPTS, ANSWERS), scorer.score(PROMPTS, ANSWERS))


def test_a_tokenizer_of_the_kind_of_llama_2_is_cut_right(copy: Path) -> None:
    """It writes blanks as letters, puts one before every text and may merge across words."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=250, special_tokens=["<s>", "</s>"], show_progress=False
    )
    tokenizer.train_from_iterator(
        [text for prompt in PROMPTS for text in prompt.split(" ")], trainer
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    tokenizer.save(str(copy / "tokenizer.json"))
    answers = [*ANSWERS, " person"]
    scores = TransformersScorer(str(copy), device="cpu").score(PROMPTS[:3], answers)
    assert np.abs(scores - oracle(copy, PROMPTS[:3], answers)).max() < 2e-5


def test_bfloat16_keeps_the_rotary_frequencies_in_float32(
    scorer: TransformersScorer, folder: Path
) -> None:
    half = TransformersScorer(str(folder), device="cpu", dtype="bfloat16")
    rotary, full = half._model.model.rotary_emb.inv_freq, scorer._model.model.rotary_emb.inv_freq
    assert half._model.lm_head.weight.dtype == torch.bfloat16
    assert rotary.dtype == torch.float32
    assert torch.equal(rotary, full)
    assert np.abs(half.score(PROMPTS, ANSWERS) - scorer.score(PROMPTS, ANSWERS)).max() < 0.5


def test_a_prompt_beyond_the_context_is_refused_before_anything_is_computed(folder: Path) -> None:
    scorer = TransformersScorer(str(folder), device="cpu", name="tiny")
    memory = limit_memory(scorer)
    with pytest.raises(ModelError) as error:
        scorer.score([PROMPTS[0], "a b" * 5000], ANSWERS)
    assert str(error.value) == (
        "a prompt has 15001 tokens, but model 'tiny' reads at most 8192 (1 distinct prompt is too "
        "long); "
        "expected fewer demonstrations or a model with a longer context"
    )
    assert memory.batches == []


@pytest.mark.parametrize("answer", ["", "er"])
def test_an_answer_that_is_not_a_continuation_is_refused(
    scorer: TransformersScorer, answer: str
) -> None:
    with pytest.raises(ModelError, match="expected one that starts with a blank"):
        scorer.score(["This p"], [answer])


class LimitedMemory:
    """A model on a device whose memory holds a given number of tokens."""

    def __init__(self, model: Any, tokens: int, message: str) -> None:
        self.model, self.tokens, self.message = model, tokens, message
        self.config = model.config
        self.batches: list[int] = []

    def __call__(self, **inputs: Any) -> Any:
        if inputs["input_ids"].numel() > self.tokens:
            raise (torch.OutOfMemoryError if "CUDA" in self.message else RuntimeError)(self.message)
        self.batches.append(inputs["input_ids"].numel())
        return self.model(**inputs)


def limit_memory(
    scorer: TransformersScorer, *, tokens: int = 1 << 40, message: str = "CUDA out of memory."
) -> LimitedMemory:
    scorer._model = LimitedMemory(scorer._model, tokens, message)
    return scorer._model


every_way = pytest.mark.parametrize("share", [True, False])


@pytest.mark.quick(
    "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes-False"
)
@every_way
@pytest.mark.parametrize(
    "message",
    [
        "CUDA out of memory.",
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes",
    ],
)
def test_only_a_batch_that_does_not_fit_is_halved(folder: Path, message: str, share: bool) -> None:
    small = TransformersScorer(str(folder), device="cpu", token_budget=1000, share=share)
    plain = limit_memory(small)
    expected = small.score(PROMPTS, ANSWERS)
    tight = TransformersScorer(str(folder), device="cpu", token_budget=1000, share=share)
    memory = limit_memory(tight, tokens=sorted(plain.batches)[-2], message=message)
    assert np.abs(tight.score(PROMPTS, ANSWERS) - expected).max() < 1e-5
    assert len(memory.batches) == len(plain.batches) + plain.batches.count(max(plain.batches))
    assert [size for size in plain.batches if size <= memory.tokens] == [
        size for size in memory.batches if size in plain.batches
    ]


@every_way
def test_a_single_prompt_that_does_not_fit_is_an_error_with_advice(
    folder: Path, share: bool
) -> None:
    scorer = TransformersScorer(str(folder), device="cpu", share=share)
    limit_memory(scorer, tokens=0)
    with pytest.raises(
        ModelError, match=r"memory does not suffice for one prompt; expected a smaller model"
    ):
        scorer.score(PROMPTS, ANSWERS)


def test_other_errors_of_a_model_are_not_taken_for_lack_of_memory(folder: Path) -> None:
    scorer = TransformersScorer(str(folder), device="cpu")
    limit_memory(scorer, tokens=0, message="something else")
    with pytest.raises(RuntimeError, match="something else"):
        scorer.score(PROMPTS, ANSWERS)


@pytest.mark.parametrize(
    "weights, told",
    [
        ("few", "model 'copy' lacks 1 of its weights; expected complete safetensors files"),
        ("infinite", "not finite"),
        ("pickled", "cannot be loaded"),
    ],
)
def test_weights_that_are_missing_not_finite_or_pickled_are_refused(
    copy: Path, weights: str, told: str
) -> None:
    file = copy / "model.safetensors"
    known = load_file(file)
    if weights == "few":
        del known["model.layers.1.mlp.up_proj.weight"]
    known["lm_head.weight"][3] = float("nan" if weights == "infinite" else 0)
    save_file(known, file, metadata={"format": "pt"})
    if weights == "pickled":
        torch.save(known, copy / "pytorch_model.bin")
        file.unlink()
    with pytest.raises(ModelError, match=told):
        TransformersScorer(str(copy)).score(PROMPTS[:1], ANSWERS)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_an_incomplete_folder_is_one_sentence(copy: Path, name: str) -> None:
    (copy / name).write_bytes(b"{")
    with pytest.raises(
        ModelError,
        match=r"^model 'copy' cannot be loaded \(.*\); expected config, safetensors and tokenizer "
        r"files$",
    ) as error:
        TransformersScorer(str(copy))
    assert "\n" not in str(error.value)


def test_code_in_a_models_folder_is_not_run(copy: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    (copy / "mine.py").write_text(f"open({str(trace)!r}, 'w')\nclass C: pass\n")
    config = {
        "model_type": "mine",
        "auto_map": {"AutoConfig": "mine.C", "AutoModelForCausalLM": "mine.C"},
    }
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="cannot be loaded"):
        TransformersScorer(str(copy))
    assert not trace.exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_missing_gpu_is_said(folder: Path) -> None:
    with pytest.raises(
        ParameterError,
        match="device=cuda: expected auto or cpu; the number of CUDA devices here is 0",
    ):
        TransformersScorer(str(folder), device="cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_agrees_with_the_cpu(scorer: TransformersScorer, folder: Path) -> None:
    assert (
        np.abs(
            TransformersScorer(str(folder), device="auto").score(PROMPTS, ANSWERS)
            - scorer.score(PROMPTS, ANSWERS)
        ).max()
        < 1e-3
    )
