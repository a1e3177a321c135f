"""Queries to a private ensemble, one after another: charged once for a number of queries, then
answered until they are used up.

A release has as many slots as it was charged for. A query takes a slot, durably, before a row is
read for it; asked again it gets the same answer. So no query has two answers, even if processes are
killed or ask at the same time: a slot's noise belongs to its one query.

State       private/journals/<release>    slots/<number>.json; for each state of the rows, seed and
            encrypted votes; `uses`, see `record_spending`
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dpicl.accounting.ledger import Ledger, Release
from dpicl.accounting.ledger.keys import keyed_hash
from dpicl.contract.periods import ONCE
from dpicl.contract.text import TextContract
from dpicl.engine.files import PRIVATE_MODE, read_json, write_json
from dpicl.engine.journal import FileJournal, KeptVotes, votes_folder
from dpicl.engine.open_ledger import ledger_key, open_ledger
from dpicl.engine.receipts import write_receipt
from dpicl.engine.record_spending import FileSpending
from dpicl.engine.settings import Settings
from dpicl.errors import DpiclError, LedgerError
from dpicl.files.locks import locked
from dpicl.lm.asking import AskedBy
from dpicl.lm.embedding import open_embedder
from dpicl.lm.requests import Scorer
from dpicl.lm.spec import ModelSpec
from dpicl.methods import Options, dp_icl, unit_of
from dpicl.methods.common import draws_for
from dpicl.methods.dp_icl import DpIcl, Job
from dpicl.methods.ensemble.answers import Answer, Public, write_candidates
from dpicl.methods.ensemble.plan import EnsemblePlan, plan_cell
from dpicl.methods.options import EnsembleOptions
from dpicl.pipeline import Cell, Unit
from dpicl.types import PrivateTable

OPENED = "opened.json"


@dataclass(frozen=True)
class EnsembleRequest:
    """Whose rows answer, how many queries, at which epsilon, and by which model."""

    contract: TextContract
    cell: Cell
    model: ModelSpec
    options: EnsembleOptions
    period: str = ONCE
    embedder: ModelSpec | None = None
    """Which places queries and texts; hashed n-grams if None."""
    asked: AskedBy | None = None
    """How the model is asked and why, where that was decided here."""

    def unit(self, number: int) -> Unit:
        """The release of this kind with this index, as a unit."""
        assert self.cell.epsilon is not None and self.cell.shots is not None
        options = Options.model_validate({DpIcl.name: self.options})
        return unit_of(
            DpIcl.name,
            self.contract.name,
            number,
            (self.cell.epsilon,),
            (self.cell.shots,),
            (),
            False,
            options,
        )


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
        self._request, self.named, self._train, self._rows, self._settings = (
            request,
            named,
            train,
            rows,
            settings,
        )
        self.plan: EnsemblePlan = plan_cell(request.contract, request.unit(number), request.cell)
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
        self._settings.private("journals", self.named.release_id, "slots")
        # else a twin might see one's mark or charge alone
        with (
            locked(self._folder / ".lock"),
            open_ledger(self._settings) as ledger,
        ):
            is_new = ledger.reserve(self.named).is_new if self.is_open else self._open_first(ledger)
            write_receipt(ledger, self.named, self._settings)
            ledger.begin_drawing(self.named.release_id)
        self._is_reserved = True
        return is_new

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
                if ledger.reserve(self.named).is_new:
                    return True
            except DpiclError:
                mark.unlink()
                raise
            mark.unlink()
        raise LedgerError(
            f"{self._request.contract.name}: this release was charged before, and its slots are "
            f"gone; restore private/ from a backup, or use --again"
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
        contract, cell = self._request.contract, self._request.cell
        names = {cell: self.named.release_id}
        votes = KeptVotes.of(
            self._settings, {cell: votes_folder(self._settings, self.named.release_id, self._rows)}
        )
        embedder = open_embedder(self._request.embedder) if self.plan.shape.embeds else None
        journal = FileJournal(self._settings, names, self._draws, self._rows)
        job = Job(
            contract, {cell: self.plan}, self._draws, journal, votes, embedder, self._spending
        )
        queries = [slot.query for slot in slots]
        public = Public(write_candidates(queries, contract, self._draws.run_seed, model), embedder)
        numbered = [(slot.number, slot.query) for slot in slots]
        answers = dp_icl.answer(
            job, dp_icl.consult(self._train, numbered, model, job), numbered, public
        )[cell]
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
    return hashlib.sha256(query.encode()).hexdigest()
