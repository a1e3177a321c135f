"""How good a release is: computed from what was released alone, so that it costs nothing.

Guarantee   none spent: post-processing of what was released; rows are looked at where they are
            public only.
"""

from dpicl.quality.benchmark import Actual, Trained
from dpicl.quality.quality import quality_of
from dpicl.quality.texts import TextQuality, text_quality
from dpicl.quality.values import Marginal, Quality, Score

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
