"""What a certificate says, as frozen types, and its one form as JSON.

Sections and keys are those of public registries of deployments of differential privacy, words those
of NIST SP 800-226: privacy unit, neighbouring tables, privacy loss, trust and threat model,
composition, post-processing.

A certificate has one form as bytes. What is signed is the canonical JSON of all its keys but
`signature`: sorted keys, no white space, whole numbers as integers, ASCII.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, StringConstraints, ValidationError

from dpicl.accounting.ledger.keys import canonical, plain
from dpicl.certificate.page import to_fragment, to_page
from dpicl.contract.base import Frozen
from dpicl.errors import CertificateError, ParameterError

LARGEST_BYTES = 1 << 20
Hex32 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""32 bytes, 64 small hexadecimal digits."""
Hex64 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{128}$")]


def _sorted(facts: dict[str, Any]) -> Any:
    return json.loads(json.dumps(facts, sort_keys=True))


Facts = Annotated[dict[str, Any], AfterValidator(_sorted)]
"""Names with plain JSON values; sorted, so that they have one form."""


class File(Frozen):
    """A file that holds what was released, or what was derived from it."""

    name: str
    """Its name when it was written, without a folder."""
    sha256: Hex32
    """Of its bytes."""


class Product(Frozen):
    """What was made, of what."""

    name: str
    """Of the data set's contract."""
    description: str
    """One sentence on the rows and what is predicted for them."""
    data_source: str
    """Title under which the rows are known."""
    intended_use: str
    """What may be done with it at no further privacy loss."""
    data_product_type: str
    """In a registry's words."""
    publication_date: str
    """Day in UTC on which the release was charged, which is before a row was read."""
    file: File | None = None
    """The file that this certificate is written for; none in the certificate of a release."""


class Flavor(Frozen):
    """Which kind of differential privacy."""

    name: Literal["Pure DP", "Approximate DP", "None"]
    """`None` of a simulation."""
    unprotected_quantities: tuple[str, ...]
    """What is published, or can be observed, without any noise."""


class Parameters(Frozen):
    """A privacy loss."""

    epsilon: float | None
    """In nats; null for infinite: no noise at all."""
    delta: float
    """A probability."""


class PrivacyLoss(Frozen):
    """What is promised, to whom."""

    privacy_unit: str
    """`row`, `person` or `client`."""
    privacy_unit_description: str
    """The unit in words, with the maximum number of rows of a person that enter."""
    neighbours: str
    """Which tables are neighbours: `add-or-remove-one` (unbounded) or `replace-one` (bounded)."""
    neighbours_description: str
    """The relation in words."""
    privacy_parameters: Parameters
    """As the account was charged: the promise."""
    nominal_parameters: Parameters | None = None
    """Before amplification by a secret subsample, where there is one; not the promise."""
    statement: str
    """The method's own sentence."""


class Model(Frozen):
    """Who is trusted with true rows, and against whom the promise holds."""

    model_name: Literal["Central", "Local"]
    """Where the noise is added."""
    trust_model: str
    """Who has seen true rows."""
    threat_model: str
    """Against whom the promise holds."""
    release_type: str
    """One release, or one per period."""
    period: str
    """Of this release: public, from the calendar."""
    access_type: Literal["Non-interactive"] = "Non-interactive"
    """What was released stands; nothing more is asked of the rows."""


class Transformation(Frozen):
    """A step between the source and the mechanism: one unit more or less moves `stability` of its
    output.
    """

    name: str
    stability: int
    """How many of its output one of its input moves at most."""
    why: str


class Accounting(Frozen):
    """The account that pays for these rows, at the charge of this release."""

    account: str
    spent_before: Parameters | None
    """By all earlier releases; null of a simulation, and of a release that took another's place."""
    spent_after: Parameters | None
    """With this one."""
    cap: Parameters | None
    """What it may spend, at the time of the charge."""
    composition: str
    """What the total assumes."""
    composition_rule: str
    """The rule that gave the total: `pure sum`, or a privacy filter."""
    post_processing: str
    """What is made of the release at no cost."""
    transformations: tuple[Transformation, ...]
    """Before the mechanism, in order."""


class Mechanism(Frozen):
    """What was done to the rows, as it was priced; parts are nested."""

    kind: str
    """As `dpicl.accounting` prices it."""
    parameters: Facts
    """Public."""
    parts: tuple[Mechanism, ...] = ()


class Implementation(Frozen):
    """By what program."""

    method: str
    """Of `dpicl.methods`."""
    title: str
    """As people call it."""
    draw_version: int
    """Of what is drawn from rows: part of the release's name."""
    post_version: int
    """Of what is derived from the draw."""
    head: Facts
    """What the method's module states: trust, unit, neighbours, guarantee, paper, symbols, not
    covered.
    """
    mechanisms: Mechanism
    """The priced event."""
    parameters: Facts
    """Public parameters of the release, as the ledger names it by."""
    contract_sha256: Hex32
    """Digest of the public contract: columns, bounds, categories; not of rows."""
    issued_with: Facts
    """Versions of the programs that wrote this certificate."""


class Record(Frozen):
    """A record of the ledger's chain."""

    kind: str
    """`reserved`: charged before a row was read; `published`: the hash of the artefact won."""
    hash: Hex32
    """Under the installation's secret key."""


class Evidence(Frozen):
    """What the ledger holds of it."""

    release_id: Hex32
    """The release's name: account, method, version, parameters, contract and period under the
    installation's secret key.
    """
    artefact_sha256: Hex32
    """Of the published draw: of several the first counts."""
    records: tuple[Record, ...]
    """Receipts."""


class Signature(Frozen):
    """By the installation that released."""

    algorithm: Literal["Ed25519"]
    public_key: Hex32
    """Compare it with the one that you have from the installation itself."""
    value: Hex64
    """Of the canonical JSON of all other keys."""


class Certificate(Frozen):
    """What was promised, to whom, under which assumptions; signed. `issue.certify` makes it."""

    certifies: str
    """The promise in a sentence, or that there is none."""
    format: Literal["dpicl certificate"] = "dpicl certificate"
    version: Literal[1] = 1
    simulation: bool
    """True on a public benchmark, where noise is seeded: nothing is certified."""
    product: Product
    dp_flavor: Flavor
    privacy_loss: PrivacyLoss
    model: Model
    accounting: Accounting
    implementation: Implementation
    evidence: Evidence
    not_covered: tuple[str, ...]
    """What no promise is made about."""
    signature: Signature | None = None
    """None while it is being made."""

    @property
    def signed_content(self) -> bytes:
        """What the signature is of: the canonical JSON of all keys but `signature`."""
        return canonical(self.model_dump(mode="json", exclude={"signature"})).encode()

    def to_json(self) -> bytes:
        """The one form of a certificate as bytes."""
        return (
            json.dumps(plain(self.model_dump(mode="json")), indent=1, ensure_ascii=False) + "\n"
        ).encode()

    @staticmethod
    def from_json(content: bytes, name: str = "certificate") -> Certificate:
        """The certificate of these bytes; whether its signature holds is another question.
        `name`: of the file, for messages.
        Raises CertificateError: they are not exactly the bytes of a certificate.
        """
        try:
            certificate = (
                Certificate.model_validate(json.loads(content))
                if len(content) <= LARGEST_BYTES
                else None
            )
            if certificate is not None and certificate.to_json() == content:
                return certificate
        except (ValidationError, ValueError, RecursionError, ParameterError):
            pass
        raise CertificateError(
            f"{name}: is no certificate, or not as it was written; expected the unchanged file of "
            f"a certificate"
        )

    def to_page(self) -> str:
        """One page of HTML that fetches nothing and runs nothing."""
        return to_page(self)

    def _repr_html_(self) -> str:
        """In a notebook."""
        return to_fragment(self)
