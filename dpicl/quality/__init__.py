"""How good a release is: before anything is charged by public facts alone, after it by what was
released, at no cost either way.
"""

from dpicl.quality.worth import Marginal, Quality, ReleasePoint, Score

__all__ = ["Marginal", "Quality", "ReleasePoint", "Score"]
