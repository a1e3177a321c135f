"""Queries to private ensembles: finds or opens a release with a free slot, and answers in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from dpicl.accounting.guarantee import Guarantee
from dpicl.accounting.ledger import content_version
from dpicl.contract.periods import clock, read_period
from dpicl.contract.text import Classification
from dpicl.engine.admission import check_named, check_writer, period_of
from dpicl.engine.asked import settled_model
from dpicl.engine.benchmarks import check_published, content_digest
from dpicl.engine.ensemble_release import EnsembleRelease, EnsembleRequest, QuerySlot
from dpicl.engine.journal import sweep_votes
from dpicl.engine.names import ReleaseFacts
from dpicl.engine.open_ledger import ledger_key, open_ledger
from dpicl.engine.payers import accounts_of, open_account
from dpicl.engine.pipelines import model_named
from dpicl.engine.readers import check_reader, fingerprint, public_corpus
from dpicl.engine.releases import named_releases
from dpicl.engine.settings import Settings
from dpicl.errors import BudgetError
from dpicl.lm.egress import generate_texts
from dpicl.lm.embedding import check_embedder, embedder_fingerprint
from dpicl.lm.isolation import public_answer
from dpicl.lm.models import open_scorer
from dpicl.lm.requests import Scorer, TextGenerator
from dpicl.methods import METHODS, on_texts, text_answers
from dpicl.methods.dp_icl import DpIcl, answer_text
from dpicl.methods.ensemble.answers import Answer
from dpicl.methods.ensemble.voting import STOP
from dpicl.methods.options import EnsembleOptions
from dpicl.pipeline import Cell
from dpicl.text.prompts import asking_prompt, keywords_query
from dpicl.text.read import load_texts, texts_digest
from dpicl.text.split import split_texts
from dpicl.types import PrivateTable, ReleasedPrompts
from dpicl.yaml_file import validate

AT_ONCE = 32
"""Queries whose prompts are sent to the model together."""


@dataclass(frozen=True)
class Answered:
    """A query with its answer, and where that leaves the release."""

    query: str
    answer: str
    number: int
    queries: int
    repeated: bool
    charged: bool
    whole: Guarantee
    per_query: Guarantee


class QuerySession:
    """Answers queries until the charged ones are used up; `again` charges for as many more then."""

    def __init__(
        self, request: EnsembleRequest, settings: Settings, *, again: bool = False
    ) -> None:
        self._request, self._settings, self._again = request, settings, again
        sweep_votes(settings)
        with open_ledger(settings) as ledger:
            account = open_account(ledger, request.contract, DpIcl.name, settings)
            charged = {entry.release.release_id for entry in ledger.entries(account.name)}
        tried: list[EnsembleRelease] = []
        while (release := self._release(len(tried))).is_open or release.named.release_id in charged:
            tried.append(release)
        self._releases = [release for release in tried if release.is_open]
        lost = [number for number, release in enumerate(tried) if not release.is_open]
        # `again` passes by those that are charged and lost
        self._next = lost[0] if lost and not again else len(tried)

    def answer(self, queries: Sequence[str]) -> Iterator[Answered]:
        """Answers in the order of the queries. Raises BudgetError: there is no slot left, or no
        budget for a release; ModelError: the model fails, and what was answered stands.
        """
        longest = self._request.contract.max_characters
        cut = [query[:longest].rstrip() for query in queries]
        for start in range(0, len(cut), AT_ONCE):
            yield from self._answer_batch(cut[start : start + AT_ONCE])

    def _answer_batch(self, queries: Sequence[str]) -> Iterator[Answered]:
        placed: dict[str, tuple[EnsembleRelease, QuerySlot, bool]] = {}
        refusal: BudgetError | None = None
        for query in dict.fromkeys(queries):
            try:
                placed[query] = self._place(query)
            except BudgetError as error:  # what came before it is answered first
                refusal = error
                break
        answers: dict[str, Answer] = {
            query: slot.answer for query, (_, slot, _) in placed.items() if slot.answer is not None
        }
        for release in self._releases:
            missing = [
                slot
                for other, slot, _ in placed.values()
                if other is release and slot.answer is None
            ]
            if missing:
                answers |= zip(
                    (slot.query for slot in missing),
                    release.answer(missing, self._model),
                    strict=True,
                )
        for query in queries:
            if query not in placed:
                assert refusal is not None
                raise refusal
            release, slot, charged = placed[query]
            contract, model, answer, plan = (
                self._request.contract,
                self._model,
                answers[query],
                release.plan,
            )
            task = contract.task
            if (
                isinstance(answer, list)
                and isinstance(model, TextGenerator)
                and not isinstance(task, Classification)
            ):
                # keywords are made a sentence by asking the model once more, without rows
                prompts = ReleasedPrompts(
                    (asking_prompt(contract, [], keywords_query(contract, query, answer)),)
                )
                text = generate_texts(model, prompts, new_tokens=task.answer_tokens, stop=STOP)[
                    0
                ].strip()
            else:
                text = answer_text(contract, answer)
            number, count, repeated = slot.number + 1, plan.shape.queries, slot.answer is not None
            yield Answered(
                query, text, number, count, repeated, charged, plan.guarantee, plan.per_query
            )

    def _place(self, query: str) -> tuple[EnsembleRelease, QuerySlot, bool]:
        """Where a query is answered, its slot, whether that was charged for now; another release is
        opened where all slots are taken.
        """
        for release in self._releases:
            if (slot := release.find(query)) is not None:
                return release, slot, False
        _ = self._model  # opened and tested on public queries before anything is charged
        for release in self._releases:
            charged = release.open()
            if (slot := release.take(query)) is not None:
                return release, slot, charged
        if self._releases and not self._again:
            name, count = self._request.contract.name, self._request.contract.query_count
            raise BudgetError(
                f"account {name!r}: all {count} queries that were charged for are answered; "
                f"expected a query that was asked before, "
                f"or --again, which charges for {count} more"
            )
        release = self._release(self._next)
        self._next += 1
        charged, slot = release.open(), release.take(query)
        self._releases.append(release)
        return (release, slot, charged) if slot is not None else self._place(query)

    def _release(self, number: int) -> EnsembleRelease:
        """The release of this index, charged or not: named by the period, the model, the contract
        and the number of queries.
        """
        request, settings = self._request, self._settings
        with open_ledger(settings) as ledger:
            contract, writer = request.contract, fingerprint(request.model)
            extra = {"asked": "one by one", "queries": contract.query_count}
            embedder = embedder_fingerprint(request.embedder)
            facts = ReleaseFacts(request.period, writer, embedder, extra)
            named = named_releases(ledger, contract, request.unit(number), settings, facts)
        return EnsembleRelease(
            request,
            number,
            named[request.cell],
            self._rows,
            content_version(ledger_key(settings), bytes.fromhex(self._digest)),
            settings,
        )

    @cached_property
    def _rows(self) -> PrivateTable:
        contract = self._request.contract
        table = load_texts(
            contract, data_folder=self._settings.data, cache_folder=self._settings.cache
        )
        check_published(contract, partial(content_digest, contract, table), self._settings)
        return split_texts(table, contract.model_copy(update={"query_count": 1})).train

    @cached_property
    def _digest(self) -> str:
        return texts_digest(self._rows.data)

    @cached_property
    def _model(self) -> Scorer:
        wanted, settings = text_answers.wanted_of(self._request.contract), self._settings
        model = public_answer(
            self._request.model.name,
            lambda: open_scorer(
                self._request.model,
                models_folder=settings.models,
                corpus=public_corpus(),
                wanted=wanted,
            ),
        )
        request, method = self._request, on_texts(DpIcl.name)
        asked = request.contract, request.unit(0), request.cell
        check_reader(
            request.contract,
            model,
            request.embedder,
            places=method.embeds(*asked),
            calibrated=method.calibrates(*asked),
        )
        return model


def request_of(
    account: str,
    *,
    epsilon: float,
    shots: int,
    count: int,
    model: str | None,
    options: Mapping[str, object],
    settings: Settings,
    period: str | None,
    embedder: str | None = None,
) -> EnsembleRequest:
    """A user's request, checked before any private byte is read; the default model is `tiny`, for
    benchmarks only. Raises DpiclError: a value breaks a rule, or the model may not see private
    rows.
    """
    contract = settings.texts(account)
    if model is None:
        check_named(contract, "--model")
    spec = model_named(model or "tiny", settings)
    chosen = validate(
        EnsembleOptions,
        {name: value for name, value in options.items() if value is not None},
        "command line",
    )
    at = period_of(contract, None if period is None else read_period(period), clock())
    placing = None if embedder is None else model_named(embedder, settings)
    check_embedder(placing)
    request = EnsembleRequest(
        contract.model_copy(update={"query_count": count}),
        Cell("icl", epsilon, shots),
        spec,
        chosen,
        at,
        placing,
    )
    check_writer(contract, request.unit(0), spec)
    METHODS[DpIcl.name].check(contract, request.unit(0))
    settled, asked = settled_model(
        spec, settings, partial(accounts_of, [(account, DpIcl.name)], settings)
    )
    return replace(request, model=settled, asked=asked)
