"""Language models: what is asked, who answers. Importing this does not load torch."""

from dpicl.lm.models import ModelSpec, open_scorer, resolve_model
from dpicl.lm.requests import HashScorer, ModelDescription, Scorer, ScoreRequest, Trust

__all__ = [
    "HashScorer",
    "ModelDescription",
    "ModelSpec",
    "ScoreRequest",
    "Scorer",
    "Trust",
    "open_scorer",
    "resolve_model",
]
