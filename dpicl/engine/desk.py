"""The desk where queries are put to private ensembles: finds or opens a release with a free slot, and answers in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from dpicl.accounting.guarantee import Guarantee
from dpicl.accounting.ledger import Release
from dpicl.contract.text import Classification
from dpicl.engine.accounts import open_account
from dpicl.engine.asking import Sitting, Slot, Wish
from dpicl.engine.benchmarks import check_published, content_digest
from dpicl.engine.corpus import public_corpus
from dpicl.engine.models import fingerprint
from dpicl.engine.names import releases_of
from dpicl.engine.releases import check_ledger, ledger_key, open_ledger, rows_version
from dpicl.engine.settings import Settings
from dpicl.engine.stages.consult import sweep_votes
from dpicl.engine.stages.probe import check_reader
from dpicl.errors import BudgetError
from dpicl.lm.egress import generate_texts
from dpicl.lm.isolation import public_answer
from dpicl.lm.models import open_scorer
from dpicl.lm.requests import Scorer, TextGenerator
from dpicl.methods import text_answers
from dpicl.methods.dp_icl import DpIcl, answer_text
from dpicl.methods.ensemble.answers import Answer
from dpicl.methods.ensemble.voting import STOP
from dpicl.text.prompts import asking_prompt, keywords_query
from dpicl.text.read import load_texts, texts_digest
from dpicl.text.split import split_texts
from dpicl.types import PrivateTable, ReleasedPrompts

AT_ONCE = 32
"""Queries whose prompts are put to the model together."""


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


Placed = tuple[Sitting, Slot, bool]
"""Where a query is answered, its slot, and whether that was charged for now."""


class Desk:
    """Answers queries until the charged ones are used up; `again` charges for as many more then."""

    def __init__(self, wish: Wish, settings: Settings, *, again: bool = False) -> None:
        self._wish, self._settings, self._again = wish, settings, again
        sweep_votes(settings)
        with open_ledger(settings) as ledger:
            account = open_account(ledger, wish.contract, DpIcl.name, settings)
            charged = {entry.release.release_id for entry in ledger.entries(account.name)}
        tried: list[Sitting] = []
        while (sitting := self._sitting(len(tried))).is_open or sitting.release.release_id in charged:
            tried.append(sitting)
        self._sittings = [sitting for sitting in tried if sitting.is_open]
        lost = [number for number, sitting in enumerate(tried) if not sitting.is_open]
        self._next = lost[0] if lost and not again else len(tried)  # `again` passes by those that are charged and lost

    def answer(self, queries: Sequence[str]) -> Iterator[Answered]:
        """Answers in the order of the queries.

        Raises:
            BudgetError: there is no slot left, or no budget for a release.
            ModelError: the model fails; what was answered stands.
        """
        longest = self._wish.contract.max_characters
        cut = [query[:longest].rstrip() for query in queries]
        for start in range(0, len(cut), AT_ONCE):
            yield from self._some(cut[start : start + AT_ONCE])

    def _some(self, queries: Sequence[str]) -> Iterator[Answered]:
        placed, refusal = self._place_all(queries)
        answers: dict[str, Answer] = {query: slot.answer for query, (_, slot, _) in placed.items() if slot.answer is not None}
        for sitting in self._sittings:
            missing = [slot for other, slot, _ in placed.values() if other is sitting and slot.answer is None]
            if missing:
                answers |= zip((slot.query for slot in missing), sitting.answer(missing, self._model), strict=True)
        for query in queries:
            if query not in placed:
                assert refusal is not None
                raise refusal
            sitting, slot, charged = placed[query]
            plan = sitting.plan
            yield Answered(
                query,
                _as_text(answers[query], query, self._wish, self._model),
                slot.number + 1,
                plan.shape.queries,
                slot.answer is not None,
                charged,
                plan.guarantee,
                plan.per_query,
            )

    def _place_all(self, queries: Sequence[str]) -> tuple[dict[str, Placed], BudgetError | None]:
        """Up to the first query that there is no slot for, and why."""
        placed: dict[str, Placed] = {}
        for query in dict.fromkeys(queries):
            try:
                placed[query] = self._place(query)
            except BudgetError as error:
                return placed, error
        return placed, None

    def _place(self, query: str) -> Placed:
        """The sitting that has answered a query or has a slot for it."""
        for sitting in self._sittings:
            if (slot := sitting.find(query)) is not None:
                return sitting, slot, False
        _ = self._model  # opened and asked publicly before anything is charged
        for sitting in self._sittings:
            charged = sitting.open()
            if (slot := sitting.take(query)) is not None:
                return sitting, slot, charged
        return self._open_another(query)

    def _open_another(self, query: str) -> Placed:
        if self._sittings and not self._again:
            name, count = self._wish.contract.name, self._wish.contract.query_count
            raise BudgetError(
                f"account {name!r}: all {count} queries that were charged for are answered; expected a query that was asked before, "
                f"or --again, which charges for {count} more"
            )
        sitting = self._sitting(self._next)
        self._next += 1
        charged, slot = sitting.open(), sitting.take(query)
        self._sittings.append(sitting)
        return (sitting, slot, charged) if slot is not None else self._place(query)

    def _sitting(self, number: int) -> Sitting:
        return Sitting(self._wish, number, self._release(number), self._rows, self._version, self._settings)

    @cached_property
    def _rows(self) -> PrivateTable:
        contract = self._wish.contract
        table = load_texts(contract, data_folder=self._settings.data)
        check_published(contract, partial(content_digest, contract, table), self._settings)
        return split_texts(table, contract.model_copy(update={"query_count": 1})).train

    @cached_property
    def _version(self) -> str:
        return rows_version(self._settings, texts_digest(self._rows.data))

    @cached_property
    def _model(self) -> Scorer:
        wanted, settings = text_answers.wanted_of(self._wish.contract), self._settings
        model = public_answer(
            self._wish.model.name,
            lambda: open_scorer(self._wish.model, models_folder=settings.models, corpus=public_corpus(), wanted=wanted),
        )
        check_reader(self._wish.contract, model, self._wish.model)
        return model

    def _release(self, number: int) -> Release:
        """What a sitting is charged as: bound to the period, the model, the contract and the number of queries."""
        contract, settings = self._wish.contract, self._settings
        check_ledger(contract)
        with open_ledger(settings) as ledger:
            named = releases_of(
                ledger,
                ledger_key(settings),
                contract,
                self._wish.unit(number),
                settings,
                period=self._wish.period,
                writer=fingerprint(self._wish.model, settings),
                also={"asked": "one by one", "queries": contract.query_count},
            )
        return named[self._wish.cell]


def _as_text(answer: Answer, query: str, wish: Wish, model: Scorer) -> str:
    """Keywords are made a sentence by asking the model once more, without rows."""
    contract, task = wish.contract, wish.contract.task
    if not isinstance(answer, list) or not isinstance(model, TextGenerator) or isinstance(task, Classification):
        return answer_text(contract, answer)
    prompt = asking_prompt(contract, [], keywords_query(contract, query, answer))
    return generate_texts(model, ReleasedPrompts((prompt,)), new_tokens=task.answer_tokens, stop=STOP)[0].strip()
