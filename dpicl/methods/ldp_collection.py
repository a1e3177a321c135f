"""Step 1 of LDP-TabICL: what every client reports, by design, and what it costs the client.

Trust       Local: only the client sees a true answer.
Unit        One client, who reports once; where the contract protects persons, a client is a person
            and reports m rows of their own.
Neighbours  REPLACE_ONE of what that client holds.
Guarantee   epsilon-LDP per client and collection; delta = 0.

    all-columns   every answer i under epsilon_i = epsilon / d, the paper's       laws in sequence
    all others    one question under the whole of epsilon                         the largest of the
                  laws

Symbols     d reported answers, the label among them where there is one, m the contract's most rows
            per person.
Not covered collecting twice from one client: a collection of another design is charged on top.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from dpicl.accounting.guarantee import compose_sequential
from dpicl.contract.models import Contract
from dpicl.errors import ParameterError
from dpicl.mechanisms.randomised_response import Response, randomise, response
from dpicl.mechanisms.unary_encoding import Unary
from dpicl.methods.common import Cost, epsilon_of
from dpicl.methods.options import LdpOptions, LdpVariant
from dpicl.pipeline import Cell, Unit
from dpicl.randomness import Draws
from dpicl.tabular.local.estimate import check_fits
from dpicl.tabular.local.observed import Reported
from dpicl.tabular.local.questions import Questionnaire, questionnaire
from dpicl.tabular.local.tally import Tally, tally
from dpicl.tabular.reading.contribution import reporting_rows
from dpicl.tabular.reading.encode import LocalEncoding, encode_clients
from dpicl.types import LocalReports, PrivateCodes, PrivateTable

Collected = Reported | Tally
"""What the clients sent at one epsilon: every answer on its own, or counts of one question's
answers.
"""


def encoding_of(contract: Contract, chosen: LdpVariant) -> LocalEncoding:
    """The answers that clients give."""
    return LocalEncoding.of(contract, chosen.encoding)


def laws_for(encoding: LocalEncoding, epsilon: float) -> tuple[Response, ...]:
    """Distortion matrices of all columns: epsilon split equally over the answers of one client; a
    label that is none takes nothing.
    """
    return tuple(
        response(epsilon=_share(encoding, epsilon), categories=size) for size in encoding.sizes
    )


def _share(encoding: LocalEncoding, epsilon: float) -> float:
    return epsilon / (len(encoding.sizes) - (encoding.sizes[-1] == 1))


def questions_for(encoding: LocalEncoding, chosen: LdpVariant, epsilon: float) -> Questionnaire:
    """What clients are asked where each answers one question. Raises ParameterError: it is about an
    attribute that there is not.
    """
    features = encoding.names[:-1]
    if unknown := sorted({*chosen.about} - {*features}):
        raise ParameterError(
            "about", unknown[0], f"attributes of this table: {', '.join(features)}"
        )
    about = tuple(place for place, name in enumerate(features) if name in chosen.about)
    return questionnaire(
        encoding.sizes, chosen.design, epsilon, columns=chosen.columns, about=about
    )


def release_cells(unit: Unit) -> dict[Cell, LdpVariant]:
    """Every collection of a unit, and the variant that it is for."""
    options = unit.chosen(LdpOptions)
    variants = {
        "reports": options.variant("icl"),
        **{f"reports-{name}": options.variant(f"icl-{name}") for name in options.variants},
    }
    return {
        Cell(name, epsilon): chosen
        for name, chosen in variants.items()
        for epsilon in unit.epsilons
    }


def collect(
    train: PrivateTable,
    contract: Contract,
    unit: Unit,
    draws: Draws,
    *,
    cells: Sequence[Cell] | None = None,
) -> dict[Cell, Collected]:
    """Every collection (or some) of the unit; the only step that sees true answers."""
    rows = None if contract.privacy.person is None else reporting_rows(train, contract, draws)
    made, collections = {}, {}

    @cache
    def codes(encoding: LocalEncoding) -> PrivateCodes:
        encoded = encode_clients(train, contract, encoding)
        return encoded if rows is None else PrivateCodes(encoded.codes[rows])

    for cell, chosen in release_cells(unit).items():
        if cells is None or cell in cells:
            encoding, epsilon = encoding_of(contract, chosen), epsilon_of(cell)
            # whatever is made of it, a collection is one
            same = (
                encoding,
                chosen.design,
                chosen.columns,
                chosen.about,
                epsilon,
            )
            if same not in made:
                made[same] = collect_codes(codes(encoding), encoding, chosen, epsilon, draws)
            collections[cell] = made[same]
    return collections


def merged(batches: Sequence[Collected]) -> Collected:
    """What all clients sent, from what those of every batch sent, in the order of the batches; at
    least one.
    """
    first = batches[0]
    if isinstance(first, Tally):
        return sum((batch for batch in batches[1:] if isinstance(batch, Tally)), first)
    reports = [batch.reports.codes for batch in batches if isinstance(batch, Reported)]
    return Reported(LocalReports(np.concatenate(reports)), first.laws)


def collect_codes(
    truth: PrivateCodes, encoding: LocalEncoding, chosen: LdpVariant, epsilon: float, draws: Draws
) -> Collected:
    """One collection from clients' true codes, shape (clients, answers)."""
    if chosen.design == "all-columns":
        laws, secret = laws_for(encoding, epsilon), draws.secret("randomise", f"epsilon={epsilon}")
        reports = [randomise(truth.codes[:, i], law, secret) for i, law in enumerate(laws)]
        return Reported(LocalReports(np.stack(reports).T), laws)
    about = f",about={chosen.about}" if chosen.about else ""
    name = f"{chosen.design},columns={chosen.columns},epsilon={epsilon}{about}"
    questions = questions_for(encoding, chosen, epsilon)
    return tally(
        truth,
        questions,
        chance=draws.public("questions", name),
        secret=draws.secret("randomise", name),
    )


def read_collected(
    stored: np.ndarray, contract: Contract, chosen: LdpVariant, epsilon: float
) -> Collected:
    """A collection from what was released of it. Raises DataError: it is of another design."""
    encoding = encoding_of(contract, chosen)
    if chosen.design == "all-columns":
        return Reported(LocalReports(stored), laws_for(encoding, epsilon))
    return Tally.read(stored, questions_for(encoding, chosen, epsilon))


def releases(contract: Contract, unit: Unit) -> dict[Cell, Cost]:
    """What this unit costs a client, who reports once per collection, whatever the shots: on every
    row all answers, or one question. Raises ParameterError: an estimator takes fewer cells than the
    contract's attributes make.
    """
    costs, person = {}, contract.privacy.person
    for cell, chosen in release_cells(unit).items():
        encoding, epsilon = encoding_of(contract, chosen), epsilon_of(cell)
        check_fits(chosen.estimator, encoding.sizes, contract.name)
        if chosen.design == "all-columns":
            once = [law.guarantee() for law in laws_for(encoding, epsilon)]
        else:
            once = [questions_for(encoding, chosen, epsilon).guarantee]
        costs[cell] = Cost(compose_sequential(once * (person.max_rows if person else 1)))
    return costs


def expected_errors(
    contract: Contract,
    chosen: LdpVariant,
    epsilon: float,
    clients: int,
    asked: Questionnaire | None = None,
) -> dict[str, float]:
    """Of every attribute, the expected total variation between its estimated shares and those of so
    many clients; at most 1. Of the answers that name it; a model of the population does somewhat
    better where it is sure of other columns. `asked` are the questions, with the laws of what is
    sent; those of the variant if left out.
    """
    encoding, errors = encoding_of(contract, chosen), {}
    if chosen.design == "all-columns":
        laws: list[tuple[tuple[int, ...], Response | Unary]] = []
        for place, bins in enumerate(encoding.bin_counts):
            answered = 2 if encoding.kind == "one-hot" else bins
            laws.append(
                ((place,), response(epsilon=_share(encoding, epsilon), categories=answered))
            )
    else:
        questions = (asked or questions_for(encoding, chosen, epsilon)).questions
        laws = [
            (() if question.agreement else question.columns, question.law) for question in questions
        ]
    for place, (name, bins) in enumerate(
        zip(encoding.names[:-1], encoding.bin_counts[:-1], strict=True)
    ):
        naming = [law for columns, law in laws if place in columns]
        if not naming or not clients:  # the questions are about others, or are some of very many
            errors[name] = 1.0
            continue
        reports = clients * (1.0 if chosen.design == "all-columns" else len(naming) / len(laws))
        deviation = max(
            _deviation(law, 1 / (bins if chosen.encoding == "k-ary" else 2)) for law in naming
        ) / math.sqrt(reports)
        errors[name] = min(1.0, bins * deviation * math.sqrt(2 / math.pi) / 2)
    return errors


def _deviation(law: Response | Unary, share: float) -> float:
    """Of a report's estimate of a share of the clients, whose cells are this share of all."""
    lie = law.lie_probability
    if isinstance(law, Response):
        return 0.0 if not lie else math.sqrt(share * (1 - share)) / (law.truth_probability - lie)
    return math.sqrt(share * law.categories * lie * (1 - lie)) / (0.5 - lie)
