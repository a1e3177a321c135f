"""Reading many token sequences in padded batches, for models that cannot share beginnings: how
rows are laid out, which are read together, and what becomes of a batch that memory does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np
import torch

from dpicl.ground.errors import ModelError
from dpicl.models.requests import Tokens

Item = TypeVar("Item")
Result = TypeVar("Result")
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "ALLOC_FAILED")
Places = list[tuple[int, int]]
"""Row and position of every logit vector."""
PlacedLogits = Iterator[tuple[Places, torch.Tensor]]
Layout = Literal["padded", "unplaced", "equal", "alone"]
"""What is read together: rows padded on the left, with their positions or without; rows of equal
length only; or one row at a time.
"""
READ_AS: dict[Layout, str] = {
    "padded": "padded batches",
    "unplaced": "padded batches, without positions",
    "equal": "batches of equal length",
    "alone": "one prompt at a time",
}
EXACT = 1e-3
"""What rounding may do in float32."""
LAYOUTS: tuple[Layout, ...] = tuple(READ_AS)
"""The faster ones first; `alone` is what transformers itself does with one prompt."""


@dataclass(frozen=True)
class ReadingMode:
    """How a model is read; `reading_mode.find` finds out.

    Args:
        options: what its forward pass takes beside tokens.
        apart: rows of up to so many tokens are read apart from longer ones, for which the model
            turns its positions otherwise.
    """

    layout: Layout = "padded"
    options: frozenset[str] = frozenset({"logits_to_keep", "use_cache"})
    apart: int | None = None

    @property
    def pads(self) -> bool:
        """Whether rows of different lengths may stand together."""
        return self.layout in ("padded", "unplaced")

    def alike(self, length: int) -> int:
        """Equal for lengths of rows that may be read together."""
        return int(self.is_apart(length)) if self.pads else length

    def is_apart(self, length: int) -> bool:
        """Whether the model turns the positions of so long a row otherwise."""
        return self.apart is not None and length > self.apart


@dataclass(frozen=True)
class LoadedModel:
    """A causal language model as it is read.

    Args:
        device: where tokens go to, and logits come back from.
        token_budget: tokens of a forward pass; a longer row is read alone.
        mode: how it may be read.
    """

    model: Any
    device: torch.device
    token_budget: int
    mode: ReadingMode = field(default=ReadingMode(), kw_only=True)

    def on_device(self, numbers: Any) -> torch.Tensor:
        """Whole numbers, a list of them or an array, where the model is."""
        return torch.as_tensor(numbers, device=self.device)


def read_padded(
    loaded: LoadedModel, rows: Sequence[Tokens], wanted: Sequence[Sequence[int]]
) -> PlacedLogits:
    """Logits at the wanted positions of every row, in no particular order.

    Yields:
        Places and their logits, shape (places, vocabulary), on the device.

    Raises:
        ModelError: memory does not suffice for one row.
    """
    mode = loaded.mode

    @torch.inference_mode()
    def read(batch: Sequence[int]) -> tuple[Places, torch.Tensor]:
        padded = pad_left([rows[row] for row in batch])
        places = [(row, position) for row in batch for position in wanted[row]]
        lines = [line for line, row in enumerate(batch) for _ in wanted[row]]
        from_end = [position - len(rows[row]) for row, position in places]
        options: dict[str, Any] = {"logits_to_keep": -min(from_end, default=-1), "use_cache": False}
        options = {name: value for name, value in options.items() if name in mode.options}
        if mode.pads:
            options["attention_mask"] = loaded.on_device(padded.mask)
        if mode.layout == "padded":
            options["position_ids"] = loaded.on_device(padded.positions)
        logits = loaded.model(input_ids=loaded.on_device(padded.tokens), **options).logits
        return places, logits[lines, from_end].to(loaded.device)

    for batch in plan_batches(
        [len(row) for row in rows], 0 if mode.layout == "alone" else loaded.token_budget, mode.alike
    ):
        yield from run_with_oom_retry(batch, read)


def tolerance_of(model: Any) -> float:
    """What rounding may do to logits, absolutely and relatively, where a model is read in two
    ways.
    """
    return EXACT if model.dtype == torch.float32 else 0.1


def run_with_oom_retry(
    items: Sequence[Item], attempt: Callable[[Sequence[Item]], Result]
) -> Iterator[Result]:
    """The results of all pieces, in order: one that does not fit the memory is halved, the others
    are left alone.

    Raises:
        ModelError: a single item does not fit.
    """
    waiting = [items]
    while waiting:
        piece = waiting.pop()
        try:
            result = attempt(piece)
        except RuntimeError as error:
            if not isinstance(error, torch.OutOfMemoryError) and not any(
                text in str(error) for text in _OUT_OF_MEMORY
            ):
                raise
        else:
            yield result
            continue
        # not in the handler: the error would keep the failed attempt's tensors alive
        if len(piece) == 1:
            raise ModelError(
                "memory does not suffice for one prompt; expected a smaller model, dtype bfloat16 "
                "or shorter prompts"
            )
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        middle = len(piece) // 2
        waiting += [piece[middle:], piece[:middle]]


@dataclass(frozen=True)
class Row:
    """One sequence to read, and what it predicts.

    `predicted` has, for every position whose prediction is needed, pairs of a continuation's
    index and the token that it puts next.
    """

    prompt: int
    tokens: Tokens
    predicted: Mapping[int, tuple[tuple[int, int], ...]]


def rows_of(
    prompt: int, prompt_tokens: Tokens, continuations: Sequence[Tokens], mode: ReadingMode
) -> list[Row]:
    """The rows that score these continuations: one per distinct forced part that begins no
    other which the model reads in the same way.
    """
    longest: dict[Tokens, Tokens] = {}
    for forced in sorted({tokens[:-1] for tokens in continuations}, reverse=True):
        # what a part begins stands after it in this order's reverse
        following = next(reversed(longest.values()), ())
        is_apart, other = (mode.is_apart(len(prompt_tokens + part)) for part in (forced, following))
        begins = following[: len(forced)] == forced and is_apart == other
        longest[forced] = following if begins else forced
    predicted: dict[Tokens, dict[int, tuple[tuple[int, int], ...]]] = {}
    last = len(prompt_tokens) - 1
    for index, tokens in enumerate(continuations):
        places = predicted.setdefault(longest[tokens[:-1]], {})
        for step, token in enumerate(tokens):
            places[last + step] = (*places.get(last + step, ()), (index, token))
    return [Row(prompt, prompt_tokens + forced, places) for forced, places in predicted.items()]


def plan_batches(
    lengths: Sequence[int], token_budget: int, alike: Callable[[int], Hashable] = lambda length: 0
) -> list[list[int]]:
    """Group indices so that count x longest stays within the budget, padding included.

    Longest first, so that memory that does not suffice shows at once; equal lengths keep
    their order. An item that is longer than the budget stands alone.

    Args:
        alike: lengths for which it is equal may stand together.
    """
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda item: -lengths[item]):
        longest = lengths[batches[-1][0]] if batches else 0
        if (
            batches
            and (len(batches[-1]) + 1) * longest <= token_budget
            and alike(lengths[index]) == alike(longest)
        ):
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


@dataclass(frozen=True)
class PaddedBatch:
    """Rows padded on the left to the same width: three int64 arrays of shape (rows, width).

    Padding has token 0, mask 0 and position 0; the last column is every row's last token.
    """

    tokens: np.ndarray
    mask: np.ndarray
    positions: np.ndarray


def pad_left(rows: Sequence[Tokens]) -> PaddedBatch:
    """Pad rows on the left; which token fills the gap is irrelevant, because it is masked."""
    width = max(map(len, rows))
    tokens = np.zeros((len(rows), width), dtype=np.int64)
    mask = np.zeros((len(rows), width), dtype=np.int64)
    for line, row in enumerate(rows):
        tokens[line, width - len(row) :] = row
        mask[line, width - len(row) :] = 1
    return PaddedBatch(tokens, mask, (mask.cumsum(axis=1) - 1).clip(0))
