"""Texts that are released, as far as they are like a release of a table: demonstrations, a table of
texts, and a certificate.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpicl.contract import TextContract
from dpicl.contract.periods import clock
from dpicl.engine.benchmarks import check_published, content_digest
from dpicl.engine.one_release import Published, plan_of, release_once
from dpicl.engine.open_ledger import one_ledger
from dpicl.engine.plan import check_plan
from dpicl.engine.quote import AccountQuote, quote_plan
from dpicl.engine.request import ReleaseRequest
from dpicl.engine.run_folder import Plan
from dpicl.engine.series import release_planned, window_of
from dpicl.engine.settings import Settings
from dpicl.engine.text_release import not_released, standing_texts, texts_plan, wanted_texts
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


def release_of(request: ReleaseRequest, settings: Settings) -> Release:
    """The release that is asked for, made now, unless it was before. Raises DpiclError: a name or
    value breaks a rule, or the budget does not allow it.
    """
    if isinstance(settings.declared(request.dataset), TextContract):
        check_no_window(request.dataset, request.window)
        with one_ledger(settings):
            found = _standing_or_plan(request, settings)
            return TextRelease(release_once(found, settings) if isinstance(found, Plan) else found)
    _check_no_generator(request)
    plan = plan_of(request, settings)
    return Release(release_planned(plan, settings, until=request.period, window=request.window))


def quote_of(request: ReleaseRequest, settings: Settings) -> list[AccountQuote]:
    """What `release_of` would charge, by account; nothing for texts that stand. Opens accounts,
    spends nothing, reads no row.

    Raises:
        DpiclError: as `release_of`, but where the budget does not allow it: then `quote.allowed` is
            false.
    """
    if isinstance(settings.declared(request.dataset), TextContract):
        check_no_window(request.dataset, request.window)
        plan = _standing_or_plan(request, settings)
    else:
        _check_no_generator(request)
        plan = plan_of(request, settings)
        window_of(plan, settings, until=request.period, window=request.window, now=clock())
    if not isinstance(plan, Plan):
        return []
    with one_ledger(settings):
        check_plan(plan, settings)
        return quote_plan(plan, settings)


def check_no_window(dataset: str, window: int | None) -> None:
    """Refuse a window of what has no periods. Raises ParameterError: one is given."""
    if window is not None:
        raise ParameterError("window", window, f"none: {dataset} has no horizon of periods")


def _standing_or_plan(request: ReleaseRequest, settings: Settings) -> Published | Plan:
    wanted = wanted_texts(request, settings)
    standing = standing_texts(wanted, settings, request.generator)
    if standing is not None:
        return standing
    if request.generator is None:
        raise not_released(wanted, settings, request.period)
    return texts_plan(wanted, request.generator, settings)


def _check_no_generator(request: ReleaseRequest) -> None:
    if request.generator is not None:
        raise ParameterError(
            "generator", request.generator, f"none: no model reads the rows of {request.dataset}"
        )


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
