"""Types of the arguments of public functions, checked where they come in: one sentence in place of
an error from deep below, or of `"no"` that counts as true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import wraps
from inspect import Parameter, isfunction, signature
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar

from dpicl.ground.errors import ParameterError, did_you_mean

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Class = TypeVar("Class")
_KINDS: dict[str, tuple[Any, str]] = {
    "bool": (bool, "True or False"),
    "int": (Integral, "a whole number"),
    "float": ((Real, Decimal), "a number"),
    "str": (str, "a text"),
    "Mapping[str, object]": (Mapping, "a mapping, {name: value}"),
    "Sequence[str]": (Sequence, "a list of texts"),
    "Sequence[float]": (Sequence, "a list of numbers"),
}
"""By annotation, as `from __future__ import annotations` keeps it: as it is written. What is
annotated otherwise is checked by who reads it.
"""
_MEMBERS = {"a list of texts": "str", "a list of numbers": "float"}
"""By what is expected, the annotation of each member."""


def typed_call(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The function, which refuses an argument of another type than its annotation's by a
    ParameterError, and one of another name by a TypeError that says which was meant.
    """
    expected = {
        name: (kinds, "None" in written)
        for name, parameter in signature(function).parameters.items()
        if parameter.kind is not Parameter.VAR_KEYWORD
        for written in [str(parameter.annotation).split(" | ")]
        if (kinds := [_KINDS[kind] for kind in written if kind in _KINDS])
        and {*written} <= {*_KINDS, "None"}
    }

    parameters = signature(function).parameters
    takes_any = any(one.kind is Parameter.VAR_KEYWORD for one in parameters.values())
    names = [name for name in parameters if name != "self"]

    @wraps(function)
    def checked(*values: Arguments.args, **named: Arguments.kwargs) -> Result:
        for name in named:
            if name not in names and not takes_any:
                # Python 3.11 says nothing of what was meant
                raise TypeError(
                    f"{function.__name__}() got an unexpected keyword argument {name!r}"
                    f"{did_you_mean(name, names)}"
                )
        for name, value in signature(function).bind(*values, **named).arguments.items():
            if name in expected and not _fits(value, *expected[name]):
                kinds = " or ".join(shape for _, shape in expected[name][0])
                # of anything larger no content, which may be private
                shown = repr(value)[:40] if isinstance(value, str | int | float) else ""
                raise ParameterError(name, shown or f"<{type(value).__name__}>", kinds)
        return function(*values, **named)

    return checked


def typed_calls(kind: type[Class]) -> type[Class]:
    """The class, all of whose public methods do so."""
    for name, member in list(vars(kind).items()):
        if isfunction(member) and (name == "__init__" or not name.startswith("_")):
            setattr(kind, name, typed_call(member))
    return kind


def _fits(value: Any, kinds: list[tuple[Any, str]], may_be_none: bool) -> bool:
    if value is None:
        return may_be_none
    if type(value).__module__ == "numpy" and value.shape:
        value = value.tolist()
    value = value.item() if type(value).__module__ == "numpy" and not value.shape else value
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 4.0 is a whole number
    if isinstance(value, bool):
        return any(kind is bool for kind, _ in kinds)
    if isinstance(value, str):
        return any(kind is str for kind, _ in kinds)
    return any(isinstance(value, kind) and _members_fit(value, shape) for kind, shape in kinds)


def _members_fit(value: Any, shape: str) -> bool:
    """Whether the members of a list are what it is a list of."""
    return shape not in _MEMBERS or all(
        _fits(member, [_KINDS[_MEMBERS[shape]]], may_be_none=False) for member in value
    )
