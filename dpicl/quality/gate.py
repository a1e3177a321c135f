"""What is refused before it is charged, as it would say next to nothing of the rows; and what is
warned of.

Guarantee   none needed: public facts alone are looked at.

Equations (2) to (5) of `worth`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from dpicl.contract.rules import label_bins
from dpicl.ground.errors import PrivacyError
from dpicl.quality.worth import NOTABLE, Quality, ReleasePoint, quality_by_noise

log = logging.getLogger(__name__)


def doubtful(asked: Iterable[ReleasePoint]) -> Quality | None:
    """The noisiest of these at the number of rows that its contract states, as a plan judges it;
    None where it needs no warning.

    Raises:
        DpiclError: a release has no price.
    """
    known = []
    for point in asked:
        if point.contract.population:
            point.method.cost(*point.place)
            known.append(quality_by_noise(point))
    # of what is not known beforehand, as of votes, the simulation says all
    some = [quality for quality in known if not quality.is_little]
    worst = max(some, key=lambda quality: quality.noise_share, default=None)
    if worst is None:
        return None
    # a second to import: only where noise is not little
    from dpicl.quality.outlook import expected

    quality = expected(worst.point, round(worst.row_count or 0)) or worst
    is_fine = quality.is_useful and worst.noise_share < NOTABLE
    return None if is_fine else quality


def check_noise(asked: Iterable[ReleasePoint], *, anyway: bool) -> None:
    """Refuse a hopeless release among these, or log a warning of one that is not useful; of each
    whose most frequent label noise decides; and of a label that is a number without `bins`.

    Args:
        anyway: pass it all the same.

    Raises:
        PrivacyError: what would be released, and what to do instead.
    """
    points = tuple(asked)
    for name, sentence in {
        point.contract.name: label_bins(point.contract) for point in points
    }.items():
        if sentence:
            log.warning("%s: %s", name, sentence)
    for point in points:
        if point.contract.population and (risk := point.label_risk(point.contract.population)):
            log.warning("%s", risk)
    quality = doubtful(points)
    if quality is None:
        return
    if quality.is_hopeless and not anyway:
        told = f"{quality.warning}; `--anyway` (`anyway=True`) releases it all the same"
        raise PrivacyError(told)
    log.warning("%s", quality.warning)
