"""One paper, one page: each module reads like the method it implements. Methods of other packages
register by the entry-point group `dpicl.methods`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import Field, create_model

from dpicl.errors import PrivacyError
from dpicl.installed import contributed
from dpicl.methods.aim_tabicl import AimTabicl
from dpicl.methods.base import Method
from dpicl.methods.dp_icl import DpIcl
from dpicl.methods.few_shot_generation import FewShotGeneration
from dpicl.methods.gdp_tabicl import GdpTabicl
from dpicl.methods.ldp_tabicl import LdpTabicl
from dpicl.methods.mst_tabicl import MstTabicl
from dpicl.methods.tab_pate import TabPate
from dpicl.methods.tab_pe import TabPe
from dpicl.methods.tabular_method import TabularMethod
from dpicl.methods.text_method import TextMethod
from dpicl.pipeline import CommonOptions, Unit

GROUP = "dpicl.methods"
"""Entry points of other packages: a name, and the class of a method. Our own are named below: a
clone runs without an installation.
"""
Kind = TypeVar("Kind", bound=Method)


class Registry(dict[str, Method]):
    """Methods by name; a name that is not registered is an error."""

    def __missing__(self, name: str) -> Method:
        raise PrivacyError(
            f"method {name[:60]!r}: is not registered; expected one of {', '.join(self)}"
        )

    def add(self, method: Method) -> None:
        """Register a method. Raises PrivacyError: its name is taken, or it is no method."""
        if not isinstance(method, (TabularMethod, TextMethod)):
            raise PrivacyError(
                f"method {str(method)[:60]!r}: is none; expected a TabularMethod or a TextMethod"
            )
        if method.name in self:
            raise PrivacyError(
                f"method {method.name!r}: is registered twice; expected a name of its own"
            )
        for other in self.values() if method.is_default else ():
            if other.is_default and (other.data, other.trust) == (method.data, method.trust):
                raise PrivacyError(
                    f"method {method.name!r}: is_default: as {other.name!r} is; expected one of "
                    f"each trust and kind of data"
                )
        self[method.name] = method


METHODS = Registry()
"""Methods by the name that pipelines.yaml gives them."""
_OTHERS = (point.load() for point in sorted(contributed(GROUP), key=lambda point: point.name))
for _method in (
    LdpTabicl,
    GdpTabicl,
    MstTabicl,
    AimTabicl,
    TabPate,
    TabPe,
    FewShotGeneration,
    DpIcl,
    *_OTHERS,
):
    METHODS.add(_method())
DEFAULTS: dict[str, str] = dict(
    sorted(
        (one.trust, name) for name, one in METHODS.items() if one.data == "table" and one.is_default
    )
)
"""By whom is trusted with the rows of a table: the method that releases them where none is
named.
"""
_CHOICES: dict[str, Any] = {
    name: (method.options, Field(default=method.options(), description=f"For {method.title}."))
    for name, method in METHODS.items()
}
if TYPE_CHECKING:

    class Options(CommonOptions):
        """The key `options` of a pipeline: choices by method, and for all of them."""

else:
    Options = create_model(
        "Options",
        __base__=CommonOptions,
        __doc__="Options by method, and for all methods.",
        __module__=__name__,
        **_CHOICES,
    )


def tabular(name: str) -> TabularMethod[Any]:
    """A method on tables. Raises PrivacyError: there is none of that name."""
    return _of(name, TabularMethod)  # type: ignore[type-abstract]


def on_texts(name: str) -> TextMethod:
    """A method on texts. Raises PrivacyError: there is none of that name."""
    return _of(name, TextMethod)  # type: ignore[type-abstract]


def _of(name: str, kind: type[Kind]) -> Kind:
    method = METHODS[name]
    if not isinstance(method, kind):
        raise PrivacyError(f"method {name!r}: reads {method.data}; expected {kind.__name__}")
    return method


def unit_of(
    method: str,
    dataset: str,
    seed: int,
    epsilons: Iterable[float],
    shots: Iterable[int],
    sampling_rates: Iterable[Fraction],
    baselines: bool,
    options: CommonOptions,
    draws: int = 1,
) -> Unit:
    """A unit with all its cells. Raises PrivacyError: no such method is registered."""
    times = draws if METHODS[method].draws_shots else 1
    bare = Unit(
        method,
        dataset,
        seed,
        tuple(epsilons),
        tuple(shots),
        tuple(sampling_rates),
        baselines,
        options,
        (),
        times,
    )
    return replace(bare, evaluated_cells=tuple(METHODS[method].evaluated_cells(bare)))
