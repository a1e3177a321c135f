"""Synthetic tables of the bundled model: what decides their labels, how prompts put them, and which
words they use.
"""

from __future__ import annotations

import math
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from dpicl.data.prompts import local_queries
from dpicl.ground.randomness import stream
from dpicl.ground.types import EncodedQueries
from dpicl.models.requests import prompt
from lab.training import rendering
from lab.training.batches import Job, make_step
from lab.training.curriculum import LEVELS, Progress
from lab.training.encoding import GUESSED, IGNORED, batch_of, encode_task, prompt_of
from lab.training.model import marks_of
from lab.training.numbers import NUMBERS
from lab.training.presets import preset_of
from lab.training.structure import FAMILIES, Shape, population
from lab.training.tasks import make_task
from lab.training.tokenizer import train_tokenizer
from lab.training.vote import vote
from lab.training.wording import wording
from lab.training.words import WORDS
from tests.library.examples import CONTRACTS


def rng(name: str) -> np.random.Generator:
    return stream(0, "test", "bundled", name).generator()


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(preset_of("smoke"), seed=0).backend_tokenizer


@pytest.mark.parametrize("family", FAMILIES)
def test_labels_follow_relevant_columns_only(family: str) -> None:
    """The best single column tells labels apart where it is relevant, and no better than chance
    where it is not.
    """
    said: dict[bool, list[float]] = {True: [], False: []}
    for index in range(60):
        drawn = population(rng(f"{family}{index}"), Shape(5, 0.4, 0.0), family, positive=0.5)
        if 0 < drawn.labels.sum() < len(drawn.labels):
            for column in range(5):
                said[bool(drawn.relevant[column])].append(
                    abs(np.corrcoef(drawn.values[:, column], drawn.labels)[0, 1])
                )
    assert np.mean(said[True]) > 0.35
    # Columns with common causes go with the label though they do not decide it.
    assert np.mean(said[False]) < (0.3 if family in ("linear", "rules") else 0.08)


def test_no_direction_of_a_column_and_no_label_is_preferred() -> None:
    signs, labels = [], []
    for index in range(300):
        drawn = population(
            rng(f"sign{index}"), Shape(1, 1.0, 0.1), FAMILIES[index % 3], positive=0.5
        )
        signs.append(np.sign(np.corrcoef(drawn.values[:, 0], drawn.labels)[0, 1]))
        labels.append(drawn.labels.mean())
    assert abs(np.nanmean(signs)) < 0.15
    assert abs(np.mean(labels) - 0.5) < 0.03


def test_local_prompts_are_the_product_serialisers() -> None:
    chance = rng("local")
    columns = [
        rendering.PartsColumn(np.array([0, 1, 1]), ("less than 3", "3 or more")),
        rendering.PartsColumn(np.array([1, 0, 1]), ("no", "yes")),
    ]
    said = wording(chance, tuple(columns), wordy=0.5)
    labels = np.array([1, 0, 1])
    rows = rendering.local_rows(columns, said, labels)
    asked = local_queries(
        EncodedQueries(np.array([[1, 1, 1]])), rendering.local_contract(columns, said)
    )
    assert prompt(rows[:2], asked[0]) + " Yes" == "\n".join(rows)


@pytest.mark.quick("central", "plain")
@pytest.mark.parametrize("kind", ["local", "central", "groups", "plain"])
def test_tokens_are_those_of_the_whole_prompt(kind, tokenizer: Tokenizer) -> None:
    for index in range(5):
        task = make_task(rng(f"{kind}{index}"), LEVELS[-1], shots=4, kind=kind)
        encoded = encode_task(tokenizer, task)
        assert encoded.tokens.tolist() == tokenizer.encode(prompt_of(task)).ids
        after = [tokenizer.decode([int(token)]).strip() for token in encoded.targets]
        written = [
            tokenizer.normalizer.normalize_str(row.rpartition(" ")[2])
            for row in np.array(task.rows)[task.asked]
        ]
        assert after == [answer[: len(text)] for answer, text in zip(written, after, strict=True)]


def test_answers_are_single_tokens_after_one_cue(tokenizer: Tokenizer) -> None:
    ids = [
        tokenizer.encode(text, add_special_tokens=False).ids
        for text in (" Yes", " No", " Yes or No? Answer:", "\n")
    ]
    assert [len(found) for found in ids] == [1, 1, 1, 1]
    found = marks_of(tokenizer)
    assert (found.start, found.line_break, found.cue) == (
        tokenizer.token_to_id("<s>"),
        ids[3][0],
        ids[2][0],
    )
    assert [tokenizer.id_to_token(token) for token in found.numbers.tokens] == list(NUMBERS)


@pytest.mark.parametrize(
    "text, sizes, left",
    [
        ("is 12.92.", [12], "is.92."),
        ("is 7.76,", [7.7], "is6,"),
        ("age 5", [5], "age"),
        ("0.117 or 0.07", [0.11, 0.07], "7or"),
        ("0.0, 0. or 0", [0, 0, 0], ",.or"),
        ("-3.5\n1994", [3.5, 1900], "-94"),
        ("v1.2 and 10-20", [1.2, 10, 20], "vand-"),
        ("0.00001 or 1234567890", [], "0.00001or1234567890"),
    ],
)
def test_a_number_is_a_token_for_its_size_and_the_digits_left(
    text: str, sizes: list[float], left: str, tokenizer: Tokenizer
) -> None:
    tokens = tokenizer.encode(text, add_special_tokens=False).tokens
    found = [NUMBERS[token] for token in tokens if token in NUMBERS]
    assert found == pytest.approx([-5 if size == 0 else math.log10(size) for size in sizes])
    rest = "".join(
        tokenizer.decode([tokenizer.token_to_id(token)]) for token in tokens if token not in NUMBERS
    )
    assert "".join(rest.split()) == left


def test_rivals_count_once_both_labels_were_shown(tokenizer: Tokenizer) -> None:
    for index in range(10):
        task = make_task(rng(f"rival{index}"), LEVELS[1], shots=6, kind="local")
        encoded, known = encode_task(tokenizer, task), []
        for row in np.flatnonzero(task.asked):
            known.append(len(set(task.labels[:row].tolist())) == 2)
        assert (encoded.others != IGNORED).tolist() == known


def test_a_vote_finds_the_row_that_is_alike() -> None:
    features, labels = np.eye(3)[[0, 1, 2, 0, 1]], np.array([1, 0, 0, 1, 0])
    assert (vote(features, labels)[3:] > 0.5).tolist() == [True, False]
    assert vote(features, labels)[0] == 0.5


def test_levels_open_one_by_one_when_the_vote_is_reached() -> None:
    assert Progress().after(100, 100, 0).judged().reached == 0
    assert Progress().after(10_000, 7_000, 9_000).judged() == Progress(0)
    assert Progress().after(10_000, 9_000, 9_000).judged() == Progress(1)
    last = len(LEVELS) - 1
    assert Progress(last).after(10_000, 10_000, 0).judged().reached == last


def test_a_guess_weighs_little_and_a_told_answer_one(tokenizer: Tokenizer) -> None:
    encoded = [
        encode_task(
            tokenizer, make_task(rng(f"weight{index}"), LEVELS[3], shots=6, kind="local"), 3
        )
        for index in range(6)
    ]
    for task in encoded:
        guessed = task.others == IGNORED
        assert task.shares[~guessed].sum(axis=1) == pytest.approx(1)
        assert (task.shares[guessed] == np.float32([GUESSED, 0])).all()
    joined = batch_of(encoded)
    assert joined.levels.tolist() == [3] * len(joined.targets)


def test_a_step_is_filled_and_no_batch_is_too_large(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """A task of more tokens than a batch stands alone."""
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    for step in range(3):
        made = make_step(Job(0, step, len(LEVELS) - 1, 6000, 2000, tmp_path / "tokenizer.json"))
        assert sum(int(batch.lengths.sum()) for batch in made.batches) >= 6000
        assert all(batch.tokens.size <= 2000 or len(batch.tokens) == 1 for batch in made.batches)
        assert len({level for batch in made.batches for level in batch.levels.tolist()}) > 1


def test_averages_stand_as_the_product_puts_them_and_both_labels_occur() -> None:
    """Positive groups first, mostly; no family makes tables of one label alone."""
    tasks = [
        make_task(rng(f"group{index}"), LEVELS[1], shots=8, kind="groups") for index in range(60)
    ]
    means = [task.labels[: int(np.flatnonzero(task.asked)[0])] for task in tasks]
    assert 0.5 < np.mean([bool((np.diff(labels) <= 0).all()) for labels in means]) < 1
    for family, index in product(FAMILIES, range(40)):
        chance = rng(f"both{family}{index}")
        drawn = population(chance, Shape(3, 0.5, 0.2), family, positive=0.8)
        assert 0 < drawn.labels.mean() < 1


def _evaluation_words() -> set[str]:
    """Words of column names, attributes and categories of every shipped contract."""
    named: list[str] = []
    for contract in CONTRACTS.values():
        named += [contract.name, *contract.columns, *(one.name for one in contract.local)]
        for column in contract.columns.values():
            named += getattr(column, "categories", ())
    parted = re.sub(r"([a-z])([A-Z])", r"\1 \2", " ".join(named))
    return set(re.findall("[a-z]+", parted.lower()))


def test_no_word_of_an_evaluation_set_names_anything() -> None:
    assert len(WORDS) > 1000
    assert _evaluation_words() & set(WORDS) == set()
