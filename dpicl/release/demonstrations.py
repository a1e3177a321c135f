"""Demonstrations of a release: texts with their answers, in the forms that models take.

Guarantee   none spent: their texts were released.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dpicl.ground.errors import DpiclError

FORMS = ("jsonl", "text", "chat", "alpaca", "sharegpt")
_ASKED = "Write one record."
"""In the place of a question about a row that has no label."""


@dataclass(frozen=True)
class Demonstrations:
    """Texts with their answers, in the order of a prompt.

    Attributes:
        pairs: a text that ends in the question, and its answer; the answer is empty where the table
            has no label.
        question: what every text ends in.
        origin: contract, method and epsilon, for a line of JSON.
        instruction: what a model is told first; empty where the question says all.
        between: what parts demonstrations in a prompt.
    """

    pairs: tuple[tuple[str, str], ...]
    question: str
    origin: Mapping[str, Any]
    instruction: str = ""
    between: str = "\n"

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def _turns(self) -> list[tuple[str, str]]:
        """What is asked and what is answered: where the table has no label, the text itself."""
        return [(text, answer) if answer else (_ASKED, text) for text, answer in self.pairs]

    def text(self) -> str:
        """What a completion model is shown: a demonstration a line."""
        return self.between.join(f"{text} {answer}".rstrip() for text, answer in self.pairs)

    def chat(self) -> list[dict[str, str]]:
        """Turns of a chat: the user asks, the assistant answers."""
        return [
            {"role": role, "content": content}
            for text, answer in self.pairs
            for role, content in (("user", text), ("assistant", answer))
        ]

    def alpaca(self) -> list[dict[str, str]]:
        """Records of instruction, input and output."""
        told = self.instruction or self.question
        return [
            {
                "instruction": told.removesuffix(" Answer:") or asked,
                "input": asked.removesuffix(self.question or asked).rstrip(),
                "output": answer,
            }
            for asked, answer in self._turns
        ]

    def sharegpt(self) -> list[dict[str, list[dict[str, str]]]]:
        """A conversation of each demonstration."""
        return [
            {"conversations": [{"from": "human", "value": asked}, {"from": "gpt", "value": answer}]}
            for asked, answer in self._turns
        ]

    def jsonl(self) -> str:
        """A line of JSON each: text, answer and where they are from; `dpicl ask --demos` reads
        it.
        """
        return "\n".join(
            _json({**self.origin, "text": text, "answer": answer}) for text, answer in self.pairs
        )

    def to_datasets(self) -> Any:
        """A `datasets.Dataset` of Hugging Face with the columns text and answer. Raises DpiclError:
        that package is not installed.
        """
        try:
            from datasets import Dataset
        except ModuleNotFoundError:
            raise DpiclError(
                "to_datasets: needs the package datasets; type `pip install datasets`"
            ) from None
        return Dataset.from_list([{"text": text, "answer": answer} for text, answer in self.pairs])

    def in_form(self, form: str) -> str:
        """The content of a file: `text`, `jsonl`, `chat` in one line, `alpaca` or `sharegpt` a line
        each.
        """
        if form == "chat":
            return _json({"messages": self.chat()})
        if form in ("alpaca", "sharegpt"):
            return "\n".join(map(_json, getattr(self, form)()))
        return str(getattr(self, form)())


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False)
