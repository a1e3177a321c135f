"""What a release would be worth, before anything is charged: from the contract, a stated number of
rows and epsilon alone.

How good a release is: computed from what was released alone, so that it costs nothing.
"""

from dpicl.quality.measures import Marginal, Quality, Score, quality_of
from dpicl.quality.replicates import Actual, Trained
from dpicl.quality.texts import TextQuality, text_quality

__all__ = [
    "Actual",
    "Marginal",
    "Quality",
    "Score",
    "TextQuality",
    "Trained",
    "quality_of",
    "text_quality",
]
