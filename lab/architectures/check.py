"""One architecture, read through dpicl in every way and compared with plain transformers: one
prompt at a time, nothing kept.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from dpicl.ground.errors import ModelError
from dpicl.models.local.transformers_backend import TransformersScorer
from dpicl.models.requests import Sampling, Tokens
from dpicl.models.votes import VoteRequest, VoteRule, Votes, VotingSession, whole_votes
from lab.architectures.small import write_small

TOLERANCE = 3e-4
"""Nats, and shares of a vote, that rounding in float32 may make: 1.2e-4 in recurrent layers on some
processors. What is wrong is so by 1e-2.
"""
LEAST_MOVE = 1e-2
"""Nats by which the prompts' scores must differ, else the comparison would show nothing."""
ANSWERS = (" No", " Yes", " a clerk of the state", " a clerk")
"""One begins another, so that all are scored with the end of their line."""
EXAMPLE = (
    "The person is {} years old and works as a clerk. Does this person earn more? Answer: {}\n"
)
QUERY = "The person is {} years old. Does this person earn more? Answer:"
PROMPTS = (
    *(
        "".join(
            EXAMPLE.format(20 + 3 * line * (place + 1) // (1 + line % 2), ("Yes", "No")[place % 2])
            for place in range(line % 4)
        )
        + QUERY.format(30 + line)
        for line in range(7)
    ),
    "Is",
    EXAMPLE.format(41, "Yes") * 3 + QUERY.format(77),
)
UNITS = 1 << 20
RULE = VoteRule("probability", 30, UNITS)
NEW_TOKENS = 8
_WRITES = {"alone": "; texts one by one", "anew": "; texts read anew for each token"}
STEPS = ("alone", "batch", "votes", "cached votes", "writes")


@dataclass(frozen=True)
class Finding:
    """What became of an architecture.

    Args:
        verdict: `right`, `refused` by a sentence at loading, `wrong` without a word, `crashed`
            after it was loaded, or `not built`.
        reads: how prompts are read: shared beginnings, or the layout of a batch.
        sentence: of the refusal, or where it was wrong or crashed.
    """

    name: str
    verdict: str
    reads: str = ""
    sentence: str = ""


class Oracle:
    """The same model by transformers alone."""

    def __init__(self, home: Path) -> None:
        self.known = len(AutoTokenizer.from_pretrained(home))
        self._model = AutoModelForCausalLM.from_pretrained(
            home, dtype=torch.float32, local_files_only=True
        ).eval()
        ends = self._model.generation_config.eos_token_id
        self._ends = ends if isinstance(ends, list) else [ends]
        self._options = (
            {"use_cache": False}
            if "use_cache" in inspect.signature(self._model.forward).parameters
            else {}
        )

    def after(self, tokens: Tokens) -> torch.Tensor:
        """Logits of what follows a prompt."""
        with torch.inference_mode():
            return (
                self._model(input_ids=torch.tensor([tokens]), **self._options).logits[0, -1].float()
            )

    def score(self, scorer: TransformersScorer, prompt: str, answer: str) -> float:
        """See `Scorer.score`."""
        before = len(scorer.leading + scorer.encode(prompt))
        tokens = scorer.leading + scorer.encode(prompt + answer)
        # at once: some turn all positions otherwise from a length on, which may lie in the answer
        with torch.inference_mode():
            logits = self._model(input_ids=torch.tensor([tokens[:-1]]), **self._options).logits[0]
        chances = logits[before - 1 :].float().log_softmax(-1)
        return float(chances.gather(1, torch.tensor(tokens[before:])[:, None]).sum())

    def write(self, scorer: TransformersScorer, prompt: str) -> str:
        """The likeliest tokens, one after another."""
        tokens = scorer.leading + scorer.encode(prompt)
        written: Tokens = ()
        for _ in range(NEW_TOKENS):
            written += (int(self.after(tokens + written).argmax()),)
            if written[-1] in self._ends:
                break
        return scorer.decode(written)

    def votes(self, request: VoteRequest, candidates: np.ndarray) -> np.ndarray:
        """Sums of all voters for these candidates."""
        logits = torch.stack(
            [self.after(voter + request.written) for voter in request.voters or (request.public,)]
        )
        return np.asarray(whole_votes(logits[:, torch.from_numpy(candidates)], RULE, torch).sum(0))


def check(name: str, tokenizer_folder: Path, home: Path, device: str = "cpu") -> Finding:
    """Build one architecture, read it in float32 on a device, and compare with plain transformers
    on the CPU.
    """
    try:
        write_small(name, tokenizer_folder, home)
    except Exception as error:  # noqa: BLE001 - an architecture fails in any way
        return Finding(name, "not built", sentence=_sentence(error))
    gc.collect()
    try:
        scorer = TransformersScorer(str(home), device=device, token_budget=600)
    except ModelError as error:
        return Finding(
            name, "refused", sentence=str(error).replace(f"model {home.name!r}", "the model")
        )
    except Exception as error:  # noqa: BLE001 - an architecture fails in any way
        return Finding(name, "crashed", sentence=f"loading: {_sentence(error)}")
    oracle = Oracle(home)
    reads = scorer.reads
    for step, difference in zip(STEPS, _differences(scorer, oracle), strict=True):
        try:
            apart = difference()
        except Exception as error:  # noqa: BLE001 - an architecture fails in any way
            return Finding(name, "crashed", reads, f"{step}: {_sentence(error)}")
        if not apart <= TOLERANCE:
            return Finding(name, "wrong", reads, f"{step}: {apart:.2g}")
    return Finding(
        name,
        "right",
        f"{reads}{'' if scorer.steps else '; votes read anew'}{'' if scorer.writing == 'together' else _WRITES[scorer.writing]}",  # noqa: E501
    )


def _differences(scorer: TransformersScorer, oracle: Oracle) -> Iterator[Callable[[], float]]:
    """How far each way of reading is from the oracle, in the order of `STEPS`."""
    expected = np.array(
        [[oracle.score(scorer, prompt, f"{answer}\n") for answer in ANSWERS] for prompt in PROMPTS]
    )
    if np.ptp(expected, axis=0).min() < LEAST_MOVE:
        raise ModelError(
            f"the prompts' scores differ by {np.ptp(expected, axis=0).min():.2g} nats only"
        )
    yield lambda: float(
        np.abs(
            np.vstack([scorer.score([prompt], ANSWERS) for prompt in PROMPTS[::3]]) - expected[::3]
        ).max()
    )
    yield lambda: float(np.abs(scorer.score(PROMPTS, ANSWERS) - expected).max())
    public, *voters = (scorer.leading + scorer.encode(prompt) for prompt in PROMPTS)
    requests = [
        VoteRequest(public, tuple(voters[:3]), ()),
        VoteRequest(public, tuple(voters[3:]), ()),
        VoteRequest(public, (), ()),
    ]
    yield lambda: max(
        _vote_difference(oracle, request, votes)
        for request, votes in zip(requests, scorer.vote(requests, RULE), strict=True)
    )
    yield lambda: _session_difference(oracle, scorer.session(requests, RULE), requests)
    prompts = PROMPTS[:4:3]
    texts = [oracle.write(scorer, prompt) for prompt in prompts]
    yield (
        lambda: (
            float(
                [scorer.generate([prompt], Sampling(NEW_TOKENS))[0] for prompt in prompts] != texts
            )
            + float(scorer.generate(prompts, Sampling(NEW_TOKENS)) != texts)
        )
    )


def _vote_difference(oracle: Oracle, request: VoteRequest, votes: Votes) -> float:
    """Per voter; the candidates are the likeliest tokens of the public prompt that have a text."""
    public = oracle.after(request.public + request.written)[: oracle.known]
    missed = float(
        public.topk(len(votes.candidates)).values.min()
        - public[torch.from_numpy(votes.candidates)].min()
    )
    apart = (
        np.abs(oracle.votes(request, votes.candidates) - votes.sums).max()
        / UNITS
        / max(len(request.voters), 1)
    )
    return max(float(apart), missed)


def _session_difference(
    oracle: Oracle, session: VotingSession, requests: list[VoteRequest]
) -> float:
    """Of several steps, in which texts grow alike and unlike."""
    worst, written = 0.0, [(), (40,), (41,), (42, 43), (44,), tuple(range(50, 90)), (90,)]
    for step, new in enumerate(written):
        steps: list[Tokens | None] = [new, new[:1], None if step > 3 else new]
        requests = [
            VoteRequest(one.public, one.voters, one.written + (tokens or ()))
            for one, tokens in zip(requests, steps, strict=True)
        ]
        for request, votes, tokens in zip(requests, session.vote(steps), steps, strict=True):
            if (
                tokens is not None
                and votes is not None
                and step in (0, 3, len(written) - 2, len(written) - 1)
            ):
                worst = max(worst, _vote_difference(oracle, request, votes))
    return worst


def _sentence(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
