"""Rows and demonstrations of reports that real clients have sent: what `Release` makes of a
release, made of a collection.

    collected = collect("survey", "reports/", settings, epsilon=1)
    print(collected.received)
    collected.table(10_000)

Guarantee   none spent: clients randomise before they send, each wallet pays for its own client, and
            all here is post-processing. No account is charged and no true value exists on this
            side. So nothing here can promise what clients did, and there is no certificate.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from dpicl.contract.payment import CLIENTS_PAY
from dpicl.contract.periods import ONCE, read_period
from dpicl.contract.pipeline import Cell, Unit
from dpicl.data.report_counts import Counts, Received, count_open
from dpicl.data.reports import Checker
from dpicl.ground.errors import ParameterError
from dpicl.ground.files import publish
from dpicl.ground.types import DEFAULT_DESIGN, Estimator
from dpicl.home.settings import Settings
from dpicl.methods import Options, unit_of
from dpicl.methods.collection import Collection
from dpicl.methods.ldp_tabicl import LdpTabicl
from dpicl.methods.options import LdpOptions
from dpicl.methods.row_method import SHOWN
from dpicl.release.names import ReleaseFacts
from dpicl.release.one_release import PublishedRelease
from dpicl.release.release import Release


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
        return (CLIENTS_PAY, str(self.received))

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

    def _publish(self, path: Path, write: Callable[[BinaryIO], object]) -> None:
        if os.path.lexists(path):
            raise ParameterError("out", path.name, "a new file; another one stands there")
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
    dataset: str,
    reports: str,
    settings: Settings,
    *,
    epsilon: float,
    design: str = DEFAULT_DESIGN,
    columns: int | None = None,
    about: Sequence[str] = (),
    sending_epsilon: float | None = None,
    estimator: Estimator | None = None,
    period: str = ONCE,
    close: Path | None = None,
    shots: int = 4,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> CollectedRelease:
    """Count the reports at a place, and make a release of them; asked for again on the same
    reports, it gives the same bytes.

    Args:
        reports: a file, a folder, or an address `s3://…`.
        period: whose reports count; those of no period if left out.
        close: a file that closes the period; see `count_open`.
        shots: how many demonstrations are made where no number is given.

    The others are those of `Collection.of`.

    Raises:
        DpiclError: a value breaks a rule, or there is no such place.
    """
    contract = settings.contract(dataset)
    how: dict[str, Any] = {
        "design": design,
        "columns": columns,
        "about": about,
        "sending_epsilon": sending_epsilon,
        "estimator": estimator,
    }
    collection = Collection.of(contract, epsilon=epsilon, **how)
    period = read_period(period)
    counts = count_collection(collection, reports, period, close=close, progress=progress).closed()
    unit = _unit(collection, shots)
    published = PublishedRelease(
        contract, unit, Cell("reports", epsilon), counts.tally, (), settings, ReleaseFacts(period)
    )
    return CollectedRelease(published, collection, counts.received)


def _unit(collection: Collection, shots: int) -> Unit:
    options = LdpOptions.model_validate(
        {**collection.variant.model_dump(), "shot_selection": SHOWN}
    )
    return unit_of(
        LdpTabicl.name,
        collection.contract.name,
        0,
        (collection.epsilon,),
        (shots,),
        (),
        False,
        Options.model_validate({LdpTabicl.name: options}),
    )
