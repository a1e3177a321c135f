"""Attention over a prefix tree: one packed row without padding, shared beginnings read once.

It is registered with transformers as the attention `dpicl_tree`, and outside of `reading` it is
plain scaled-dot-product attention. On a CPU a row attends by blocks, in small products whose parts
stay in its cache (`ByBlocks`); on a GPU in one call for each layer, which leaves out what no query
may see (`ByMask`). A Llama on a CPU is read by its weights alone, without what nobody asks for
(`LlamaPass`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import embedding, linear, pad, rms_norm, silu
from transformers import AttentionInterface, AttentionMaskInterface, LlamaForCausalLM
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

Pair = tuple[torch.Tensor, torch.Tensor]
"""Keys or outputs with their values or logarithms: (1, heads, tokens, width) each, the latter (1,
heads, tokens).
"""


@dataclass(frozen=True)
class Block:
    """Queries `start:stop` of one segment, where in the bank their own keys begin, and where their
    earlier keys stand.
    """

    start: int
    stop: int
    own: int
    before: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class ByBlocks:
    """See `Attend`; all blocks attend to the first `trunk` tokens of the bank."""

    blocks: Sequence[Block]
    trunk: int

    def __call__(self, query: torch.Tensor, bank: Pair, scaling: float | None) -> torch.Tensor:
        """Every block to itself and its own path; then all of them to the trunk."""
        repeats = query.shape[1] // bank[0].shape[1]
        if repeats > 1:
            bank = (bank[0].repeat_interleave(repeats, 1), bank[1].repeat_interleave(repeats, 1))
        output = torch.empty_like(query)
        logs = torch.empty(query.shape[:3], dtype=torch.float32)
        for block in self.blocks:
            part = query[:, :, block.start : block.stop]
            attended = _attend(
                part, bank, block.own, block.own + block.stop - block.start, scaling, causal=True
            )
            for start, stop in block.before:
                attended = _merged(attended, _attend(part, bank, start, stop, scaling))
            output[:, :, block.start : block.stop], logs[:, :, block.start : block.stop] = attended
        # PyTorch divides by the number of queries: of none the process would die
        if not self.trunk or not query.shape[2]:
            return output
        return _merged((output, logs), _attend(query, bank, 0, self.trunk, scaling))[0]


def _attend(
    query: torch.Tensor,
    bank: Pair,
    start: int,
    stop: int,
    scaling: float | None,
    *,
    causal: bool = False,
) -> Pair:
    """Attention to a part of the bank, and the logarithms of its softmax sums, which PyTorch's
    public function does not return.
    """
    keys, values = (stored[:, :, start:stop] for stored in bank)
    output, logs = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, keys, values, is_causal=causal, scale=scaling
    )
    return output, logs


def _merged(attended: Pair, more: Pair) -> Pair:
    """What is attended to in two parts of the bank, from what is attended to in each."""
    output, logs = attended
    other, other_logs = more
    share = torch.sigmoid(other_logs - logs).unsqueeze(-1).to(output.dtype)
    return torch.lerp(output, other, share), torch.logaddexp(logs, other_logs)


NAME = "dpicl_tree"
Attend = Callable[[torch.Tensor, Pair, float | None], torch.Tensor]
"""From queries, a bank of keys and values, whose heads may be fewer, and the scale of their
products, to what is attended.
"""


class NotShareable(Exception):
    """This model attends in a way that a tree cannot give, such as through a window."""


@dataclass(frozen=True)
class PackedRow:
    """One packed row, and how it attends.

    Args:
        tokens, positions: shape (tokens,); positions are below `longest`.
        attend: in all layers but the last, which has the number `last`.
        attend_last: in the last layer, of the tokens `asked` alone.
        asked: places in the row, ascending, shape (asked,).
        wanted: places whose logits are wanted, ascending, each of them asked.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    attend: Attend
    attend_last: Attend
    asked: torch.Tensor
    wanted: torch.Tensor
    last: int
    longest: int

    def bank(self, layer: int, row: Pair) -> Pair:
        """Keys and values that a layer attends to, by those of this row, which may be kept."""
        raise NotImplementedError


@dataclass(frozen=True)
class Reading(PackedRow):
    """A row of a tree: what is remembered from earlier rows, and what to remember.

    The bank of keys is the remembered ones, then this row's; `kept` are the ranges of it that go to
    `remembered`, layer by layer, and `keep` is told of this row's.
    """

    memory: Mapping[int, Pair]
    kept: Sequence[tuple[int, int]]
    keep: Callable[[int, Pair], None] | None = None
    remembered: dict[int, Pair] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)

    def bank(self, layer: int, row: Pair) -> Pair:
        """Keys and values that a layer attends to: what is remembered, then this row's; what is to
        be remembered of them is kept.
        """
        if self.keep is not None:
            self.keep(layer, row)
        bank = row
        if layer in self.memory:
            keys, values = self.memory[layer]
            bank = (torch.cat((keys, row[0]), 2), torch.cat((values, row[1]), 2))
        if self.kept:  # copied, so that nothing else of the bank stays in memory
            keys, values = (
                torch.cat([stored[:, :, start:stop] for start, stop in self.kept], 2)
                for stored in bank
            )
            self.remembered[layer] = keys, values
        return bank


_READING: ContextVar[Reading | None] = ContextVar("reading", default=None)


@contextmanager
def reading(plan: Reading) -> Iterator[None]:
    """Let the model's attention follow this plan."""
    token = _READING.set(plan)
    try:
        yield
    finally:
        _READING.reset(token)


def _tree_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """The signature that transformers calls: (1, heads, tokens, width) in, (1, tokens, heads,
    width) out.
    """
    plan = _READING.get()
    if plan is None:
        plain: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **options
        )
        return plain
    window = options.get("sliding_window")
    if (
        (window is not None and window < plan.longest)
        or options.get("softcap") is not None
        or options.get("s_aux") is not None
    ):
        raise NotShareable
    layer = int(module.layer_idx)
    if layer in plan.seen:  # one layer attends twice, and has no place for what both must remember
        raise NotShareable
    plan.seen.add(layer)
    bank = plan.bank(layer, (key, value))
    if layer < plan.last:
        return plan.attend(query, bank, scaling).transpose(1, 2), None
    output = torch.zeros_like(query)
    if len(plan.asked):
        asked = plan.asked.to(query.device)  # of several, the last layer's
        output[:, :, asked] = plan.attend_last(query[:, :, asked], bank, scaling)
    return output.transpose(1, 2), None


def _mask(*arguments: Any, **options: Any) -> torch.Tensor | None:
    """A plan needs no mask; everything else gets the usual one."""
    return None if _READING.get() else sdpa_mask(*arguments, **options)


AttentionInterface.register(NAME, _tree_attention)
AttentionMaskInterface.register(NAME, _mask)
BLOCK = 128
"""Queries are filled up to a multiple of so many."""
_KINDS = 64
"""Compiled at most, of number formats, grouped heads, batches of one block and of many; beyond,
torch would compute each score apart, and not say so.
"""


@dataclass(frozen=True)
class ByMask:
    """See `Attend`.

    Args:
        segments: of every token of the bank, which holds ancestors before their descendants.
        ends: of each such segment, the number after its last descendant's.
        places: of every query in the bank.
    """

    segments: torch.Tensor
    ends: torch.Tensor
    places: torch.Tensor
    _masks: dict[torch.device, Any] = field(default_factory=dict)

    def __call__(self, query: torch.Tensor, bank: Pair, scaling: float | None) -> torch.Tensor:
        """Every token to its path, up to itself."""
        if query.device not in self._masks:  # of several devices, each has some of the layers
            self._masks[query.device] = self._mask(query.device)
        mask = self._masks[query.device]
        grouped = query.shape[1] > bank[0].shape[1]
        asked = query.shape[2]
        filled = pad(query, (0, 0, 0, -asked % BLOCK))
        key, value = (part.contiguous() for part in bank)  # other strides would be compiled anew
        with torch.compiler.config.patch(recompile_limit=_KINDS):  # type: ignore[attr-defined]
            attended: torch.Tensor = _kernel(query.device.type)(
                filled.contiguous(), key, value, block_mask=mask, scale=scaling, enable_gqa=grouped
            )
        return attended[:, :, :asked]

    def _mask(self, device: torch.device) -> Any:
        filled = torch.cat([self.places, self.places[-1:].expand(-len(self.places) % BLOCK)])
        segments, ends, places = (
            numbers.to(device) for numbers in (self.segments, self.ends, filled)
        )

        def allowed(_: Any, __: Any, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
            place = places[query]
            return (
                (segments[key] <= segments[place]) & (segments[place] < ends[key]) & (key <= place)
            )

        return create_block_mask(
            allowed, None, None, len(places), len(segments), device=str(device)
        )


@cache
def _kernel(kind: str) -> Callable[..., Any]:
    """On a CPU, where nothing but tests comes here, it is not compiled."""
    plain: Callable[..., Any] = flex_attention
    return plain if kind == "cpu" else torch.compile(plain, dynamic=True)


_TURNS = ("default", "llama3")
"""Kinds of rotary positions that a token's position alone decides, whatever else is read."""
LAID_OUT_BYTES = 1 << 30
"""Of weights that are held twice; those of larger models are multiplied by as they are."""
_LEAST_PRODUCTS = 1 << 21
"""Of numbers: for fewer, the call of oneDNN takes longer than it spares."""
_ROWS = 64
"""What the layout is for; it hardly depends on it."""


class LlamaPass:
    """See `of`. A part that is put in later is not seen: a model stays as it was loaded."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self._layers = list(model.model.layers)
        self._config = model.config
        self._parts = list(model.modules())
        small = sum(weight.nbytes for weight in model.parameters()) <= LAID_OUT_BYTES
        self._lays_out = small and torch._C._has_mkldnn
        self._laid_out = dict[Any, torch.Tensor]()
        self._turns: tuple[torch.Tensor, torch.Tensor] | None = None

    @classmethod
    def of(cls, model: Any) -> Self | None:
        """The pass of a model; None where it is of another kind, has biases, computes in another
        format, or is not on a CPU.
        """
        config = model.config
        if (
            type(model) is not LlamaForCausalLM
            or model.dtype != torch.float32
            or model.device.type != "cpu"
        ):
            return None
        is_plain = not (config.attention_bias or config.mlp_bias) and config.hidden_act == "silu"
        return cls(model) if is_plain and config.rope_parameters["rope_type"] in _TURNS else None

    @property
    def is_watched(self) -> bool:
        """See `tree_reader.Pass`."""
        return any(part._forward_pre_hooks or part._forward_hooks for part in self._parts)

    def __call__(self, row: PackedRow, among: torch.Tensor | None = None) -> torch.Tensor:
        """See `tree_reader.Pass`."""
        model = self.model.model
        asked = row.asked
        hidden = embedding(row.tokens, model.embed_tokens.weight)
        cos, sin = (table[row.positions] for table in self._tables(row.longest))
        for number, layer in enumerate(self._layers):
            normed = _normed(layer.input_layernorm, hidden)
            attention = layer.self_attn
            key = _turned(self._heads(self._times(normed, attention.k_proj)), cos, sin)
            value = self._heads(self._times(normed, attention.v_proj))
            if number == row.last:
                hidden = hidden[asked]
                normed = normed[asked]
                cos = cos[asked]
                sin = sin[asked]
            query = _turned(self._heads(self._times(normed, attention.q_proj)), cos, sin)
            attend = row.attend_last if number == row.last else row.attend
            attended = (
                attend(query, row.bank(number, (key, value)), attention.scaling)[0]
                .transpose(0, 1)
                .flatten(1)
            )
            hidden = hidden + self._times(attended, attention.o_proj)
            normed = _normed(layer.post_attention_layernorm, hidden)
            mlp = layer.mlp
            gate = silu(self._times(normed, mlp.gate_proj)).mul_(self._times(normed, mlp.up_proj))
            hidden = hidden + self._times(gate, mlp.down_proj)
        states = _normed(model.norm, hidden[torch.searchsorted(asked, row.wanted)])
        head = self.model.lm_head
        return self._times(states, head) if among is None else linear(states, head.weight[among])

    def _times(self, states: torch.Tensor, part: Any) -> torch.Tensor:
        """A linear layer's product."""
        if not self._lays_out or len(states) * part.weight.numel() < _LEAST_PRODUCTS:
            return linear(states, part.weight)
        if part not in self._laid_out:
            self._laid_out[part] = torch.ops.mkldnn._reorder_linear_weight(
                part.weight.detach(), _ROWS
            )
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            states, self._laid_out[part], None, "none", [], ""
        )
        return product

    def _heads(self, states: torch.Tensor) -> torch.Tensor:
        """From (tokens, heads of some width) to (1, heads, tokens, width)."""
        width = self._config.head_dim
        return states.view(1, len(states), states.shape[1] // width, width).transpose(1, 2)

    def _tables(self, longest: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines by position, shape (positions, half a width)."""
        turns = self._turns
        if turns is None or len(turns[0]) < longest:
            positions = torch.arange(2 * longest).unsqueeze(0)
            cos, sin = self.model.model.rotary_emb(self.model.lm_head.weight, positions)
            half = cos.shape[-1] // 2
            self._turns = turns = cos[0, :, :half].contiguous(), sin[0, :, :half].contiguous()
        return turns


def _normed(norm: Any, hidden: torch.Tensor) -> torch.Tensor:
    return rms_norm(hidden, hidden.shape[-1:], norm.weight, norm.variance_epsilon)


def _turned(states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """R: the halves of every head turned against each other."""
    turned = torch.empty_like(states)
    half = states.shape[-1] // 2
    first = states[..., :half]
    second = states[..., half:]
    torch.mul(first, cos, out=turned[..., :half]).addcmul_(second, sin, value=-1)
    torch.mul(second, cos, out=turned[..., half:]).addcmul_(first, sin)
    return turned
