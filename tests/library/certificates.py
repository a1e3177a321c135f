"""A certificate of a release that never was: for what reads certificates only."""

from __future__ import annotations

import math

from dpicl.accounting.guarantee import Event, Guarantee
from dpicl.ledger.keys import plain
from dpicl.release.certificate import (
    Accounting,
    Certificate,
    Evidence,
    Flavor,
    Implementation,
    Mechanism,
    Parameters,
    PrivacyLoss,
    Product,
    TrustModel,
)


def made_up_certificate() -> Certificate:
    """Unsigned."""
    loss = Parameters(epsilon=0.1, delta=0.0)
    return Certificate(
        certifies="Differential privacy, made up.",
        simulation=False,
        product=Product(
            name="shop",
            description="Customers.",
            data_source="Private records",
            intended_use="tests",
            data_product_type="Synthetic data",
            publication_date="2026-01-02",
        ),
        dp_flavor=Flavor(name="Pure DP", unprotected_quantities=()),
        privacy_loss=PrivacyLoss(
            privacy_unit="row",
            privacy_unit_description="One row.",
            neighbours="add-or-remove-one",
            neighbours_description="One row more.",
            privacy_parameters=loss,
            statement="0.1-DP.",
        ),
        model=TrustModel(
            model_name="Central",
            trust_model="The curator.",
            threat_model="Anybody.",
            release_type="One release",
            period="once",
        ),
        accounting=Accounting(
            account="shop",
            spent_before=Parameters(epsilon=0.0, delta=0.0),
            spent_after=loss,
            cap=Parameters(epsilon=3.0, delta=0.0),
            composition="All releases.",
            composition_rule="pure sum",
            post_processing="Free.",
            transformations=(),
        ),
        implementation=Implementation(
            method="made_up",
            title="Made up",
            draw_version=1,
            post_version=1,
            head={},
            mechanisms=Mechanism(kind="pure", parameters={"epsilon": 0.1}),
            parameters={
                "words": "naïve – ≤ 1",
                "epsilon": 0.1,
                "large": 1e300,
                "whole": 12.0,
                "nested": {"b": [1, None], "a": True},
            },
            contract_sha256="0" * 64,
            issued_with={"dpicl": "0.1.0"},
        ),
        evidence=Evidence(release_id="1" * 64, artefact_sha256="2" * 64, records=()),
        not_covered=("Much.",),
    )


def certificate_for(guarantee: Guarantee, *, lowered: float = 1.0) -> Certificate:
    """Unsigned, of a release that is charged for this; its epsilon is stated at this share."""
    made = made_up_certificate()
    epsilon = None if math.isinf(guarantee.epsilon) else lowered * guarantee.epsilon
    stated = Parameters(epsilon=epsilon, delta=guarantee.delta)
    loss = {"neighbours": guarantee.neighbours.value, "privacy_parameters": stated}
    return made.model_copy(
        update={
            "privacy_loss": made.privacy_loss.model_copy(update=loss),
            "accounting": made.accounting.model_copy(update={"spent_after": None}),
            "implementation": made.implementation.model_copy(
                update={"mechanisms": _mechanism(guarantee.event)}
            ),
        }
    )


def _mechanism(event: Event) -> Mechanism:
    return Mechanism(
        kind=event.kind,
        parameters=plain(dict(event.parameters)),
        parts=tuple(map(_mechanism, event.parts)),
    )
