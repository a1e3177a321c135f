"""A collection: one name for one set of public facts, the same for ever, and laws by which a
collector estimates what clients hold.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from dpicl.client.records import answer, sent
from dpicl.contract import Contract, parse_contract
from dpicl.contract.load import contract_digest
from dpicl.data.local.observed import observed_tally
from dpicl.data.reports import Checker, Sender, columns
from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import stream
from dpicl.mechanisms.unary_encoding import Unary
from dpicl.methods.collection import Collection
from tests.library.tabular.received import plain_tally, text

from ..examples import small_contract


def wide() -> Contract:
    """A table of columns with so many categories that answers are unary encoded."""
    many = {"type": "category", "categories": [str(one) for one in range(25)]}
    answer = {"type": "category", "categories": ["no", "yes"]}
    stated = {
        "name": "wide",
        "privacy": {"neighbours": "replace-one", "budget": {"epsilon": 3}},
        "columns": {"c0": many, "c1": many, "answer": answer},
        "label": "answer",
        "source": {"file": "wide.csv"},
    }
    return parse_contract(stated, "wide.yaml")


def test_every_fact_of_a_collection_is_in_its_name_and_how_it_is_estimated_is_not() -> None:
    contract = small_contract()
    names = [one.name for one in contract.local]
    facts: list[dict[str, Any]] = [
        {"epsilon": 1.0},
        {"epsilon": 2.0},
        {"epsilon": 2.0, "sending_epsilon": 1.0},
        {"epsilon": 2.0, "sending_epsilon": 0.5},
        {"epsilon": 1.0, "design": "pairs"},
        {"epsilon": 1.0, "columns": 1},
        {"epsilon": 1.0, "about": names[:1]},
        {"epsilon": 1.0, "about": names[1:2]},
        {"epsilon": 1.0, "label_alone": True},
    ]
    collections = [Collection.of(contract, **fact) for fact in facts]
    assert len({one.name for one in collections}) == len(facts)
    assert {one.permanent_name for one in collections[1:4]} == {collections[1].name}
    assert Collection.of(contract, epsilon=1.0, estimator="tree").name == collections[0].name
    one, other = (
        Collection.of(contract, epsilon=1.0, about=about) for about in (names[1::-1], names[:2])
    )
    assert one.name == other.name


def test_names_are_those_that_wallets_hold() -> None:
    """Another name would be another collection: every client would answer, and pay, again."""
    contract = small_contract()
    stated = f"{contract_digest(contract)} subset None 1.0"
    assert Collection.of(contract, epsilon=1.0).name == hashlib.sha256(stated.encode()).hexdigest()
    about = f'{contract_digest(contract)} pairs None 1.5 ["{contract.local[0].name}"]'
    asked = Collection.of(contract, epsilon=1.5, design="pairs", about=[contract.local[0].name])
    assert asked.permanent_name == hashlib.sha256(about.encode()).hexdigest()


@pytest.mark.quick("None")
@pytest.mark.parametrize("sending", [None, 1.0])
def test_reports_of_bits_are_counted_by_their_own_law_and_the_population_is_found(
    sending: float | None,
) -> None:
    collection = Collection.of(wide(), epsilon=2.0, design="pairs", sending_epsilon=sending)
    assert all(isinstance(question.law, Unary) for question in collection.questions.questions)
    secret = stream(0, "test", "collection", str(sending))
    rng = np.random.default_rng(0)
    clients = 4000
    likely = np.r_[0.6, np.full(24, 0.4 / 24)]
    columns_of = [rng.choice(25, size=clients, p=likely) for _ in range(2)]
    reports = [
        Sender(collection.name, f"{number:032x}").report(
            sent(answer(row, collection.questions, secret), collection, secret)
        )
        for number, row in enumerate(np.stack([*columns_of, rng.integers(2, size=clients)], axis=1))
    ]
    answers, others = Checker(collection.name, collection.sent_questions).check(
        columns(text(reports).encode())[0]
    )
    assert len(answers.who) == clients and not others
    tally = plain_tally(reports, collection.sent_questions)
    assert [
        one.counts.reshape(25, 2).sum(axis=1).argmax() for one in observed_tally(tally).reports
    ] == [0, 0]
    assert collection.sent_questions.questions[0].law.epsilon <= (sending or 2.0)
    for question, counts, asked in zip(
        tally.questionnaire.questions, tally.counts, tally.clients_of, strict=True
    ):
        lie = question.law.lie_probability
        shares = (counts / asked - lie) / (0.5 - lie)
        deviation = np.sqrt(0.25 / asked) / (0.5 - lie)
        assert abs(shares.reshape(25, 2)[0].sum() - 0.6) < 5 * np.sqrt(2) * deviation


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0.0},
        {"epsilon": float("inf")},
        {"epsilon": 1.0, "sending_epsilon": 1.0},
        {"epsilon": 1.0, "sending_epsilon": float("nan")},
        {"epsilon": 1.0, "design": "all-columns"},
        {"epsilon": 1.0, "about": ["nothing"]},
    ],
)
def test_what_is_no_collection_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        Collection.of(small_contract(), **wrong)
