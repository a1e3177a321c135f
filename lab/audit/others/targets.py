"""Other libraries whose mechanisms are audited, by name, and what is known in public to be wrong in
them.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field

from dpicl.accounting.guarantee import Neighbours
from dpicl.ground.errors import ParameterError, one_of
from lab.audit.others import events
from lab.audit.others.events import Events
from lab.audit.others.worker import Library

_ADD, _REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE
_SLOW, _SLOWER = 5, 50
"""One of so many runs is made where a call takes long."""


@dataclass(frozen=True)
class Environment:
    """An environment of other packages.

    Attributes:
        variable: names another interpreter, if there is a choice.
    """

    python: str
    variable: str = ""

    @property
    def interpreter(self) -> str:
        """What runs there."""
        return os.environ.get(self.variable, self.python)

    @property
    def fix(self) -> str:
        """What a user does where it is missing."""
        return f"`make peers` in the repository's folder, or its Python in {self.variable}"


PEERS = Environment(".venv-peers/bin/python", "DPICL_PEERS_PYTHON")
NUMPY_1 = Environment(".venv-peers-numpy1/bin/python", "DPICL_PEERS_NUMPY1_PYTHON")
"""Of packages that need a numpy before 2."""
HERE = Environment(sys.executable)


@dataclass(frozen=True)
class Fault:
    """What is known in public to be wrong, and where that is said."""

    what_is_wrong: str
    source: str


@dataclass(frozen=True)
class Mechanism:
    """A library's mechanism, on two neighbours that its module knows.

    Attributes:
        share: one of so many runs is made.
    """

    name: str
    events: Events
    neighbours: Neighbours = _ADD
    share: int = 1
    fault: Fault | None = None


@dataclass(frozen=True)
class Target:
    """A library in an environment of its own."""

    name: str
    packages: tuple[str, ...]
    environment: Environment
    mechanisms: tuple[Mechanism, ...] = field(repr=False)

    def library(self) -> Library:
        """A process that answers for it."""
        return Library(self.name, self.environment.interpreter, self.environment.fix)


LAST_BITS = Fault(
    "Laplace noise in doubles leaves gaps and grains that depend on the value it is added to",
    "https://doi.org/10.1145/2382196.2382264",
)
NO_QUERY_NOISE = Fault(
    "queries are compared with a noisy threshold without noise of their own",
    "https://doi.org/10.14778/3055330.3055331",
)
NO_STOP = Fault(
    "any number of queries above the threshold is answered for the price of one",
    "https://doi.org/10.14778/3055330.3055331",
)
REPLACED = Fault(
    "a replaced row moves a sum by twice the clipping bound, and is priced at once the bound",
    "https://github.com/google/differential-privacy/issues/378",
)
THRESHOLD = Fault(
    "counts equal to the threshold are released, and are not in delta",
    "https://github.com/opendp/opendp/issues/2922",
)
FLOATS = Fault(
    "noise in doubles is open to attacks on precision",
    "https://github.com/IBM/differential-privacy-library/issues/94",
)
SLOPE = Fault(
    "the sensitivity of a feature's square is that of its lower bound, which may be 0",
    "https://github.com/IBM/differential-privacy-library/issues/105",
)
_CATEGORIES = range(6)
TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target(
            "textbook",
            ("numpy",),
            HERE,
            (
                Mechanism("geometric", events.WHOLE),
                Mechanism("laplace", events.REAL, fault=LAST_BITS),
                Mechanism(
                    "sparse_without_query_noise",
                    events.REPORT,
                    _REPLACE,
                    fault=NO_QUERY_NOISE,
                ),
                Mechanism("sparse_without_stop", events.MORE, _REPLACE, _SLOW, NO_STOP),
            ),
        ),
        Target(
            "dp_accounting",
            ("dp-accounting",),
            PEERS,
            (
                Mechanism("rdp_added", events.HALF_STEPS),
                Mechanism("rdp_replaced", events.HALF_STEPS, _REPLACE, fault=REPLACED),
                Mechanism("pld_added", events.HALF_STEPS),
                Mechanism("pld_replaced", events.HALF_STEPS, _REPLACE),
                Mechanism("pld_sampled_added", events.HALF_STEPS),
                Mechanism("pld_sampled_replaced", events.HALF_STEPS, _REPLACE),
            ),
        ),
        Target(
            "opendp",
            ("opendp",),
            PEERS,
            (
                Mechanism("laplace_whole", events.WHOLE),
                Mechanism("laplace_real", events.REAL),
                Mechanism("gaussian_whole", events.WHOLE),
                Mechanism("gaussian_real", events.REAL),
                Mechanism("geometric_bounded", events.WHOLE, share=_SLOW),
                Mechanism("randomized_response", events.YES, _REPLACE, _SLOW),
                Mechanism("noisy_max", events.values(range(4)), _REPLACE, _SLOW),
                Mechanism("count", events.WHOLE, share=_SLOW),
                Mechanism("laplace_threshold", events.YES, share=_SLOW, fault=THRESHOLD),
            ),
        ),
        Target(
            "diffprivlib",
            ("diffprivlib",),
            PEERS,
            (
                Mechanism("laplace", events.REAL, fault=FLOATS),
                Mechanism("laplace_truncated", events.REAL, fault=FLOATS),
                Mechanism("laplace_folded", events.REAL, fault=FLOATS),
                Mechanism("laplace_bounded_domain", events.REAL, share=_SLOW, fault=FLOATS),
                Mechanism("gaussian", events.REAL, fault=FLOATS),
                Mechanism("gaussian_analytic", events.REAL, fault=FLOATS),
                Mechanism("staircase", events.REAL, fault=FLOATS),
                Mechanism("uniform", events.REAL),
                Mechanism("snapping", events.REAL),
                Mechanism("gaussian_discrete", events.WHOLE),
                Mechanism("geometric", events.WHOLE),
                Mechanism("geometric_truncated", events.WHOLE),
                Mechanism("geometric_folded", events.WHOLE, share=_SLOW),
                Mechanism("exponential", events.values(_CATEGORIES), _REPLACE, _SLOW),
                Mechanism("permute_and_flip", events.values(_CATEGORIES), _REPLACE, _SLOW),
                Mechanism("binary", events.YES, _REPLACE),
                Mechanism("count", events.WHOLE, _REPLACE, _SLOW),
                Mechanism("mean", events.REAL, _REPLACE, _SLOW, FLOATS),
                Mechanism("histogram", events.SECOND_COUNT, share=_SLOW),
                Mechanism("median", events.at_least(0.25, 0.5, 0.75), _REPLACE, _SLOW),
                Mechanism("linear_regression", events.SLOPE, share=_SLOWER, fault=SLOPE),
            ),
        ),
        Target(
            "smartnoise",
            ("smartnoise-sql", "opendp"),
            NUMPY_1,
            (
                Mechanism("laplace", events.REAL, share=_SLOW),
                Mechanism("gaussian", events.REAL, share=_SLOW),
            ),
        ),
        Target(
            "multi_freq_ldpy",
            ("multi-freq-ldpy",),
            PEERS,
            (
                Mechanism("grr", events.values(_CATEGORIES), _REPLACE),
                *(Mechanism(name, events.REPORT, _REPLACE, _SLOW) for name in ("sue", "oue", "ss")),
                Mechanism("he", events.NOISY_REPORT, _REPLACE, _SLOW),
            ),
        ),
    )
}


def find_target(name: str) -> Target:
    """The target of that name.

    Raises:
        ParameterError: there is none; the message lists the names.
    """
    if name not in TARGETS:
        raise ParameterError("target", repr(name[:60]), one_of(name, ["all", *TARGETS]))
    return TARGETS[name]
