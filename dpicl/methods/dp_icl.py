"""DP-ICL: an ensemble of prompts, each with a few private rows, answers every query, and noise
stands between them and the answer.

Trust       Central: a curator and a model that may see the rows; only aggregated answers leave.
Unit        One row, or one person: all rows of a person fall into one prompt, no more than the
            contract says.
Neighbours  ADD_OR_REMOVE_ONE; votes and embeddings with gaussian noise under REPLACE_ONE too.
Guarantee   (epsilon, delta)-DP for the answers to all queries of a release together, from the
            accountant. There is no answer beyond those queries.
Paper       [W23] Wu et al. (arXiv 2305.01639), algorithms 1 to 4, with what `ensemble.plan` and the
            mechanisms say about its accounting. Soft votes: Private PoEtry (arXiv 2602.05012).

    for every query x of Q:
    1  D_1 ... D_M <- every row takes part with probability q, in the prompt that its keyed hash
       names; with `similarity` it takes part where it is near to x, and took part in fewer than K
       queries before
    2  a_i <- LM(D_i, x)                                     labels, log-probabilities or texts
       calibrated       log p_i(label) less log sum_f p(label | D_i, f),  f texts without content:
                        of D_i alone, nothing of other voters
    3  votes            label <- noisy max of #{i: a_i = label}
       soft votes       label <- noisy max of sum_i clipped log p_i(label),  every D_i one row
       embedding        z <- sum_i clip(E(a_i) - c) + noise;  the candidate text nearest to c + z /
                        M
       keywords, PTR    words <- the top k of #{i: word in a_i}, if a noisy test finds them stable
       keywords, joint  words <- a sequence of words of x, likelier the more a_i hold them
    4  with keywords: the model is asked once more, without rows, for an answer that uses them

Candidates and c, their mean, are written without private rows. Everything for Q queries is charged
before the first; with `similarity` what K of them cost.

Symbols     M prompts, q public sampling rate, E a public sentence embedding, k keywords, K
            participations of a row.
Not covered queries, which are sent as they are; running time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np

from dpicl.contract.pipeline import Cell, Unit
from dpicl.contract.text import Ensemble, TextContract
from dpicl.data.prompts import asking_demonstration, asking_prompt, keywords_query
from dpicl.ground.errors import PrivacyError
from dpicl.ground.randomness import Draws
from dpicl.ground.types import Demonstration, PrivateTable, QueryTable
from dpicl.methods import text_answers as answers
from dpicl.methods.base import ZERO_SHOT, CellCost, Reads, Trust, draws_for
from dpicl.methods.ensemble_plan import (
    FEW_SHOT,
    EnsemblePlan,
    aggregation_of,
    amount,
    is_calibrated,
    plan_cell,
    plans,
    statement,
)
from dpicl.methods.ensemble_voting import (
    Answer,
    Placement,
    Public,
    Spending,
    Voters,
    Votes,
    admitted,
    asked_of_each,
    decide,
    write_candidates,
)
from dpicl.methods.options import EnsembleOptions
from dpicl.methods.text_method import Memory, Releases, Secrets, StoredVotes, TextMethod
from dpicl.models.embedding import Embedder
from dpicl.models.requests import Scorer

PROMPTS_AT_ONCE = 256
EXAMPLES = 3
"""Answers that are shown."""
Released = dict[Cell, list[Answer]]
Numbered = Sequence[tuple[int, str]]
"""Queries with their index in a release: an index and its query belong together."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class AnsweringJob:
    """One unit's share of the work: the cells that are answered, and where draws come from and
    votes are stored.
    """

    contract: TextContract
    plans: Mapping[Cell, EnsemblePlan]
    draws: Draws
    secrets: Secrets
    stored: StoredVotes
    embedder: Embedder | None = None
    """Where a plan retrieves rows by their similarity to a query."""
    spending: Spending | None = None
    """How often rows took part before, of one release whose queries come one by one; None where
    they all come at once, in their order.
    """

    def placement(self, train: PrivateTable, cell: Cell) -> Placement:
        """Where rows fall: by a secret key of each release; on a benchmark all epsilons see the
        same prompts, which costs nothing there.
        """
        plan, person = self.plans[cell], self.contract.privacy.person
        if self.draws.simulated:
            key = self.draws.public("ensemble", f"shots={cell.shots}").bytes(32)
        else:
            key = (
                self.secrets.stream(cell, "placement").bytes(32)
                if self.spending is None
                else self.spending.key
            )
        return Placement(
            train, key, plan.rate, plan.shape, None if person is None else person.max_rows
        )

    def taking(self, placement: Placement, queries: Numbered, cell: Cell) -> Placement:
        """The same, with the rows that take part in these queries, where they are retrieved."""
        if placement.shape.similarity is None:
            return placement
        assert self.embedder is not None
        return replace(
            placement,
            taking=admitted(placement, queries, self.embedder, self.spending, self.stored, cell),
        )


def consult(
    train: PrivateTable,
    queries: Numbered,
    model: Scorer,
    job: AnsweringJob,
    progress: Progress | None = None,
) -> dict[Cell, list[Votes]]:
    """Steps 1 and 2 for all cells: clean votes on every query; cells that see the same prompts and
    are asked alike share them, and what is stored already is not asked again. Raises ModelError:
    the model fails, for another reason than what stands in a prompt.
    """
    voters, by_name, by_cell = Voters(job.contract, model), dict[str, list[Votes]](), {}
    for cell in job.plans:
        placement = job.placement(train, cell)
        name, shape = placement.name, placement.shape
        if name not in by_name:
            by_name[name], placement = [], job.taking(placement, queries, cell)
            size = max(1, PROMPTS_AT_ONCE // (shape.subsets * asked_of_each(shape)))
            for part in (queries[start : start + size] for start in range(0, len(queries), size)):
                by_name[name] += _stored(
                    partial(voters.votes, placement), part, name, cell, job.stored
                )
                if progress is not None:
                    progress(len(by_name[name]), len(queries))
        by_cell[cell] = by_name[name]
    return by_cell


def _stored(
    vote: Callable[[Numbered], list[Votes]],
    queries: Numbered,
    name: str,
    cell: Cell,
    stored: StoredVotes,
) -> list[Votes]:
    """The votes that stand, cast now where there are none."""
    names = {number: f"{name} {number}" for number, _ in queries}
    missing = [
        (number, query) for number, query in queries if stored.read(cell, names[number]) is None
    ]
    mine = {
        number: json.dumps(votes).encode()
        for (number, _), votes in zip(missing, vote(missing) if missing else (), strict=True)
    }
    for number, content in mine.items():
        stored.write(cell, names[number], content)
    return [
        cast(Votes, json.loads(stored.read(cell, names[number]) or mine[number]))
        for number, _ in queries
    ]


def answer(
    job: AnsweringJob, votes: Mapping[Cell, Sequence[Votes]], queries: Numbered, public: Public
) -> Released:
    """Step 3 for every cell, query after query: what `public` embedded for one cell serves the
    next.
    """
    released: Released = {cell: [] for cell in job.plans}
    for place, (number, query) in enumerate(queries):
        for cell, plan in job.plans.items():
            stream = job.secrets.stream(cell, f"answer {number}")
            released[cell].append(
                decide(plan, votes[cell][place], query, job.contract, stream, public)
            )
    return released


def real_rows(
    train: PrivateTable, contract: TextContract, unit: Unit
) -> dict[Cell, tuple[Demonstration, ...]]:
    """Random rows in one prompt, without noise: what the paper compares with, where the unit asks
    for epsilon = infinity; benchmarks only.
    """
    if math.inf not in unit.epsilons:
        return {}
    labels, texts, demonstrations = train.data.column("label"), train.data.column("text"), {}
    for shots in unit.shots:
        generator = draws_for(contract, unit.seed).public(FEW_SHOT, f"shots={shots}").generator()
        rows = [int(row) for row in generator.permutation(train.row_count)[:shots]]
        demonstrations[Cell(FEW_SHOT, math.inf, shots)] = tuple(
            Demonstration(labels[row].as_py(), texts[row].as_py()) for row in rows
        )
    return demonstrations


def answer_text(contract: TextContract, one: Answer) -> str:
    """An answer as people read it."""
    return ", ".join(one) if isinstance(one, list) else contract.label_text(one)


class DpIcl(TextMethod):
    """Steps 1 to 4: the answers of every cell to all queries are a release of their own."""

    name = "dp_icl"
    title = "DP-ICL"
    trust: ClassVar[Trust] = "central"
    answers_queries = True
    baselines_read: ClassVar[Reads] = "none"
    options = EnsembleOptions
    draw_version = 1
    post_version = 1
    artefact = "released_answers.json"
    votes_on_tokens = False

    def sizes(self, contract: TextContract) -> Ensemble | None:
        """See `TextMethod`."""
        return contract.ensemble

    def systems(self, unit: Unit) -> tuple[str, ...]:
        """See `Method`."""
        return (*(f"icl-{name}" for name in unit.chosen(EnsembleOptions).variants), FEW_SHOT)

    def refuse_run(self, contract: TextContract) -> None:
        """A run's release is answers: to private texts there are none."""
        if contract.evaluation != "public":
            raise PrivacyError(
                f"{contract.name}: a run of {self.name} answers queries, and held-out texts with "
                f"something at stake are no public ones; "
                "expected `source.queries` with texts declared public, or `dpicl ask` with "
                "queries of yours"
            )

    def releases(self, contract: TextContract, unit: Unit) -> dict[Cell, CellCost]:
        """See `Method`."""
        return {cell: CellCost(plan.guarantee) for cell, plan in plans(contract, unit).items()}

    def identity(self, contract: TextContract, unit: Unit, cell: Cell) -> dict[str, object]:
        """See `Method`."""
        chosen = unit.chosen(EnsembleOptions).variant(cell.system)
        named = chosen.model_copy(update={"calibrate": None}).model_dump(mode="json")
        return {**named, "calibrate": True} if is_calibrated(contract, chosen) else named

    def statement(self, contract: TextContract, unit: Unit, cell: Cell, cost: CellCost) -> str:
        """See `ensemble.plan`."""
        return statement(contract, unit, cell)

    def embeds(self, contract: TextContract, unit: Unit, cell: Cell) -> bool:
        """See `TextMethod`."""
        chosen = unit.chosen(EnsembleOptions).variant(cell.system)
        return chosen.similarity is not None or aggregation_of(contract, chosen) == "embedding"

    def calibrates(self, contract: TextContract, unit: Unit, cell: Cell) -> bool:
        """See `TextMethod`."""
        return is_calibrated(contract, unit.chosen(EnsembleOptions).variant(cell.system))

    def noise(self, contract: TextContract, unit: Unit, cell: Cell) -> str:
        """See `TextMethod`."""
        return amount(plan_cell(contract, unit, cell).noise)

    def encode(self, drawn: list[Answer]) -> list[Answer]:
        """As they are."""
        return drawn

    def decode(self, content: list[Answer]) -> list[Answer]:
        """As they are."""
        return content

    def in_memory(
        self,
        train: PrivateTable,
        queries: QueryTable,
        contract: TextContract,
        unit: Unit,
        model: Scorer,
        embedder: Embedder | None,
    ) -> tuple[Released, Released]:
        """Steps 1 to 3."""
        self.check_free(contract, unit)
        draws = draws_for(contract, unit.seed)
        memory, texts = Memory(draws), queries.data.column("text").to_pylist()
        job, numbered = (
            AnsweringJob(contract, plans(contract, unit), draws, memory, memory, embedder),
            list(enumerate(texts)),
        )
        public = Public(write_candidates(texts, contract, unit.seed, model), embedder)
        return answer(job, consult(train, numbered, model, job), numbered, public), {}

    def examples(
        self, released: Releases, public: Releases, queries: QueryTable, contract: TextContract
    ) -> dict[Cell, list[str]]:
        """The first answers, with their queries."""
        texts = queries.data.column("text").to_pylist()[:EXAMPLES]
        return {
            cell: [
                asking_demonstration(contract, text, answer_text(contract, one))
                for text, one in zip(texts, given, strict=False)
            ]
            for cell, given in released.items()
        }

    def prompts(
        self,
        released: Releases,
        public: Releases,
        train: PrivateTable,
        queries: QueryTable,
        contract: TextContract,
        unit: Unit,
    ) -> dict[Cell, list[str]]:
        """Step 4 for released keywords, and what the paper compares with: real rows, and no
        demonstrations.
        """
        shown = {ZERO_SHOT: (), **real_rows(train, contract, unit)}
        prompts = {
            cell: answers.prompts_for(demonstrations, queries, contract)
            for cell, demonstrations in shown.items()
        }
        texts = queries.data.column("text").to_pylist()
        for cell, given in released.items():
            if all(isinstance(one, list) for one in given):
                with_keywords = [
                    keywords_query(contract, text, words)
                    for text, words in zip(texts, given, strict=True)
                ]
                prompts[cell] = [asking_prompt(contract, [], query) for query in with_keywords]
        return prompts

    def final_answers(self, released: Releases, contract: TextContract) -> dict[Cell, np.ndarray]:
        """Of labels, by their number, and of texts; keywords are asked once more."""
        names = list(contract.demonstrated)
        final = {
            cell: given
            for cell, given in released.items()
            if all(isinstance(one, str) for one in given)
        }
        return {
            cell: np.array(
                [names.index(one) for one in given] if contract.is_classification else given
            )
            for cell, given in final.items()
        }

    def shown(self, released: Releases, contract: TextContract) -> list[dict[str, Any]]:
        """One row per answer."""
        return [
            {"cell": cell.key, "query": number, "answer": answer_text(contract, one)}
            for cell, given in released.items()
            if cell.epsilon != math.inf
            for number, one in enumerate(given)
        ]
