"""Audits of what a client sends: one report in either encoding, all reports of one client together,
the answer to one question, and one answer that is sent many times.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from dpicl.accounting.guarantee import Neighbours
from dpicl.data.local.observed import Reported
from dpicl.ground.randomness import Draws, Stream
from dpicl.mechanisms.randomised_response import randomise, response
from dpicl.mechanisms.two_levels import send, two_levels
from dpicl.mechanisms.unary_encoding import report, unary
from dpicl.methods.collection import collect
from dpicl.methods.options import LdpOptions
from lab.audit.case import LESS_NOISE, AuditCase, Mutant, OutputEvent, Trial, less_noise
from lab.audit.neighbours import contract_of, rows

CLIENTS, FEW_CLIENTS = 100, 10
"""Clients per run who report once, or all their answers: their noise is drawn in one go."""
ANSWERS = 4
"""What one client of the collection reports: three attributes and the label."""
_ONE, _OTHER = (0, 0, 0, 0), (1, 1, 1, 1)
_EVERY, _SUBSET = LdpOptions(), LdpOptions(design="subset", columns=2, estimator="log-linear")
_AGREEMENT = LdpOptions(design="agreement", estimator="log-linear")
_LAST = 7
"""Cell of two columns and the label in which all are 1."""
_BIT = 10
"""Added to answers of one bit, which are told from those over cells so."""


def _report(epsilon: float, categories: int, *, lie_left_out: bool = False) -> Trial:
    """A client whose answer is 1, or 0; the events are those two reports."""
    law = response(epsilon=epsilon, categories=categories)

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        truth = np.full(count, int(which))
        reports = randomise(truth, law, stream)
        return np.where(reports == 1, truth, reports) if lie_left_out else reports

    return Trial(
        draw,
        {"report is 0": lambda reports: reports == 0, "report is 1": lambda reports: reports == 1},
        per_run=CLIENTS,
    )


def _collection(epsilon: float, options: LdpOptions = _EVERY) -> Trial:
    """A client who differs in every answer, or where agreement is asked for in the label; the
    events are that all reports fit one neighbour.
    """
    declared = {"type": "category", "categories": ["no", "yes"]}
    of_releases = contract_of({f"column_{number}": declared for number in range(ANSWERS - 1)})
    columns = {name: column for name, column in of_releases.columns.items() if name != "place"}
    contract = of_releases.model_copy(update={"columns": columns, "groups": {}})

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        differing = ["bought"] if options.design == "agreement" else columns
        table = rows(
            contract,
            {**dict.fromkeys(columns, "no"), **dict.fromkeys(differing, "yes" if which else "no")},
            count,
        )
        draws = Draws(stream.below(1 << 64), contract.name, simulated=True)
        collected = collect(table, contract, options, epsilon, draws)
        if isinstance(collected, Reported):
            return collected.stored
        # clients of one answer are alike, and so are the cells of all questions
        questions = zip(collected.questionnaire.questions, collected.counts, strict=True)
        return np.concatenate(
            [
                np.repeat(np.arange(len(counts)) + _BIT * one.agreement, counts)
                for one, counts in questions
            ]
        )

    if options.design == "all-columns":
        events: dict[str, OutputEvent] = {
            "all reports fit the one": lambda codes: (codes == _ONE).all(axis=1),
            "all fit the other": lambda codes: (codes == _OTHER).all(axis=1),
        }
    elif options.design == "agreement":
        events = {
            "the answer fits the one": lambda cells: np.isin(cells, (0, _BIT + 1)),
            "fits the other": lambda cells: np.isin(cells, (1, _BIT)),
        }
    else:
        events = {
            "the answer fits the one": lambda cells: cells == 0,
            "fits the other": lambda cells: cells == _LAST,
        }
    return Trial(draw, events, per_run=FEW_CLIENTS)


def _bits(epsilon: float, *, likelier: bool = False) -> Trial:
    """A client whose answer is 1, or 0, of seven; the events are that one's bit is set and the
    other's is not.
    """
    law = unary(epsilon=epsilon, categories=7)

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        bits = report(np.full(count, int(which)), law, stream)
        if likelier:
            bits[:, int(which)] |= report(np.full(count, int(which)), law, stream)[:, int(which)]
        return bits

    return Trial(
        draw,
        {
            "bit 0 and not 1": lambda bits: bits[:, 0] & ~bits[:, 1],
            "bit 1 and not 0": lambda bits: bits[:, 1] & ~bits[:, 0],
        },
        per_run=CLIENTS,
    )


SENDINGS = 20
"""Of one permanent answer."""


def _sendings(epsilon: float, *, answered_anew: bool = False) -> Trial:
    """A client whose answer is 1, or 0, and is sent many times; the events are that most sendings
    are that one.
    """
    law = response(epsilon=epsilon, categories=3)
    sending = two_levels(law, epsilon=_ONE_SENDING * epsilon).sending

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        truth = np.repeat(np.full(count, int(which)), SENDINGS if answered_anew else 1)
        kept = np.broadcast_to(randomise(truth, law, stream).reshape(count, -1), (count, SENDINGS))
        return send(kept.reshape(-1), sending, stream).reshape(count, SENDINGS)

    def most(code: int) -> OutputEvent:
        return lambda sent: (sent == code).sum(axis=1) > SENDINGS / 2

    return Trial(draw, {"most are 0": most(0), "most are 1": most(1)}, per_run=FEW_CLIENTS)


_ONE_SENDING = 0.8
"""Of the permanent answer's epsilon: little noise, so that many sendings reveal the permanent
answer.
"""
_client = partial(AuditCase, neighbours=Neighbours.REPLACE_ONE, unit="client")
_STATED = 2.0
CASES = (
    *(
        _client(
            f"randomised-response-{categories}",
            f"randomised response over {categories} categories",
            1.0,
            _report(1.0, categories),
        ).with_mutants(
            less_noise(_report(float(LESS_NOISE), categories)),
            Mutant(
                "lie-left-out",
                "no lie is ever the second category, so that this report is always true",
                _report(1.0, categories, lie_left_out=True),
            ),
        )
        for categories in (2, 3, 7, 200)
    ),
    _client(
        "unary-encoding", "unary encoding of one of seven categories", 1.0, _bits(1.0)
    ).with_mutants(
        less_noise(_bits(float(LESS_NOISE))),
        Mutant(
            "likelier-truth",
            "the client's own bit is set in three of four reports, at the price of one of two",
            _bits(1.0, likelier=True),
        ),
    ),
    _client(
        "client-collection", "all reports of one client", _STATED, _collection(_STATED)
    ).with_mutants(
        less_noise(_collection(_STATED * float(LESS_NOISE))),
        Mutant(
            "label-for-free",
            "the budget is shared among all answers but the label",
            _collection(_STATED * ANSWERS / (ANSWERS - 1)),
        ),
    ),
    _client(
        "client-question",
        "one client's answer over the cells of several columns",
        _STATED,
        _collection(_STATED, _SUBSET),
    ).with_mutants(
        less_noise(_collection(_STATED * float(LESS_NOISE), _SUBSET)),
        Mutant(
            "budget-for-every-column",
            "the answer spends the budget once for each of its columns",
            _collection(3 * _STATED, _SUBSET),
        ),
    ),
    _client(
        "client-agreement",
        "one client's answer over two columns, or whether they agree",
        _STATED,
        _collection(_STATED, _AGREEMENT),
    ).with_mutants(
        less_noise(_collection(_STATED * float(LESS_NOISE), _AGREEMENT)),
        Mutant(
            "bit-for-free",
            "whether they agree is answered with as much budget again",
            _collection(2 * _STATED, _AGREEMENT),
        ),
    ),
    _client(
        "client-sendings",
        f"one client's permanent answer, sent {SENDINGS} times with noise anew",
        1.0,
        _sendings(1.0),
    ).with_mutants(
        less_noise(_sendings(float(LESS_NOISE))),
        Mutant(
            "answered-anew",
            "each sending is of an answer of its own, at the price of one",
            _sendings(1.0, answered_anew=True),
        ),
    ),
)
