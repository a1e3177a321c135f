"""A collection of clients' reports: what is asked, under which laws, and the name by which its
reports are known.

Trust       Local: public facts alone, the same at the client and at the collector.
Unit        One client; where the contract protects persons, a client is a person and reports m rows
            of their own.
Neighbours  REPLACE_ONE of what that client holds.
Guarantee   epsilon-LDP per client and collection for any number of sendings, delta = 0; with two
            levels of noise each sending alone is sending_epsilon-LDP besides
            (`mechanisms.two_levels`).

The name hashes the contract's content, the design and both epsilons: a report to another contract,
one of whose columns is new for example, is a report to another collection. The permanent answer has
the name without the sending's epsilon: however it is sent, it is one.

Symbols     m the contract's most rows per person.
Not covered who answers, which is no secret; correlated attributes of one client.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import comb
from typing import get_args

from dpicl.contract.load import contract_digest
from dpicl.contract.models import Contract
from dpicl.errors import ParameterError
from dpicl.mechanisms.two_levels import TwoLevels, two_levels
from dpicl.methods.ldp_collection import encoding_of, expected_errors, questions_for
from dpicl.methods.options import LdpVariant
from dpicl.pipeline import is_real
from dpicl.tabular.local.estimate import check_fits, usual_estimator
from dpicl.tabular.local.questions import MOST_QUESTIONS, Questionnaire
from dpicl.types import DEFAULT_DESIGN, Design, Estimator
from dpicl.yaml_file import validate

DESIGNS = tuple(design for design in get_args(Design) if design != "all-columns")
"""In which a client answers one question: counts of answers say all."""


@dataclass(frozen=True)
class Collection:
    """What clients are asked; epsilons in nats, of one client's report."""

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
        sending_epsilon: float | None = None,
        estimator: Estimator | None = None,
    ) -> Collection:
        """The collection of these public facts.

        Args:
            columns, about: see `LdpVariant`.
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
        stated = {"design": design, "columns": columns, "about": list(about), "estimator": chosen}
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
        asked = [question.columns for question in self.questions.questions]
        subsets = comb(len(self.variant.about) or len(self.questions.sizes) - 1, len(asked[0]) - 1)
        # some of them, and another version of numpy might draw others
        drawn = f" {asked}" if subsets > MOST_QUESTIONS else ""
        return _hash(
            f"{contract_digest(self.contract)} {self.variant.design} {self.variant.columns} "
            f"{self.epsilon!r}{about}{drawn}"
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
        return questions_for(encoding_of(self.contract, self.variant), self.variant, self.epsilon)

    @cached_property
    def levels(self) -> tuple[TwoLevels | None, ...]:
        """Of each question, both laws; None where the permanent answer is sent as it is, or says
        nothing.
        """
        if self.sending_epsilon is None:
            return (None,) * len(self.questions.questions)
        laws = [question.law for question in self.questions.questions]
        return tuple(
            two_levels(law, epsilon=self.sending_epsilon) if law.categories > 1 else None
            for law in laws
        )

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
        person = self.contract.privacy.person
        of, reports = ("person", person.max_rows) if person else ("client", 1)
        each = (
            f", and {reports * self.sending_epsilon:.4g}-LDP in any one sending"
            if self.sending_epsilon
            else ""
        )
        whole = (
            f"{reports * self.questions.guarantee.epsilon:.4g}-LDP before they leave it, however "
            f"often they are sent"
        )
        return (
            f"Reports of a {of} that runs python -m dpicl.client with one wallet are "
            f"{whole}{each}; everything after is post-processing."
        )

    def column_errors(self, clients: int) -> dict[str, float]:
        """See `expected_errors`: by the noise of the reports as they are sent."""
        return expected_errors(
            self.contract, self.variant, self.epsilon, clients, self.sent_questions
        )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
