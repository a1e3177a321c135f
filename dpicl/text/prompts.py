"""Prompts over texts: those that write demonstrations, and those that ask queries.

Paper       DP few-shot generation (arXiv 2309.11765): tables 5 and 6 (writing), 7 and 8 (asking,
            after Zhao et al. 2021, whose content-free texts these are).

Pieces of a prompt for writing are made tokens one by one, so that none depends on another:

    instruction_piece  example_piece ... example_piece  header_piece
"""

from __future__ import annotations

from collections.abc import Sequence

from dpicl.contract.text import GenerationPrompt, TextContract
from dpicl.errors import ParameterError

CONTENT_FREE = ("N/A", "", "[MASK]")
"""Texts without content; the empty one leaves the blank after the text's word, as in the program of
Zhao et al.
"""

PUBLIC_TEXT = "A text that nobody has shown me."
"""In place of a private one, where a model is probed whether it answers at all."""


def instruction_piece(contract: TextContract) -> str:
    """What a prompt for writing begins with; public."""
    return f"{_generation_words(contract).instruction}\n\n"


def example_piece(contract: TextContract, text: str, label_text: str) -> str:
    """One private text with its label."""
    words = _generation_words(contract)
    return f"{words.label}: {label_text}\n{words.text}: {text}\n\n"


def header_piece(contract: TextContract, label_text: str) -> str:
    """What a prompt for writing ends with; the new text follows, after a blank."""
    words = _generation_words(contract)
    return f"{words.label}: {label_text}\n{words.text}:"


def _generation_words(contract: TextContract) -> GenerationPrompt:
    words = contract.prompts.generation
    if words is None:
        raise ParameterError(
            "prompts.generation",
            "missing",
            f"the words for writing demonstrations: {contract.name} has none",
        )
    return words


def asking_demonstration(contract: TextContract, text: str, label_text: str) -> str:
    """A text with its answer."""
    return f"{asking_query(contract, text)} {label_text}"


def asking_query(contract: TextContract, text: str) -> str:
    """A text whose answer follows, after a blank."""
    words = contract.prompts.answering
    return f"{words.text}: {text}\n{words.answer}:"


def keywords_query(contract: TextContract, text: str, keywords: Sequence[str]) -> str:
    """A text whose answer is to use some words; without any it is `asking_query`."""
    words = contract.prompts.answering
    if not keywords or words.keywords is None:
        return asking_query(contract, text)
    return f"{words.text}: {text}\n{words.keywords}: {', '.join(keywords)}\n{words.answer}:"


def asking_prompt(contract: TextContract, demonstrations: Sequence[str], query: str) -> str:
    """One prompt; no demonstrations give the zero-shot prompt."""
    instruction = contract.prompts.answering.instruction
    return "\n\n".join([*([instruction] if instruction else []), *demonstrations, query])


def continuations(contract: TextContract) -> tuple[str, ...]:
    """What is scored after a prompt: one answer per label, in the contract's order.

    Raises:
        ParameterError: the answers are open.
    """
    if not contract.is_classification:
        raise ParameterError(
            "task", contract.task.kind, "classification, whose answers are a public list"
        )
    return tuple(f" {contract.label_text(label)}" for label in contract.demonstrated)
