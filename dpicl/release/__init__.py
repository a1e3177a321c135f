"""A release as a program uses it: a table, demonstrations, a predictor, each from what was
published, at no further cost.
"""

from dpicl.release.release import Demonstrations, Release

__all__ = ["Demonstrations", "Release"]
