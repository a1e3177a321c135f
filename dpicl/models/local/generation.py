"""Text from a local model: greedy or sampled, in batches that never change what a prompt gets.

Sampling adds Gumbel noise to the logits and takes the largest, which is a draw from the
softmax; each place in the list has a stream of noise of its own, so that a text does not
depend on the batch.

Whether transformers writes what plain reading gives is found by trying. A model of half precision
computes in float32 for that, so that rounding hides no mistake.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from transformers import LogitsProcessor, LogitsProcessorList

from dpicl.ground.randomness import stream
from dpicl.models.local.padded_reader import (
    EXACT,
    LoadedModel,
    pad_left,
    plan_batches,
    read_padded,
    run_with_oom_retry,
    tolerance_of,
)
from dpicl.models.requests import Sampling, Tokens, before_stop

_PROBED = 4
"""Tokens that are written to see whether they follow."""
Writing = Literal["together", "alone", "anew"]
"""How texts are written: by transformers, several at once or one by one; or by reading everything
anew for each token.
"""


def find_writing(loaded: LoadedModel, rows: Sequence[Tokens]) -> Writing:
    """The fastest way of writing in which every token follows from what plain reading gives.

    Args:
        rows: public ones, of several lengths.
    """
    # transformers counts positions by itself here
    if loaded.mode.pads and _follows(loaded, rows):
        return "together"
    return "alone" if all(_follows(loaded, [row]) for row in rows) else "anew"


def generate(
    loaded: LoadedModel,
    tokenizer: Any,
    rows: Sequence[Tokens],
    sampling: Sampling,
    writing: Writing,
) -> list[str]:
    """What follows every row, without stop strings.

    Raises:
        ModelError: memory does not suffice for one row.
    """
    writer = _Writer(loaded, tokenizer, rows, sampling)
    lengths = [len(row) + sampling.new_tokens for row in rows]
    # of what is kept, positions would not be turned otherwise once a text is longer
    anew = [
        row
        for row, length in enumerate(lengths)
        if writing == "anew" or loaded.mode.is_apart(length)
    ]
    kept = sorted({*range(len(rows))} - {*anew})
    batches = plan_batches(
        [lengths[row] for row in kept], loaded.token_budget if writing == "together" else 0
    )
    texts: dict[int, str] = {}
    for batch, write in [
        *(([kept[place] for place in batch], writer.write) for batch in batches),
        *(([row], writer.write_anew) for row in anew),
    ]:
        for written in run_with_oom_retry(batch, write):
            texts |= written
    return [texts[row] for row in range(len(rows))]


@dataclass(frozen=True)
class _Writer:
    """Writes after rows, by their numbers."""

    loaded: LoadedModel
    tokenizer: Any
    rows: Sequence[Tokens]
    sampling: Sampling

    def noise_of(self, batch: Sequence[int]) -> _GumbelNoise | None:
        """What samples; None where nothing is sampled."""
        if not self.sampling.temperature:
            return None
        seed = self.sampling.seed
        streams = [stream(seed, "generate", "", str(row)).generator() for row in batch]
        return _GumbelNoise(streams, self.sampling.temperature)

    @torch.inference_mode()
    def write(self, batch: Sequence[int]) -> dict[int, str]:
        """By transformers, which keeps what it read."""
        noise = self.noise_of(batch)
        stop = list(self.sampling.stop)
        options: dict[str, Any] = {
            "logits_processor": LogitsProcessorList([noise] if noise else [])
        }
        options |= {"stop_strings": stop, "tokenizer": self.tokenizer} if stop else {}
        rows = [self.rows[row] for row in batch]
        output = _written(self.loaded, rows, self.sampling.new_tokens, options)
        texts = self.tokenizer.batch_decode(
            output.sequences[:, max(map(len, rows)) :], skip_special_tokens=True
        )
        return {row: before_stop(text, stop) for row, text in zip(batch, texts, strict=True)}

    @torch.inference_mode()
    def write_anew(self, batch: Sequence[int]) -> dict[int, str]:
        """One text, for each token of which everything is read again."""
        (row,) = batch
        noise = self.noise_of(batch)
        ends = _ends(self.loaded.model)
        written = Tokens()
        text = ""
        while (
            len(written) < self.sampling.new_tokens
            and not (written and written[-1] in ends)
            and not any(mark in text for mark in self.sampling.stop)
        ):
            whole = [self.rows[row] + written]
            ((_, logits),) = read_padded(self.loaded, whole, [(len(whole[0]) - 1,)])
            scores = noise(whole, logits) if noise else logits  # type: ignore[arg-type]
            written += (int(scores[0].argmax()),)
            text = self.tokenizer.decode(list(written), skip_special_tokens=True)
        return {row: before_stop(text, self.sampling.stop)}


def _follows(loaded: LoadedModel, rows: Sequence[Tokens]) -> bool:
    """Whether the logits of every token that transformers writes are those of plain reading; of a
    model in half precision, in float32 if it can.
    """
    model = loaded.model
    exact = can_be_exact(model, rows[0], loaded.device)
    tolerance = EXACT if exact else tolerance_of(model)
    try:
        with torch.inference_mode(), in_float32(model) if exact else nullcontext():
            options = {"output_logits": True, "min_new_tokens": _PROBED}
            output = _written(loaded, rows, _PROBED, options)
            whole = [
                row + tuple(new)
                for row, new in zip(
                    rows, output.sequences[:, max(map(len, rows)) :].tolist(), strict=True
                )
            ]
            wanted = [tuple(range(len(row) - 1, len(row) - 1 + _PROBED)) for row in rows]
            return all(
                torch.allclose(
                    output.logits[place - len(rows[row]) + 1][row].float(),
                    logits.float(),
                    rtol=tolerance,
                    atol=tolerance,
                )
                for places, part in read_padded(loaded, whole, wanted)
                for (row, place), logits in zip(places, part, strict=True)
            )
    except Exception:  # noqa: BLE001 - a model of any kind may fail in any way
        return False


def _written(
    loaded: LoadedModel, rows: Sequence[Tokens], new_tokens: int, options: Mapping[str, Any]
) -> Any:
    """What transformers writes, greedily; see its `generate`."""
    padded = pad_left(rows)
    ends = _ends(loaded.model)
    return loaded.model.generate(
        input_ids=loaded.on_device(padded.tokens),
        attention_mask=loaded.on_device(padded.mask),
        max_new_tokens=new_tokens,
        do_sample=False,
        num_beams=1,
        pad_token_id=ends[0] if ends else 0,
        return_dict_in_generate=True,
        **options,
    )


def _ends(model: Any) -> list[int]:
    """The model's own ends of a text."""
    end = model.generation_config.eos_token_id
    return [*end] if isinstance(end, list) else [] if end is None else [end]


class _GumbelNoise(LogitsProcessor):
    """A stream of noise per row: the largest of logits / temperature + noise is a sample."""

    def __init__(self, generators: Sequence[np.random.Generator], temperature: float) -> None:
        self._generators = generators
        self._temperature = temperature

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        noise = np.stack(
            [generator.gumbel(size=scores.shape[-1]) for generator in self._generators]
        )
        return scores.float() / self._temperature + torch.from_numpy(noise).to(
            scores.device, torch.float32
        )  # type: ignore[return-value]


HALF = (torch.bfloat16, torch.float16)


@contextmanager
def in_float32(model: Any) -> Iterator[None]:
    """Let a model compute so within the block, see `can_be_exact`."""
    held: list[list[tuple[torch.Tensor, torch.Tensor]]] = []

    def cast(module: Any, _: Any) -> None:
        own = [
            weight
            for weight in (*module.parameters(recurse=False), *module.buffers(recurse=False))
            if weight.dtype in HALF
        ]
        held.append([(weight, weight.data) for weight in own])
        for weight in own:
            weight.data = weight.data.float()

    def put_back(*_: Any) -> None:
        for weight, kept in held.pop():
            weight.data = kept

    owners = [
        module
        for module in model.modules()
        if [*module.parameters(recurse=False), *module.buffers(recurse=False)]
    ]
    hooks = [module.register_forward_pre_hook(cast) for module in owners]
    hooks += [module.register_forward_hook(put_back, always_call=True) for module in owners]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        while held:
            put_back()


def can_be_exact(model: Any, row: Tokens, device: torch.device) -> bool:
    """Whether a model in half precision computes in float32 when it is asked to; parts written for
    one number format cannot.
    """
    # of half precision, and none are quantised
    is_half = model.dtype in HALF and all(
        weight.is_floating_point() for weight in model.parameters()
    )
    if not is_half:
        return False
    try:
        with torch.inference_mode(), in_float32(model):
            return bool(
                model(input_ids=torch.tensor([row], device=device)).logits.dtype == torch.float32
            )
    except Exception:  # noqa: BLE001 - a model of any kind may fail in any way
        return False
