"""Claims about the tiny model that is built on the spot."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from dpicl.models.local.tiny import ANSWERS, UNTRAINED_NOTE, build_tiny_model
from dpicl.models.local.transformers_backend import TransformersScorer

CORPUS = [
    "This person is a 39 year old clerk. Does this person earn more? Yes or No? Answer: No",
    "Yesterday, Norway: Nothing.",
]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_another_process_on_another_day_builds_the_same(tmp_path: Path) -> None:
    built = contents(build_tiny_model(tmp_path, CORPUS))
    merges = json.loads(built["tokenizer.json"])["model"]["merges"]
    assert (
        hashlib.sha256(json.dumps(merges).encode()).hexdigest()
        == "91cac3248593a33689a40a2148bfa20771118f7e49eed5a4ef92907bb76000f2"
    )
    assert (
        hashlib.sha256(built["model.safetensors"]).hexdigest()
        == "c6766abe7bccfe58b09c0d5d0ff51bc9ffcef3b249764afb5cd36f8fbc9e52fc"
    )


def test_a_complete_model_is_used_again_and_an_incomplete_one_is_built_again(
    tmp_path: Path,
) -> None:
    home = build_tiny_model(tmp_path, CORPUS)
    before, stamp = contents(home), (home / "model.safetensors").stat().st_mtime_ns
    assert build_tiny_model(tmp_path, CORPUS) == home
    assert (home / "model.safetensors").stat().st_mtime_ns == stamp
    (home / "tokenizer.json").unlink()
    assert contents(build_tiny_model(tmp_path, CORPUS)) == before


def test_another_corpus_is_another_model(tmp_path: Path) -> None:
    assert build_tiny_model(tmp_path, CORPUS) != build_tiny_model(tmp_path, [*CORPUS, "more"])


def test_builders_at_once_agree_and_leave_no_scratch(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        homes = set(pool.map(lambda _: build_tiny_model(tmp_path, CORPUS), range(4)))
    assert {*tmp_path.iterdir()} == {*homes, tmp_path / ".tiny.lock"}


@pytest.mark.parametrize(
    "corpus",
    [[], ["x"], ["No Nothing Note Yell Yes" * 50], [bytes(range(256)).decode("latin-1") * 9]],
)
def test_the_answers_are_single_tokens_whatever_the_corpus(
    tmp_path: Path, corpus: list[str]
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(build_tiny_model(tmp_path, corpus))
    for answer in ANSWERS:
        assert len(tokenizer(answer, add_special_tokens=False).input_ids) == 1


def test_any_text_survives_the_tokenizer(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(build_tiny_model(tmp_path, CORPUS))
    text = "Answer: Yes\n≥ 39 – 日本 \x00"
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False).input_ids) == text


def test_it_says_that_it_is_untrained_wherever_it_is_opened_from(tmp_path: Path) -> None:
    moved = build_tiny_model(tmp_path, CORPUS).rename(tmp_path / "looks-serious")
    description = TransformersScorer(str(moved)).description
    assert not description.trained
    assert description.note == UNTRAINED_NOTE == "untrained: random weights, for plumbing only"


def test_one_early_word_moves_its_answer(tmp_path: Path) -> None:
    """Otherwise a mistake in mask or positions would not show in any test that uses this model."""
    scorer = TransformersScorer(str(build_tiny_model(tmp_path, CORPUS)))
    scores = scorer.score(
        [f"This person is {age} years old. Yes or No? Answer:" for age in range(100)],
        [" No", " Yes"],
    )
    assert (scores[:, 1] - scores[:, 0]).std() > 0.1
