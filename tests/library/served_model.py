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
        self.model: Any = AutoModelForCausalLM.from_pretrained(folder).eval()
        self._shown = self.tokenizer.batch_decode([[token] for token in range(self.model.config.vocab_size)])

    @torch.inference_mode()
    def _logprobs(self, text: str) -> tuple[Any, torch.Tensor]:
        cut = self.tokenizer(text, return_offsets_mapping=True, return_tensors="pt")
        return cut, self.model(input_ids=cut.input_ids).logits[0].double().log_softmax(-1)

    def read(self, text: str) -> Pairs:
        cut, logprobs = self._logprobs(text)
        tokens = cut.input_ids[0].tolist()
        shown = [text[start:end] or "<s>" for start, end in cut.offset_mapping[0].tolist()]
        return [(shown[0], None), *((shown[place], float(logprobs[place - 1, tokens[place]])) for place in range(1, len(tokens)))]

    def next(self, text: str, blank: str) -> Pairs:
        last = self._logprobs(text)[1][-1]
        return list(zip(self._shown, last.tolist(), strict=True))
