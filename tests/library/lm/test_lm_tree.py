"""Claims about shared beginnings: the tree holds every row, and reading it gives what plain rows
give.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    Gemma2Config,
    GPT2Config,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    PreTrainedConfig,
)

from dpicl.models.local.packed_rows import BLOCK, NAME, LlamaPass
from dpicl.models.local.padded_reader import LoadedModel, read_padded
from dpicl.models.local.reading_mode import probe_length, probe_rows
from dpicl.models.local.tiny import build_tiny_model
from dpicl.models.local.transformers_backend import TransformersScorer
from dpicl.models.local.tree_reader import (
    LEAST_SAVING,
    ROOT,
    TRUNK_TOKENS,
    Engine,
    Pass,
    PrefixTree,
    grow_tree,
    plan_batches,
    read_shared,
)

torch.set_num_threads(1)  # small batches on a busy machine

CPU = torch.device("cpu")
Rows = list[tuple[int, ...]]
bits = st.lists(
    st.lists(st.integers(0, 1), min_size=1, max_size=9).map(tuple), min_size=1, max_size=14
)


def tokens_read(tree: PrefixTree) -> int:
    return sum(len(segment.tokens) for segment in tree.segments)


@given(bits, st.sampled_from([0, 1, 2, 5, 100]))
def test_every_row_is_a_path(rows: Rows, least_saving: int) -> None:
    tree = grow_tree(rows, least_saving=least_saving)
    for row, tokens in enumerate(rows):
        path = tree.path(tree.leaves[row])
        assert tuple(token for index in path for token in tree.segments[index].tokens) == tokens
        for position in range(len(tokens)):
            segment = tree.segments[tree.holder(row, position)]
            assert segment.tokens[position - segment.start] == tokens[position]
    assert all(
        segment.tokens and segment.parent < index for index, segment in enumerate(tree.segments)
    )


@given(bits)
def test_a_tree_that_shares_all_reads_every_beginning_once(rows: Rows) -> None:
    beginnings = {row[:length] for row in rows for length in range(1, len(row) + 1)}
    assert tokens_read(grow_tree(rows, least_saving=0)) == len(beginnings)


@given(bits, st.integers(1, 20), st.integers(1, 9))
def test_batches_keep_the_order_and_the_budget(rows: Rows, budget: int, trunk: int) -> None:
    tree = grow_tree(rows, least_saving=1)
    batches = plan_batches(tree, token_budget=budget, trunk=trunk)
    assert [index for batch in batches for index in batch] == list(range(len(tree.segments)))
    followed = {segment.parent for segment in tree.segments} - {ROOT}
    for batch in batches:
        lengths = [len(tree.segments[index].tokens) for index in batch]
        assert len(batch) == 1 or sum(lengths) <= budget
        assert not any(
            length >= trunk and index in followed
            for index, length in zip(batch[:-1], lengths, strict=False)
        )


def model_of(config: PreTrainedConfig) -> Any:
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, attn_implementation=NAME).eval()


SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "vocab_size": 50,
}
MODELS = {
    "llama": LlamaConfig(**SMALL),
    "grouped queries": LlamaConfig(**SMALL, num_key_value_heads=2),
    "absolute positions": GPT2Config(
        n_embd=32, n_layer=2, n_head=4, vocab_size=50, n_positions=400
    ),
    "a window that is never full": MistralConfig(
        **SMALL, num_key_value_heads=2, sliding_window=400
    ),
}

OF_ANOTHER_KIND: tuple[dict[str, Any], ...] = (
    {"attention_bias": True},
    {"mlp_bias": True},
    {"hidden_act": "gelu"},
)


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    return model_of(MODELS[request.param])


@pytest.mark.quick("absolute positions")
@given(st.integers(0, 10_000), st.sampled_from([0, 30, 90]), st.sampled_from([20, 150, 5000]))
def test_a_tree_gives_what_plain_rows_give(model: Any, seed: int, shared: int, budget: int) -> None:
    assert farthest_from_plain_rows(model, seed, shared, budget, "blocks") < 1e-4


@pytest.mark.quick(
    "absolute positions-2-90-5000",
    "a window that is never full-1-30-150",
    "grouped queries-1-30-150",
)
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("seed, shared, budget", [(0, 90, 20), (1, 30, 150), (2, 90, 5000)])
def test_a_gpu_s_attention_of_one_call_gives_what_plain_rows_give(
    model: Any, seed: int, shared: int, budget: int
) -> None:
    assert farthest_from_plain_rows(model, seed, shared, budget, "mask") < 1e-4


def test_the_probe_reads_as_many_tokens_at_once_as_fill_several_blocks_of_a_gpu() -> None:
    rows = probe_rows(tuple(range(probe_length(LlamaConfig(**SMALL)))))
    assert tokens_read(grow_tree(rows, least_saving=LEAST_SAVING)) > BLOCK


@pytest.mark.quick("absolute positions", "a window that is never full")
@given(st.integers(0, 10_000), st.sampled_from([0, 30, 90]), st.sampled_from([20, 150, 5000]))
def test_a_llama_s_own_pass_gives_what_plain_rows_give(
    model: Any, seed: int, shared: int, budget: int
) -> None:
    own = LlamaPass.of(model)
    assert (own is None) == (type(model) is not LlamaForCausalLM)
    assert (
        own is None or farthest_from_plain_rows(model, seed, shared, budget, "blocks", own) < 1e-4
    )


def logits_read(rows: Rows, wanted: list[tuple[int, ...]], *reader: Any, **how: Any) -> Any:
    """By row and position, what is read of a model."""
    return {
        place: logits
        for places, part in read_shared(LoadedModel(*reader), rows, wanted, **how)
        for place, logits in zip(places, part, strict=True)
    }


def plain_logits(model: Any, row: tuple[int, ...]) -> torch.Tensor:
    with torch.inference_mode():
        return model(input_ids=torch.tensor([row]), use_cache=False).logits[0]


@pytest.mark.parametrize("own", [True, False])
def test_a_long_beginning_below_another_of_which_nothing_is_asked_is_read(own: bool) -> None:
    """PyTorch's attention of no query to a trunk ended the process."""
    model = model_of(MODELS["llama"])
    trunk = (1, 2) * (TRUNK_TOKENS // 2)
    branch = (3, 4) * (TRUNK_TOKENS // 2)
    rows = [(*trunk, *branch, 5), (*trunk, *branch, 6), (*trunk, 7)]
    wanted = [(len(row) - 1,) for row in rows]
    own_pass = LlamaPass.of(model) if own else None
    read = logits_read(rows, wanted, model, CPU, 5000, own_pass=own_pass)
    for (number, place), logits in read.items():
        assert torch.allclose(logits, plain_logits(model, rows[number])[place], atol=1e-4)
    assert len(read) == 3


def test_a_llama_with_biases_and_a_model_that_is_watched_are_read_by_transformers() -> None:
    assert all(
        LlamaPass.of(LlamaForCausalLM(LlamaConfig(**SMALL, **one))) is None
        for one in OF_ANOTHER_KIND
    )
    model, read = LlamaForCausalLM(LlamaConfig(**SMALL)).eval(), list[int]()
    hook = model.register_forward_pre_hook(
        lambda _, __, inputs: read.append(inputs["input_ids"].numel()), with_kwargs=True
    )
    list(
        read_shared(LoadedModel(model, CPU, 20), [(1, 2, 3)], [(2,)], own_pass=LlamaPass.of(model))
    )
    hook.remove()
    assert read == [3]


def farthest_from_plain_rows(
    model: Any, seed: int, shared: int, budget: int, engine: Engine, own_pass: Pass | None = None
) -> float:
    """The largest difference of a logit, at places that are drawn."""
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 50, shared).tolist()
    rows = [
        tuple(
            base[: rng.choice([shared, shared // 2])]
            + rng.integers(0, 3, rng.integers(1, 25)).tolist()
        )
        for _ in range(rng.integers(1, 14))
    ]
    wanted = [tuple({len(row) - 1, int(rng.integers(len(row)))}) for row in rows]
    found = logits_read(rows, wanted, model, CPU, budget, engine=engine, own_pass=own_pass)
    assert {*found} == {(row, place) for row, places in enumerate(wanted) for place in places}
    plain = [plain_logits(model, row) for row in rows]
    return max(
        float((logits - plain[row][place]).abs().max()) for (row, place), logits in found.items()
    )


@pytest.mark.quick("absolute positions")
@given(bits, st.sampled_from([5, 40]))
def test_padded_batches_give_what_plain_rows_give(model: Any, rows: Rows, budget: int) -> None:
    wanted = [tuple(range(len(row))) for row in rows]
    plain = [plain_logits(model, row) for row in rows]
    for places, part in read_padded(LoadedModel(model, CPU, budget), rows, wanted):
        for (row, position), logits in zip(places, part, strict=True):
            assert torch.allclose(logits, plain[row][position], atol=1e-4)


PROMPTS = [
    "\n".join(
        ["One row that all share. Yes or No? Answer: Yes"] * 4 + [f"Row {line}. Yes or No? Answer:"]
    )
    for line in range(12)
]
ANSWERS = [" No", " Yes"]
UNSHARED = {
    "a window": MistralConfig(
        **{**SMALL, "vocab_size": 400}, num_key_value_heads=2, sliding_window=8
    ),
    "soft caps": Gemma2Config(**{**SMALL, "vocab_size": 400}, num_key_value_heads=2, head_dim=8),
}


@pytest.mark.parametrize("config", UNSHARED.values(), ids=UNSHARED)
def test_a_model_that_cannot_share_is_read_row_by_row(
    config: PreTrainedConfig, tmp_path: Path
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(build_tiny_model(tmp_path / "models", PROMPTS))
    torch.manual_seed(0)
    for part in (AutoModelForCausalLM.from_config(config), tokenizer):
        part.save_pretrained(tmp_path / "m")
    scores = TransformersScorer(str(tmp_path / "m"), device="cpu").score(PROMPTS, ANSWERS)
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "m").eval()
    tokens = [tokenizer(answer, add_special_tokens=False).input_ids[0] for answer in ANSWERS]
    for prompt, told in zip(PROMPTS[:3], scores, strict=False):
        logits = plain_logits(plain, tuple(tokenizer(prompt).input_ids))[-1].log_softmax(-1)
        assert np.abs(told - logits[tokens].numpy()).max() < 1e-3


def test_prompts_that_share_a_beginning_read_it_once(tmp_path: Path) -> None:
    scorer = TransformersScorer(str(build_tiny_model(tmp_path, PROMPTS)), device="cpu")
    read: list[int] = []
    scorer._model.register_forward_pre_hook(
        lambda _, __, inputs: read.append(inputs["input_ids"].numel()), with_kwargs=True
    )
    scorer.score(PROMPTS, ANSWERS)
    rows = [scorer.encode(prompt) for prompt in PROMPTS]
    assert scorer.shares and sum(read) < sum(map(len, rows)) / 4
