"""Every method by its name, ours and those that other packages contribute by the entry-point group
`dpicl.methods`, with the options of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import Field, create_model

from dpicl.contract.base import Frozen
from dpicl.contract.pipeline import CommonOptions, Unit
from dpicl.ground.errors import PrivacyError, one_of
from dpicl.ground.installed import contributed
from dpicl.methods import options as choices
from dpicl.methods.base import Data, Method, Trust
from dpicl.methods.tabular_method import TabularMethod
from dpicl.methods.text_method import TextMethod

GROUP = "dpicl.methods"
"""Entry points of other packages: a name, and the class of a method. Our own are named below: a
clone runs without an installation.
"""
Kind = TypeVar("Kind", bound=Method)


@dataclass(frozen=True)
class RegisteredMethod:
    """A method by the facts that one is chosen by, which are those of its class; its module is
    imported when the method is first used.
    """

    title: str
    data: Data
    trust: Trust
    options: type[Frozen]
    load: Callable[[], type[Method]]
    is_default: bool = False
    counts_series: bool = False
    """Whether it counts a table's horizon where none is named, `is_default_of_series`."""
    answers_queries: bool = False


class Registry(Mapping[str, Method]):
    """Methods by name; a name that is not registered is an error."""

    def __init__(self) -> None:
        self.entries: dict[str, RegisteredMethod] = {}
        self._loaded: dict[str, Method] = {}

    def __getitem__(self, name: str) -> Method:
        if name not in self.entries:
            raise PrivacyError(
                f"method {name[:60]!r}: is not registered; expected {one_of(name, self)}"
            )
        if name not in self._loaded:
            self._loaded[name] = self.entries[name].load()()
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        titles = ", ".join(f"{name!r}: {entry.title}" for name, entry in self.entries.items())
        return f"{{{titles}}}"

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
        for name, other in self.entries.items() if method.is_default else ():
            if other.is_default and (other.data, other.trust) == (method.data, method.trust):
                raise PrivacyError(
                    f"method {method.name!r}: is_default: as {name!r} is; expected one of "
                    f"each trust and kind of data"
                )
        self.entries[method.name] = RegisteredMethod(
            method.title,
            method.data,
            method.trust,
            method.options,
            lambda: type(method),
            method.is_default,
            method.is_default_of_series,
            method.answers_queries,
        )
        self._loaded[method.name] = method


def _ldp_tabicl() -> type[Method]:
    from dpicl.methods.ldp_tabicl import LdpTabicl

    return LdpTabicl


def _gdp_tabicl() -> type[Method]:
    from dpicl.methods.gdp_tabicl import GdpTabicl

    return GdpTabicl


def _mst_tabicl() -> type[Method]:
    from dpicl.methods.mst_tabicl import MstTabicl

    return MstTabicl


def _aim_tabicl() -> type[Method]:
    from dpicl.methods.aim_tabicl import AimTabicl

    return AimTabicl


def _tab_pate() -> type[Method]:
    from dpicl.methods.tab_pate import TabPate

    return TabPate


def _tab_pe() -> type[Method]:
    from dpicl.methods.tab_pe import TabPe

    return TabPe


def _few_shot_generation() -> type[Method]:
    from dpicl.methods.few_shot_generation import FewShotGeneration

    return FewShotGeneration


def _dp_icl() -> type[Method]:
    from dpicl.methods.dp_icl import DpIcl

    return DpIcl


METHODS: Registry = Registry()
"""Methods by the name that pipelines.yaml gives them."""
METHODS.entries.update(
    ldp_tabicl=RegisteredMethod(
        "LDP-TabICL", "table", "local", choices.LdpOptions, _ldp_tabicl, True
    ),
    gdp_tabicl=RegisteredMethod("GDP-TabICL", "table", "central", choices.GdpOptions, _gdp_tabicl),
    mst_tabicl=RegisteredMethod(
        "MST-TabICL", "table", "central", choices.MstOptions, _mst_tabicl, counts_series=True
    ),
    aim_tabicl=RegisteredMethod(
        "AIM-TabICL", "table", "central", choices.AimOptions, _aim_tabicl, True
    ),
    tab_pate=RegisteredMethod("TabPATE", "table", "central", choices.PateOptions, _tab_pate),
    tab_pe=RegisteredMethod("Tab-PE", "table", "central", choices.TabPeOptions, _tab_pe),
    few_shot_generation=RegisteredMethod(
        "DP few-shot generation",
        "texts",
        "central",
        choices.FewShotOptions,
        _few_shot_generation,
        True,
    ),
    dp_icl=RegisteredMethod(
        "DP-ICL", "texts", "central", choices.EnsembleOptions, _dp_icl, answers_queries=True
    ),
)
for _point in sorted(contributed(GROUP), key=lambda point: point.name):
    METHODS.add(_point.load()())
DEFAULTS: dict[str, str] = dict(
    sorted(
        (entry.trust, name)
        for name, entry in METHODS.entries.items()
        if entry.data == "table" and entry.is_default
    )
)
"""By whom is trusted with the rows of a table: the method that releases them where none is
named.
"""
_CHOICES: dict[str, Any] = {
    name: (entry.options, Field(default=entry.options(), description=f"For {entry.title}."))
    for name, entry in METHODS.entries.items()
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
