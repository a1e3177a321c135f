"""One release of 500 short texts against a plain loop, everything included: reading rows, voters,
selection, and the journal on disk.

News of four kinds from the files at hand, invisible ink with 8 voters a text, the tiny model, of
random weights: so that a release is measured as a whole, and what is not the model's own work
shows. The plain loop reads the public prompt and every voter's in a forward pass each, for every
token, and selects by the same mechanism; it takes as long for a token however many texts there are,
so that texts half written of a few stand for all; a token of it is drawn for every step of the
release, so that both meet the same machine. Processor time of one thread on both sides.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dpicl.contract.text import TextContract
from dpicl.data.text_files import load_texts, split_texts
from dpicl.ground.randomness import system_stream
from dpicl.ground.types import PrivateTable
from dpicl.home.settings import Settings
from dpicl.mechanisms.difference_token import DifferenceToken
from dpicl.methods import METHODS, Options, unit_of
from dpicl.methods.base import draws_for
from dpicl.methods.few_shot_generation import job_of, write
from dpicl.methods.few_shot_plan import TextsPlan
from dpicl.methods.few_shot_voting import (
    ENDED,
    PrivateRows,
    Text,
    WritingJob,
    WritingPrompts,
    rule_of,
)
from dpicl.methods.grid import points
from dpicl.methods.options import FewShotOptions
from dpicl.models.local.packed_rows import PackedRow
from dpicl.models.local.tree_reader import Pass
from dpicl.models.opening import open_generator
from dpicl.models.requests import Tokens
from dpicl.models.spec import ModelSpec
from dpicl.models.votes import VoteRule, candidates_of, public_votes, whole_votes
from dpicl.release.journal import FileJournal
from dpicl.release.readers import public_corpus
from lab.benchmarks.figures import Figures, sized

GOAL = 20
TEXTS, VOTERS, TOKENS, EPSILON = sized(500, 8), sized(8, 2), sized(40, 4), 4.0
SHARE = sized(40, 4)
"""Texts of which tokens of the plain loop are measured."""


def contract_and_rows(settings: Settings) -> tuple[TextContract, PrivateTable]:
    """The set as it is at hand."""
    contract = settings.texts("agnews")
    return contract, split_texts(
        load_texts(contract, data_folder=settings.data, cache_folder=settings.cache), contract
    ).train


def job_for(contract: TextContract, settings: Settings) -> WritingJob:
    """All texts, journalled in files."""
    options = FewShotOptions.model_validate(
        {
            "mechanism": "invisible-ink",
            "batches": "fixed",
            "voters": VOTERS,
            "max_tokens": TOKENS,
            "candidates": 100,
        }
    )
    unit = unit_of(
        "few_shot_generation",
        contract.name,
        0,
        (EPSILON,),
        (TEXTS,),
        (),
        False,
        Options.model_validate({"few_shot_generation": options}),
    )
    (point,) = points(METHODS[unit.method], unit).values()
    journal = FileJournal(settings, {point.key: "measured"}, draws_for(contract, 0), "rows")
    return job_of(contract, [point], journal)


@torch.inference_mode()
def plain_token(
    model: Any, prompts: Sequence[Tokens], rule: VoteRule, token: DifferenceToken
) -> int:
    """One token of one text: the first prompt is public."""
    logits = [
        model(input_ids=torch.tensor([prompt]), logits_to_keep=1, use_cache=False)
        .logits[0, -1]
        .numpy()
        for prompt in prompts
    ]
    candidates = candidates_of(logits[0], np.arange(len(logits[0])), rule, np)
    public = logits[0][candidates]
    sums = whole_votes(np.stack(logits[1:])[:, candidates], rule, np, public).sum(axis=0)
    return int(candidates[token.select(sums + public_votes(public, rule, np), system_stream())])


class PlainLoop:
    """The loop on texts that are half written, a token at a time."""

    def __init__(
        self,
        plan: TextsPlan,
        job: WritingJob,
        rows: PrivateRows,
        prompts: WritingPrompts,
        written: Tokens,
    ) -> None:
        texts = [Text(job, plan.point.key, shot, label) for shot, label in enumerate(plan.labels)]
        self.prompts_a_token = 1 + float(np.mean([len(rows.batch(text)) for text in texts]))
        self._model: Any = prompts.model
        self._rule, self._noise = (
            rule_of(plan.shape, plan),
            next(iter(plan.drawings.values())).noise.token,
        )
        voters = {
            text: [
                prompts.voter(text.label, [example]) for example in rows.examples(rows.batch(text))
            ]
            for text in texts[:SHARE]
        }
        self._tokens = [
            [prompt + written for prompt in (prompts.public(text.label), *own)]
            for text, own in voters.items()
        ]
        self._read, self._taken = list[int](), list[float]()

    def token(self, *_: int) -> None:
        """One of the next text's."""
        assert isinstance(self._noise, DifferenceToken)
        prompts = self._tokens[len(self._taken) % SHARE]
        started = time.process_time()
        plain_token(self._model._model, prompts, self._rule, self._noise)
        self._taken.append(time.process_time() - started)
        self._read.append(len(prompts))

    def warm(self) -> None:
        """A first token takes longer, and is not counted."""
        self.token()
        self._taken.clear()
        self._read.clear()

    @property
    def seconds(self) -> float:
        """Of all tokens that were drawn."""
        return sum(self._taken)

    @property
    def seconds_a_token(self) -> float:
        """Of a text with as many voters as there are on average."""
        return self.seconds / sum(self._read) * self.prompts_a_token


class TimedPass:
    """A model's own pass, and the processor seconds of every call: no reader of these weights in
    this library takes less, whatever else is saved.
    """

    is_watched = False

    def __init__(self, own: Pass) -> None:
        self.model, self._own, self.taken = own.model, own, list[float]()

    def __call__(self, row: PackedRow, among: torch.Tensor | None = None) -> torch.Tensor:
        """See `tree_reader.Pass`."""
        started = time.process_time()
        logits = self._own(row, among)
        self.taken.append(time.process_time() - started)
        return logits


def measure(figures: Figures) -> None:
    """The release, then the share of the loop."""
    torch.set_num_threads(1)
    found = Settings.from_environment()
    if found.data is None:
        print("DPICL_DATA is not set, not measured")
        return
    with tempfile.TemporaryDirectory() as folder:
        settings = replace(found, home=Path(folder))
        contract, train = contract_and_rows(found)
        model = open_generator(
            ModelSpec(name="tiny", kind="tiny"), models_folder=found.models, corpus=public_corpus()
        )
        job = job_for(contract, settings)
        (plan,) = job.plans.values()
        reader: Any = model
        prompts, written = (
            WritingPrompts(contract, model, plan.shape),
            tuple(range(300, 300 + TOKENS // 2)),
        )
        plain, passes = (
            PlainLoop(plan, job, PrivateRows(train, prompts), prompts, written),
            TimedPass(reader._pass),
        )
        reader._pass = passes
        plain.warm()
        started = time.process_time()
        # in turn, since the machine is not as fast at any time
        write(train, contract, model, [job], plain.token)
        seconds = time.process_time() - started - plain.seconds
        steps = (
            job.journal.read(plan.point.key, step) or () for step in range((TEXTS + 1) * TOKENS)
        )
        # a text that has ended is not read any more
        count = sum(number != ENDED for step in steps for number in step)
    ours, inside = seconds / count, sum(passes.taken) / count
    print(
        f"{TEXTS} texts, {count} tokens voted on, of {TEXTS * TOKENS} charged: {seconds:.0f} s of "
        f"the processor"
    )
    for name, taken in (
        ("plain loop", plain.seconds_a_token),
        ("one release", ours),
        ("its passes", inside),
    ):
        print(f"{name:>12}: {1000 * taken:7.2f} ms a token, {1 / taken:7.1f} tokens/s")
    print(
        f"with these passes and nothing else: {plain.seconds_a_token / inside:.0f} x the plain loop"
    )
    figures.at_least(f"texts-{TEXTS}-over-plain-loop", plain.seconds_a_token / ours, GOAL, "x")


def main() -> None:
    """Only this."""
    figures = Figures()
    measure(figures)
    figures.finish()


if __name__ == "__main__":
    main()
