"""DP few-shot generation: demonstrations written token by token, on each of which private rows vote
under noise.

Trust       Central: a curator and a local model read the rows; only finished texts leave.
Unit        One row.
Neighbours  ADD_OR_REMOVE_ONE; under REPLACE_ONE a row may change its label, which is charged too.
Guarantee   (epsilon, delta)-DP for a whole set of demonstrations, from the accountant; delta = 0
            with exponential noise and clipped logits. They answer any number of queries.
Paper       [T24] Tang et al. (arXiv 2309.11765), algorithm 1; [A24] Amin et al. (arXiv 2407.12108)
            for fixed batches; [VPT25] InvisibleInk (arXiv 2507.02974), by
            `mechanisms.difference_token`.

    0  y_1 ... y_k <- labels of the public list
    1  for every text z of label y, for t = 1 ... T:
    2    S <- the K likeliest tokens of LM(instruction, y, z), or all; the same for all voters
    3    D_1 ... D_M <- every row of label y takes part with probability q, in one subset   (fresh)
                        every row takes part in one text at most, as a voter of its own     (fixed)
    4    w <- noisy max over S of the sum of LM(instruction, D_i, y, z)
         w <- sampled from the noisy sums: temperature, top-k, nucleus                 (`sampling`)
         w <- sampled from LM(instruction, y, z) plus the clipped mean of differences to it, of S
         and what rows
              could lift among its K likeliest                                         (invisible
              ink)
         w <- the likeliest of S, where a sparse-vector test finds enough votes for it; at most r
         times
              it does not, and then w is selected by noisy max                          (private
              tokens)
    5    z <- z, w;  stop where w ends the text
    6  E <- the texts with their labels;  ask the model with (E, query)

An empty subset votes as the model does without private rows; with fixed batches that is one more
voter. Rows come to fixed batches by Bernoulli draws: each stands in one text at most, none in two
(without replacement across texts), and the sizes of batches are random and secret; with invisible
ink each is placed by a keyed hash of what it holds, so that no other row moves it. Everything for T
tokens, or for r private ones, is charged before the first, whenever the text ends.

Texts are written in blocks (`few_shot_voting`), whose sizes are public; how many there are
changes q and nothing else of the price.

Of texts that arrive period by period (`source.deliveries`) step 3 of a period reads those of its
file alone, and all periods of a horizon cost what one does (`few_shot_plan`).

Symbols     k shots, M subsets, T most tokens, r most private ones, K candidates, q public sampling
            rate.
Not covered queries, which are sent as they are; every (epsilon, k, seed) is a release of its own;
running time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from dpicl.accounting.events import PERIODS
from dpicl.contract.pipeline import MOST_TEXTS, Cell, Point, Unit
from dpicl.contract.text import Generation, TextContract
from dpicl.ground.types import Demonstration, PrivateTable, QueryTable
from dpicl.mechanisms.difference_token import DifferenceToken
from dpicl.mechanisms.private_token import TokenNoise
from dpicl.methods import text_answers as answers
from dpicl.methods.base import ZERO_SHOT, CellCost, CellTexts, ShownRows, draws_for, shots_of
from dpicl.methods.few_shot_plan import (
    RANDOM_ROWS,
    GenerationShape,
    amount,
    labels_of,
    plan_release,
    pool_of,
    statement,
)
from dpicl.methods.few_shot_voting import (
    Choose,
    Journal,
    PrivateRows,
    PublicVoting,
    Text,
    TextBlock,
    Voting,
    WritingJob,
    WritingPrompts,
    drafts_of,
    open_voting,
    rule_of,
    side_by_side,
)
from dpicl.methods.options import FewShotOptions, FewShotVariant
from dpicl.methods.text_method import Memory, Releases, TextMethod
from dpicl.models.votes import GeneratorModel, Votes

LIKELIEST = 0
"""Place of the candidate that the public prompt alone makes likeliest."""
Demonstrations = dict[Cell, tuple[Demonstration, ...]]
Written = dict[str, tuple[Demonstration, ...]]
"""By the key of a release."""
Progress = Callable[[int, int], None]


def job_of(
    contract: TextContract, releases: Iterable[Point[FewShotVariant]], journal: Journal
) -> WritingJob:
    """What is to be written for these releases."""
    return WritingJob({point.key: plan_release(contract, point) for point in releases}, journal)


def write(
    train: PrivateTable,
    contract: TextContract,
    model: GeneratorModel,
    jobs: Sequence[WritingJob],
    progress: Progress | None = None,
) -> list[Written]:
    """Steps 0 to 5 for all releases of all jobs, side by side where they are written in one way.
    Raises ModelError: the model's context is too small.

    Args:
        progress: called after every token with how many are drawn of a text, on average over all
            that are written in one way, and how many there may be.
    """
    written: dict[tuple[WritingJob, str], list[Demonstration]] = {}
    ways = {
        (job, key): (plan.shape, rule_of(plan.shape, plan))
        for job in jobs
        for key, plan in job.plans.items()
    }
    for shape, rule in dict.fromkeys(ways.values()):
        prompts = WritingPrompts(contract, model, shape)
        rows = PrivateRows(train, prompts)
        labels = {
            (job, key): job.plans[key].labels
            for (job, key), way in ways.items()
            if way == (shape, rule)
        }
        # a release's blocks, which name what is journalled, do not depend on what is written beside
        voters = {
            key: shape.voters or -(-sum(contract.row_bounds.values()) // len(own))
            for key, own in labels.items()
        }
        drafts = [
            draft
            for key, own in labels.items()
            for draft in drafts_of(*key, own, prompts, voters[key])
        ]
        for group in side_by_side(drafts, shape, max(voters.values())):
            _finish(
                group,
                open_voting(rows, prompts, rule),
                partial(_select, contract),
                partial(_report, drafts, progress),
            )
        for draft in drafts:
            written.setdefault((draft.job, draft.key), []).extend(draft.demonstrations())
    return [
        {key: tuple(texts) for (owner, key), texts in written.items() if owner is job}
        for job in jobs
    ]


def _select(
    contract: TextContract,
    texts: Sequence[Text],
    token: int,
    private_tokens: Mapping[Text, int],
    votes: Mapping[Text, Votes],
) -> list[tuple[int, bool]]:
    """Step 4 for the open texts of a block, which follow from what is journalled: so does what
    their draws are named by.
    """
    plan = texts[0].plan  # a block is of one release
    alike = {
        plan.drawings[pool_of(contract, label)].noise.token
        for label in {text.label for text in texts}
    }
    noise = next(iter(alike))
    if len(alike) == 1 and isinstance(noise, DifferenceToken):
        places = noise.select_all(
            [votes[text].scores for text in texts], texts[0].stream("tokens", token)
        )
        return [(place, True) for place in places]
    return [_select_one(contract, text, token, private_tokens[text], votes[text]) for text in texts]


def _select_one(
    contract: TextContract, text: Text, token: int, private_tokens: int, votes: Votes
) -> tuple[int, bool]:
    """Step 4 for one text."""
    drawing = text.plan.drawings[pool_of(contract, text.label)]
    test = drawing.noise.test
    if test is not None:
        if private_tokens == text.plan.shape.private_tokens:
            return LIKELIEST, False
        noises = test.threshold_noises(1, text.stream("threshold", private_tokens))
        sums = votes.sums[LIKELIEST : LIKELIEST + 1]
        if not test.are_below(sums, drawing.threshold, noises, text.stream("test", token)).any():
            return LIKELIEST, False
    chosen = drawing.noise.token
    stream = text.stream("token", token)
    sampling = text.plan.shape.sampling
    if isinstance(chosen, TokenNoise) and sampling is not None:
        return sampling.draw(chosen.noisy(votes.sums, stream), text.stream("sample", token)), True
    return chosen.select(votes.scores, stream), True


def write_public(contract: TextContract, unit: Unit, model: GeneratorModel) -> Demonstrations:
    """The same at epsilon = 0: sampled from the likeliest tokens after the instruction; reads no
    row and costs nothing.
    """
    shape = GenerationShape.of(contract, unit.chosen(FewShotOptions).variant("icl"))
    prompts = WritingPrompts(contract, model, shape)
    draws = draws_for(contract, unit.seed)
    job = WritingJob({}, Memory(draws))
    cells = [Cell("icl", 0.0, shots) for shots in unit.shots]
    drafts = [
        draft
        for cell in cells
        for labels in [labels_of(contract, unit.seed, shots_of(cell))]
        for draft in drafts_of(job, cell.key, labels, prompts, 1)
    ]

    def sample(
        texts: Sequence[Text], token: int, _: Mapping[Text, int], votes: Mapping[Text, Votes]
    ) -> list[tuple[int, bool]]:
        generators = (
            draws.public("instruction", f"{text.key},{text.shot},{token}").generator()
            for text in texts
        )
        shares = (votes[text].sums / votes[text].sums.sum() for text in texts)
        return [
            (int(generator.choice(len(share), p=share)), False)
            for generator, share in zip(generators, shares, strict=True)
        ]

    _finish(drafts, PublicVoting(prompts), sample)
    return {
        cell: tuple(
            text for draft in drafts if draft.key == cell.key for text in draft.demonstrations()
        )
        for cell in cells
    }


def _finish(
    drafts: Sequence[TextBlock],
    voting: Voting,
    choose: Choose,
    report: Callable[[], None] = lambda: None,
) -> None:
    while written := {text: tokens for draft in drafts for text, tokens in draft.open.items()}:
        votes = voting.votes(written)
        for draft in drafts:
            if draft.is_open:
                draft.advance(votes, choose)
        report()


def _report(drafts: Sequence[TextBlock], progress: Progress | None) -> None:
    if progress is not None:
        most = drafts[0].most
        progress(
            sum(draft.steps if draft.is_open else most for draft in drafts) // len(drafts), most
        )


def random_rows(train: PrivateTable, contract: TextContract, unit: Unit) -> Demonstrations:
    """Real rows in place of texts, where the unit asks for epsilon = infinity: what the paper
    compares with; benchmarks only.
    """
    if math.inf not in unit.epsilons:
        return {}
    texts = train.data.column("text")
    labels = np.array(train.data.column("label").to_pylist(), dtype=object)
    demonstrations = {}
    for shots in unit.shots:
        generator = draws_for(contract, unit.seed).public(RANDOM_ROWS, f"shots={shots}").generator()
        every = np.arange(len(labels))
        of_label = {
            label: np.flatnonzero(labels == label)
            for label in set(labels)
            if contract.is_classification
        }
        pools = [of_label.get(label, every) for label in labels_of(contract, unit.seed, shots)]
        rows = [int(generator.choice(pool)) for pool in pools]
        demonstrations[Cell(RANDOM_ROWS, math.inf, shots)] = tuple(
            Demonstration(str(labels[row]), texts[row].as_py()) for row in rows
        )
    return demonstrations


class FewShotGeneration(TextMethod):
    """Steps 0 to 6: every set of demonstrations is a release of its own."""

    name = "few_shot_generation"
    title = "DP few-shot generation"
    trust = "central"
    answers_queries = False
    baselines_read = "none"
    options = FewShotOptions
    is_default = True
    draw_version = 1
    post_version = 1
    artefact = "released_texts.json"
    votes_on_tokens = True
    most_shots = MOST_TEXTS
    makes_series = True

    def sizes(self, contract: TextContract) -> Generation | None:
        """See `TextMethod`."""
        return contract.generation

    def systems(self, options: FewShotOptions) -> tuple[str, ...]:
        """See `Method`."""
        return (*(f"icl-{name}" for name in options.variants), RANDOM_ROWS)

    def evaluated_cells(self, unit: Unit) -> Iterator[Cell]:
        """Also what is written from the instruction alone: epsilon = 0."""
        yield from super().evaluated_cells(unit)
        yield from (Cell("icl", 0.0, shots) for shots in unit.shots)

    def cost(self, contract: TextContract, point: Point[FewShotVariant]) -> CellCost:
        """See `Method`."""
        return CellCost(plan_release(contract, point).guarantee)

    def identity(self, contract: TextContract, point: Point[FewShotVariant]) -> dict[str, object]:
        """See `Method`."""
        chosen = point.options.model_dump(mode="json", by_alias=True)
        if not self.is_series(contract):
            return chosen
        periods = contract.periods
        return {**chosen, PERIODS: len(periods), "first": periods[0], "last": periods[-1]}

    def statement(
        self, contract: TextContract, point: Point[FewShotVariant], cost: CellCost
    ) -> str:
        """See `few_shot_plan.statement`."""
        return statement(contract, point, of_period=self.is_series(contract))

    def noise(self, contract: TextContract, point: Point[FewShotVariant]) -> str:
        """See `TextMethod`."""
        return amount(plan_release(contract, point))

    def encode(self, drawn: tuple[Demonstration, ...]) -> list[dict[str, str]]:
        """Texts with their labels."""
        return [{"label": shot.label, "text": shot.text} for shot in drawn]

    def decode(self, content: list[dict[str, str]]) -> tuple[Demonstration, ...]:
        """See `encode`."""
        return tuple(Demonstration(shot["label"], shot["text"]) for shot in content)

    def written(self, released: Releases) -> CellTexts:
        """See `TextMethod`."""
        return {cell: [shot.text for shot in texts] for cell, texts in released.items()}

    def examples(
        self, released: Releases, public: Releases, queries: QueryTable, contract: TextContract
    ) -> CellTexts:
        """All of them, as they stand in a prompt."""
        return {
            cell: answers.shown(texts, contract) for cell, texts in {**released, **public}.items()
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
        """Step 6, and without demonstrations."""
        shown = {ZERO_SHOT: (), **released, **public, **random_rows(train, contract, unit)}
        return answers.prompts_for(shown, queries, contract)

    def shown(self, released: Releases, contract: TextContract) -> ShownRows:
        """One row per text."""
        noisy = {cell: texts for cell, texts in released.items() if cell.epsilon != math.inf}
        return [
            {"cell": cell.key, "label": shot.label, "text": shot.text}
            for cell, texts in noisy.items()
            for shot in texts
        ]
