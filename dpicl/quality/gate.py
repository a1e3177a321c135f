"""What is refused before it is charged, as it would say next to nothing of the rows; and what is
warned of.

Guarantee   none needed: public facts alone are looked at.

Equations (2) to (4) of `worth`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from dpicl.ground.errors import PrivacyError
from dpicl.quality.worth import NOTABLE, Quality, ReleasePoint, quality_by_noise

log = logging.getLogger(__name__)


def noisy_releases(asked: Iterable[ReleasePoint], rows: int | None = None) -> Iterator[Quality]:
    """Those that are notably noisy at this number of rows, or the one that the contract states;
    none if it states none.

    Raises:
        DpiclError: a release has no price.
    """
    for quality in _by_noise(asked, rows):
        if quality.noise_share >= NOTABLE:
            yield quality


def _by_noise(asked: Iterable[ReleasePoint], rows: int | None = None) -> Iterator[Quality]:
    """Those with a price, at a known number of rows."""
    for point in asked:
        if rows or point.contract.population:
            point.method.cost(*point.place)
            yield quality_by_noise(point, rows)


def check_noise(asked: Iterable[ReleasePoint], *, anyway: bool) -> None:
    """Refuse a hopeless release among these, or log a warning of one that is not useful.

    Args:
        anyway: pass it all the same.

    Raises:
        PrivacyError: what would be released, and what to do instead.
    """
    some = [quality for quality in _by_noise(asked) if not quality.is_little]
    # of what is not known beforehand, as of votes, the simulation says all
    worst = max(some, key=lambda quality: quality.noise_share, default=None)
    if worst is None:
        return
    # a second to import: only where noise is not little
    from dpicl.quality.outlook import expected

    quality = expected(worst.point, round(worst.row_count or 0)) or worst
    if quality.is_hopeless and not anyway:
        told = f"{quality.warning}; `--anyway` (`anyway=True`) releases it all the same"
        raise PrivacyError(told)
    if not quality.is_useful or worst.noise_share >= NOTABLE:
        log.warning("%s", quality.warning)
