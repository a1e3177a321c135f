"""One client's permanent answer, which is never published, sent several times with noise anew; and
counts of right answers on rows that were held out.

    (1)  P[sent | x] = sum over permanent answers v of  P[v | x] prod_i P[sent_i | v]
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from scipy import special

from dpicl.contract.declared import Split
from dpicl.mechanisms.randomised_response import Response, randomise, response
from dpicl.mechanisms.two_levels import TwoLevels, send, two_levels
from dpicl.mechanisms.unary_encoding import Unary, report, unary
from dpicl.methods import Options, tabular_method, unit_of
from dpicl.methods.gdp_tabicl import GdpTabicl
from dpicl.methods.ldp_tabicl import LdpTabicl
from lab.audit.neighbours import numbers
from lab.audit.transcripts.record import ForcedStep, Open
from lab.audit.transcripts.worlds import Case, Price, World

HIDDEN = "permanent"
_METHOD, _COUNTED_BY = LdpTabicl.name, GdpTabicl.name
_EPSILONS = (0.5, 1.0, 3.0)


def sendings(unary_encoding: bool, rng: np.random.Generator) -> World:
    """Two truths of one client, and a few sendings."""
    epsilon, categories = float(rng.choice(_EPSILONS)), int(rng.integers(2, 6))
    law = (unary if unary_encoding else response)(epsilon=epsilon, categories=categories)
    levels = two_levels(law, epsilon=float(rng.choice([0.3, 0.7])) * law.epsilon)
    times = int(rng.integers(1, 8))
    truths = rng.choice(categories, 2, replace=False).tolist()
    stated = levels.epsilon_of(times)
    return World(partial(_sent, levels, truths, times), Price(epsilon=stated), 0)


def _sent(levels: TwoLevels, truths: Sequence[int], times: int, which: bool, opened: Open) -> bytes:
    codes, law = np.array([truths[which]]), levels.permanent
    permanent = (
        report(codes, law, opened(HIDDEN))
        if isinstance(law, Unary)
        else randomise(codes, law, opened(HIDDEN))
    )
    out = [send(permanent, levels.sending, opened(f"sending {i}")).tolist() for i in range(times)]
    return json.dumps(out).encode()


def ratio(permanent: ForcedStep, sent: Sequence[ForcedStep]) -> float:
    """ln P[sent | x] - ln P[sent | x'] by equation (1), of bits each by itself."""
    law, outputs = permanent.law, np.array([np.ravel(step.output) for step in sent])
    sending = sent[0].law
    assert isinstance(sending, Response) and isinstance(law, (Response, Unary))
    total = 0.0
    for sign, truth in ((1, int(permanent.exact[0])), (-1, int(permanent.other[0]))):
        if isinstance(law, Response):
            total += sign * _of_answers(_chances(law, truth), outputs[:, 0], sending)
            continue
        for place in range(law.categories):
            one = 0.5 if place == truth else law.lie_probability
            total += sign * _of_answers([1 - one, one], outputs[:, place].astype(int), sending)
    return total


def _chances(law: Response, truth: int) -> list[float]:
    lie, keep = law.lie_probability, law.truth_probability
    return [keep if answer == truth else lie for answer in range(law.categories)]


def _of_answers(chances: Sequence[float], said: np.ndarray, sending: Response) -> float:
    """Logarithm of equation (1), by the chances of each permanent answer."""
    return float(
        special.logsumexp(
            [
                math.log(chance)
                + sum(math.log(_chances(sending, answer)[int(out)]) for out in said)
                for answer, chance in enumerate(chances)
            ]
        )
    )


def evaluation(rng: np.random.Generator) -> World:
    """Right answers of every cell, and the rows: one row more adds 1 to any of them."""
    epsilon = float(rng.choice(_EPSILONS))
    contract = numbers({"age": 1}).model_copy(
        update={"split": Split(test_fraction=0.5, evaluation_epsilon=epsilon)}
    )
    unit = unit_of(_COUNTED_BY, contract.name, 0, (1.0,), (1, 2), (), False, Options())
    cells = len(tabular_method.measured_cells(unit)) + 1
    one = [int(count) for count in rng.integers(0, 50, cells)]
    two = [count + int(more) for count, more in zip(one, rng.integers(0, 2, cells), strict=True)]
    two[-1] = one[-1] + 1

    def drawn(which: bool, opened: Open) -> bytes:
        counts = two if which else one
        released = tabular_method.released_counts(counts, contract, unit, opened("evaluation"))
        return json.dumps(released).encode()

    stated = tabular_method.cost(contract, unit).epsilon
    return World(drawn, Price(epsilon=stated), 1)


def cases() -> list[Case]:
    """Of clients, and of held-out rows."""
    return [
        Case(f"{_METHOD}: sendings", _METHOD, partial(sendings, False)),
        Case(f"{_METHOD}: sendings of bits", _METHOD, partial(sendings, True)),
        Case(f"{_COUNTED_BY}: held-out answers", _COUNTED_BY, evaluation),
    ]
