"""Text from a local model: greedy or sampled, in batches that never change what a prompt gets.

Sampling adds Gumbel noise to the logits and takes the largest, which is a draw from the
softmax; each place in the list has a stream of noise of its own, so that a text does not
depend on the batch.

A model of half precision that computes in float32: to tell what a way of reading does from what
rounding does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Literal

import numpy as np
import torch
from transformers import LogitsProcessor, LogitsProcessorList

from dpicl.ground.randomness import stream
from dpicl.models.local.padded_reader import (
    EXACT,
    ReadingMode,
    pad_left,
    plan_batches,
    read_padded,
    run_with_oom_retry,
    tolerance_of,
)
from dpicl.models.requests import Tokens, before_stop

_PROBED = 4
"""Tokens that are written to see whether they follow."""
Writing = Literal["together", "alone", "anew"]
"""How texts are written: by transformers, several at once or one by one; or by reading everything
anew for each token.
"""


def find_writing(
    model: Any,
    rows: Sequence[Tokens],
    mode: ReadingMode,
    *,
    token_budget: int,
    device: torch.device,
) -> Writing:
    """The fastest way of writing in which every token follows from what plain reading gives.

    Args:
        rows: public ones, of several lengths.
    """
    limits: dict[str, Any] = {"device": device, "token_budget": token_budget, "mode": mode}
    if mode.pads and _follows(model, rows, limits):  # transformers counts positions by itself here
        return "together"
    return "alone" if all(_follows(model, [row], limits) for row in rows) else "anew"


def generate(
    model: Any,
    tokenizer: Any,
    rows: Sequence[Tokens],
    *,
    new_tokens: int,
    stop: Sequence[str],
    temperature: float,
    seed: int,
    token_budget: int,
    device: torch.device,
    mode: ReadingMode,
    writing: Writing,
) -> list[str]:
    """What follows every row, up to a stop string, the model's own end or `new_tokens`.

    Args:
        temperature: 0 takes the likeliest token.
        seed: of the noise; public, as texts from released demonstrations are.

    Raises:
        ModelError: memory does not suffice for one row.
    """
    options: dict[str, Any] = {"stop_strings": list(stop), "tokenizer": tokenizer} if stop else {}

    def noise_of(batch: Sequence[int]) -> _GumbelNoise:
        return _GumbelNoise(
            [stream(seed, "generate", "", str(row)).generator() for row in batch], temperature
        )

    @torch.inference_mode()
    def write(batch: Sequence[int]) -> dict[int, str]:
        processor = LogitsProcessorList([noise_of(batch)]) if temperature else None
        output = _written(
            model,
            [rows[row] for row in batch],
            new_tokens,
            device,
            logits_processor=processor,
            **options,
        )
        texts = tokenizer.batch_decode(
            output.sequences[:, max(len(rows[row]) for row in batch) :], skip_special_tokens=True
        )
        return {row: before_stop(text, stop) for row, text in zip(batch, texts, strict=True)}

    @torch.inference_mode()
    def write_anew(batch: Sequence[int]) -> dict[int, str]:
        (row,) = batch
        noise, ends, written, text = noise_of(batch), _ends(model), Tokens(), ""
        while (
            len(written) < new_tokens
            and not (written and written[-1] in ends)
            and not any(mark in text for mark in stop)
        ):
            whole = [rows[row] + written]
            ((_, logits),) = read_padded(
                model,
                whole,
                [(len(whole[0]) - 1,)],
                device=device,
                token_budget=token_budget,
                mode=mode,
            )
            scores = noise(whole, logits) if temperature else logits  # type: ignore[arg-type]
            written += (int(scores[0].argmax()),)
            text = tokenizer.decode(list(written), skip_special_tokens=True)
        return {row: before_stop(text, stop)}

    texts: dict[int, str] = {}
    lengths = [len(row) + new_tokens for row in rows]
    # of what is kept, positions would not be turned otherwise once a text is longer
    anew = [row for row, length in enumerate(lengths) if writing == "anew" or mode.is_apart(length)]
    kept = sorted({*range(len(rows))} - {*anew})
    batches = plan_batches(
        [lengths[row] for row in kept], token_budget if writing == "together" else 0
    )
    for batch, attempt in [
        *(([kept[place] for place in batch], write) for batch in batches),
        *(([row], write_anew) for row in anew),
    ]:
        for written in run_with_oom_retry(batch, attempt):
            texts |= written
    return [texts[row] for row in range(len(rows))]


def _follows(model: Any, rows: Sequence[Tokens], limits: Mapping[str, Any]) -> bool:
    """Whether the logits of every token that transformers writes are those of plain reading; of a
    model in half precision, in float32 if it can.
    """
    exact = can_be_exact(model, rows[0], limits["device"])
    tolerance = EXACT if exact else tolerance_of(model)
    try:
        with torch.inference_mode(), in_float32(model) if exact else nullcontext():
            output = _written(
                model, rows, _PROBED, limits["device"], output_logits=True, min_new_tokens=_PROBED
            )
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
                for places, part in read_padded(model, whole, wanted, **limits)
                for (row, place), logits in zip(places, part, strict=True)
            )
    except Exception:  # noqa: BLE001 - a model of any kind may fail in any way
        return False


def _written(
    model: Any, rows: Sequence[Tokens], new_tokens: int, device: torch.device, **options: Any
) -> Any:
    """What transformers writes, greedily; see its `generate`."""
    padded, end = pad_left(rows), model.generation_config.eos_token_id
    return model.generate(
        input_ids=torch.as_tensor(padded.tokens, device=device),
        attention_mask=torch.as_tensor(padded.mask, device=device),
        max_new_tokens=new_tokens,
        do_sample=False,
        num_beams=1,
        pad_token_id=end[0] if isinstance(end, list) else (end or 0),
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
        self._generators, self._temperature = generators, temperature

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        noise = np.stack(
            [generator.gumbel(size=scores.shape[-1]) for generator in self._generators]
        )
        return scores.float() / self._temperature + torch.from_numpy(noise).to(
            scores.device, torch.float32
        )  # type: ignore[return-value]


HALF = (torch.bfloat16, torch.float16)


def is_half(model: Any) -> bool:
    """Whether its weights are of half precision, and none are quantised."""
    return model.dtype in HALF and all(weight.is_floating_point() for weight in model.parameters())


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
    if not is_half(model):
        return False
    try:
        with torch.inference_mode(), in_float32(model):
            return bool(
                model(input_ids=torch.tensor([row], device=device)).logits.dtype == torch.float32
            )
    except Exception:  # noqa: BLE001 - a model of any kind may fail in any way
        return False
