"""A release as a program uses it: a table, demonstrations, a predictor, each from what was
published, at no further cost.
"""

from dpicl.release.demonstrations import Demonstrations
from dpicl.release.release import Release

__all__ = ["Demonstrations", "Release"]
