"""An audit of another library: the epsilon that outputs of each mechanism prove at least, against
what the library states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from dpicl.ground.randomness import Stream
from lab.audit.case import AuditCase, Trial
from lab.audit.others.targets import Fault, Mechanism, Target
from lab.audit.others.worker import Library, LibraryFailedError
from lab.audit.run import AuditResult, run_audits


@dataclass(frozen=True)
class Finding:
    """What an audit of one mechanism found; `failed` says what it died of instead.

    Attributes:
        versions: of the packages.
    """

    target: str
    versions: str
    mechanism: str
    fault: Fault | None
    result: AuditResult | None
    failed: str = ""

    @property
    def exceeded(self) -> bool:
        """Whether outputs prove more than is stated."""
        return self.result is not None and not self.result.holds

    @property
    def verdict(self) -> str:
        """In a word or two."""
        if self.result is None:
            return f"failed: {self.failed}"
        if self.fault is not None:
            return "known, found" if self.exceeded else "known, NOT FOUND"
        return "EXCEEDED" if self.exceeded else "holds"

    @property
    def passed(self) -> bool:
        """Whether what is known to be wrong was found, and nothing else."""
        return self.result is not None and self.exceeded == (self.fault is not None)


def audit_target(
    target: Target,
    *,
    runs: int,
    seed: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[Finding]:
    """Audit all mechanisms of a target, one after the other.

    Raises:
        ParameterError: its environment or its package is not installed.
    """
    with closing(target.library()) as library:
        versions = library.ask("versions", packages=target.packages)
        shown = ", ".join(f"{name} {version}" for name, version in versions.items())
        for done, mechanism in enumerate(target.mechanisms, 1):
            result, failed = None, ""
            try:
                result = _audited(library, mechanism, runs=runs, seed=seed)
            except LibraryFailedError as error:
                failed = str(error)
            yield Finding(target.name, shown, mechanism.name, mechanism.fault, result, failed)
            progress(done, len(target.mechanisms))


def _audited(library: Library, mechanism: Mechanism, *, runs: int, seed: int) -> AuditResult:
    epsilon, delta = library.ask("stated", mechanism=mechanism.name)

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        return library.drawn(mechanism.name, which, count, stream.below(1 << 63))

    case = AuditCase(
        f"{library.name} {mechanism.name}",
        mechanism.name,
        epsilon,
        Trial(draw, mechanism.events, delta=delta),
        mechanism.neighbours,
        share=mechanism.share,
    )
    (result,) = run_audits([case], runs=runs, seed=seed, find={case.name: case}.__getitem__)
    return result
