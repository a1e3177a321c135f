"""What a method states, without any default: a module that leaves something out is refused when `dpicl.methods` is imported.

Guarantee   none spent: this is about programs, not about rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, get_args

from dpicl.errors import PrivacyError
from dpicl.evaluation import Result
from dpicl.methods.common import Cost
from dpicl.pipeline import Cell, MethodName, Unit

Data = Literal["table", "texts"]
Trust = Literal["central", "local"]
Baselines = Literal["none", "released", "private"]
_WORDS = {"DATA": get_args(Data), "TRUST": get_args(Trust), "BASELINES": get_args(Baselines)}
_WORDS |= {"MODEL_READS_ROWS": (False, True), "ANSWERS_QUERIES": (False, True)}
_FUNCTIONS = ("identity", "releases", "costs", "statement", "truth_of", "run")


class Method(Protocol):
    """A module of this package that `METHODS` names."""

    VERSION: int
    """Raised when the same parameters would give another release."""
    DATA: Data
    """What it reads."""
    TRUST: Trust
    """Who sees true rows: a curator, whose account is the row's, or the client alone, whose account is the client's."""
    MODEL_READS_ROWS: bool
    """Whether a language model is shown private rows, so that it must be one that may see them."""
    BASELINES: Baselines
    """What its baselines are fitted on: there are none; what is released already; or private rows again, which nobody charges."""
    ANSWERS_QUERIES: bool
    """Whether a release answers one set of queries only, which is then part of its name."""
    answers: Any
    """The module that asks a model and measures its answers."""
    truth_of: Callable[..., Any]
    """The right answers to queries."""
    run: Callable[..., list[Result]]
    """The whole method without any orchestrator, on benchmarks only."""

    def identity(self, contract: Any, unit: Unit, cell: Cell) -> dict[str, object]:
        """What makes a release another one besides epsilon, shots and seed; public."""
        ...

    def releases(self, contract: Any, unit: Unit) -> dict[Cell, Cost]:
        """What a unit spends."""
        ...

    def costs(self, contract: Any, unit: Unit) -> dict[Cell, Cost]:
        """What every cell costs."""
        ...

    def statement(self, contract: Any, unit: Unit, cell: Cell, cost: Cost) -> str:
        """The guarantee of one cell as a sentence."""
        ...


def checked(methods: Mapping[str, Method]) -> dict[str, Method]:
    """The methods, if each states all of it, and there is one for every name that pipelines may say.

    Raises:
        PrivacyError: names the method, what it lacks and what is expected.
    """
    if set(methods) != set(get_args(MethodName)):
        raise PrivacyError(f"METHODS: is not what MethodName lists; expected {', '.join(get_args(MethodName))}")
    for name, method in methods.items():
        check_method(name, method)
    return dict(methods)


def check_method(name: str, method: object) -> None:
    """Whether a module states what privacy hangs on.

    Raises:
        PrivacyError: it does not; the message names what it lacks and what is expected.
    """
    for word, allowed in _WORDS.items():
        if getattr(method, word, None) not in allowed:
            raise PrivacyError(f"method {name!r}: {word}: is not stated; expected one of {', '.join(map(repr, allowed))}")
    if type(getattr(method, "VERSION", None)) is not int:
        raise PrivacyError(f"method {name!r}: VERSION: is not stated; expected an integer")
    baselines = () if getattr(method, "BASELINES", None) == "none" else ("baselines",)
    for function in (*_FUNCTIONS, *baselines):
        if not callable(getattr(method, function, None)):
            raise PrivacyError(f"method {name!r}: {function}: is missing; expected a function")
    if getattr(method, "answers", None) is None:
        raise PrivacyError(f"method {name!r}: answers: is missing; expected a module")
