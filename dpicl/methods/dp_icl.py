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
from typing import cast

import numpy as np

from dpicl.contract.pipeline import Cell, Point, Unit
from dpicl.contract.text import Ensemble, TextContract
from dpicl.data.prompts import asking_demonstration, asking_prompt, keywords_query
from dpicl.ground.errors import PrivacyError
from dpicl.ground.randomness import Draws
from dpicl.ground.types import Demonstration, PrivateTable, QueryTable
from dpicl.methods import text_answers as answers
from dpicl.methods.base import ZERO_SHOT, CellCost, CellTexts, ShownRows, draws_for
from dpicl.methods.ensemble_plan import (
    FEW_SHOT,
    EnsemblePlan,
    aggregation_of,
    amount,
    is_calibrated,
    plan_release,
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
)
from dpicl.methods.options import EnsembleOptions, EnsembleVariant
from dpicl.methods.text_method import Releases, Secrets, StoredVotes, TextMethod
from dpicl.models.embedding import Embedder
from dpicl.models.requests import Scorer

PROMPTS_AT_ONCE = 256
EXAMPLES = 3
"""Answers that are shown."""
Released = dict[str, list[Answer]]
"""By the key of a release."""
Numbered = Sequence[tuple[int, str]]
"""Queries with their index in a release: an index and its query belong together."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class AnsweringJob:
    """One unit's share of the work: the releases that are answered, by their keys, and where draws
    come from and votes are stored.
    """

    contract: TextContract
    plans: Mapping[str, EnsemblePlan]
    draws: Draws
    secrets: Secrets
    stored: StoredVotes
    embedder: Embedder | None = None
    """Where a plan retrieves rows by their similarity to a query."""
    spending: Spending | None = None
    """How often rows took part before, of one release whose queries come one by one; None where
    they all come at once, in their order.
    """

    def placement(self, train: PrivateTable, key: str) -> Placement:
        """Where rows fall: by a secret key of each release; on a benchmark all epsilons see the
        same prompts, which costs nothing there.
        """
        plan = self.plans[key]
        person = self.contract.person
        if self.draws.simulated:
            secret = self.draws.public("ensemble", f"shots={plan.point.shots}").bytes(32)
        elif self.spending is None:
            secret = self.secrets.stream(key, "placement").bytes(32)
        else:
            secret = self.spending.key
        return Placement(
            train, secret, plan.rate, plan.shape, None if person is None else person.max_rows
        )

    def taking(self, placement: Placement, queries: Numbered, key: str) -> Placement:
        """The same, with the rows that take part in these queries, where they are retrieved."""
        if placement.shape.similarity is None:
            return placement
        assert self.embedder is not None
        return replace(
            placement,
            taking=admitted(placement, queries, self.embedder, self.spending, self.stored, key),
        )


def consult(
    train: PrivateTable,
    queries: Numbered,
    model: Scorer,
    job: AnsweringJob,
    progress: Progress | None = None,
) -> dict[str, list[Votes]]:
    """Steps 1 and 2 for all releases: clean votes on every query; those that see the same prompts
    and are asked alike share them, and what is stored already is not asked again. Raises
    ModelError: the model fails, for another reason than what stands in a prompt.
    """
    voters = Voters(job.contract, model)
    by_name = dict[str, list[Votes]]()
    by_key = {}
    for key in job.plans:
        placement = job.placement(train, key)
        name, shape = placement.name, placement.shape
        if name not in by_name:
            by_name[name], placement = [], job.taking(placement, queries, key)
            size = max(1, PROMPTS_AT_ONCE // (shape.subsets * asked_of_each(shape)))
            for part in (queries[start : start + size] for start in range(0, len(queries), size)):
                by_name[name] += _stored(
                    partial(voters.votes, placement), part, name, key, job.stored
                )
                if progress is not None:
                    progress(len(by_name[name]), len(queries))
        by_key[key] = by_name[name]
    return by_key


def _stored(
    vote: Callable[[Numbered], list[Votes]],
    queries: Numbered,
    name: str,
    key: str,
    stored: StoredVotes,
) -> list[Votes]:
    """The votes that stand, cast now where there are none."""
    names = {number: f"{name} {number}" for number, _ in queries}
    missing = [
        (number, query) for number, query in queries if stored.read(key, names[number]) is None
    ]
    mine = {
        number: json.dumps(votes).encode()
        for (number, _), votes in zip(missing, vote(missing) if missing else (), strict=True)
    }
    for number, content in mine.items():
        stored.write(key, names[number], content)
    return [
        cast(Votes, json.loads(stored.read(key, names[number]) or mine[number]))
        for number, _ in queries
    ]


def answer(
    job: AnsweringJob, votes: Mapping[str, Sequence[Votes]], queries: Numbered, public: Public
) -> Released:
    """Step 3 for every release, query after query: what `public` embedded for one serves the
    next.
    """
    released: Released = {key: [] for key in job.plans}
    for place, (number, query) in enumerate(queries):
        for key, plan in job.plans.items():
            stream = job.secrets.stream(key, f"answer {number}")
            released[key].append(
                decide(plan, votes[key][place], query, job.contract, stream, public)
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
    labels = train.data.column("label")
    texts = train.data.column("text")
    demonstrations = {}
    for shots in unit.shots:
        generator = draws_for(contract, unit.seed).public(FEW_SHOT, f"shots={shots}").generator()
        rows = [int(row) for row in generator.permutation(train.row_count)[:shots]]
        demonstrations[Cell(FEW_SHOT, math.inf, shots)] = tuple(
            Demonstration(labels[row].as_py(), texts[row].as_py()) for row in rows
        )
    return demonstrations


def answer_text(contract: TextContract, answer: Answer) -> str:
    """An answer as people read it."""
    return ", ".join(answer) if isinstance(answer, list) else contract.label_text(answer)


class DpIcl(TextMethod):
    """Steps 1 to 4: the answers of every cell to all queries are a release of their own."""

    name = "dp_icl"
    title = "DP-ICL"
    trust = "central"
    answers_queries = True
    baselines_read = "none"
    options = EnsembleOptions
    draw_version = 1
    post_version = 1
    artefact = "released_answers.json"
    votes_on_tokens = False

    def sizes(self, contract: TextContract) -> Ensemble | None:
        """See `TextMethod`."""
        return contract.ensemble

    def systems(self, options: EnsembleOptions) -> tuple[str, ...]:
        """See `Method`."""
        return (*(f"icl-{name}" for name in options.variants), FEW_SHOT)

    def refuse_run(self, contract: TextContract) -> None:
        """A run's release is answers: to private texts there are none."""
        if contract.evaluation != "public":
            raise PrivacyError(
                f"{contract.name}: a run of {self.name} answers queries, and held-out texts with "
                "something at stake are no public ones; expected `source.queries` with texts "
                "declared public, or `dpicl ask` with queries of yours"
            )

    def cost(self, contract: TextContract, point: Point[EnsembleVariant]) -> CellCost:
        """See `Method`."""
        return CellCost(plan_release(contract, point).guarantee)

    def identity(self, contract: TextContract, point: Point[EnsembleVariant]) -> dict[str, object]:
        """See `Method`."""
        named = point.options.model_copy(update={"calibrate": None}).model_dump(mode="json")
        return {**named, "calibrate": True} if self.calibrates(contract, point) else named

    def statement(
        self, contract: TextContract, point: Point[EnsembleVariant], cost: CellCost
    ) -> str:
        """See `ensemble_plan`."""
        return statement(contract, point)

    def embeds(self, contract: TextContract, point: Point[EnsembleVariant]) -> bool:
        """See `TextMethod`."""
        chosen = point.options
        return chosen.similarity is not None or aggregation_of(contract, chosen) == "embedding"

    def calibrates(self, contract: TextContract, point: Point[EnsembleVariant]) -> bool:
        """See `TextMethod`."""
        return is_calibrated(contract, point.options)

    def noise(self, contract: TextContract, point: Point[EnsembleVariant]) -> str:
        """See `TextMethod`."""
        return amount(plan_release(contract, point).noise)

    def encode(self, drawn: list[Answer]) -> list[Answer]:
        """As they are."""
        return drawn

    def decode(self, content: list[Answer]) -> list[Answer]:
        """As they are."""
        return content

    def examples(
        self, released: Releases, public: Releases, queries: QueryTable, contract: TextContract
    ) -> CellTexts:
        """The first answers, with their queries."""
        texts = queries.data.column("text").to_pylist()[:EXAMPLES]
        return {
            cell: [
                asking_demonstration(contract, text, answer_text(contract, answer))
                for text, answer in zip(texts, of_cell, strict=False)
            ]
            for cell, of_cell in released.items()
        }

    def prompts(
        self,
        released: Releases,
        public: Releases,
        train: PrivateTable,
        queries: QueryTable,
        contract: TextContract,
        unit: Unit,
    ) -> CellTexts:
        """Step 4 for released keywords, and what the paper compares with: real rows, and no
        demonstrations.
        """
        shown = {ZERO_SHOT: (), **real_rows(train, contract, unit)}
        prompts = answers.prompts_for(shown, queries, contract)
        texts = queries.data.column("text").to_pylist()
        for cell, given in released.items():
            if all(isinstance(member, list) for member in given):
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
            if all(isinstance(text, str) for text in given)
        }
        return {
            cell: np.array(
                [names.index(name) for name in given] if contract.is_classification else given
            )
            for cell, given in final.items()
        }

    def shown(self, released: Releases, contract: TextContract) -> ShownRows:
        """One row per answer."""
        return [
            {"cell": cell.key, "query": number, "answer": answer_text(contract, answered)}
            for cell, given in released.items()
            if cell.epsilon != math.inf
            for number, answered in enumerate(given)
        ]
