"""What all declarations share: frozen models, and the types of names, texts and rates."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, SerializerFunctionWrapHandler, StringConstraints, model_serializer

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=2000)]


def _as_category(value: Any) -> Any:
    """A whole number as `yaml_file` reads it is what is written; nothing else but text is taken."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Category = Annotated[str, BeforeValidator(_as_category), StringConstraints(min_length=1, max_length=200)]


def _as_fraction(value: Any) -> Any:
    text = str(value)
    try:
        # By way of a double, because Fraction("1e999999999") would write out every digit.
        return Fraction(text if "/" in text else str(float(text)))
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"got {text[:60]!r}; expected a number or a fraction such as 1/10") from None


Rate = Annotated[Fraction, BeforeValidator(_as_fraction)]


class Frozen(BaseModel):
    """Base: immutable, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False)


class Grown(Frozen):
    """A part of contracts that has got keys since: one that does not use them is digested as before they came."""

    later: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _as_before(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = serialise(self)
        unused = {name for name in self.later if getattr(self, name) == type(self).model_fields[name].default}
        return {name: value for name, value in content.items() if name not in unused}
