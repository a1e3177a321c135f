"""Claims about rows that grow and are read by a model's own pass: it gives what plain rows give,
and is taken only where it does.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import Cache, LlamaConfig, LlamaForCausalLM

from dpicl.models.local import packed_rows, vote_reader
from dpicl.models.local.growing_rows import (
    PreallocatedCacheLayer,
    read_beginnings,
    read_newest,
    steps_of,
    token_bytes,
)
from dpicl.models.local.packed_rows import LlamaPass, PackedRow, Reading
from dpicl.models.local.transformers_backend import TransformersScorer
from dpicl.models.local.tree_reader import LEAST_SAVING, Pass, grow_tree
from dpicl.models.votes import VoteRule
from tests.library.vote_models import RULE, SMALL, assert_alike, opened, tiny_model, vote_requests

torch.set_num_threads(1)  # small batches on a busy machine
VOCABULARY = 50


class Counted:
    """A pass that counts the tokens it reads, and may turn those of steps by a wrong position."""

    is_watched = False

    def __init__(self, own: Pass, moved: int = 0) -> None:
        self.model, self._own, self._moved, self.read = own.model, own, moved, list[int]()

    def __call__(self, row: PackedRow, among: torch.Tensor | None = None) -> torch.Tensor:
        self.read.append(len(row.tokens))
        is_step = not isinstance(row, Reading) and len(row.asked) == len(row.tokens)
        moved = replace(row, positions=row.positions - self._moved) if is_step else row
        return self._own(moved, among)


@pytest.fixture(scope="module")
def llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(**SMALL, num_key_value_heads=2, vocab_size=VOCABULARY)
    ).eval()


@pytest.fixture
def writer(tmp_path: Path) -> TransformersScorer:
    return opened(tiny_model(tmp_path))


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=9),
    shared=st.sampled_from([0, 9, 70]),
    budget=st.sampled_from([1, 30, 500]),
    seed=st.integers(0, 999),
)
def test_whole_rows_and_then_a_token_of_each_give_what_plain_rows_give(
    llama: LlamaForCausalLM, lengths: list[int], shared: int, budget: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    own = LlamaPass.of(llama)
    cache = Cache(layer_class_to_replicate=PreallocatedCacheLayer)
    assert own is not None
    beginning = tuple(rng.integers(0, VOCABULARY, shared).tolist())
    rows = [beginning + tuple(rng.integers(0, VOCABULARY, n + 3).tolist()) for n in lengths]
    read_before = np.array([len(row) - 3 for row in rows])
    some = torch.tensor([0, 7, VOCABULARY - 1])
    with torch.inference_mode():
        read = [read_beginnings(own, [row[:-3] for row in rows], cache, token_budget=budget)]
        read += [
            read_newest(own, [row[step] for row in rows], read_before + 3 + step, cache)
            for step in (-3, -2)
        ]
        few = read_newest(own, [row[-1] for row in rows], read_before + 2, cache, some)
        for line, row in enumerate(rows):
            plain: Any = llama(torch.tensor([row])).logits[0, -4:]
            assert torch.allclose(
                torch.stack([logits[line] for logits in read]), plain[:-1], atol=1e-4
            )
            assert torch.allclose(few[line], plain[-1, some], atol=1e-4)


@pytest.mark.parametrize("rule", [RULE, replace(RULE, kind="logit", clip=10.0)])
def test_that_only_candidates_of_voters_are_predicted_changes_no_vote(
    writer: TransformersScorer, rule: VoteRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests, told = vote_requests(writer), []
    # so many times fewer than the vocabulary candidates are at most: always, and never
    for times in (0, 10**9):
        monkeypatch.setattr(vote_reader, "_FEW", times)
        session = writer.session(requests, rule)
        told.append([session.vote([new] * 3) for new in ((), (3,), (5,))])
    for one, other in zip(*told, strict=True):
        assert_alike(one, other)


def test_weights_that_are_laid_out_predict_the_same(
    llama: LlamaForCausalLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_rows, "_LEAST_PRODUCTS", 0)
    read: dict[bool, torch.Tensor] = {}
    for room in (packed_rows.LAID_OUT_BYTES, 0):
        monkeypatch.setattr(packed_rows, "LAID_OUT_BYTES", room)
        own = LlamaPass.of(llama)
        assert own is not None
        cache = Cache(layer_class_to_replicate=PreallocatedCacheLayer)
        with torch.inference_mode():
            rows = [tuple(range(1, 9)), (4, 3, 2)]
            read[bool(own._laid_out)] = read_beginnings(own, rows, cache, token_budget=99)
    assert torch.allclose(read[True], read[False], atol=1e-5)


def test_voters_of_a_llama_are_read_by_its_own_pass(writer: TransformersScorer) -> None:
    """Whole prompts, public ones too, what they share once; and then a token of each."""
    assert writer._pass is not None
    counted = writer._pass = Counted(writer._pass)
    requests = vote_requests(writer)
    session = writer.session(requests, RULE)
    counted.read.clear()
    session.vote([(), (), ()])
    rows = {(number, row) for number, request in enumerate(requests) for row in request.voters}
    whole = [row + requests[number].written for number, row in rows]
    public = [request.public + request.written for request in requests]
    trees = [grow_tree(prompts, least_saving=LEAST_SAVING) for prompts in (whole, public)]
    distinct = sum(len(segment.tokens) for tree in trees for segment in tree.segments)
    assert sum(counted.read) == distinct < sum(map(len, whole + public)) / 2
    counted.read.clear()
    session.vote([(40,), (41,), (42,)])
    assert sum(counted.read) == len(rows) + len(requests)


def test_a_pass_that_errs_in_steps_reads_none_of_them(writer: TransformersScorer) -> None:
    assert writer._pass is not None
    right, requests = writer._pass, vote_requests(writer)
    told = []
    for moved in (0, 1):
        counted = writer._pass = Counted(right, moved)
        assert (steps_of(writer._reader()) is None) == bool(moved)
        assert token_bytes(writer._reader()) is not None
        session = writer.session(requests, RULE)
        session.vote([(), (), ()])
        counted.read.clear()
        told.append(session.vote([(40,), (41,), (42,)]))
        assert bool(counted.read) == (not moved)
    assert_alike(*told)
