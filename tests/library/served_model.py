"""A model on disk as a server's."""

from __future__ import annotations

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
        self._shown = self.tokenizer.batch_decode([[token] for token in range(self.model.config.vocab_size)])

    @torch.inference_mode()
    def read(self, text: str) -> Pairs:
        cut = self.tokenizer(text, return_offsets_mapping=True, return_tensors="pt")
        logprobs = self.model(input_ids=cut.input_ids).logits[0, :-1].log_softmax(-1)
        told = logprobs.gather(1, cut.input_ids[0, 1:, None])[:, 0].tolist()
        shown = [text[start:end] or "<s>" for start, end in cut.offset_mapping[0].tolist()]
        return list(zip(shown, [None, *told], strict=True))

    @torch.inference_mode()
    def next(self, text: str, blank: str) -> Pairs:
        last = self.model(input_ids=self.tokenizer(text, return_tensors="pt").input_ids, logits_to_keep=1).logits[0, -1]
        return list(zip(self._shown, last.double().log_softmax(-1).tolist(), strict=True))
