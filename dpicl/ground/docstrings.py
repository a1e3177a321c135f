"""One text for the arguments of functions that take the same ones."""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc
from textwrap import indent
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def with_arguments_of(other: Callable[..., Any], **further: str) -> Callable[[Function], Function]:
    """Let `help` of a function show the arguments as the docstring of another one explains them,
    after `further` ones, and what it raises.
    """

    def explained(function: Function) -> Function:
        rest = cleandoc(other.__doc__ or "").partition("\nArgs:\n")[2]
        if rest and function.__doc__:
            more = "".join(f"{name}: {text}\n" for name, text in further.items())
            head = cleandoc(function.__doc__)
            function.__doc__ = f"{head}\n\nArgs:\n{indent(more, '    ')}{rest}"
        return function

    return explained
