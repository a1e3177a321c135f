"""Queries to private ensembles, one after another: finds or opens a release with a free slot,
charged once for a number of queries, and answers in order until they are used up.

A release has as many slots as it was charged for. A query takes a slot, durably, before a row is
read for it; asked again it gets the same answer. So no query has two answers, even if processes are
killed or ask at the same time: a slot's noise belongs to its one query.

State       private/journals/<release>    slots/<number>.json; for each state of the rows, seed and
            encrypted votes; `uses`, see `journal.FileSpending`
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from dpicl.accounting.guarantee import Guarantee
from dpicl.contract.periods import ONCE, clock, read_period
from dpicl.contract.pipeline import Cell, Point
from dpicl.contract.text import Classification, TextContract
from dpicl.data.prompts import asking_prompt, keywords_query
from dpicl.data.text_files import load_texts, split_texts, texts_digest
from dpicl.ground.errors import BudgetError, DpiclError, LedgerError
from dpicl.ground.files import PRIVATE_MODE, locked, read_json, sha256_of, write_json
from dpicl.ground.types import PrivateTable, ReleasedPrompts
from dpicl.ground.validation import validate
from dpicl.home.accounts import ledger_key, open_ledger, write_receipt
from dpicl.home.benchmarks import check_published, content_digest
from dpicl.home.settings import Settings
from dpicl.ledger import Ledger, content_version
from dpicl.ledger import ReleaseCharge as Release
from dpicl.ledger.keys import keyed_hash
from dpicl.methods import METHODS, Options, dp_icl, on_texts, text_answers, unit_of
from dpicl.methods.base import draws_for
from dpicl.methods.dp_icl import AnsweringJob, DpIcl, answer_text
from dpicl.methods.ensemble_plan import EnsemblePlan, plan_release
from dpicl.methods.ensemble_voting import STOP, Answer, Public, write_candidates
from dpicl.methods.grid import points
from dpicl.methods.options import EnsembleOptions, EnsembleVariant
from dpicl.models.asking import AskedBy, public_answer
from dpicl.models.embedding import check_embedder, embedder_fingerprint, open_embedder
from dpicl.models.requests import Sampling, Scorer, TextGenerator
from dpicl.models.spec import ModelSpec, generate_texts
from dpicl.release.journal import FileJournal, FileSpending, KeptVotes, sweep_votes, votes_folder
from dpicl.release.names import ReleaseFacts, account_of, accounts_of, open_account
from dpicl.release.pipelines import model_named
from dpicl.release.readers import check_reader, fingerprint, reader_of, settled_model
from dpicl.release.releases import check_quotes, named_releases, paying_account, quoted
from dpicl.release.request import check_named, check_writer, period_of

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
        self._request = request
        self._settings = settings
        self._again = again
        sweep_votes(settings)
        with open_ledger(settings) as ledger:
            trial = ledger.trial()
            account = open_account(trial, request.contract, DpIcl.name, settings)
            charged = {entry.release.release_id for entry in trial.entries(account.name)}
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
            contract = self._request.contract
            model = self._model
            answer = answers[query]
            plan = release.plan
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
                text = generate_texts(
                    model, prompts, Sampling(new_tokens=task.answer_tokens, stop=STOP)
                )[0].strip()
            else:
                text = answer_text(contract, answer)
            number = slot.number + 1
            count = plan.shape.queries
            repeated = slot.answer is not None
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
            name = self._request.contract.name
            count = self._request.contract.query_count
            raise BudgetError(
                f"account {name!r}: all {count} queries that were charged for are answered; "
                f"expected a query that was asked before, "
                f"or --again (`again=True`), which charges for {count} more"
            )
        release = self._release(self._next)
        self._next += 1
        charged = release.open()
        slot = release.take(query)
        self._releases.append(release)
        return (release, slot, charged) if slot is not None else self._place(query)

    def _release(self, number: int) -> EnsembleRelease:
        """The release of this index, charged or not: named by the period, the model, the contract
        and the number of queries.
        """
        request = self._request
        settings = self._settings
        with open_ledger(settings) as ledger:
            contract = request.contract
            writer = fingerprint(request.model)
            extra = {"asked": "one by one", "queries": contract.query_count}
            embedder = embedder_fingerprint(request.embedder)
            facts = ReleaseFacts(request.period, writer, embedder, extra)
            account = paying_account(ledger.trial(), contract, DpIcl.name, settings)
            (named,) = named_releases(
                account, contract, DpIcl.name, [request.point(number)], settings, facts
            ).values()
        return EnsembleRelease(
            request,
            number,
            named.charge,
            self._rows,
            content_version(ledger_key(settings), bytes.fromhex(self._digest)),
            settings,
        )

    @cached_property
    def _rows(self) -> PrivateTable:
        contract = self._request.contract
        table = load_texts(contract, **self._settings.folders)
        check_published(contract, partial(content_digest, contract, table), self._settings)
        return split_texts(table, contract.model_copy(update={"query_count": 1})).train

    @cached_property
    def _digest(self) -> str:
        return texts_digest(self._rows.data)

    @cached_property
    def _model(self) -> Scorer:
        wanted = text_answers.wanted_of(self._request.contract)
        settings = self._settings
        model = public_answer(
            self._request.model.name, lambda: reader_of(self._request.model, settings, wanted)
        )
        request = self._request
        method = on_texts(DpIcl.name)
        asked = request.contract, request.point(0)
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
        epsilon,
        shots,
        spec,
        chosen,
        at,
        placing,
    )
    check_writer(contract, DpIcl.name, spec)
    METHODS[DpIcl.name].check(contract, request.point(0))
    settled, asked = settled_model(
        spec, settings, partial(accounts_of, [(account, DpIcl.name)], settings)
    )
    return replace(request, model=settled, asked=asked)


OPENED = "opened.json"


@dataclass(frozen=True)
class EnsembleRequest:
    """Whose rows answer, how many queries, at which epsilon, and by which model."""

    contract: TextContract
    epsilon: float
    shots: int
    model: ModelSpec
    options: EnsembleOptions
    period: str = ONCE
    embedder: ModelSpec | None = None
    """Which places queries and texts; hashed n-grams if None."""
    asked: AskedBy | None = None
    """How the model is asked and why, where that was decided here."""

    def point(self, number: int) -> Point[EnsembleVariant]:
        """What the release of this kind with this index is asked for."""
        options = Options.model_validate({DpIcl.name: self.options})
        grid = (self.epsilon,), (self.shots,), ()
        unit = unit_of(DpIcl.name, self.contract.name, number, *grid, False, options)
        return points(METHODS[DpIcl.name], unit)[Cell("icl", self.epsilon, self.shots)]


@dataclass(frozen=True)
class QuerySlot:
    """A query's place among those that were charged for; without an answer it is still to be
    asked.
    """

    number: int
    query: str
    answer: Answer | None


class EnsembleRelease:
    """One release that is open for queries."""

    def __init__(
        self,
        request: EnsembleRequest,
        number: int,
        named: Release,
        train: PrivateTable,
        rows: str,
        settings: Settings,
    ) -> None:
        self._request = request
        self.named = named
        self._train = train
        self._rows = rows
        self._settings = settings
        self.plan: EnsemblePlan = plan_release(request.contract, request.point(number))
        self._draws = draws_for(request.contract, number)
        self._taken: dict[str, int] = {}
        """Slots by the digest of their query, as far as they were read: none is ever freed."""
        self._is_reserved = False

    @property
    def used(self) -> int:
        """How many slots are taken."""
        while (path := self._path(len(self._taken))).exists():
            self._taken[read_json(path)["query"]] = len(self._taken)
        return len(self._taken)

    @property
    def is_open(self) -> bool:
        """Whether it was ever opened here."""
        return (self._folder / OPENED).exists()

    def open(self) -> bool:
        """Charge the release unless it was before; whether it was charged now. Raises BudgetError:
        the account's cap would be passed, and nothing was charged; LedgerError: it was charged
        before, and which queries it answered is lost.
        """
        if self._is_reserved:
            return False
        contract = self._request.contract
        with open_ledger(self._settings) as ledger:
            trial = ledger.trial()
            open_account(trial, contract, DpIcl.name, self._settings)
            # what is refused leaves no account and no folder
            asked = {self.named.release_id: self.named}
            check_quotes([quoted(trial, self.named.account, asked)])
            open_account(ledger, contract, DpIcl.name, self._settings)
        self._settings.private("journals", self.named.release_id, "slots")
        # else a twin might see one's mark or charge alone
        with locked(self._folder / ".lock"), open_ledger(self._settings) as ledger:
            is_new = self._reserve(ledger) if self.is_open else self._open_first(ledger)
            write_receipt(ledger, self.named, self._settings)
            ledger.begin_drawing(self.named.release_id)
        self._is_reserved = True
        return is_new

    def _reserve(self, ledger: Ledger) -> bool:
        contract = self._request.contract
        stated = account_of(contract, DpIcl.name)
        return ledger.reserve(self.named, stated=stated, contract=contract.name).is_new

    def _open_first(self, ledger: Ledger) -> bool:
        """Marked before it is charged, so that a crash between the two loses nothing; a mark never
        hides slots that are lost.
        """
        if not any(
            entry.release.release_id == self.named.release_id
            for entry in ledger.entries(self.named.account)
        ):
            mark = write_json(
                self._folder / OPENED, {"queries": self.plan.shape.queries}, mode=PRIVATE_MODE
            )
            try:
                if self._reserve(ledger):
                    return True
            except DpiclError:
                mark.unlink()
                raise
            mark.unlink()
        raise LedgerError(
            f"{self._request.contract.name}: this release was charged before, and its slots are "
            f"gone; restore private/ from a backup, or use --again (`again=True`)"
        )

    def find(self, query: str) -> QuerySlot | None:
        """The slot that a query has taken."""
        mark = _mark(query)
        if self.used == 0 or mark not in self._taken:
            return None
        number = self._taken[mark]
        answered = self._folder / f"{number:06d}.answer"
        return QuerySlot(number, query, read_json(answered) if answered.exists() else None)

    def take(self, query: str) -> QuerySlot | None:
        """A slot for a query: the one it has, or the next free one; None if all are taken."""
        with locked(self._folder / ".lock"):  # else a query asked twice at once would use up two
            if self.find(query) is None and self.used < self.plan.shape.queries:
                write_json(self._path(self.used), {"query": _mark(query)}, mode=PRIVATE_MODE)
            return self.find(query)

    def answer(self, slots: Sequence[QuerySlot], model: Scorer) -> list[Answer]:
        """Ask the model with private rows for these slots, and store the noisy answers. Raises
        ModelError: not for what a prompt holds.
        """
        contract = self._request.contract
        settings = self._settings
        key = self.plan.point.key
        name = self.named.release_id
        rows = self._rows
        embedder = open_embedder(self._request.embedder) if self.plan.shape.embeds else None
        job = AnsweringJob(
            contract,
            {key: self.plan},
            self._draws,
            FileJournal(settings, {key: name}, self._draws, rows),
            KeptVotes.of(settings, {key: votes_folder(settings, name, rows)}),
            embedder,
            self._spending,
        )
        queries = [slot.query for slot in slots]
        public = Public(write_candidates(queries, contract, self._draws.run_seed, model), embedder)
        numbered = [(slot.number, slot.query) for slot in slots]
        answers = dp_icl.answer(
            job, dp_icl.consult(self._train, numbered, model, job), numbered, public
        )[key]
        return [self._keep(slot, answer) for slot, answer in zip(slots, answers, strict=True)]

    @cached_property
    def _spending(self) -> FileSpending | None:
        """How often every text took part so far, where texts are retrieved."""
        most = self.plan.shape.participations
        if most is None:
            return None
        key = bytes.fromhex(keyed_hash(ledger_key(self._settings), "uses", self.named.release_id))
        folder = self._settings.private("journals", self.named.release_id, "uses")
        return FileSpending(self._request.contract.name, folder, most, key, self._answered)

    def _answered(self) -> set[int]:
        return {int(path.stem) for path in self._folder.glob("*.answer")}

    def _keep(self, slot: QuerySlot, answer: Answer) -> Answer:
        """Store the answer of a slot, durably; gives the one that stands."""
        return read_json(
            write_json(self._folder / f"{slot.number:06d}.answer", answer, mode=PRIVATE_MODE)
        )

    @property
    def _folder(self) -> Path:
        """Where queries take their slots; not made here."""
        return self._settings.private_home / "journals" / self.named.release_id / "slots"

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:06d}.json"


def _mark(query: str) -> str:
    return sha256_of(query)
