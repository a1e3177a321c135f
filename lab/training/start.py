"""The weights that training begins with: numbers in their order, and heads that already look back,
compare, pool and match.

Random heads find the way from a value in a row to that row's label only after tens of
millions of tokens. Here the first four layers begin near a known way to vote by similarity, in the
spirit of mimetic initialisation (Trockman and Kolter 2023, arXiv 2305.09828); all weights are then
trained.

    0  look back    a token learns the four before it                          E -> P
    1  centre       minus the mean of tokens after the same words              E -> E
       bind         SwiGLU multiplies what stands before with what differs     P x E -> S
    2  pool         the mean over the row so far                               S -> S
    3  match        the answer of rows that are alike is copied                S, E -> E

Which row a token belongs to is told by a code: the phase of the distance from the first token to
the line break before the token, in sigmoids (layer 0), copied to the row's tokens (layer 1).

Symbols     E, P, S thirds of the residual stream: the token, the words before it, the row's
            content; the last coordinates of S hold the code, of the token itself and of its row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import LlamaForCausalLM

from dpicl.ground.randomness import stream

NOISE = 0.004
_LOOK_BACK = ((1.0, 0.05, 1.0), (2.0, 0.05, 0.8), (3.5, 0.2, 0.6), (6.5, 0.5, 0.5))
"""Of heads that look back: how far, at which slowest speed of the highest (the slower, the wider),
and their weight.
"""
_CODE_PERIODS = (86.0, 320.0)
"""Tokens after which the codes of rows come round again: a few short rows, and a few long ones."""
_HELD = 27.0
"""Score by which a token attends to itself where it computes its code."""


CODES = 4
"""Coordinates of a row's code: a cosine and a sine for each period."""
CODE_GAIN = 10.0


@dataclass(frozen=True)
class Scale:
    """Tokens with an order: their places on a line, and the distances within which they are
    alike.
    """

    tokens: tuple[int, ...]
    places: tuple[float, ...]
    widths: tuple[float, ...]


@dataclass(frozen=True)
class Marks:
    """Tokens that shape a prompt: the start, the line break between rows, the cue before answers,
    and numbers by size.
    """

    start: int
    line_break: int
    cue: int
    numbers: Scale


class Wiring:
    """Writes the beginning into a model's layers; head widths and thirds follow from its
    configuration.
    """

    def __init__(self, model: Any, seed: int, marks: Marks) -> None:
        config = model.config
        self.model, self.marks = model, marks
        self.heads, self.width = config.num_attention_heads, config.head_dim
        self.third = config.hidden_size // 3
        self.rng = stream(seed, "start", "bundled", "wiring").generator()
        self.speeds = config.rope_parameters["rope_theta"] ** (
            -np.arange(self.width // 2) / (self.width // 2)
        )
        slow = np.flatnonzero(self.speeds < 1e-3)
        self.slow = np.concatenate([slow, slow + self.width // 2])
        """Coordinates of a head that hardly turn over a prompt: what they compare does not depend
        on the distance.
        """

    def random(self, rows: int, columns: int) -> np.ndarray:
        """A random projection that keeps lengths on average: shape (rows, columns)."""
        return self.rng.normal(size=(rows, columns)) / math.sqrt(columns)

    def in_order(self, scale: Scale) -> np.ndarray:
        """Embeddings along a smooth curve: what is near on the scale is alike, so that it can be
        compared; shape (tokens, third).
        """
        gap = np.subtract.outer(scale.places, scale.places)
        likeness = np.mean([np.exp(-((gap / width) ** 2) / 2) for width in scale.widths], axis=0)
        own = 0.05 * np.eye(len(gap))
        curve = np.linalg.cholesky(0.95 * likeness + own) @ self.rng.normal(
            size=(len(gap), self.third)
        )
        curve -= curve.mean(axis=0)
        return np.asarray(curve * math.sqrt(self.third / np.square(curve).sum(axis=1).mean()))

    def part(self, name: str) -> slice:
        """Where E, P or S stands in the residual stream."""
        return slice("EPS".index(name) * self.third, ("EPS".index(name) + 1) * self.third)

    def rows(self, head: int) -> slice:
        """Where a head's coordinates stand."""
        return slice(head * self.width, (head + 1) * self.width)

    def at_distance(self, layer: int, head: int, distance: float, gains: np.ndarray) -> None:
        """Biases that make a head attend `distance` back; gains per rotary speed, shape (width /
        2,).
        """
        attention, half = self.model.model.layers[layer].self_attn, self.width // 2
        size = np.sqrt(gains * math.sqrt(self.width))
        turned = self.speeds * distance
        _put(
            attention.q_proj.bias,
            (self.rows(head),),
            np.concatenate([size * np.cos(turned), -size * np.sin(turned)]),
        )
        _put(attention.k_proj.bias, (self.rows(head),), np.concatenate([size, np.zeros(half)]))

    def carry(
        self, layer: int, head: int, read: np.ndarray, write: np.ndarray, source: str, target: str
    ) -> None:
        """What a head moves: `read` (width, third) of `source`, then `write` (third, width) to
        `target`.
        """
        attention = self.model.model.layers[layer].self_attn
        _put(attention.v_proj.weight, (self.rows(head), self.part(source)), read)
        _put(attention.o_proj.weight, (self.part(target), self.rows(head)), write)

    def compare(self, layer: int, head: int, source: str, gain: float) -> None:
        """Attend to tokens with the same `source`, at any distance."""
        attention = self.model.model.layers[layer].self_attn
        same = np.zeros((self.width, self.third))
        same[self.slow] = gain * self.random(len(self.slow), self.third)
        if source == "S":
            same[:, -2 * CODES :] = 0
        for projection in (attention.q_proj, attention.k_proj):
            _put(projection.weight, (self.rows(head), self.part(source)), same)

    def after(self, token: int) -> np.ndarray:
        """What P holds of the token just before, for this one: a direction of length 1, shape
        (third,).
        """
        attention, embedding = (
            self.model.model.layers[0].self_attn,
            self.model.model.embed_tokens.weight,
        )
        read = attention.v_proj.weight[self.rows(0), self.part("E")]
        write = attention.o_proj.weight[self.part("P"), self.rows(0)]
        direction = (
            (write @ read @ embedding[token, self.part("E")]).detach().numpy().astype(np.float64)
        )
        return np.asarray(direction / np.linalg.norm(direction))

    def direction(self, token: int) -> np.ndarray:
        """What tells a token in E: a direction of length 1, over its own length, shape (third,)."""
        row = (
            self.model.model.embed_tokens.weight.data[token, self.part("E")]
            .numpy()
            .astype(np.float64)
        )
        return np.asarray(row / (row @ row) / math.sqrt(3))

    def same_code(self, layer: int, head: int) -> None:
        """Attend to tokens of the same row."""
        attention, places = self.model.model.layers[layer].self_attn, self.slow[:CODES]
        rows = self.rows(head).start + places
        for projection, gain in ((attention.q_proj, CODE_GAIN), (attention.k_proj, 1.0)):
            for code, row in enumerate(rows):
                projection.weight.data[row, self.part("S").stop - 2 * CODES + code] += gain

    def prefer(self, layer: int, head: int, direction: np.ndarray, gain: float) -> None:
        """Attend to tokens whose P lies in a direction, whatever asks."""
        attention, coordinate = self.model.model.layers[layer].self_attn, int(self.slow[-1])
        coordinates = slice(
            self.rows(head).start + coordinate, self.rows(head).start + coordinate + 1
        )
        for projection in (attention.q_proj, attention.k_proj):
            projection.weight.data[coordinates] = 0
        _put(attention.k_proj.weight, (coordinates, self.part("P")), direction[None])
        _put(attention.q_proj.bias, (coordinates,), np.array([gain]))

    def spare_answers(self, layer: int, head: int) -> None:
        """Answers attend to the start alone here: what they are must not be taken off them."""
        attention, coordinate = (
            self.model.model.layers[layer].self_attn,
            self.rows(head).start + int(self.slow[-1]),
        )
        place = slice(coordinate, coordinate + 1)
        for projection in (attention.q_proj, attention.k_proj):
            projection.weight.data[place] = 0
        _put(
            attention.q_proj.weight,
            (place, self.part("P")),
            60.0 * self.after(self.marks.cue)[None],
        )
        _put(
            attention.k_proj.weight, (place, self.part("E")), self.direction(self.marks.start)[None]
        )

    def bind(self, layer: int, gain: float) -> None:
        """S gets products of random projections of P and E."""
        mlp = self.model.model.layers[layer].mlp
        count = mlp.gate_proj.weight.shape[0]
        # answers are no part of a row's content
        closed = np.outer(np.ones(count), self.after(self.marks.cue))
        _put(
            mlp.gate_proj.weight,
            (slice(None), self.part("P")),
            1.5 * self.random(count, self.third) - 0.7 * closed,
        )
        _put(mlp.up_proj.weight, (slice(None), self.part("E")), self.random(count, self.third))
        write = gain * self.random(self.third, count)
        write[-2 * CODES :] = 0
        _put(mlp.down_proj.weight, (self.part("S"), slice(None)), write)


def _put(weight: torch.Tensor, place: tuple[slice, ...], values: np.ndarray) -> None:
    weight.data[place] += torch.from_numpy(values).to(weight.dtype)


def wired(model: LlamaForCausalLM, *, seed: int, marks: Marks) -> LlamaForCausalLM:
    """The model with its beginning written into it; the model has at least eight heads."""
    _noise(model, seed)
    wiring = Wiring(model, seed, marks)
    embedding = np.zeros((model.config.vocab_size, model.config.hidden_size))
    embedding[:, wiring.part("E")] = wiring.rng.normal(size=(model.config.vocab_size, wiring.third))
    embedding[marks.numbers.tokens, wiring.part("E")] = wiring.in_order(marks.numbers)
    _put(model.model.embed_tokens.weight, (slice(None),), embedding)
    _put(model.lm_head.weight, (slice(None),), embedding / math.sqrt(wiring.third))
    _look_back(wiring)
    _code(wiring)
    _centre(wiring)
    _tell_row(wiring)
    wiring.bind(1, gain=0.6)
    _pool(wiring)
    _match(wiring)
    return model


def _noise(model: LlamaForCausalLM, seed: int) -> None:
    generator = stream(seed, "start", "bundled", "noise").generator()
    for name, weight in sorted(model.named_parameters()):
        if weight.dim() == 2:
            weight.data = torch.from_numpy(
                generator.normal(scale=NOISE, size=tuple(weight.shape))
            ).to(weight.dtype)
        else:
            weight.data.fill_(1.0 if "norm" in name else 0.0)


def _look_back(wiring: Wiring) -> None:
    for head, (distance, width, weight) in enumerate(_LOOK_BACK):
        seen = (wiring.speeds > 0.01) & (wiring.speeds < 1.5 - 2 * width * (width > 0.1))
        wiring.at_distance(0, head, distance, np.where(seen, 8.0, 0.0))
        read, write = (
            wiring.random(wiring.width, wiring.third),
            wiring.random(wiring.third, wiring.width),
        )
        wiring.carry(0, head, read, weight * write, "E", "P")


def _code(wiring: Wiring) -> None:
    """Layer 0, a head per code: attend to oneself or to the start, by the phase of the distance
    between them.
    """
    attention = wiring.model.model.layers[0].self_attn
    start = wiring.direction(wiring.marks.start)
    near = np.where(wiring.speeds > 0.05, 1.0, 0.0)
    for code in range(CODES):
        head = len(_LOOK_BACK) + code
        turning = int(np.abs(wiring.speeds - 2 * math.pi / _CODE_PERIODS[code // 2]).argmin())
        wiring.at_distance(0, head, 0, _HELD * near / near.sum())
        rows, half = wiring.rows(head), wiring.width // 2
        key = -attention.k_proj.bias.data[rows].numpy().astype(np.float64)
        key[[turning, int(wiring.slow[0])]] += 1.0
        asked = np.zeros(wiring.width)
        asked[wiring.slow[0]] = _HELD * math.sqrt(wiring.width)
        phase = code % 2 * math.pi / 2
        asked[turning], asked[turning + half] = (
            2.2 * math.sqrt(wiring.width) * part for part in (math.cos(phase), math.sin(phase))
        )
        _put(attention.q_proj.bias, (rows,), asked)
        _put(attention.k_proj.weight, (rows, wiring.part("E")), np.outer(key, start))
        read = np.zeros((wiring.width, wiring.third))
        read[0] = start
        write = np.zeros((wiring.third, wiring.width))
        write[-CODES + code, 0] = 4.0
        wiring.carry(0, head, read, write, "E", "S")


def _centre(wiring: Wiring) -> None:
    for head, coordinates in enumerate(_centred(wiring)):
        wiring.compare(1, head, "P", gain=1.8)
        own = np.zeros((wiring.width, wiring.third))
        own[np.arange(len(coordinates)), coordinates] = 0.6
        wiring.spare_answers(1, head)
        wiring.carry(1, head, own, -3.4 * own.T, "E", "E")


def _centred(wiring: Wiring) -> list[np.ndarray]:
    """Coordinates of E that each head of layer 1 centres: two heads, or as many as hold them
    all.
    """
    return np.array_split(np.arange(wiring.third), max(2, math.ceil(wiring.third / wiring.width)))


def _tell_row(wiring: Wiring) -> None:
    """Layer 1: every token gets the code of the line break before it, or of the start."""
    head = len(_centred(wiring))
    attention = wiring.model.model.layers[1].self_attn
    wiring.at_distance(
        1, head, 0, np.where((wiring.speeds < 0.02) & (wiring.speeds > 5e-4), 15.0, 0.0)
    )
    breaks = wiring.direction(wiring.marks.line_break) + wiring.direction(wiring.marks.start)
    last = slice(
        wiring.rows(head).start + int(wiring.slow[-1]),
        wiring.rows(head).start + int(wiring.slow[-1]) + 1,
    )
    _put(attention.k_proj.weight, (last, wiring.part("E")), breaks[None])
    _put(attention.q_proj.bias, (last,), np.array([60.0 * math.sqrt(wiring.width)]))
    read, write = np.zeros((wiring.width, wiring.third)), np.zeros((wiring.third, wiring.width))
    read[:CODES, -CODES:] = np.eye(CODES)
    write[-2 * CODES : -CODES, :CODES] = 2.0 * np.eye(CODES)
    _put(
        attention.v_proj.bias,
        (slice(wiring.rows(head).start, wiring.rows(head).start + CODES),),
        np.full(CODES, -2.2),
    )
    wiring.carry(1, head, read, write, "S", "S")


def _pool(wiring: Wiring) -> None:
    """Layer 2: the mean of S over tokens with the same code, the nearer the likelier."""
    for head in (0, 1):
        wiring.at_distance(
            2, head, 0, np.where((wiring.speeds < 0.02) & (wiring.speeds > 5e-4), 5.0, 0.0)
        )
        wiring.same_code(2, head)
        read, write = (
            wiring.random(wiring.width, wiring.third),
            12.0 * wiring.random(wiring.third, wiring.width),
        )
        read[:, -2 * CODES :], write[-2 * CODES :] = 0, 0
        wiring.carry(2, head, read, write, "S", "S")


def _match(wiring: Wiring) -> None:
    """Layer 3: attend to answers of rows with a like content, and copy them."""
    mark = wiring.after(wiring.marks.cue)
    for head in range(wiring.heads):
        wiring.compare(3, head, "S", gain=2.0)
        wiring.prefer(3, head, mark, gain=10.0)
        read = wiring.random(wiring.width, wiring.third)
        wiring.carry(3, head, read, read.T, "E", "E")
