"""Rows and demonstrations of reports that real clients have sent: what `Release` makes of a
release, made of a collection.

    collection = Collection.of(settings.contract("survey"), epsilon=1)
    collected = collect(collection, count_collection(collection, "reports/"), settings)
    print(collected.received)
    collected.table(10_000)

Guarantee   none spent: clients randomise before they send, each wallet pays for its own client, and
            all here is post-processing. No account is charged and no true value exists on this
            side. So nothing here can promise what clients did, and there is no certificate.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from dpicl.contract.payment import CLIENTS_PAY
from dpicl.contract.periods import ONCE
from dpicl.contract.rules import label_bins
from dpicl.data.report_counts import Counts, Received, count_open
from dpicl.data.reports import Checker
from dpicl.ground.errors import ParameterError, StandingFileError
from dpicl.ground.files import publish
from dpicl.home.settings import Settings
from dpicl.methods import Options, tabular, unit_of
from dpicl.methods.collection import Collection
from dpicl.methods.grid import points
from dpicl.methods.ldp_tabicl import LdpTabicl
from dpicl.methods.row_method import SHOWN
from dpicl.release.one_release import PublishedRelease
from dpicl.release.release import Release
from dpicl.release.request import PlannedRelease


@dataclass(frozen=True, repr=False)
class CollectedRelease(Release):
    """What was collected, and what became of every report."""

    collection: Collection
    received: Received

    @property
    def statement(self) -> str:
        """What a client is promised that runs `python -m dpicl.client`."""
        return self.collection.statement

    @property
    def caveats(self) -> tuple[str, ...]:
        """What to keep in mind."""
        clients = self.published.drawn.clients
        deviation = self.collection.sent_questions.label_deviation(clients)
        risk = self._point.label_risk(clients, deviation)
        return (
            CLIENTS_PAY,
            str(self.received),
            *filter(None, [risk, label_bins(self.contract), self._left_out]),
            *self.doubted_bounds,
        )

    @property
    def certificate(self) -> NoReturn:
        """There is none.

        Raises:
            ParameterError: always.
        """
        raise ParameterError(
            "certificate", self.dataset, "none: what clients did before they sent is not known here"
        )

    def quality(self, simulations: int = 20) -> Any:
        """See `Release`.

        Raises:
            ParameterError: the collection has two levels, which are not simulated.
        """
        if self.collection.sending_epsilon is not None:
            raise ParameterError(
                "quality",
                self.dataset,
                "a collection without a sending epsilon: two levels are not simulated",
            )
        return super().quality(simulations)

    def _publish(
        self, path: Path, write: Callable[[BinaryIO], object], condition: str | None
    ) -> None:
        if os.path.lexists(path):
            raise StandingFileError(path.name)
        publish(path, write)


def count_collection(
    collection: Collection,
    place: str,
    period: str = ONCE,
    *,
    close: Path | None = None,
    folder: Path | None = None,
    progress: Callable[[int, int], Any] = lambda done, total: None,
) -> Counts:
    """The counts of the reports to a collection, perhaps none; the arguments are those of
    `count_open`.
    """
    checker = Checker(collection.name, collection.sent_questions, period)
    return count_open(place, checker, close=close, folder=folder, progress=progress)


def collect(
    collection: Collection, counts: Counts, settings: Settings, shots: int = 4
) -> CollectedRelease:
    """A release of the reports that were counted, whose period is closed if it is to be; made again
    of the same counts, it gives the same bytes.

    Args:
        shots: how many demonstrations are made where no number is given.
    """
    counts = counts.closed()
    options = Options.model_validate(
        {LdpTabicl.name: {**collection.variant.model_dump(), "shot_selection": SHOWN}}
    )
    grid = (collection.epsilon,), (shots,), ()
    unit = unit_of(LdpTabicl.name, collection.contract.name, 0, *grid, False, options)
    (point,) = points(tabular(LdpTabicl.name), unit).values()
    planned = PlannedRelease(
        collection.contract, LdpTabicl.name, options, shots, point, counts.checker.period
    )
    published = PublishedRelease(planned, counts.tally, (), settings, planned.facts)
    return CollectedRelease(published, collection, counts.received)
