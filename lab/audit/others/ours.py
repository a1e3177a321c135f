"""A process in which dpicl's mechanisms draw, and are priced, for tests of other libraries: a job
per line in, its answer per line out.

Distances are of sums: what one row moves them by.
"""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from typing import Any

import numpy as np

from dpicl.accounting.guarantee import Neighbours
from dpicl.ground.randomness import Stream, system_stream
from dpicl.mechanisms.discrete_gaussian import noisy_sums
from dpicl.mechanisms.noisy_count import guarantee, noisy_counts
from dpicl.mechanisms.noisy_max import exponential_guarantee, exponential_max
from dpicl.mechanisms.randomised_response import randomise, response

_BOTH_WAYS = 2
"""Scores that move by at most 1 each move by at most 2 against each other."""


def drawn(job: dict[str, Any], stream: Stream) -> Any:
    """Outputs of a mechanism, one for each value; of scores the winner."""
    values = job["values"]
    if job["mechanism"] == "noisy_count":
        return noisy_counts(values, epsilon=1 / Fraction(job["scale"]), stream=stream)
    if job["mechanism"] == "discrete_gaussian":
        return noisy_sums(values, variance=Fraction(job["scale"]) ** 2, stream=stream)
    if job["mechanism"] == "noisy_max":
        epsilon = _BOTH_WAYS / Fraction(job["scale"])
        return exponential_max(values, epsilon=epsilon, spread=_BOTH_WAYS, stream=stream)
    law = response(epsilon=job["epsilon"], categories=job["categories"])
    return randomise(np.array(values), law, stream).tolist()


def priced(job: dict[str, Any]) -> float:
    """What a mechanism states: epsilon, or of Gaussian noise the rho of zero-concentrated
    privacy.
    """
    distance = job["distance"]
    if job["mechanism"] == "noisy_count":
        return distance * guarantee(1 / Fraction(job["scale"])).epsilon
    if job["mechanism"] == "discrete_gaussian":
        return float(distance**2 / (2 * job["scale"] ** 2))
    if job["mechanism"] == "noisy_max":
        epsilon = _BOTH_WAYS / Fraction(job["scale"])
        stated = exponential_guarantee(
            epsilon, spread=_BOTH_WAYS, neighbours=Neighbours.ADD_OR_REMOVE_ONE
        )
        return distance * stated.epsilon
    law = response(epsilon=job["epsilon"], categories=job["categories"])
    return law.guarantee().epsilon


def main() -> None:
    """Until there are no more lines."""
    stream = system_stream()
    for line in sys.stdin:
        job = json.loads(line)
        answer = drawn(job, stream) if job["wanted"] == "drawn" else priced(job)
        print(json.dumps(answer), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
