"""A certificate's prices, computed again by another program: `dpicl.recompute` in a process of its
own, which shares no accounting with this one.

Guarantee   none spent: a certificate is public.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import dpicl
from dpicl.ground.errors import CertificateError

if TYPE_CHECKING:
    from dpicl.release.certificate import Certificate

_PROGRAM = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); "
    "runpy.run_module('dpicl.recompute', run_name='__main__')"
)
"""Not by `-m`, which would import from the folder that the command runs in, or not find a dpicl
that was found there.
"""


@dataclass(frozen=True)
class RecomputedPrice:
    """A stated privacy loss beside its second price. Without one, `reason` says why."""

    what: str
    """`release`, `release before amplification`, or `account with this release`."""
    epsilon_stated: float | None
    """As the certificate says; null where nothing is promised."""
    delta: float
    """As the certificate says; both prices are at this δ."""
    epsilon_recomputed: float | None
    """The second price; null where there is none, or no bound."""
    epsilon_low: float | None
    """Lower bound on the price by prv-accountant; null where it has none."""
    epsilon_high: float | None
    """Upper bound on the price by prv-accountant; null where it has none."""
    holds: bool | None
    """Whether the stated ε is at least the recomputed one, within 1e-6; null without one."""
    by: str
    """The library, and how it was used."""
    as_stated: tuple[str, ...]
    """Kinds of events in it of which the certificate states ε and no noise: theirs is taken as
    stated.
    """
    reason: str
    """Why there is no second price, else empty."""


@dataclass(frozen=True)
class Recomputation:
    """Second prices of a certificate, of the release first.

    Attributes:
        has_second: whether prv-accountant is installed.
    """

    prices: tuple[RecomputedPrice, ...]
    has_second: bool


def recomputed(certificate: Certificate) -> Recomputation:
    """The second prices of all that a certificate states; takes seconds, of thousands of steps
    or choices minutes, and stops after five. Raises CertificateError: the other program cannot read
    the certificate.
    """
    from pydantic import TypeAdapter, ValidationError

    home = str(Path(dpicl.__file__).parents[1])
    done = subprocess.run(  # noqa: S603 - this program
        [sys.executable, "-P", "-c", _PROGRAM, home, "-"],
        input=certificate.to_json(),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    try:
        return TypeAdapter(Recomputation).validate_json(done.stdout)
    except ValidationError:
        why = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise CertificateError(f"certificate: could not be priced again: {why}") from None
