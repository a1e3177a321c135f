"""What a method's models are asked before anything is charged: public questions, in the way in
which the run will ask.

Guarantee   none spent: no row is read. Whatever fails here fails for every table alike, and costs
            nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from dpicl.contract.pipeline import Point
from dpicl.contract.text import Classification, TextContract
from dpicl.data.prompts import PUBLIC_TEXT
from dpicl.ground.errors import ModelError
from dpicl.methods.ensemble_voting import Voters, write_candidates
from dpicl.methods.few_shot_plan import GenerationShape
from dpicl.methods.few_shot_voting import WritingPrompts, rule_of
from dpicl.methods.options import FewShotVariant
from dpicl.models.asking import public_answer
from dpicl.models.embedding import Embedder
from dpicl.models.kinds import kind_named
from dpicl.models.requests import ModelDescription, Scorer
from dpicl.models.votes import GeneratorModel, VoteRequest, VoteRule, Votes

FURTHEST = 0.05
"""Share of a vote by which reading in steps may differ; `reading_mode` allows far less, of
logits.
"""

LABELS = 4
"""As many labels are written for; the longest of all is looked at too."""


def check_scores(
    model: ModelDescription, alone: np.ndarray, together: np.ndarray, *, tolerance: float
) -> None:
    """Whether scores of public prompts can be used at all.
    Raises ModelError: they are not finite, follow from what is asked beside, or do not tell the
    labels apart.

    Args:
        alone, together: of the same prompts, shape (prompts, labels), asked one by one and at once.
        tolerance: in nats, what rounding may do.
    """
    name = model.name
    if alone.shape != together.shape or not (
        np.isfinite(alone).all() and np.isfinite(together).all()
    ):
        raise ModelError(
            f"model {name!r} answers a public question with numbers that are not finite; expected "
            f"log-probabilities"
        )
    if not kind_named(model.kind).is_exact:  # servers and stand-ins are taken as they are
        return
    apart = float(np.abs(alone - together).max())
    if apart > tolerance:
        raise ModelError(
            f"model {name!r} scores a prompt by {apart:.2g} nats differently beside others; "
            f"expected a model whose attention can be padded"
        )
    if alone.shape[1] > 1 and (alone == alone[:, :1]).all():
        raise ModelError(
            f"model {name!r} scores all labels alike; expected a tokenizer that tells them apart"
        )


def check_ensemble(
    contract: TextContract, model: Scorer, embedder: Embedder | None, *, calibrated: bool
) -> None:
    """Ask as the voters of DP-ICL are asked, and place a text; where answers are texts, candidates.
    Raises DpiclError: the model, or the embedder, does not answer.
    """
    Voters(contract, model).check(calibrated)
    if embedder is None:
        return

    def placed() -> np.ndarray:
        texts = [PUBLIC_TEXT]
        if not isinstance(contract.task, Classification):
            (texts,) = write_candidates(texts, contract, 0, model).values()
        return embedder.embed(texts)

    if not np.isfinite(public_answer(model.description.name, placed)).all():
        raise ModelError(
            f"model {model.description.name!r} writes texts that lie nowhere; expected texts that "
            f"can be compared"
        )


def check_generator(
    contract: TextContract, releases: Iterable[Point[FewShotVariant]], model: GeneratorModel
) -> None:
    """Let made-up voters vote on two tokens of every label's text, and where batches are fixed in a
    voting session too. Raises DpiclError: the model does not answer, or its context is too small.
    """
    shapes = dict.fromkeys(GenerationShape.of(contract, point.options) for point in releases)
    for shape in shapes:
        public_answer(
            model.description.name,
            lambda shape=shape: _write(WritingPrompts(contract, model, shape), shape),  # type: ignore[misc]
        )


def _write(prompts: WritingPrompts, shape: GenerationShape) -> None:
    contract, requests = prompts.contract, []
    # a made-up example votes, and a prompt without one
    for label in contract.demonstrated[:LABELS]:
        public = prompts.public(label)
        text = contract.label_text(label)
        requests.append(
            VoteRequest(
                public, (prompts.voter(label, [prompts.example(PUBLIC_TEXT, text)]), public), ()
            )
        )
    check_votes(prompts.model, requests, rule_of(shape), kept=shape.fixed)


def check_votes(
    model: GeneratorModel, requests: Sequence[VoteRequest], rule: VoteRule, *, kept: bool
) -> None:
    """Let public voters vote on two tokens of each text.
    Raises ModelError: they vote for no token, or otherwise where what was read is kept.

    Args:
        kept: whether to vote in a session too.
    """
    first = model.vote(requests, rule)
    tokens = [_token(model, votes) for votes in first]
    begun = [
        VoteRequest(request.public, request.voters, (token,))
        for request, token in zip(requests, tokens, strict=True)
    ]
    second = model.vote(begun, rule)
    again: list[Votes | None] = []
    if kept:
        session = model.session(requests, rule)
        again = [*session.vote([()] * len(requests)), *session.vote([(token,) for token in tokens])]
        for one, other in zip(again, [*first, *second], strict=True):
            if one is None or _apart(one, other, rule) > FURTHEST:
                raise ModelError(
                    f"model {model.description.name!r} votes otherwise where what was read before "
                    f"is kept; expected the same votes"
                )
    for votes in [*second, *again]:
        _token(model, votes)


def _apart(one: Votes, other: Votes, rule: VoteRule) -> float:
    """Shares by which votes differ, over the candidates of either."""
    sums = [
        dict(zip(votes.candidates.tolist(), votes.sums.tolist(), strict=True))
        for votes in (one, other)
    ]
    both = sums[0].keys() & sums[1].keys()
    return max(
        (abs(sums[0][token] - sums[1][token]) / rule.units for token in both), default=float("inf")
    )


def _token(model: GeneratorModel, votes: Votes | None) -> int:
    """The likeliest candidate, which has a text."""
    if votes is None or not len(votes.candidates) or not np.asarray(votes.scores).any():
        raise ModelError(
            f"model {model.description.name!r} votes for no token; expected votes of a public "
            f"prompt"
        )
    token = int(votes.candidates[0])
    model.decode((token,))
    return token
