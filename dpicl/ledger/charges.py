"""What a record says of a release that it charges, and which charge a release meets that is asked
for again, or after its model failed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dpicl.ground.errors import PrivacyError
from dpicl.ledger.fold import FOLLOWS, Charge, Fold, ReleaseCharge, Reservation, now, terms_of
from dpicl.ledger.keys import canonical


def charge_content(fold: Fold, release: ReleaseCharge) -> dict[str, Any]:
    """What the next record says of a release that it charges."""
    number = {"number": fold.head.sequence + 1, "reserved_utc": now()}
    return {**terms_of(release), **number, FOLLOWS: fold.last_charge, **fold.branch}


def reserved_before(known: Charge, release: ReleaseCharge) -> Reservation:
    """The reservation of a release that is charged already. Raises PrivacyError: it was charged for
    something else.
    """
    different = [name for name, term in terms_of(release).items() if getattr(known, name) != term]
    if different:
        raise PrivacyError(
            f"release {known.release_id} is charged already with another "
            f"{' and '.join(different)}; one id is one release"
        )
    return Reservation(
        "reserved" if known.artefact_sha256 is None else "published",
        known.artefact_sha256,
        is_new=False,
    )


def never_drawn(fold: Fold, release: ReleaseCharge, differing: Sequence[str]) -> Charge | None:
    """A charged release of the same cost and parameters but for some, of which nothing was ever
    drawn; None where there is none.
    """
    terms = terms_of(release)

    def but(parameters: Mapping[str, Any]) -> str:
        return canonical(
            {name: value for name, value in parameters.items() if name not in differing}
        )

    same = ("account", "mechanism", "guarantee")
    mine = but(release.parameters)
    return next(
        (
            charge
            for charge in fold.charges_of(release.account)
            if charge.artefact_sha256 is None
            and not charge.is_begun
            and all(getattr(charge, name) == terms[name] for name in same)
            and but(json.loads(charge.parameters)) == mine
        ),
        None,
    )
