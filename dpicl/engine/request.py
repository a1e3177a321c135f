"""What is asked for: one release of a contract's rows, in public facts alone.

Guarantee   none spent: nothing here is of a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dpicl.contract.declared import Declared
from dpicl.contract.periods import ONCE
from dpicl.engine.names import ReleaseFacts
from dpicl.pipeline import Cell, Unit

if TYPE_CHECKING:
    from dpicl.lm.spec import ModelSpec


@dataclass(frozen=True, kw_only=True)
class ReleaseRequest:
    """One release, as a person, a program or a schedule asks for it.

    Attributes:
        dataset: the name of a contract.
        epsilon: of the release, in nats; `dpicl.pipeline.read_epsilon` reads one that was typed.
        method: of `dpicl.methods`; the usual one of `trust`, or of texts, if None.
        trust: who sees true rows: `central`, a curator; `local`, the client alone.
        shots: how many demonstrations a method makes whose release depends on their number; of
            texts, how many texts.
        options: of the method, in place of its usual ones.
        period: where the contract releases again each month, say, another one than now; of a
            horizon, the last one of what is derived.
        anyway: of a table, make a release that would be little but noise at the stated number of
            rows.
        generator: of texts, the model that reads the private ones and writes; the release that
            stands if None.
        window: of a table with a horizon, how many periods the rows are of; all if None.
    """

    dataset: str
    epsilon: float
    method: str | None = None
    trust: str = "central"
    shots: int = 4
    options: Mapping[str, object] = field(default_factory=dict)
    period: str | None = None
    anyway: bool = False
    generator: str | None = None
    window: int | None = None


@dataclass(frozen=True)
class PlannedRelease:
    """What a request comes to: the one release of a unit, of this contract and period.

    Attributes:
        writer: of texts, the model that reads the private ones and writes.
        anyway: as of the request.
    """

    contract: Declared
    unit: Unit
    cell: Cell
    period: str = ONCE
    writer: ModelSpec | None = None
    anyway: bool = False

    @property
    def facts(self) -> ReleaseFacts:
        """What names it besides contract and unit."""
        if self.writer is None:
            return ReleaseFacts(self.period)
        from dpicl.engine.readers import fingerprint
        from dpicl.lm.embedding import embedder_fingerprint

        return ReleaseFacts(self.period, fingerprint(self.writer), embedder_fingerprint(None))
