"""An independent bracket around an epsilon: privacy random variables, a second implementation.

Trust       none: pure bookkeeping over public parameters.
Unit        as the guarantees composed.
Neighbours  ADD_OR_REMOVE_ONE; replace-one without subsampling, at twice the sensitivity.
Guarantee   low <= epsilon <= high at the given delta; a budget would be charged `high`.
Paper       [GLW21] Gopi, Lee and Wutschitz, numerical composition (arXiv 2106.02848), as
            implemented in Microsoft's prv_accountant.
Symbols     epsilon in nats.
Not covered subsampling under replace-one, parallel and approximate events; large costs,
            whose mesh would not fit into memory; large rates at large costs, whose mesh it rejects
            itself.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dpicl.accounting.events import leaves, number, sampling_rate
from dpicl.accounting.guarantee import Event, Guarantee, Neighbours
from dpicl.accounting.pure import pure_epsilon
from dpicl.errors import PrivacyError

_MOST_POINTS = 1_000_000
"""prv_accountant has no guard of its own: 10,000 steps at noise 1/2 took 9 GB and then failed."""


@dataclass(frozen=True)
class Bracket:
    """Bounds on epsilon, and the estimate between them."""

    low: float
    estimate: float
    high: float


def bracket(
    guarantees: Iterable[Guarantee], *, delta: float, epsilon_error: float = 0.01
) -> Bracket:
    """Bounds at `delta`, `2 * epsilon_error` apart.
    Raises PrivacyError: an event is outside this accountant's reach, its mesh too large, or too
    coarse for its own check.
    """
    from prv_accountant import PRVAccountant  # type: ignore[import-untyped]
    from prv_accountant.accountant import compute_safe_domain_size  # type: ignore[import-untyped]

    counts: Counter[tuple[Event, Neighbours]] = Counter()
    for guarantee in guarantees:
        counts.update(
            {
                (event, guarantee.neighbours): count
                for event, count in leaves(guarantee.event).items()
            }
        )
    variables, times = [_variable(*key) for key in counts], list(counts.values())
    delta_error = delta * 1e-3
    half_width = compute_safe_domain_size(variables, times, epsilon_error, delta_error)
    points = (
        2 * half_width / (epsilon_error / math.sqrt(sum(times) / 2 * math.log(12 / delta_error)))
    )
    if points > _MOST_POINTS:
        raise PrivacyError(
            f"the PRV mesh would have {points:.0f} points; expected at most {_MOST_POINTS}"
        )
    try:
        accountant = PRVAccountant(
            prvs=variables,
            max_self_compositions=times,
            eps_error=epsilon_error,
            delta_error=delta_error,
        )
    except RuntimeError:
        raise PrivacyError(
            "the PRV mesh does not keep the mean of these losses; expected smaller rates or costs"
        ) from None
    low, estimate, high = accountant.compute_epsilon(delta=delta, num_self_compositions=times)
    return Bracket(max(0.0, float(low)), max(0.0, float(estimate)), max(0.0, float(high)))


def _variable(event: Event, neighbours: Neighbours) -> Any:
    from prv_accountant import (
        GaussianMechanism,
        PoissonSubsampledGaussianMechanism,
        PureDPMechanism,
    )

    pure = pure_epsilon(event, neighbours)
    if pure is not None:
        return PureDPMechanism(pure)
    if event.kind == "gaussian":
        doubling = 2 if neighbours is Neighbours.REPLACE_ONE else 1
        return GaussianMechanism(number(event, "sigma") / (doubling * number(event, "sensitivity")))
    sampled_gaussian = event.kind == "poisson-sampled" and event.parts[0].kind == "gaussian"
    if not sampled_gaussian or neighbours is Neighbours.REPLACE_ONE:
        raise PrivacyError(
            f"the PRV bracket covers no {event.kind!r} event under {neighbours} neighbours"
        )
    multiplier = number(event.parts[0], "sigma") / number(event.parts[0], "sensitivity")
    return PoissonSubsampledGaussianMechanism(
        sampling_probability=float(sampling_rate(event)), noise_multiplier=multiplier
    )
