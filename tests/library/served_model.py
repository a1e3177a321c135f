"""A model on disk as a server's."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.library.endpoint_server import Pairs


class Local:
    """Says what a model on disk says, with its start token, if it has one."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self._shown = self.tokenizer.batch_decode(
            [[token] for token in range(self.model.config.vocab_size)]
        )

    @torch.inference_mode()
    def read(self, text: str) -> Pairs:
        cut = self.tokenizer(text, return_offsets_mapping=True, return_tensors="pt")
        logprobs = self.model(input_ids=cut.input_ids).logits[0, :-1].log_softmax(-1)
        told = logprobs.gather(1, cut.input_ids[0, 1:, None])[:, 0].tolist()
        shown = [text[start:end] or "<s>" for start, end in cut.offset_mapping[0].tolist()]
        return list(zip(shown, [None, *told], strict=True))

    @torch.inference_mode()
    def next(self, text: str, blank: str) -> Pairs:
        last = self.model(
            input_ids=self.tokenizer(text, return_tensors="pt").input_ids, logits_to_keep=1
        ).logits[0, -1]
        return list(zip(self._shown, last.double().log_softmax(-1).tolist(), strict=True))


class Chatting(Local):
    """The same model as a chat, by the template in its folder."""

    @torch.inference_mode()
    def next(self, text: str, blank: str) -> Pairs:
        written = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_tensors="pt"
        )
        last = self.model(input_ids=written.input_ids, logits_to_keep=1).logits[0, -1]
        return list(zip(self._shown, last.double().log_softmax(-1).tolist(), strict=True))


def taught(plain: Path, texts: Sequence[str], folder: Path, steps: int = 130) -> Path:
    """A model's folder after a lesson of these texts, by turns."""
    local = Local(plain)
    torch.manual_seed(0)
    optimiser = torch.optim.AdamW(local.model.parameters(), lr=3e-3)
    lessons = [local.tokenizer(text, return_tensors="pt").input_ids for text in texts]
    for step in range(steps):
        lesson = lessons[step % len(lessons)]
        local.model(input_ids=lesson, labels=lesson).loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    for part in (local.model, local.tokenizer):
        part.save_pretrained(folder)
    return folder


def with_template(plain: Path, home: Path, template: str) -> Path:
    """A copy of a model's folder that has a chat template."""
    shutil.copytree(plain, home)
    (home / "chat_template.jinja").write_text(template)
    return home
