"""A Llama's pass over a packed row on a CPU, by its own weights, without what nobody asks for.

A small model's time goes to many small steps between its products. Here the last layer works for the tokens that are asked for
alone, positions are turned in place, and no module is called. `reading_mode.find` takes it where it gives what plain
prompts give.

    h <- E[tokens];  for every layer:   h <- h + O attend(R Q n(h), R K n(h), V n(h));   h <- h + D (silu(G n(h)) U n(h))
    logits = L n(h)

Symbols     n root-mean-square norm, R turns by positions, Q K V O G U D L weights of transformers' `LlamaForCausalLM`.
"""

from __future__ import annotations

from typing import Any, Self

import torch
from torch.nn.functional import embedding, linear, rms_norm, silu
from transformers import LlamaForCausalLM

from dpicl.lm.local.tree_attention import Plan

_TURNS = ("default", "llama3")
"""Kinds of rotary positions that a token's position alone decides, whatever else is read."""


class LlamaPass:
    """See `of`; the weights are the model's own and no copies. A part that is put in later is not seen: a model stays as it was loaded."""

    def __init__(self, model: Any) -> None:
        self.model, self._layers, self._config = model, list(model.model.layers), model.config
        self._parts = list(model.modules())
        self._turns: tuple[torch.Tensor, torch.Tensor] | None = None

    @classmethod
    def of(cls, model: Any) -> Self | None:
        """The pass of a model; None where it is of another kind, has biases, computes in another format, or is not on a CPU."""
        config = model.config
        if type(model) is not LlamaForCausalLM or model.dtype != torch.float32 or model.device.type != "cpu":
            return None
        is_plain = not (config.attention_bias or config.mlp_bias) and config.hidden_act == "silu"
        return cls(model) if is_plain and config.rope_parameters["rope_type"] in _TURNS else None

    @property
    def is_watched(self) -> bool:
        """See `tree_reader.Pass`."""
        return any(part._forward_pre_hooks or part._forward_hooks for part in self._parts)

    def __call__(self, plan: Plan, tokens: torch.Tensor, positions: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """See `tree_reader.Pass`."""
        model, asked = self.model.model, plan.asked
        hidden = embedding(tokens, model.embed_tokens.weight)
        cos, sin = (table[positions] for table in self._tables(plan.longest))
        for number, layer in enumerate(self._layers):
            normed, attention = _normed(layer.input_layernorm, hidden), layer.self_attn
            key = _turned(self._heads(linear(normed, attention.k_proj.weight)), cos, sin)
            value = self._heads(linear(normed, attention.v_proj.weight))
            if number == plan.last:
                hidden, normed, cos, sin = hidden[asked], normed[asked], cos[asked], sin[asked]
            query = _turned(self._heads(linear(normed, attention.q_proj.weight)), cos, sin)
            attend = plan.attend_last if number == plan.last else plan.attend
            attended = attend(query, plan.bank(number, (key, value)), attention.scaling)[0].transpose(0, 1).flatten(1)
            hidden = hidden + linear(attended, attention.o_proj.weight)
            normed, mlp = _normed(layer.post_attention_layernorm, hidden), layer.mlp
            gate = silu(linear(normed, mlp.gate_proj.weight)).mul_(linear(normed, mlp.up_proj.weight))
            hidden = hidden + linear(gate, mlp.down_proj.weight)
        places = torch.searchsorted(asked, wanted)
        return linear(_normed(model.norm, hidden[places]), self.model.lm_head.weight)

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
