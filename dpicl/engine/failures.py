"""What gets out of work on private rows that fails: our own one-sentence errors as they are, any
other by its kind and where it arose; no message of a library, which may quote a value.
"""

from __future__ import annotations

import errno
import functools
import traceback
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from dpicl.errors import DataError, DpiclError, RunError
from dpicl.installed import extra_of

P = ParamSpec("P")
T = TypeVar("T")
_OF_A_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)
"""Of these errors the file is named, which tells of no row: what to make room on."""


class StageFailed(Exception):
    """An unforeseen failure, described without any value: worth a retry."""


def clean_errors(stage: str, function: Callable[P, T]) -> Callable[P, T]:
    """Let our own errors through; rewrite all others."""

    @functools.wraps(function)
    def clean(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            return function(*arguments, **options)
        except DataError as error:
            error.__context__ = None  # a library's words, and frames that hold rows
            raise error.with_traceback(None) from None
        except (DpiclError, StageFailed):
            raise
        except ImportError as error:
            raise (
                RunError(needed) if (needed := extra_of(error)) else _unforeseen(stage, error)
            ) from None
        except OSError as error:
            place = f"{error.filename}: " if error.errno in _OF_A_DISK and error.filename else ""
            raise StageFailed(
                f"{stage}: {place}{error.strerror or type(error).__name__} (errno {error.errno})"
            ) from None
        except MemoryError:
            raise RunError(f"{stage}: out of memory") from None
        except Exception as error:
            raise _unforeseen(stage, error) from None

    return clean


def _unforeseen(stage: str, error: Exception) -> StageFailed:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return StageFailed(f"{stage}: {type(error).__name__} at {frame.name}:{frame.lineno}")
