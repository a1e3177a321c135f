"""Sizes of the bundled model, and how each is trained."""

from __future__ import annotations

from dataclasses import dataclass

from dpicl.ground.errors import ParameterError


@dataclass(frozen=True)
class Preset:
    """A model and its training.

    Attributes:
        hidden: width of the residual stream, a multiple of three and of the heads.
        layers, heads, head_width, inner: of the Llama architecture, at least four layers and eight
            heads; `inner` is the width between the two MLP products.
        vocabulary: tokens, to which those of `numbers.NUMBERS` are added.
        context: tokens of a prompt at most.
        tokenizer_texts: how many tasks the tokenizer is trained on.
        step_tokens: tokens of one optimiser step at least; one task more at most.
        batch_tokens: of them, tokens that are computed at once, padding counted; one task at least.
        round_steps: steps between two looks at the curriculum, and the unit that is resumed.
        learning_rate: of AdamW after warm-up.
        held_out_tasks: per kind of prompt, in an evaluation.
        generators: processes that make tasks beside the one that trains.
    """

    name: str
    hidden: int
    layers: int
    heads: int
    head_width: int
    inner: int
    vocabulary: int
    context: int
    tokenizer_texts: int
    step_tokens: int
    batch_tokens: int
    round_steps: int
    learning_rate: float
    held_out_tasks: int
    generators: int


PRESETS = {
    preset.name: preset
    for preset in (
        Preset("smoke", 48, 4, 8, 16, 48, 768, 8192, 150, 1536, 1024, 2, 2e-3, 6, 0),
        Preset("cpu", 192, 4, 8, 40, 192, 4096, 8192, 3000, 6144, 4096, 10, 1e-3, 400, 1),
        Preset("gpu", 240, 6, 8, 40, 320, 4096, 8192, 3000, 65536, 65536, 50, 1e-3, 400, 15),
    )
}


def preset_of(name: str) -> Preset:
    """The preset of this name.

    Raises:
        ParameterError: there is none.
    """
    if name not in PRESETS:
        raise ParameterError("preset", name, f"one of {', '.join(PRESETS)}")
    return PRESETS[name]
