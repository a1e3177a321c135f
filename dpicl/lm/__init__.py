"""Language models: what they are asked, and which one answers. Importing this does not load
torch.
"""

from dpicl.lm.models import open_generator, open_scorer
from dpicl.lm.requests import HashScorer, ModelDescription, Scorer, Trust
from dpicl.lm.spec import ModelSpec, resolve_model
from dpicl.lm.votes.echo import EchoGenerator
from dpicl.lm.votes.voting import GeneratorModel, VoteRequest, VoteRule, Votes, VotingSession

__all__ = [
    "EchoGenerator",
    "GeneratorModel",
    "HashScorer",
    "ModelDescription",
    "ModelSpec",
    "Scorer",
    "Trust",
    "VoteRequest",
    "VoteRule",
    "Votes",
    "VotingSession",
    "open_generator",
    "open_scorer",
    "resolve_model",
]
