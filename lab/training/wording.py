"""Sentences around the values of a row: templates such as a contract's, of random words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lab.training.columns import Column, PartsColumn
from lab.training.words import word, words

_PRONOUNS = (("It", "Its"), ("He", "His"), ("She", "Her"), ("They", "Their"))
_NOUNS = (
    "The {n} of the {e} is {v}",
    "{His} {n} is {v}",
    "{His} {n} is {v}",
    "The {n} is {v}",
    "{He} has {n} {v}",
    "The {e} has {n} {v}",
)
_LONG_NOUNS = (
    "The {n} of this {e} is estimated to be {v} {u}",
    "{His} {n} was measured to be {v} {u}",
    "The {e} was {n} {v} times",
    "{He} had a total of {v} {n} per {u}",
    "There are {v} {n} in the {e} with {u}",
    "The {n} for this {e} in {u} of the {w} is {v}",
    "{He} has had {v} {n} {u} ago for the last {w}",
)
_VERBS = ("{He} {v}", "{He} {v}", "The {e} {v}", "This {e} {v}", "The {n} {v}")
_BEGINNINGS = (
    "",
    "",
    "A {e} is described as follows:",
    "The following describes the {w} of a {e}.",
    "A {e} recorded in the {w} is described as follows:",
    "A {e} at a {w} has these attributes according to the {u}.",
    "In a {w} of {u},",
)
_QUESTIONS = (
    "Is this {e} {w}?",
    "Does this {e} {w}?",
    "Does the {e} {w} a {u}?",
    "Did the {e} {w} in {u}?",
    "Will it {w}?",
    "Does this {e} have {u} {w}?",
)


@dataclass(frozen=True)
class Wording:
    """A template with a place `{c0}`, `{c1}`, … per column, and the question after it."""

    template: str
    question: str


def wording(rng: np.random.Generator, columns: tuple[Column, ...], *, wordy: float) -> Wording:
    """Sentences for these columns, in their order.

    Args:
        rng: public randomness.
        columns: what the places hold.
        wordy: 0 for the shortest sentences, 1 for such as the papers' templates have.
    """
    entity = words(rng, 1, 2) if rng.random() < wordy / 2 else word(rng)
    he, his = _PRONOUNS[rng.integers(len(_PRONOUNS))]
    sentences = [
        _sentence(rng, column, f"{{c{index}}}", entity, wordy)
        .replace("{He}", he)
        .replace("{His}", his)
        for index, column in enumerate(columns)
    ]
    beginning = _BEGINNINGS[rng.integers(len(_BEGINNINGS))] if rng.random() < wordy else ""
    begun = _filled(rng, beginning, entity, wordy)
    question = _QUESTIONS[rng.integers(len(_QUESTIONS))]
    return Wording(
        f"{begun} {_joined(rng, sentences)}".strip(), _filled(rng, question, entity, wordy)
    )


def _sentence(
    rng: np.random.Generator, column: Column, place: str, entity: str, wordy: float
) -> str:
    forms: tuple[str, ...] = _LONG_NOUNS if rng.random() < wordy * 0.6 else _NOUNS
    if isinstance(column, PartsColumn) and column.phrase:
        forms = _VERBS
    return _filled(rng, forms[rng.integers(len(forms))].replace("{v}", place), entity, wordy)


def _filled(rng: np.random.Generator, form: str, entity: str, wordy: float) -> str:
    most = 1 + int(3 * wordy)
    for mark in ("{n}", "{u}", "{w}"):
        if mark in form:
            form = form.replace(mark, words(rng, 1, most))
    return form.replace("{e}", entity)


def _joined(rng: np.random.Generator, sentences: list[str]) -> str:
    """Sentences with full stops, here and there two joined by a comma or a word."""
    text = sentences[0]
    for sentence in sentences[1:]:
        link = rng.random()
        text += (
            f". {sentence}"
            if link < 0.8
            else (f", {_small(sentence)}" if link < 0.87 else f" and {_small(sentence)}")
        )
    return f"{text}."


def _small(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]
