"""Public text to train the tokenizer of the tiny model on: every contract's own wording."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from dpicl.contract import Contract, TextContract
from dpicl.contract.models import CategoryColumn
from dpicl.errors import DpiclError
from dpicl.tabular.serialize import ANSWERS, CUE
from dpicl.text.prompts import asking_demonstration, asking_prompt, header_piece, instruction_piece
from tasks.settings import Kind, Settings


def public_corpus(settings: Settings) -> list[str]:
    """Templates, texts and questions of all contracts that can be read, with digits and both answers."""
    numbers = " ".join(f"{n}" for n in range(1000))
    tables = (text for contract in _readable(settings.contract, settings.contract_names()) for text in _texts(contract))
    texts = (text for contract in _readable(settings.texts, settings.text_names()) for text in _prompts(contract))
    return [numbers, *tables, *texts]


def _readable(read: Callable[[str], Kind], names: Iterable[str]) -> Iterator[Kind]:
    """The contracts but those that break a rule, as one does that is not filled in: it is told of where it is used."""
    for name in names:
        with suppress(DpiclError):
            yield read(name)


def _prompts(contract: TextContract) -> list[str]:
    labels = [contract.label_text(label) for label in contract.demonstrated]
    asked = [asking_prompt(contract, (), asking_demonstration(contract, contract.description, label)) for label in labels or ["."]]
    if contract.prompts.generation is None:
        return asked
    return [instruction_piece(contract), *(header_piece(contract, label) for label in labels), *asked]


def _texts(contract: Contract) -> list[str]:
    words = [
        text for template in (contract.prompts.local, contract.prompts.central) for word in template.words.values() for text in word.texts
    ]
    columns = [
        column.texts.get(c, c) for column in contract.columns.values() if isinstance(column, CategoryColumn) for c in column.categories
    ]
    attributes = [text for attribute in contract.local for text in attribute.texts]
    bodies = [contract.prompts.local.text, contract.prompts.central.text, *words, *columns, *attributes]
    return bodies + [f"{contract.label.question} {CUE} {answer}" for answer in ANSWERS for _ in range(8)]
