"""A collection of clients' reports, step 1 of LDP-TabICL: what is asked, under which laws, what it
costs a client, and the name by which its reports are known.

Trust       Local: only the client sees a true answer. What is asked is made of public facts alone,
            the same at the client and at the collector.
Unit        One client, who reports once; where the contract protects persons, a client is a person
            and reports m rows of their own, each of which costs an m-th of epsilon.
Neighbours  REPLACE_ONE of what that client holds.
Guarantee   epsilon-LDP per client and collection for any number of sendings, delta = 0; with two
            levels of noise each sending alone is sending_epsilon-LDP besides
            (`mechanisms.two_levels`).

    all-columns   every answer i under epsilon_i = epsilon / d, the paper's       laws in sequence
    all others    one question under the whole of epsilon                         the largest of the
                  laws

The name hashes the contract's content, the design and both epsilons: a report to another contract,
one of whose columns is new for example, is a report to another collection. The permanent answer has
the name without the sending's epsilon: however it is sent, it is one.

Symbols     d reported answers, the label among them where there is one, m the contract's most rows
            per person.
Not covered who answers, which is no secret; correlated attributes of one client; collecting twice
            from one client: a collection of another design is charged on top.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import comb
from typing import get_args

import numpy as np

from dpicl.accounting.guarantee import Guarantee, each_of
from dpicl.contract.load import contract_digest
from dpicl.contract.models import Contract
from dpicl.contract.pipeline import is_real
from dpicl.data.local.estimate import check_fits, usual_estimator
from dpicl.data.local.observed import Reported
from dpicl.data.local.questions import (
    MOST_QUESTIONS,
    Question,
    Questionnaire,
    Tally,
    deviation_of,
    questionnaire,
    tally,
)
from dpicl.data.reading.encode import LocalEncoding, encode_clients
from dpicl.data.reading.split import reporting_rows
from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Draws
from dpicl.ground.types import (
    DEFAULT_DESIGN,
    Design,
    Estimator,
    LocalReports,
    PrivateCodes,
    PrivateTable,
)
from dpicl.ground.validation import validate
from dpicl.mechanisms.randomised_response import Response, randomise, response
from dpicl.mechanisms.two_levels import TwoLevels, two_levels
from dpicl.mechanisms.unary_encoding import Unary
from dpicl.methods.options import LdpVariant

DESIGNS = tuple(design for design in get_args(Design) if design != "all-columns")
"""In which a client answers one question: counts of answers say all."""


@dataclass(frozen=True)
class Collection:
    """What clients are asked; epsilons in nats, of all rows that a client reports."""

    contract: Contract
    variant: LdpVariant
    epsilon: float
    sending_epsilon: float | None = None

    @staticmethod
    def of(
        contract: Contract,
        *,
        epsilon: float,
        design: str = DEFAULT_DESIGN,
        columns: int | None = None,
        about: Sequence[str] = (),
        label_alone: bool = False,
        sending_epsilon: float | None = None,
        estimator: Estimator | None = None,
    ) -> Collection:
        """The collection of these public facts.

        Args:
            columns, about, label_alone: see `LdpVariant`.
            sending_epsilon: of each sending, where noise is added to the permanent answer anew;
                none is added if left out.
            estimator: what makes rows of the reports; the usual one if left out.

        Raises:
            ParameterError: a value breaks a rule; all of its questions are built here.
        """
        for name, value in (
            ("epsilon", epsilon),
            ("sending epsilon", 1.0 if sending_epsilon is None else sending_epsilon),
        ):
            if not (is_real(value) and 0 < value <= sys.float_info.max):
                raise ParameterError(name, value, "a finite number > 0")
        if design not in DESIGNS:
            raise ParameterError("design", design[:40], f"one of {', '.join(DESIGNS)}")
        sizes = encoding_of(contract, LdpVariant()).sizes
        chosen: Estimator = estimator or usual_estimator(sizes)
        check_fits(chosen, sizes, contract.name)
        stated = {
            "design": design,
            "columns": columns,
            "about": list(about),
            "label_alone": label_alone,
            "estimator": chosen,
        }
        sending = None if sending_epsilon is None else float(sending_epsilon)
        # 1 and 1.0 are one name
        collection = Collection(
            contract, validate(LdpVariant, stated, "collection"), float(epsilon), sending
        )
        _ = collection.sent_questions
        return collection

    @cached_property
    def permanent_name(self) -> str:
        """Of the permanent answers: 64 hexadecimal digits."""
        about = f" {json.dumps(self.variant.about)}" if self.variant.about else ""
        about += " label-alone" if self.variant.label_alone else ""
        asked = [question.columns for question in self.questions.questions]
        subsets = comb(len(self.variant.about) or len(self.questions.sizes) - 1, len(asked[0]) - 1)
        # some of them, and another version of numpy might draw others
        drawn = f" {asked}" if subsets > MOST_QUESTIONS else ""
        return _hash(
            f"{contract_digest(self.contract)} {self.variant.design} {self.variant.columns} "
            f"{self.epsilon!r}{about}{drawn}{' in-all' if self.contract.rows_of_unit > 1 else ''}"
        )

    @cached_property
    def name(self) -> str:
        """Of the reports as they are sent: 64 hexadecimal digits."""
        return (
            self.permanent_name
            if self.sending_epsilon is None
            else _hash(f"{self.permanent_name} {self.sending_epsilon!r}")
        )

    @cached_property
    def questions(self) -> Questionnaire:
        """With the laws of permanent answers."""
        own = report_epsilon(self.epsilon, self.contract)
        return questions_for(encoding_of(self.contract, self.variant), self.variant, own)

    @cached_property
    def levels(self) -> tuple[TwoLevels | None, ...]:
        """Of each question, both laws; None where the permanent answer is sent as it is, or says
        nothing.
        """
        if self.sending_epsilon is None:
            return (None,) * len(self.questions.questions)
        laws = [question.law for question in self.questions.questions]
        own = report_epsilon(self.sending_epsilon, self.contract)
        return tuple(two_levels(law, epsilon=own) if law.categories > 1 else None for law in laws)

    @cached_property
    def sent_questions(self) -> Questionnaire:
        """With the laws of reports given the truth: what a collector counts and estimates by."""
        pairs = zip(self.questions.questions, self.levels, strict=True)
        questions = (
            question if levels is None else replace(question, law=levels.sent)
            for question, levels in pairs
        )
        return replace(self.questions, questions=tuple(questions))

    @property
    def statement(self) -> str:
        """What a client is promised that runs `python -m dpicl.client`."""
        rows = self.contract.rows_of_unit
        each = (
            f", and {self.sending_epsilon:.4g}-LDP in any one sending"
            if self.sending_epsilon
            else ""
        )
        whole = (
            f"{rows * self.questions.guarantee.epsilon:.4g}-LDP before they leave it, however "
            f"often they are sent"
        )
        who = "person" if self.contract.person else "client"
        return (
            f"Reports of a {who} that runs python -m dpicl.client with one wallet are "
            f"{whole}{each}; everything after is post-processing."
        )

    def column_errors(self, clients: int) -> dict[str, float]:
        """See `expected_errors`: by the noise of the reports as they are sent."""
        own = report_epsilon(self.epsilon, self.contract)
        return expected_errors(self.contract, self.variant, own, clients, self.sent_questions)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


Collected = Reported | Tally
"""What the clients sent at one epsilon: every answer on its own, or counts of one question's
answers.
"""


def report_epsilon(epsilon: float, contract: Contract) -> float:
    """Of the report of one row, where all that a client sends may cost so much."""
    return each_of(epsilon, contract.rows_of_unit)


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
        encoding.sizes,
        chosen.design,
        epsilon,
        columns=chosen.columns,
        about=about,
        label_alone=chosen.label_alone,
    )


def collect(
    train: PrivateTable, contract: Contract, chosen: LdpVariant, epsilon: float, draws: Draws
) -> Collected:
    """One collection, whatever is made of it; the only step that sees true answers."""
    encoding = encoding_of(contract, chosen)

    def codes() -> PrivateCodes:
        encoded = encode_clients(train, contract, encoding)
        if contract.person is None:
            return encoded
        reporting = train.once("rows", lambda: reporting_rows(train, contract, draws))
        return PrivateCodes(encoded.codes[reporting])

    return train.once(
        (encoding, chosen.design, chosen.columns, chosen.about, chosen.label_alone, epsilon),
        lambda: collect_codes(train.once(encoding, codes), encoding, chosen, epsilon, draws),
    )


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
        laws = laws_for(encoding, epsilon)
        secret = draws.secret("randomise", f"epsilon={epsilon}")
        reports = [randomise(truth.codes[:, i], law, secret) for i, law in enumerate(laws)]
        return Reported(LocalReports(np.stack(reports).T), laws)
    about = f",about={chosen.about}" if chosen.about else ""
    about += ",label-alone" if chosen.label_alone else ""
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


def costs_of_row(encoding: LocalEncoding, chosen: LdpVariant, epsilon: float) -> list[Guarantee]:
    """What a client spends who reports one row, answer by answer."""
    if chosen.design == "all-columns":
        return [law.guarantee() for law in laws_for(encoding, epsilon)]
    return [questions_for(encoding, chosen, epsilon).guarantee]


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
    encoding = encoding_of(contract, chosen)
    errors = {}
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
            deviation_of(law, 1 / (bins if chosen.encoding == "k-ary" else 2)) for law in naming
        ) / math.sqrt(reports)
        errors[name] = min(1.0, bins * deviation * math.sqrt(2 / math.pi) / 2)
    return errors


def expected_label_deviation(
    contract: Contract, chosen: LdpVariant, epsilon: float, clients: int
) -> float:
    """Of the noise in one label's share of so many clients, about, labels as frequent as each
    other; infinite of no client.
    """
    encoding = encoding_of(contract, chosen)
    if chosen.design != "all-columns":
        return questions_for(encoding, chosen, epsilon).label_deviation(clients)
    alone = Question((0,), encoding.sizes[-1:], laws_for(encoding, epsilon)[-1])
    return Questionnaire(encoding.sizes[-1:], (alone,)).label_deviation(clients)
