"""A local model as a chat: the same messages as a served one gets, written out by the template in the model's folder.

A template runs in the sandbox of transformers: it is given the messages and writes text, and reads and calls nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpicl.errors import ModelError
from dpicl.lm.endpoint.protocol import chat_messages
from dpicl.lm.requests import Tokens

_CONTENT = "dpicl asks this"
_UNDATED = "{%- macro strftime_now(form) -%}01 Jan 2026{%- endmacro -%}"
"""Before a template that writes the day's date: prompts of tomorrow are those of today."""


class ChatTemplate:
    """A tokenizer's template for one message of a user, up to where the answer begins.

    Raises:
        ModelError: there is none, or it does not write out a user's message.
    """

    def __init__(self, tokenizer: Any, name: str) -> None:
        self._tokenizer, self._name = tokenizer, name
        if not getattr(tokenizer, "chat_template", None):
            raise ModelError(f"model {name!r} has no chat template; expected api completions, or an instruct model's folder")
        if self._written([{"role": "user", "content": _CONTENT}]).count(_CONTENT) != 1:
            raise ModelError(f"model {name!r} has a chat template that does not write out a message; expected api completions")
        self._endings: dict[tuple[str, tuple[str, ...]], list[Tokens]] = {}

    def text_tokens(self, prompt: str) -> Tokens:
        """Of a prompt whose answer is a text."""
        return self._tokens(self._written([{"role": "user", "content": prompt}]))

    def label_tokens(self, prompt: str, labels: Sequence[str]) -> tuple[Tokens, list[Tokens]]:
        """Of a prompt, and of each label that may be answered to it.

        Raises:
            ModelError: a label's tokens cannot be told from those of the prompt.
        """
        text = prompt.rstrip()
        written = self._written(chat_messages(text, labels))
        ending = written[written.rfind(text[-1:]) if text else 0 :]
        if (ending, tuple(labels)) not in self._endings:
            before = self._tokens(ending)
            wholes = [self._tokens(ending + label.strip(" ")) for label in labels]
            for label, whole in zip(labels, wholes, strict=True):
                if whole[: len(before)] != before or len(whole) == len(before):
                    raise ModelError(
                        f"label {label!r} changes the tokens of model {self._name!r}'s chat template; expected api completions"
                    )
            self._endings[ending, tuple(labels)] = [whole[len(before) :] for whole in wholes]
        return self._tokens(written), self._endings[ending, tuple(labels)]

    def _written(self, messages: list[dict[str, str]]) -> str:
        try:
            template = _UNDATED + self._tokenizer.get_chat_template()
            return str(self._tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False, add_generation_prompt=True))
        except Exception as error:  # noqa: BLE001 - a template may fail in any way
            kind = type(error).__name__
        raise ModelError(f"model {self._name!r} has a chat template that fails ({kind}); expected api completions")

    def _tokens(self, text: str) -> Tokens:
        """A template writes its own start tokens."""
        return tuple(self._tokenizer(text, add_special_tokens=False, verbose=False).input_ids)
