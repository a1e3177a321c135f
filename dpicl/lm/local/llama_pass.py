"""A Llama's pass over a packed row on a CPU, by its own weights, without what nobody asks for.

A small model's time goes to many small steps between its products. Here the last layer works for
the tokens that are asked for alone, positions are turned in place, and no module is called. Weights
are laid out once as oneDNN multiplies by them, which a product otherwise does anew each time.
`reading_mode.find` takes it where it gives what plain prompts give.

    h <- E[tokens];  for every layer:   h <- h + O attend(R Q n(h), R K n(h), V n(h));   h <- h + D
                     (silu(G n(h)) U n(h))
    logits = L n(h)

Symbols     n root-mean-square norm, R turns by positions, Q K V O G U D L weights of transformers'
            `LlamaForCausalLM`.
"""

from __future__ import annotations

from typing import Any, Self

import torch
from torch.nn.functional import embedding, linear, rms_norm, silu
from transformers import LlamaForCausalLM

from dpicl.lm.local.tree_attention import Plan

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
        self.model, self._layers, self._config = model, list(model.model.layers), model.config
        self._parts = list(model.modules())
        small = sum(weight.nbytes for weight in model.parameters()) <= LAID_OUT_BYTES
        self._lays_out, self._laid_out = small and torch._C._has_mkldnn, dict[Any, torch.Tensor]()
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

    def __call__(
        self,
        plan: Plan,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        wanted: torch.Tensor,
        among: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """See `tree_reader.Pass`."""
        model, asked = self.model.model, plan.asked
        hidden = embedding(tokens, model.embed_tokens.weight)
        cos, sin = (table[positions] for table in self._tables(plan.longest))
        for number, layer in enumerate(self._layers):
            normed, attention = _normed(layer.input_layernorm, hidden), layer.self_attn
            key = _turned(self._heads(self._times(normed, attention.k_proj)), cos, sin)
            value = self._heads(self._times(normed, attention.v_proj))
            if number == plan.last:
                hidden, normed, cos, sin = hidden[asked], normed[asked], cos[asked], sin[asked]
            query = _turned(self._heads(self._times(normed, attention.q_proj)), cos, sin)
            attend = plan.attend_last if number == plan.last else plan.attend
            attended = (
                attend(query, plan.bank(number, (key, value)), attention.scaling)[0]
                .transpose(0, 1)
                .flatten(1)
            )
            hidden = hidden + self._times(attended, attention.o_proj)
            normed, mlp = _normed(layer.post_attention_layernorm, hidden), layer.mlp
            gate = silu(self._times(normed, mlp.gate_proj)).mul_(self._times(normed, mlp.up_proj))
            hidden = hidden + self._times(gate, mlp.down_proj)
        places = torch.searchsorted(asked, wanted)
        states, head = _normed(model.norm, hidden[places]), self.model.lm_head
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
            positions, rotary = torch.arange(2 * longest).unsqueeze(0), self.model.model.rotary_emb
            cos, sin = rotary(self.model.lm_head.weight, positions)
            half = cos.shape[-1] // 2
            self._turns = turns = cos[0, :, :half].contiguous(), sin[0, :, :half].contiguous()
        return turns


def _normed(norm: Any, hidden: torch.Tensor) -> torch.Tensor:
    return rms_norm(hidden, hidden.shape[-1:], norm.weight, norm.variance_epsilon)


def _turned(states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """R: the halves of every head turned against each other."""
    turned, half = torch.empty_like(states), states.shape[-1] // 2
    one, other = states[..., :half], states[..., half:]
    torch.mul(one, cos, out=turned[..., :half]).addcmul_(other, sin, value=-1)
    torch.mul(other, cos, out=turned[..., half:]).addcmul_(one, sin)
    return turned
