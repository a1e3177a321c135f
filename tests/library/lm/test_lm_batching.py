"""Claims about rows, batches and padding; no model needed."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dpicl.models.local.padded_reader import ReadingMode, pad_left, plan_batches, rows_of

lengths_strategy = st.lists(st.integers(1, 50), max_size=60)
budgets = st.integers(1, 300)
tokens_strategy = st.lists(st.integers(0, 9), min_size=1, max_size=4).map(tuple)


@given(lengths_strategy, budgets)
def test_every_item_is_in_one_batch_and_none_exceeds_the_budget_unless_one_item_does(
    lengths: list[int], budget: int
) -> None:
    batches = plan_batches(lengths, budget)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[index] for index in batch) <= budget


@given(lengths_strategy, budgets, st.randoms())
def test_batches_have_the_same_lengths_in_any_order(
    lengths: list[int], budget: int, random: object
) -> None:
    shuffled = list(lengths)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    planned = [[lengths[index] for index in batch] for batch in plan_batches(lengths, budget)]
    assert planned == [
        [shuffled[index] for index in batch] for batch in plan_batches(shuffled, budget)
    ]


@given(
    tokens_strategy,
    st.lists(tokens_strategy, min_size=1, max_size=3),
    st.none() | st.integers(1, 12),
)
def test_every_step_predicts_the_token_that_follows_its_position(
    prompt: tuple[int, ...], answers: list[tuple[int, ...]], apart: int | None
) -> None:
    """In a row that the model reads as it would read the answer alone."""
    seen: dict[int, list[int]] = {}
    mode = ReadingMode(apart=apart)
    for row in rows_of(0, prompt, answers, mode):
        for answer in {answer for told in row.predicted.values() for answer, _ in told}:
            alone = len(prompt) + len(answers[answer]) - 1
            assert mode.is_apart(len(row.tokens)) == mode.is_apart(alone)
        for position in sorted(row.predicted):
            for answer, token in row.predicted[position]:
                told = seen.setdefault(answer, [])
                assert row.tokens[: position + 1] == (*prompt, *told)
                told.append(token)
    assert seen == {number: list(answer) for number, answer in enumerate(answers)}


@given(st.lists(tokens_strategy, min_size=1, max_size=6))
def test_padding_is_masked_and_positions_count_from_the_first_token(
    texts: list[tuple[int, ...]],
) -> None:
    batch = pad_left(texts)
    for line, tokens in enumerate(texts):
        real = batch.mask[line] == 1
        assert batch.tokens[line][real].tolist() == list(tokens)
        assert batch.positions[line][real].tolist() == list(range(len(tokens)))
        assert real[-1]
        assert np.array_equal(np.sort(batch.mask[line]), batch.mask[line])
