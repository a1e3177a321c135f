"""Whether a text has the form that its contract states publicly of all of them: told of texts that
are released, and of no other.

Guarantee   none spent: post-processing of released texts. Nothing is drawn again for it, and no
            release is named by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from dpicl.contract.text import Form

_CLOSED = r"""[\s"'`”’)\]]*$"""
_ENDS: dict[Form, re.Pattern[str]] = {
    "question": re.compile(r"\?" + _CLOSED),
    "sentence": re.compile(r"[.!?…]" + _CLOSED),
}
"""What a text of each form ends with, before quotes and brackets that are closed."""


def has_form(text: str, form: Form) -> bool:
    """Whether it ends so, and holds a letter."""
    return _ENDS[form].search(text) is not None and any(character.isalpha() for character in text)


@dataclass(frozen=True)
class Formed:
    """How many of some released texts have the form."""

    form: Form
    having: int
    texts: int

    @staticmethod
    def of(texts: Iterable[str], form: Form) -> Formed:
        """Of these texts."""
        having = [has_form(text, form) for text in texts]
        return Formed(form, sum(having), len(having))

    def __str__(self) -> str:
        return (
            f"{self.having} of {self.texts} texts {'is' if self.having == 1 else 'are'} "
            f"{FORM_WORDS[self.form]}"
        )


FORM_WORDS: dict[Form, str] = {"question": "a question", "sentence": "a whole sentence"}
"""As people read it, of one text."""
