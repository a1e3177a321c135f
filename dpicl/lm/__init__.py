"""Language models: what is asked, who answers. Importing this does not load torch."""

from dpicl.lm.models import ModelSpec, open_scorer, open_writer, resolve_model
from dpicl.lm.requests import HashScorer, ModelDescription, Scorer, ScoreRequest, Trust
from dpicl.lm.votes.echo import EchoWriter
from dpicl.lm.votes.voting import Ballot, VoteRule, Votes, VotingSession, Writer

__all__ = [
    "Ballot",
    "EchoWriter",
    "HashScorer",
    "ModelDescription",
    "ModelSpec",
    "ScoreRequest",
    "Scorer",
    "Trust",
    "VoteRule",
    "Votes",
    "VotingSession",
    "Writer",
    "open_scorer",
    "open_writer",
    "resolve_model",
]
