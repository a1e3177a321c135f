"""Texts that are released, as far as they are like a release of a table: demonstrations, a table of
texts, and a certificate.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpicl.engine.benchmarks import check_published, content_digest
from dpicl.errors import ParameterError
from dpicl.methods import METHODS
from dpicl.release.demonstrations import Demonstrations
from dpicl.release.release import Release
from dpicl.text.form import Formed
from dpicl.text.prompts import asking_query
from dpicl.text.read import load_public_texts, load_texts
from dpicl.text.split import split_texts

if TYPE_CHECKING:
    from dpicl.quality.texts import TextQuality


class TextRelease(Release):
    """Demonstrations that a language model wrote from private texts."""

    def arrow(self, count: int | None = None) -> pa.Table:
        """The first texts, all of them where no number is given, with the names of their labels:
        columns `label` and `text`, strings. Raises ParameterError: there are not so many.
        """
        texts, most = self.published.drawn, len(self.published.drawn)
        if count is not None and (
            isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= most
        ):
            raise ParameterError(
                "rows", count, f"a whole number, 1 to {most:,}: so many texts were released"
            )
        return pa.table(
            {
                name: pa.array([getattr(one, name) for one in texts[:count]], pa.string())
                for name in ("label", "text")
            }
        )

    @property
    def caveats(self) -> tuple[str, ...]:
        """See `Release`; and where the contract states a form, how many texts have it."""
        form = self.contract.form
        formed = (
            ()
            if form is None
            else (f"{Formed.of((text.text for text in self.published.drawn), form)}.",)
        )
        return (*super().caveats, *formed)

    def quality(self, simulations: int = 20) -> TextQuality:  # type: ignore[override]
        """How good the texts are beside the contract's public ones, which are the only other texts
        that are read; on benchmarks also beside real ones. Nothing is simulated.

        Raises:
            SourceError: the contract has no public texts.
        """
        from dpicl.quality.texts import text_quality  # it imports scipy

        contract, one, settings = self.contract, self.published, self.published.settings
        folders: dict[str, Any] = {"data_folder": settings.data, "cache_folder": settings.cache}
        public, real = _pairs(load_public_texts(contract, **folders)), None
        if contract.privacy.budget.benchmark:
            rows = load_texts(contract, **folders)
            check_published(contract, partial(content_digest, contract, rows), settings)
            real = _pairs(split_texts(rows, contract).train.data)
        released = [(text.label, text.text) for text in one.drawn]
        name = METHODS[self.method].title
        return text_quality(
            self.dataset,
            name,
            self.epsilon,
            released,
            public,
            classifies=contract.is_classification,
            real=real,
        )

    def demonstrations(self, k: int | None = None) -> Demonstrations:
        """All of them; `k` may only say how many they are. Raises ParameterError: the release has
        another number of them.
        """
        contract, cell = self.contract, self.published.cell
        if k not in (None, cell.shots):
            raise ParameterError(
                "k",
                k,
                f"{cell.shots}: {METHODS[self.method].title} releases one number of demonstrations",
            )
        words = contract.prompts.answering
        pairs = tuple(
            (asking_query(contract, one.text), contract.label_text(one.label))
            for one in self.published.drawn
        )
        return Demonstrations(
            pairs, f"{words.answer}:", self._origin, words.instruction or "", "\n\n"
        )


def _pairs(table: pa.Table) -> list[tuple[str, str]]:
    return list(
        zip(table.column("label").to_pylist(), table.column("text").to_pylist(), strict=True)
    )
