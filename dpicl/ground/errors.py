"""Errors a user can fix: one sentence each, of public facts alone.

Every message names the file, key or column, the rule, and the expected shape with the fix. What
rows tell, such as how many of them break the rule, stands apart (`details`): the command line
prints it on the terminal and exits with code 2.

What gets out of work on private rows that fails: our own one-sentence errors as they are, any other
by its kind and where it arose; no message of a library, which may quote a value.
"""

from __future__ import annotations

import errno
import functools
import traceback
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, Self, TypeVar
from weakref import WeakKeyDictionary

from dpicl.ground.installed import extra_of
from dpicl.ground.printable import is_read_by_holder, printable

_SHOWN_CHARACTERS = 300
_LONG_LIST = 120
_DETAILS: WeakKeyDictionary[BaseException, str] = WeakKeyDictionary()
"""Beside the errors: what shows, stores or pickles an error with all its attributes has none of
it.
"""


class DpiclError(Exception):
    """Base of everything the command line reports as a user's mistake (exit code 2).

    Control and direction marks in a message are shown in place of being obeyed: it may reach a
    terminal, a log or a page.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(printable(message, lines=False))

    def details(self) -> str:
        """The sentence for the person who may see the rows: with counts of private rows, which
        `str` never has.
        """
        return _DETAILS.get(self) or str(self)

    def told(self) -> str:
        """The sentence for standard error: with details where the holder of the rows reads it."""
        return self.details() if is_read_by_holder() else str(self)

    def with_details(self, sentence: str) -> Self:
        """The error, with this for `details`."""
        _DETAILS[self] = printable(sentence, lines=False)
        return self

    def __reduce__(self) -> Any:
        """Errors cross processes, as public facts; pickle's own way would call the constructor with
        the message alone.
        """
        return BaseException.__new__, (type(self), *self.args), vars(self)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


class DeclarationError(DpiclError):
    """A contract or pipeline file breaks a rule.

    The message reads `FILE: KEY: RULE; expected SHAPE`. Where several rules are broken, it is of
    the first, and `problems` has an error of each.
    """

    problems: tuple[DeclarationError, ...] = ()

    def __init__(
        self, file: str, key: str, rule: str, expected: str = "", *, more: str = ""
    ) -> None:
        file, key, rule, expected = map(_short, (file, key, rule, expected))
        self.file = file
        self.key = key
        self.rule = rule
        self.expected = expected
        where = f"{file}: {key}: " if key else f"{file}: "
        shape = f"; expected {expected}" if expected else ""
        super().__init__(f"{where}{rule}{shape}{more}")


class DataError(DpiclError):
    """A table breaks a rule of its contract.

    The message names the file, the column, the rule and the fix: public facts, whatever the rows
    hold. A name that only the source has is one of them, but where the header may be a row
    (`dpicl.data.reading.parse`).

    Args:
        count: how many values break the rule; like `detail`, what else rows tell, it is in
            `details()` alone.
    """

    def __init__(
        self, where: str, rule: str, *, column: str = "", count: int | None = None, detail: str = ""
    ) -> None:
        self.where = where
        self.rule = rule
        self.column = column
        sentence = f"{where}: {f'column {column!r}: ' if column else ''}{rule}"
        super().__init__(sentence)
        counted = "" if count is None else f"{count} {'value' if count == 1 else 'values'}"
        if told := ", ".join(filter(None, (counted, detail))):
            self.with_details(f"{sentence} ({told})")


class ParameterError(DpiclError):
    """A public parameter is outside its range; the message says `name=value` and the range."""

    def __init__(self, name: str, value: object, expected: str) -> None:
        self.name = name
        self.value = value
        self.expected = expected
        super().__init__(f"{name}={_short(str(value))}: expected {_short(expected)}")


class StandingFileError(ParameterError):
    """Another file stands where one is to be written; said alike to a program and to a command,
    which have other names for the place.
    """

    def __init__(self, file: str, instead: str = "choose another name") -> None:
        self.name, self.value, self.expected = "path", file, "a new file"
        DpiclError.__init__(
            self,
            f"{_short(file)}: expected {self.expected}; another one stands there: remove it, or "
            f"{instead}",
        )


def one_of(name: str, known: Iterable[str], those: str = "") -> str:
    """`one of a, b; did you mean 'a'?`, of names that are known, and what they are: for what a
    message expects. The question stands there only where one of them is close, and before a list
    that is long.
    """
    names = list(known)
    question = did_you_mean(name, names)
    if question and len(", ".join(names)) > _LONG_LIST:
        asked = question.removeprefix("; ")
        listed = f"one of these ({asked}): {', '.join(names)}"
        left = _SHOWN_CHARACTERS - len(those)
        return (listed if len(listed) <= left else listed[: left - 1] + "…") + those
    listed = "one of " + ", ".join(names)
    end = those + question
    left = _SHOWN_CHARACTERS - len(end)
    return (listed if len(listed) <= left else listed[: left - 1] + "…") + end


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'a'?` of the closest; nothing where none is close."""
    close = closest(name, known)
    return f"; did you mean {_short(close)!r}?" if close else ""


def closest(name: str, known: Iterable[str]) -> str | None:
    """The name that was perhaps meant: a similar one, or one that goes on where this one ends;
    whatever the letters' case and accents.
    """
    from difflib import get_close_matches  # only where something is wrong

    by_letters = {_plain(word): word for word in known}
    close = get_close_matches(_plain(name), by_letters, 1)
    if not close and len(name) > 1:
        close = [letters for letters in by_letters if letters.startswith(_plain(name))]
    return by_letters[close[0]] if close else None


def _plain(name: str) -> str:
    letters = unicodedata.normalize("NFKD", name.casefold())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


class SourceError(DpiclError):
    """A data source cannot be read or fetched, or is not what its checksum says."""


class PrivacyError(DpiclError):
    """Something would break or misstate a privacy guarantee, and is refused."""


class BudgetError(PrivacyError):
    """A release would exceed its account's cap; the message says what was requested, spent and
    left.
    """


class LedgerError(DpiclError):
    """The privacy ledger cannot be used, perhaps for now: its database is away, or something is not
    in it.
    """


class LedgerRefusedError(LedgerError):
    """The ledger, or what it published, is not to be trusted or not ours to use: trying again
    changes nothing.

    It was edited or rolled back, has another key, was made by a newer program, or its address or
    key file is wrong.
    """


class ChargedElsewhereError(LedgerRefusedError):
    """Another ledger of the user has paid for the rows, and nobody has stated a cap beside it."""


class CertificateError(DpiclError):
    """A certificate, its signature or the file that it is of does not hold."""


class ModelError(DpiclError):
    """A language model cannot be loaded or cannot answer this request."""


class ModelRefusedError(ModelError):
    """A model's name means nothing here, or it may not be used for this: trying again changes
    nothing.
    """


class TooLongError(ModelError):
    """A prompt does not fit the model's context."""


class RunError(DpiclError):
    """A run folder or run request is not usable."""


class RefusedError(RunError):
    """Parts of a run failed, and every one of them because it breaks a rule: trying again changes
    nothing.
    """


BROKEN_RULES = (
    CertificateError,
    DataError,
    DeclarationError,
    LedgerRefusedError,
    ModelRefusedError,
    ParameterError,
    PrivacyError,
    RefusedError,
    TooLongError,
)
"""What stays so however often it is tried; a ledger that is away comes back, one that was edited
does not mend itself.
"""
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
        except Exception as error:
            rewritten = _rewritten(stage, error)
        raise rewritten  # out here, where the other one is no context: its frames may hold rows

    return clean


def _rewritten(stage: str, error: Exception) -> Exception:
    """The same without any value of a row."""
    if isinstance(error, MemoryError):
        return RunError(f"{stage}: out of memory")
    if isinstance(error, ImportError) and (needed := extra_of(error)):
        return RunError(needed)
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.errno in _OF_A_DISK and error.filename else ""
        words = error.strerror or type(error).__name__
        return StageFailed(f"{stage}: {place}{words} (errno {error.errno})")
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return StageFailed(f"{stage}: {type(error).__name__} at {frame.name}:{frame.lineno}")


def first_line(error: BaseException) -> str:
    """The first words of another program's error, for the middle of a sentence."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200].rstrip(" .:")
