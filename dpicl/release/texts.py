"""One release of texts: the one that stands, found by what names it, or one that is made now by the
model that reads the private texts.

Texts that stand were charged by a run or by this command; they are read as they were published, at
no cost. Others are planned here, and made by `one_release`: everything is charged before the first
token.

Guarantee   none spent: reads the ledger and published bytes only.

Texts that are released, as far as they are like a release of a table: demonstrations, a table of
texts, and a certificate.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from dpicl.contract.periods import clock, read_period
from dpicl.data.conditions import Where
from dpicl.data.prompts import MOST_SHOTS, asking_query
from dpicl.data.text_files import Formed, load_public_texts, load_texts, split_texts
from dpicl.ground.errors import LedgerError, ParameterError
from dpicl.home.accounts import one_ledger, open_ledger
from dpicl.home.benchmarks import check_published, content_digest
from dpicl.home.settings import Settings
from dpicl.methods import METHODS, on_texts
from dpicl.release.demonstrations import Demonstrations
from dpicl.release.names import WRITER, ReleaseFacts
from dpicl.release.one_release import PublishedRelease, planned_release
from dpicl.release.pipelines import declared_pipelines, model_named
from dpicl.release.readers import fingerprint
from dpicl.release.release import Release, whole
from dpicl.release.releases import NamedRelease, named_releases, paying_account, spending_sentence
from dpicl.release.request import PlannedRelease, ReleaseRequest, period_of

if TYPE_CHECKING:
    from dpicl.quality.texts import TextQuality

TEXTUAL = {
    name: entry
    for name, entry in METHODS.entries.items()
    if entry.data == "texts" and not entry.answers_queries
}
"""Methods whose releases are texts for any query."""


def planned_texts(request: ReleaseRequest, settings: Settings) -> PlannedRelease:
    """The release of these choices, of the usual method where none is named, by a model that is yet
    to be known; `shots` is the number of texts. Raises DpiclError: a name or value breaks a rule.
    """
    dataset = request.dataset
    contract = settings.texts(dataset)
    if request.trust != "central":
        raise ParameterError(
            "trust", request.trust, f"central: a model reads the texts of {dataset}"
        )
    method = request.method or next(name for name, textual in TEXTUAL.items() if textual.is_default)
    if method not in TEXTUAL:
        raise ParameterError("method", method, f"one of {', '.join(TEXTUAL)} on texts")
    chosen = None if request.period is None else read_period(request.period)
    period = period_of(contract, chosen, clock(), [method])
    planned = planned_release(request, contract, method, dict(request.options), period)
    METHODS[method].check(contract, planned.point)
    return replace(planned, anyway=False)


def standing_texts(
    planned: PlannedRelease, settings: Settings, generator: str | None = None
) -> PublishedRelease | None:
    """The release as it was published, by this or another command; None where no such texts stand.
    `generator`, the model that wrote them, may be left out where one has written such a release.
    Raises DpiclError: it is to be named, or what stands is not what was published.
    """
    contract = planned.contract
    method = planned.method
    with one_ledger(settings), open_ledger(settings) as ledger:
        account = paying_account(trial := ledger.trial(), contract, method, settings)
        if generator is None:
            charged = [entry.release for entry in trial.entries(account.name)]
            writers = [
                str(release.parameters[WRITER])
                for release in charged
                if release.mechanism == method
            ]
        else:
            writers = [fingerprint(model_named(generator, settings))]
        # by the model that wrote it, what is published under the name that a run gives it
        standing: list[tuple[ReleaseFacts, NamedRelease, str]] = []
        for writer in dict.fromkeys(writers):
            facts = ReleaseFacts(planned.period, writer)
            (named,) = named_releases(
                account, contract, method, [planned.point], settings, facts
            ).values()
            entry = ledger.find(named.charge.release_id)
            if entry is not None and entry.published_utc is not None:
                standing.append((facts, named, entry.published_utc))
        if not standing:
            return None
        if len(standing) > 1:
            raise ParameterError(
                "generator",
                None,
                f"the model that wrote them: {len(standing)} models wrote such texts of "
                f"{contract.name}",
            )
        ((facts, named, published),) = standing
        content = named.read(ledger)
        published = "" if contract.is_benchmark else published
        spent = spending_sentence(ledger, account.name, 1, 0, published=published)
    drawn = on_texts(method).decode(json.loads(content))
    return PublishedRelease(planned, drawn, (spent,), settings, facts)


def not_released(planned: PlannedRelease, settings: Settings, period: str | None) -> LedgerError:
    """No such texts stand, and no model is named: which commands make them."""
    dataset = planned.contract.name
    made = (
        f"{dataset}: no such texts were released; expected --generator MODEL, with which this "
        f"command makes them"
    )
    pipelines = declared_pipelines(settings).pipelines.items()
    alike = (
        name
        for name, pipeline in pipelines
        if (pipeline.methods, pipeline.options, pipeline.kind)
        == ((planned.method,), planned.options, "grid")
    )
    name = next(alike, None)
    if name is None or planned.shots > MOST_SHOTS:
        return LedgerError(made)
    added = "" if period is None else f" --period {shlex.quote(period)}"
    grid = f"--epsilons {planned.point.epsilon:g} --shots {planned.shots} --seeds 0"
    return LedgerError(
        f"{made}; `dpicl run {name} --datasets {dataset} {grid}{added} --generator MODEL` makes "
        f"them and asks with them"
    )


class TextRelease(Release):
    """Demonstrations that a language model wrote from private texts."""

    def arrow(self, n: int | None = None, where: Where | None = None) -> pa.Table:
        """The first texts, all of them where no number is given, with the names of their labels:
        columns `label` and `text`, strings. Raises ParameterError: there are not so many, or a
        condition is given.
        """
        if where:
            raise ParameterError("where", self.dataset, "no condition on texts: filter the table")
        texts = self.published.drawn
        most = len(self.published.drawn)
        if n is not None:
            n = whole("n", n, most=most, why=": so many texts were released")
        return pa.table(
            {
                name: pa.array([getattr(text, name) for text in texts[:n]], pa.string())
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
        from dpicl.quality.texts import ReleasedTexts, text_quality  # it imports scipy

        contract = self.contract
        published = self.published
        settings = self.published.settings
        public = _pairs(load_public_texts(contract, **settings.folders))
        real = None
        if contract.is_benchmark:
            rows = load_texts(contract, **settings.folders)
            check_published(contract, partial(content_digest, contract, rows), settings)
            real = _pairs(split_texts(rows, contract).train.data)
        released = [(text.label, text.text) for text in published.drawn]
        title = METHODS[self.method].title
        classifies = contract.is_classification
        release = ReleasedTexts(self.dataset, title, self.epsilon, released, classifies)
        return text_quality(release, public, real)

    def demonstrations(self, k: int | None = None) -> Demonstrations:
        """All of them; `k` may only say how many they are. Raises ParameterError: the release has
        another number of them.
        """
        contract = self.contract
        shots = self.published.planned.point.shots
        if k not in (None, shots):
            raise ParameterError(
                "k",
                k,
                f"{shots}: {METHODS[self.method].title} releases one number of demonstrations",
            )
        words = contract.prompts.answering
        pairs = tuple(
            (asking_query(contract, demonstration.text), contract.label_text(demonstration.label))
            for demonstration in self.published.drawn
        )
        return Demonstrations(
            pairs, f"{words.answer}:", self._origin, words.instruction or "", "\n\n"
        )


def _pairs(table: pa.Table) -> list[tuple[str, str]]:
    return list(
        zip(table.column("label").to_pylist(), table.column("text").to_pylist(), strict=True)
    )
