"""The bundled model's tokenizer: byte-pair merges within words, a token for the size of a number,
digits apart, frequent phrases whole.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from dpicl.contract.parts import YES_OR_NO
from dpicl.ground.errors import ModelError
from dpicl.ground.randomness import stream
from lab.training.curriculum import LEVELS
from lab.training.numbers import NUMBERS, number_normalizer
from lab.training.presets import Preset
from lab.training.tasks import make_task
from lab.training.token_ids import END, START

PHRASES = (
    f" {YES_OR_NO}",
    " less than",
    " or more",
    " more than",
    " or less",
    " at most",
    " at least",
    " is described as follows:",
)
"""One token each: what thresholds and every prompt of ours repeat."""
ANSWERS = (
    " Yes",
    " No",
    " yes",
    " no",
    " True",
    " False",
    " true",
    " false",
    " A",
    " B",
    " low",
    " high",
)
TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_FILES = (TOKENIZER_FILE, "tokenizer_config.json")
_REPEATED = 10
"""Answers are made this frequent, so that their letters are merged early."""
_PIECES = r" ?[A-Za-z]+| ?\d| ?[^\sA-Za-z\d]+|\s+"
"""Words and signs with the blank before them; of what a number has beyond its size, each digit
alone.
"""


def train_tokenizer(preset: Preset, *, seed: int) -> PreTrainedTokenizerFast:
    """The tokenizer of a preset; the same seed gives the same one.

    Raises:
        ModelError: an answer is more than one token.
    """
    tokenizer = Tokenizer(models.BPE())
    pieces = pre_tokenizers.Split(Regex(_PIECES), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pieces, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=preset.vocabulary - len(PHRASES),
        special_tokens=[START, END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_corpus(preset.tokenizer_texts, seed), trainer)
    tokenizer.add_tokens([AddedToken(phrase, normalized=False) for phrase in PHRASES])
    tokenizer.normalizer = number_normalizer()
    tokenizer.add_tokens([AddedToken(number, normalized=True) for number in NUMBERS])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{START} $A", special_tokens=[(START, 0)]
    )
    split = [
        answer
        for answer in ANSWERS
        if len(tokenizer.encode(answer, add_special_tokens=False).ids) != 1
    ]
    if split:
        raise ModelError(f"the bundled model's tokenizer splits {split[0]!r}; expected one token")
    options: dict[str, Any] = {
        "bos_token": START,
        "eos_token": END,
        "model_max_length": preset.context,
    }
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **options)


def _corpus(count: int, seed: int) -> Iterator[str]:
    """Two rows each of many tasks (more would only repeat words), and the answers."""
    rng = stream(seed, "tokenizer", "bundled", "0").generator()
    for _ in range(count):
        yield "\n".join(make_task(rng, LEVELS[-1], shots=1).rows)
        yield "".join(ANSWERS) * _REPEATED


def save_tokenizer(preset: Preset, folder: Path, *, seed: int, like: Path | None = None) -> None:
    """Train a tokenizer into a folder, or copy that of another model."""
    if like is None:
        train_tokenizer(preset, seed=seed).save_pretrained(folder)
        return
    for name in TOKENIZER_FILES:
        shutil.copyfile(like / name, folder / name)


def load_tokenizer(folder: Path) -> Tokenizer:
    """The fast tokenizer of a folder, without transformers around it."""
    return Tokenizer.from_file(str(folder / TOKENIZER_FILE))
