"""Texts that were released, as far as they are like a release of a table: demonstrations and a certificate, no rows."""

from __future__ import annotations

from typing import Any

from dpicl.contract import TextContract
from dpicl.engine.one_release import plan_of, standing_texts
from dpicl.engine.plan import check_plan
from dpicl.engine.quote import AccountQuote, quote_plan
from dpicl.engine.releases import one_ledger
from dpicl.engine.series import release_planned
from dpicl.engine.settings import Settings
from dpicl.errors import ParameterError
from dpicl.methods import METHODS
from dpicl.release.demonstrations import Demonstrations
from dpicl.release.release import Release
from dpicl.text.prompts import asking_query


def release_of(
    dataset: str,
    method: str | None,
    settings: Settings,
    *,
    generator: str | None = None,
    anyway: bool = False,
    window: int | None = None,
    **how: Any,
) -> Release:
    """The release of a contract: of a table made now, unless it was before; of texts the one that a run made.

    Args:
        generator: of texts, the model that wrote them; see `standing_texts`.
        anyway: of a table, release what is expected to be little but noise.
        window: of a table with a horizon, how many periods the rows are of; all until the last if left out.
        how: further arguments of `plan_of`, or of `standing_texts`.

    Raises:
        DpiclError: a name or value breaks a rule, or the budget does not allow it.
    """
    if isinstance(settings.declared(dataset), TextContract):
        check_no_window(dataset, window)
        return TextRelease(standing_texts(dataset, method, settings, generator=generator, **how))
    _check_no_generator(dataset, generator)
    plan = plan_of(dataset, method, settings, anyway=anyway, **how)
    return Release(release_planned(plan, settings, until=how.get("period"), window=window))


def quote_of(
    dataset: str,
    method: str | None,
    settings: Settings,
    *,
    generator: str | None = None,
    anyway: bool = False,
    window: int | None = None,
    **how: Any,
) -> list[AccountQuote]:
    """What `release_of` would charge, by account; nothing for texts that a run has released. Opens accounts, spends nothing, reads no row.

    Raises:
        DpiclError: as `release_of`, but where the budget does not allow it: then `quote.allowed` is false.
    """
    if isinstance(settings.declared(dataset), TextContract):
        standing_texts(dataset, method, settings, generator=generator, **how)
        return []
    _check_no_generator(dataset, generator)
    with one_ledger(settings):
        plan = plan_of(dataset, method, settings, anyway=anyway, **how)
        check_plan(plan, settings)
        return quote_plan(plan, settings)


def check_no_window(dataset: str, window: int | None) -> None:
    """Refuse a window of what has no periods. Raises ParameterError: one is given."""
    if window is not None:
        raise ParameterError("window", window, f"none: {dataset} has no horizon of periods")


def _check_no_generator(dataset: str, generator: str | None) -> None:
    if generator is not None:
        raise ParameterError("generator", generator, f"none: no model reads the rows of {dataset}")


class TextRelease(Release):
    """Demonstrations that a language model wrote from private texts, charged by a run."""

    def demonstrations(self, k: int | None = None) -> Demonstrations:
        """All of them; `k` may only say how many they are. Raises ParameterError: the release has another number of them."""
        contract, cell = self.contract, self.published.cell
        if k not in (None, cell.shots):
            raise ParameterError("k", k, f"{cell.shots}: {METHODS[self.method].title} releases one number of demonstrations")
        words = contract.prompts.answering
        pairs = tuple((asking_query(contract, one.text), contract.label_text(one.label)) for one in self.published.drawn)
        return Demonstrations(pairs, f"{words.answer}:", self._origin, words.instruction or "", "\n\n")
