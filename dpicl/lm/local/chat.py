"""A local model as a chat: the same messages as a served one gets, written out by the template in
the model's folder.

Labels of which one begins another are scored with the token that ends a turn in the template. A
template runs in the sandbox of transformers: it is given the messages and writes text, and reads
and calls nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from dpicl.errors import ModelError
from dpicl.lm.endpoint.protocol import chat_messages
from dpicl.lm.requests import Tokens, overlap

_CONTENT, _ANSWER = "dpicl asks this", "and gets this"
_UNDATED = "{%- macro strftime_now(form) -%}01 Jan 2026{%- endmacro -%}"
"""Before a template that writes the day's date: prompts of tomorrow are those of today."""


def told_apart(labels: list[Tokens], name: str) -> list[Tokens]:
    """Labels' tokens. Raises ModelError: one begins another all the same, so that to score both
    would compare a part with the whole.
    """
    if overlap(labels):
        raise ModelError(
            f"model {name!r} has a tokenizer by which one label begins another or is it, whatever "
            f"ends them; "
            f"expected labels that differ in more than it drops, or another model"
        )
    return labels


class ChatTemplate:
    """A tokenizer's template for one message of a user, up to where the answer begins.

    Raises:
        ModelError: there is none, or it does not write out a user's message.
    """

    def __init__(self, tokenizer: Any, name: str) -> None:
        self._tokenizer, self._name = tokenizer, name
        if not getattr(tokenizer, "chat_template", None):
            raise ModelError(
                f"model {name!r} has no chat template; expected api completions, or an instruct "
                f"model's folder"
            )
        if self._written([{"role": "user", "content": _CONTENT}]).count(_CONTENT) != 1:
            raise ModelError(
                f"model {name!r} has a chat template that does not write out a message; expected "
                f"api completions"
            )
        self._labels: dict[tuple[str, tuple[str, ...]], list[Tokens]] = {}

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
        if (ending, tuple(labels)) not in self._labels:
            before = self._tokens(ending)
            wholes = [self._tokens(ending + label.strip(" ")) for label in labels]
            for label, whole in zip(labels, wholes, strict=True):
                if whole[: len(before)] != before or len(whole) == len(before):
                    raise ModelError(
                        f"label {label!r} changes the tokens of model {self._name!r}'s chat "
                        f"template; expected api completions"
                    )
            cut = [whole[len(before) :] for whole in wholes]
            if overlap(label.strip() for label in labels) or overlap(cut):
                cut = told_apart([tokens + self._turn_end for tokens in cut], self._name)
            self._labels[ending, tuple(labels)] = cut
        return self._tokens(written), self._labels[ending, tuple(labels)]

    @cached_property
    def _turn_end(self) -> Tokens:
        """The token that the template writes after an answer; where it writes none, the tokenizer's
        own end.
        """
        turn = [{"role": "user", "content": _CONTENT}, {"role": "assistant", "content": _ANSWER}]
        after = self._tokens(self._written(turn, answered=True).rpartition(_ANSWER)[2].lstrip(" "))
        own = self._tokenizer.eos_token_id
        return after[:1] or (() if own is None else (int(own),))

    def _written(self, messages: list[dict[str, str]], *, answered: bool = False) -> str:
        """Up to where the answer begins, or the whole of one that was answered."""
        try:
            options = {
                "chat_template": _UNDATED + self._tokenizer.get_chat_template(),
                "add_generation_prompt": not answered,
            }
            return str(self._tokenizer.apply_chat_template(messages, tokenize=False, **options))
        except Exception as error:  # noqa: BLE001 - a template may fail in any way
            kind = type(error).__name__
        raise ModelError(
            f"model {self._name!r} has a chat template that fails ({kind}); expected api "
            f"completions"
        )

    def _tokens(self, text: str) -> Tokens:
        """A template writes its own start tokens."""
        return tuple(self._tokenizer(text, add_special_tokens=False, verbose=False).input_ids)
