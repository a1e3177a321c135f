"""How a model may be read, found by reading it: one plain prompt at a time, as transformers does,
is what every faster way must agree with.

Models attend in ways of their own: a state that runs through padding, positions that they count
themselves, a bias by distance, a window. None of it is looked up. A way of reading that gives other
numbers is not taken, and a model that no way reads rightly is refused, before anything is charged.

It is found once, and kept by the digest of the model's files, of the program and of the packages
that read it.

Not covered what differs only in prompts that are longer than the probe's, but for windows and
positions that the config states.
"""

from __future__ import annotations

import inspect
import json
import platform
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter

from dpicl.ground.cache import cache_folder, kept_sha256
from dpicl.ground.errors import ModelError, RunError
from dpicl.ground.files import sha256_of, write_whole
from dpicl.models.local.generation import Writing, can_be_exact, in_float32
from dpicl.models.local.model_files import FETCHED
from dpicl.models.local.packed_rows import NAME, LlamaPass
from dpicl.models.local.padded_reader import (
    EXACT,
    LAYOUTS,
    LoadedModel,
    PlacedLogits,
    ReadingMode,
    read_padded,
    tolerance_of,
)
from dpicl.models.local.tree_reader import Pass, read_shared
from dpicl.models.requests import Tokens

PROBE_TEXT = (
    "The quick brown fox jumps over the lazy dog; 7 of 12 answered Yes, and 3 said No. Was it so? "
    "Answer: Yes.\n" * 24
)
_LONGEST = 100
_LONGEST_WITH_WINDOW = 320
_WINDOWS = (
    "sliding_window",
    "attention_window_size",
    "attention_chunk_size",
    "window_size",
    "local_attention",
    "sliding_window_size",
)
_SELECTED = ("index_topk", "indexer_budget", "keep_window_size")
_GROWING_ROPES = ("dynamic", "longrope")
_BUDGET = 128
_WHOLE = 4096
"""Tokens at once: several batches of the probe, or one."""
_ANY = 1e6
_NEAR = 0.6
"""A tolerance that finds no fault; and a share of the spread of logits: other ways of reading that
are wrong differ by it all, or by little.
"""
Place = tuple[int, int]


@dataclass(frozen=True)
class ModelReading:
    """How a model is read: rows in this mode, whether shared beginnings are read once, and whether
    by a faster pass than transformers' own.
    """

    mode: ReadingMode
    shares: bool
    own_pass: bool

    def applied(self, model: Any) -> bool:
        """Let a model attend so from here on; whether it does."""
        return not self.shares or _attend(model, NAME)


def find(
    model: Any, name: str, probe: Tokens, device: torch.device, *, share: bool
) -> ModelReading:
    """How a model is read; it attends so from here on.

    Args:
        probe: tokens of a public text, as many as `probe_length` says.
        share: whether sharing is wanted at all.

    Raises:
        ModelError: it cannot be read, or its answer does not follow from what stands before it.
    """
    rows = probe_rows(probe)
    options = frozenset(inspect.signature(model.forward).parameters)
    apart = _apart(model.config)
    reference = _reference(
        model, name, rows, {"use_cache": False} if "use_cache" in options else {}, device
    )
    modes = [
        *(ReadingMode(layout, options, apart) for layout in LAYOUTS),
        ReadingMode("alone", frozenset()),
    ]
    own = model.config.get_text_config()._attn_implementation
    for attention in (NAME, own) if share else (own,):
        if not _attend(model, attention) or (attention == NAME and not reference.shares()):
            continue
        for mode in modes:
            loaded = LoadedModel(model, device, _BUDGET, mode=mode)
            if reference.agrees(partial(read_padded, loaded, rows, _wanted(rows))):
                shares = attention == NAME
                own_pass = LlamaPass.of(model)
                has_own = shares and own_pass is not None and reference.shares(own_pass)
                return ModelReading(mode, shares, has_own)
    raise ModelError(
        f"model {name!r} is a {type(model).__name__} that answers the same prompt in several "
        f"ways; expected another model"
    )


@dataclass(frozen=True)
class _Reference:
    """What every way of reading must agree with: `plain`, closely, of a model in half precision in
    float32, whose rounding hides no mistake.

    Args:
        own: what plain prompts give in the model's own number format, where that is another one; a
            way must be near it.
    """

    model: Any
    device: torch.device
    rows: Sequence[Tokens]
    plain: dict[Place, torch.Tensor]
    own: dict[Place, torch.Tensor] | None

    def agrees(self, read: Callable[[], PlacedLogits]) -> bool:
        """Whether a way of reading gives what plain prompts give; any failure says no."""
        if self.own is None:
            return _all(read, self.plain, partial(_close, tolerance=tolerance_of(self.model)))
        with in_float32(self.model):
            exact = _all(read, self.plain, _close)
        return exact and _all(read, self.own, _near)

    def shares(self, own_pass: Pass | None = None) -> bool:
        """Whether a tree gives it too: in short batches, which remember, and in one, which fills
        several blocks of a GPU.

        Args:
            own_pass: in place of transformers' own.
        """
        wanted = _wanted(self.rows)
        return all(
            self.agrees(partial(read_shared, loaded, self.rows, wanted, own_pass=own_pass))
            for loaded in (
                LoadedModel(self.model, self.device, budget) for budget in (_BUDGET, _WHOLE)
            )
        )


def _reference(
    model: Any, name: str, rows: Sequence[Tokens], options: dict[str, Any], device: torch.device
) -> _Reference:
    """A model that cannot compute in float32 is taken as it is, with room for rounding."""
    read = partial(_plain, model, name, rows, options, device)
    if not can_be_exact(model, rows[0], device):
        return _Reference(model, device, rows, read(tolerance_of(model)), None)
    own = read(_ANY)
    with in_float32(model):
        return _Reference(model, device, rows, read(EXACT), own)


def probe_length(config: Any) -> int:
    """So many tokens show what a model does with padding, with beginnings, and at the end of a
    window that is not wide.
    """
    text = config.get_text_config()
    windows = [
        value
        for name in _WINDOWS
        for value in [getattr(text, name, None)]
        if isinstance(value, int) and value > 0
    ]
    wanted = max(
        [_LONGEST, *(value + 32 for value in windows if value + 32 <= _LONGEST_WITH_WINDOW)]
    )
    limits = [value for value in (context_of(config), _apart(config)) if value is not None]
    return min([wanted, *limits])


def context_of(config: Any) -> int | None:
    """Most tokens that a model reads; beyond what is meant to be read, some answer differently from
    one time to the next.

    Dynamic positions follow from what was read before, and of the tokens that sparse attention
    selects, equal ones follow from chance.
    """
    text = config.get_text_config()
    limits = [getattr(text, name, None) for name in ("max_position_embeddings", *_SELECTED)]
    limits += [
        rope.get("original_max_position_embeddings")
        for rope in _ropes(text)
        if rope.get("rope_type") == "dynamic"
    ]
    return min((limit for limit in limits if isinstance(limit, int) and limit > 0), default=None)


def _apart(config: Any) -> int | None:
    """The length beyond which a model turns all positions of a prompt otherwise."""
    text = config.get_text_config()
    stated = [
        rope.get("original_max_position_embeddings")
        for rope in _ropes(text)
        if rope.get("rope_type") in _GROWING_ROPES
    ]
    return min((int(length) for length in stated if length), default=None)


def _ropes(config: Any) -> list[dict[str, Any]]:
    """What a config says of its rotary positions, for all layers or for each kind of them."""
    stated = getattr(config, "rope_parameters", None)
    stated = stated if isinstance(stated, dict) else {}
    return [stated, *(rope for rope in stated.values() if isinstance(rope, dict))]


def probe_rows(probe: Tokens) -> tuple[Tokens, ...]:
    """Rows of several lengths, short ones first, of which some share a short beginning and two a
    long one, which is kept while they are read.
    """
    end = len(probe)
    long = probe[2 : 2 + 4 * end // 5]
    rows = [
        *(probe[:length] for length in (3, end // 8, end // 2)),
        probe,
        long + probe[: end // 8],
        long + probe[4 : end // 6],
    ]
    return tuple(dict.fromkeys(row[:end] for row in rows if row))


def _wanted(rows: Sequence[Tokens]) -> list[tuple[int, ...]]:
    """Places in the middle and at the end."""
    return [tuple({len(row) - 1, len(row) // 2}) for row in rows]


def _plain(
    model: Any,
    name: str,
    rows: Sequence[Tokens],
    options: dict[str, Any],
    device: torch.device,
    tolerance: float,
) -> dict[Place, torch.Tensor]:
    """What transformers itself gives at the wanted places; a prompt that ends there must give the
    same, and so must the last one again.
    """

    def read(row: Tokens) -> torch.Tensor:
        logits: torch.Tensor = model(
            input_ids=torch.tensor([row], device=device), **options
        ).logits[0]
        if logits.ndim != 2 or len(logits) != len(row):
            raise ValueError(logits.shape)
        return logits.float().to(device)

    kind = f"model {name!r} is a {type(model).__name__}"
    try:
        with torch.inference_mode():
            whole = [read(row) for row in rows]
            middles = [read(row[: len(row) // 2 + 1])[-1] for row in rows]
            before = _chance(device)
            again = read(rows[-1])
            drawn = not torch.equal(before, _chance(device))
    except Exception as error:  # noqa: BLE001 - a model of any kind may fail in any way
        reason = type(error).__name__
        raise ModelError(
            f"{kind}, which does not read a plain prompt ({reason}); expected a decoder-only "
            f"language model"
        ) from None
    if not all(bool((logits[-1] < float("inf")).all()) for logits in whole):
        raise ModelError(
            f"model {name!r} answered with numbers that are not finite; expected dtype float32 or "
            f"bfloat16"
        )
    if drawn:
        raise ModelError(
            f"{kind} that draws at random while it reads; expected a model whose answers follow "
            f"from the prompt"
        )
    follows = all(
        _close(logits[len(row) // 2], middle, tolerance)
        for row, logits, middle in zip(rows, whole, middles, strict=True)
    )
    if not (follows and _close(again, whole[-1], tolerance)):
        raise ModelError(
            f"{kind}, whose answer depends on more than what stands before it; expected a model "
            f"that reads from left to right"
        )
    return {
        (row, place): whole[row][place]
        for row, places in enumerate(_wanted(rows))
        for place in places
    }


def _chance(device: torch.device) -> torch.Tensor:
    """The state of what a model would draw from."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _all(
    read: Callable[[], PlacedLogits],
    plain: dict[Place, torch.Tensor],
    alike: Callable[[torch.Tensor, torch.Tensor], bool],
) -> bool:
    """Whether all places are read, alike; any failure says no."""
    try:
        found = {
            place: row
            for places, part in read()
            for place, row in zip(places, part.float(), strict=True)
        }
    except Exception:  # noqa: BLE001 - as above
        return False
    return found.keys() == plain.keys() and all(
        alike(found[place], plain[place]) for place in plain
    )


def _close(row: torch.Tensor, plain: torch.Tensor, tolerance: float = EXACT) -> bool:
    return row.shape == plain.shape and bool(
        torch.allclose(row, plain, rtol=tolerance, atol=tolerance)
    )


def _near(row: torch.Tensor, plain: torch.Tensor) -> bool:
    """Rounding makes a few hundredths of the spread, and tenths where it sends a token to another
    expert.
    """
    return row.shape == plain.shape and bool(
        (row - plain).square().mean().sqrt() <= _NEAR * plain.std()
    )


def _attend(model: Any, attention: str) -> bool:
    """Let a model attend so, where it lets itself be told."""
    try:
        model.set_attn_implementation(attention)
    except Exception:  # noqa: BLE001 - as above
        return False
    return bool(model.config.get_text_config()._attn_implementation == attention)


_PACKAGES = ("accelerate", "numpy", "tokenizers", "torch", "transformers")


@dataclass(frozen=True)
class Findings:
    """How a model is read and how it writes, as far as it was found."""

    reading: ModelReading | None
    writing: Writing | None


_FINDINGS = TypeAdapter(Findings)


class KeptCheck:
    """What was found of one model; where a cache cannot be written nothing is kept.

    Args:
        folder: the model's files.
        asked: what else the finding goes by: number format, device and the like.
    """

    def __init__(self, folder: Path, *asked: str) -> None:
        files = sorted(
            {path for pattern in FETCHED for path in folder.glob(pattern) if path.is_file()}
        )
        parts = [*asked, *_program(), *(f"{path.name} {kept_sha256(path)}" for path in files)]
        self._place: Path | None = None
        self.found = Findings(None, None)
        with suppress(RunError, OSError, ValueError):
            self._place = cache_folder("checks") / f"{sha256_of(json.dumps(parts))}.json"
            self.found = _FINDINGS.validate_json(self._place.read_bytes())

    def keep(self, found: Findings) -> None:
        """Keep it for the next time."""
        self.found = found
        if self._place is not None:
            content = _FINDINGS.dump_json(found)
            with suppress(OSError):
                write_whole(self._place, content, replace=True, named_later=True)


@cache
def _program() -> tuple[str, ...]:
    """The files of this program that read models, the packages that they call, and what this
    machine computes with.
    """
    ours = [
        path
        for folder in (Path(__file__).parent, Path(__file__).parent.parent)
        for path in sorted(folder.glob("*.py"))
    ]
    return (
        *(sha256_of(path.read_bytes()) for path in ours),
        *(f"{name} {_version(name)}" for name in _PACKAGES),
        (
            f"{platform.python_version()} {platform.machine()} "
            f"{torch.backends.cpu.get_cpu_capability()} {torch.version.cuda}"
        ),
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
