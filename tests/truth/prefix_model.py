"""A real model that has learnt labels of which one begins another: what it says of each case is
known.

A small Llama with a byte-level tokenizer that cuts numbers into digits, as SmolLM's. It is taught
every case in three forms: a line of a table, a text with an empty line after its label, and a chat
whose turn ends with the tokenizer's own token.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from dpicl.models.endpoint.protocol import chat_messages, public_prompt
from dpicl.models.requests import CONTINUATIONS

SETS = {
    "A": ("2", "20", "200"),
    "B": ("B", "B+", "B++"),
    "C": ("cold", "cold front", "cold front passing"),
    "D": ("J3", "J30", "J300"),
    "E": ("New", "New York", "New York City"),
    "F": ("-1", "-10", "-1.5"),
    "G": ("3", "3.5", "30"),
    "H": ("no", "none", "nobody"),
    "I": ("yes", "yes, but later", "yes, but"),
    "J": ("stage III", "stage II", "stage I"),
    "K": ("highest", "high", "higher"),
    "L": ("000", "00", "0"),
    "M": ("art history", "art", "artist"),
    "N": ("ja ja", "jaja", "ja"),
}
"""Labels by set; the kinds x, y and z of a set are answered by its first, second and third
label.
"""
KINDS = "xyz"
TEMPLATE = (
    "<s>{% for one in messages %}[{{ one.role }}]\n{{ one.content }}{% if one.role == 'assistant' "
    "%}</s>{% else %}\n{% endif %}{% endfor %}{% if add_generation_prompt %}[assistant]\n{% "
    "endif %}"
)
SURE = 10.0
"""How far the logit of what comes next is above all others: its probability is about .98."""
RIDGE = 1.0
_SHAPE: dict[str, Any] = {
    "hidden_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "intermediate_size": 512,
}


def lines(name: str) -> list[str]:
    """Prompts as of a table: one a kind."""
    return [f"What follows is the grade of a case.\nCase {name} {kind}. Grade:" for kind in KINDS]


def texts(name: str) -> list[str]:
    """Prompts as of texts, with empty lines."""
    return [f"Grade each text.\n\nText: Case {name} {kind}.\nGrade:" for kind in KINDS]


def continuations(name: str) -> list[str]:
    """What is scored."""
    return [f" {label}" for label in SETS[name]]


def _lessons(tokenizer: Any) -> list[tuple[list[int], int]]:
    """Tokens of every prompt with its label and what ends it, and how many of them are the
    prompt's.
    """
    public = tokenizer(f"<s>{public_prompt(CONTINUATIONS)}", add_special_tokens=False).input_ids
    # a probe's question
    lessons = [
        (public + tokenizer(label).input_ids[1:], len(public))
        for label in (*CONTINUATIONS, CONTINUATIONS[1])
    ]
    for name, labels in SETS.items():
        for line, text, label in zip(lines(name), texts(name), labels, strict=True):
            asked = chat_messages(line, continuations(name))
            turn = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
            said = [
                (f"<s>{line}", f" {label}\n"),
                (f"<s>{text}", f" {label}\n\n"),
                (turn, f"{label}</s>"),
            ]
            for parts in said:
                before, whole = (
                    tokenizer(words, add_special_tokens=False).input_ids
                    for words in (parts[0], "".join(parts))
                )
                lessons.append((whole, len(before)))
    return lessons


def build(folder: Path) -> Path:
    """The model's folder: random layers, and a last matrix that says after every beginning of a
    lesson what comes next.
    """
    words = [
        text
        for name in SETS
        for text in (*lines(name), *texts(name), *continuations(name), "\n\n", *CONTINUATIONS)
    ]
    tokenizer = Tokenizer(models.BPE())
    digits, letters = (
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, letters])
    tokenizer.decoder = decoders.ByteLevel()
    options: dict[str, Any] = {
        "initial_alphabet": sorted(pre_tokenizers.ByteLevel.alphabet()),
        "show_progress": False,
    }
    tokenizer.train_from_iterator(
        words, trainers.BpeTrainer(vocab_size=420, special_tokens=["<s>", "</s>"], **options)
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", chat_template=TEMPLATE
    )
    model = _model(len(fast), _lessons(fast))
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


@torch.inference_mode()
def _model(vocabulary: int, lessons: list[tuple[list[int], int]]) -> Any:
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            **_SHAPE,
            vocab_size=vocabulary,
            max_position_embeddings=512,
            bos_token_id=0,
            eos_token_id=1,
        )
    ).eval()
    for name, weight in model.named_parameters():
        if weight.ndim == 2:
            weight.normal_(0, 1 if "embed" in name else 2 * weight.shape[1] ** -0.5)
    states, nexts = [], []
    for tokens, prompt in lessons:
        states.append(
            model.model(input_ids=torch.tensor([tokens]))
            .last_hidden_state[0, prompt - 1 : -1]
            .double()
        )
        nexts += tokens[prompt:]
    known = torch.cat(states)
    wanted = SURE * torch.nn.functional.one_hot(torch.tensor(nexts), vocabulary).double()
    gram = known @ known.T + RIDGE * torch.eye(len(known), dtype=torch.float64)
    model.lm_head.weight.copy_((known.T @ torch.linalg.solve(gram, wanted)).T)
    return model


class Plain:
    """The same model by transformers alone: one forward pass for every label, nothing shared,
    padded or kept.
    """

    def __init__(self, folder: Path) -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    @torch.inference_mode()
    def logprob(self, before: list[int], after: list[int]) -> float:
        """Of tokens after tokens."""
        logits = self.model(input_ids=torch.tensor([before + after])).logits[
            0, len(before) - 1 : -1
        ]
        return float(
            logits.double().log_softmax(-1)[torch.arange(len(after)), torch.tensor(after)].sum()
        )

    def said(self, prompt: str, label: str, end: str) -> float:
        """Of a label with what ends it, after a prompt that is written out whole."""
        before, whole = (
            self.tokenizer(text, add_special_tokens=False).input_ids
            for text in (prompt, prompt + label + end)
        )
        assert whole[: len(before)] == before
        return self.logprob(before, whole[len(before) :])

    def line(self, name: str) -> np.ndarray:
        """Of all labels of a set after its prompts as of a table."""
        return np.array(
            [
                [self.said(f"<s>{prompt}", label, "\n") for label in continuations(name)]
                for prompt in lines(name)
            ]
        )

    def text(self, name: str) -> np.ndarray:
        """The same after prompts as of texts."""
        return np.array(
            [
                [self.said(f"<s>{prompt}", label, "\n\n") for label in continuations(name)]
                for prompt in texts(name)
            ]
        )

    def chat(self, name: str) -> np.ndarray:
        """The same in a chat."""
        turns = [chat_messages(prompt, continuations(name)) for prompt in lines(name)]
        written = [
            self.tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
            for turn in turns
        ]
        return np.array(
            [[self.said(prompt, label, "</s>") for label in SETS[name]] for prompt in written]
        )
