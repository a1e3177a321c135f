"""The certificate of a release: what was promised, to whom and under which assumptions, signed by
the installation that released.

Here stands what it says, as frozen types, its one form as JSON, and the page that shows it;
`certificate_issue` makes it of a published release, `certificate_files` signs it and writes a file
with it.

    certificate = certify(contract, method, point, settings)             # of a release that is
    published
    write_certified(Path("rows.csv"), writer, certificate, settings)     # rows.csv and
    rows.csv.certificate.json
    verify_file(Path("rows.csv"), key=public_key(settings))              # raises CertificateError
    if a byte is another one

Guarantee   none spent: everything in it is public, as the ledger's records are. It holds no number
            of rows and no digest of the rows: what it has of content is the hash of what was
            released.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Context, Decimal
from html import escape
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, StringConstraints, ValidationError

from dpicl.accounting.guarantee import Neighbours
from dpicl.contract.base import Frozen
from dpicl.contract.periods import ONCE
from dpicl.ground.errors import CertificateError, ParameterError
from dpicl.ledger.keys import canonical, plain

LARGEST_BYTES = 1 << 20
Hex32 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""32 bytes, 64 small hexadecimal digits."""
Hex64 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{128}$")]


Facts = Annotated[
    dict[str, Any], AfterValidator(lambda facts: json.loads(json.dumps(facts, sort_keys=True)))
]
"""Names with plain JSON values; sorted, so that they have one form."""


class File(Frozen):
    """A file that holds what was released, or what was derived from it."""

    unsaid = ("condition",)

    name: str
    """Its name when it was written, without a folder."""
    sha256: Hex32
    """Of its bytes."""
    condition: str | None = None
    """What all of its rows meet: not the whole population. As somebody asked for it, whatever the
    rows; left out where nothing was asked.
    """

    @property
    def only_rows(self) -> str:
        """That as a sentence, empty where nothing was asked."""
        return f"Only rows on a condition: {self.condition}." if self.condition else ""


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


class TrustModel(Frozen):
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
    """What was promised, to whom, under which assumptions; signed. `certify` makes it."""

    certifies: str
    """The promise in a sentence, or that there is none."""
    format: Literal["dpicl certificate"] = "dpicl certificate"
    version: Literal[1] = 1
    simulation: bool
    """True on a public benchmark, where noise is seeded: nothing is certified."""
    product: Product
    dp_flavor: Flavor
    privacy_loss: PrivacyLoss
    model: TrustModel
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

    def to_json(self) -> str:
        """The one form of a certificate, whose bytes in UTF-8 are those of its file."""
        return json.dumps(plain(self.model_dump(mode="json")), indent=1, ensure_ascii=False) + "\n"

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
            if certificate is not None and certificate.to_json().encode() == content:
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


_Pairs = list[tuple[str, str]]
_STYLE = """
.dpicl { --ink: #1c2430; --muted: #5b6673; --paper: #fff; --panel: #f3f6f8; --rule: #d8dee4; --accent: #0b6e4f; --warn: #a13d12;
  color: var(--ink); background: var(--paper); font: 1rem/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  max-width: 52rem; margin: 0 auto; padding: 2rem 1.2rem 4rem; }
@media (prefers-color-scheme: dark) { .dpicl { --ink: #e4e9ee; --muted: #9aa6b2; --paper: #14181d; --panel: #1e242b; --rule: #333c46;
  --accent: #58c79c; --warn: #f0936a; } }
.dpicl h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .3rem; } .dpicl h2 { font-size: 1.1rem; margin: 2.2rem 0 .4rem; }
.dpicl .kind { color: var(--muted); margin: 0 0 .2rem; } .dpicl .promise { font-size: 1.12rem; border-left: 4px solid var(--accent);
  padding: .3rem 0 .3rem 1rem; margin: 1.2rem 0; } .dpicl .nothing { border-color: var(--warn); color: var(--warn); font-weight: 600; }
.dpicl .tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(10.5rem, auto)); gap: .7rem; margin: 1.2rem 0; padding: 0; }
.dpicl .tiles div { background: var(--panel); border-radius: 8px; padding: .7rem 1rem; }
.dpicl .tiles dt { font-size: .82rem; color: var(--muted); }
.dpicl .tiles dd { margin: .1rem 0 0; font-size: 1.25rem; font-variant-numeric: tabular-nums; }
.dpicl .bar { height: .6rem; border-radius: .3rem; background: var(--panel); border: 1px solid var(--rule); overflow: hidden; display: flex; }
.dpicl .bar i { background: var(--muted); } .dpicl .bar b { background: var(--accent); }
.dpicl small, .dpicl .note { color: var(--muted); font-size: .86rem; }
.dpicl dl.facts { display: grid; grid-template-columns: minmax(9rem, 13rem) minmax(0, 1fr); gap: .35rem 1.2rem; font-size: .92rem; margin: 0; }
.dpicl dl.facts dt { color: var(--muted); } .dpicl dl.facts dd { margin: 0; overflow-wrap: anywhere; }
.dpicl ul { padding-left: 1.2rem; margin: .3rem 0; } .dpicl code { font: .86em ui-monospace, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
@media (max-width: 36rem) { .dpicl dl.facts { grid-template-columns: 1fr; gap: 0; } .dpicl dl.facts dd { margin-bottom: .6rem; } }
"""  # noqa: E501
_NOTE = (
    "This page was made from the certificate alone and proves nothing by itself: <code>dpicl "
    "verify</code> checks the certificate, its signature and its file."
)
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title} · privacy certificate</title>
<style>body {{ margin: 0; }}</style>
</head>
<body>
{body}
</body>
</html>
"""


def to_page(certificate: Certificate) -> str:
    """The whole page."""
    return _PAGE.format(title=escape(certificate.product.name), body=to_fragment(certificate))


def to_fragment(certificate: Certificate) -> str:
    """What stands in the page, with its style: for notebooks too."""
    product = certificate.product
    promises = not certificate.simulation
    kind = "promise" if promises else "nothing"
    file = f" · file <code>{escape(product.file.name)}</code>" if product.file else ""
    loss, *trusted = _promised(certificate)
    parts = [
        f"<style>{_STYLE}</style>",
        '<article class="dpicl">',
        f'<p class="kind">Privacy certificate · {escape(product.data_product_type)}{file}</p>',
        f"<h1>{escape(product.name)}</h1>",
        f"<p>{escape(product.description)}</p>",
        f'<p class="promise {kind}">{escape(certificate.certifies)}</p>',
        *(_in_short(certificate) if promises else ()),
        _section("Privacy loss" if promises else "What a release would be charged", loss),
        *(map(_section, ("Trust", "Accounting"), trusted) if promises else ()),
        "<h2>Before the mechanism</h2>",
        _list(
            f"{transformation.name} (stability {transformation.stability}): {transformation.why}"
            for transformation in certificate.accounting.transformations
        ),
        "<h2>Not covered</h2>",
        _list(certificate.not_covered),
        *map(_section, ("Implementation", "Evidence"), _made(certificate)),
        f'<p class="note">{_NOTE}</p>',
        "</article>",
    ]
    return "\n".join(parts)


def _in_short(certificate: Certificate) -> tuple[str, str, str]:
    """Tiles; the account as a bar, before, this release and what is left of the cap; and what pure
    losses mean to a reader with even odds.
    """
    loss = certificate.privacy_loss
    accounting = certificate.accounting
    this = loss.privacy_parameters
    unit = escape(loss.privacy_unit)
    before = accounting.spent_before
    after = accounting.spent_after
    cap = accounting.cap
    shown = {
        "ε of this release": _epsilon(this),
        "δ": rounded(this.delta),
        "protects": f"one {loss.privacy_unit}",
    }
    if before and after and cap:
        shown[f"ε spent by account {accounting.account}"] = (
            f"{_epsilon(before)} → {_epsilon(after)} of {_epsilon(cap)}"
        )
    tiles = (
        f"<dl "
        f'class="tiles">{"".join(f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in shown.items())}</dl>'  # noqa: E501
    )
    bar = odds = ""
    old, new, most = (cost.epsilon if cost else None for cost in (before, after, cap))
    if old is not None and new is not None and most:
        first, second = (
            f"{100 * share:.2f}%" for share in (old / most, max(new - old, 0.0) / most)
        )
        label = escape(f"{old:g} of {most:g} spent before, {new:g} after")
        bar = (
            f'<div class="bar" role="img" aria-label="{label}"><i style="width:{first}"></i><b '
            f'style="width:{second}"></b></div>'
        )
    total = after or this
    if (
        this.epsilon is not None
        and total.epsilon is not None
        and not this.delta
        and not total.delta
    ):
        sure, sure_of_all = (
            rounded(100 / (1 + math.exp(-epsilon))) for epsilon in (this.epsilon, total.epsilon)
        )
        is_add = loss.neighbours == Neighbours.ADD_OR_REMOVE_ONE
        doubt = (
            f"it is equally likely that one {unit} is in the table or is not"
            if is_add
            else f"two values of one {unit} are equally likely"
        )
        odds = (
            f'<p class="note">A reader to whom {doubt} is at most {sure} % sure of either after '
            f"this release, and at most {sure_of_all} % "
            "after all that the account had paid for then.</p>"
        )
    return tiles, bar, odds


def _promised(certificate: Certificate) -> tuple[_Pairs, _Pairs, _Pairs]:
    """Names and values of loss, trust and accounting."""
    loss = certificate.privacy_loss
    flavor = certificate.dp_flavor
    model = certificate.model
    accounting = certificate.accounting
    totals = {
        "Before": accounting.spent_before,
        "After": accounting.spent_after,
        "Cap": accounting.cap,
    }
    return (
        [
            ("Flavor", flavor.name),
            ("Privacy unit", f"{loss.privacy_unit}: {loss.privacy_unit_description}"),
            ("Neighbours", f"{loss.neighbours}: {loss.neighbours_description}"),
            ("Charged", _both(loss.privacy_parameters)),
            *(
                [("Before amplification", _both(loss.nominal_parameters))]
                if loss.nominal_parameters
                else []
            ),
            ("The method says", loss.statement),
            (
                "Not protected",
                "; ".join(flavor.unprotected_quantities) or "nothing is published without noise",
            ),
        ],
        [
            ("Model", model.model_name),
            ("Who is trusted", model.trust_model),
            ("Against whom", model.threat_model),
            (
                "Releases",
                model.release_type
                + ("" if model.period == ONCE else f"; this one is for {model.period}"),
            ),
            ("Access", model.access_type),
        ],
        [
            ("Account", accounting.account),
            *((name, _both(total)) for name, total in totals.items() if total),
            ("Composition", accounting.composition),
            ("Rule", accounting.composition_rule),
            ("Post-processing", accounting.post_processing),
        ],
    )


def _made(certificate: Certificate) -> tuple[_Pairs, _Pairs]:
    """Names and values of implementation and evidence."""
    made = certificate.implementation
    evidence = certificate.evidence
    file = certificate.product.file
    signature = certificate.signature
    return (
        [
            (
                "Method",
                (
                    f"{made.title} ({made.method}), draw version {made.draw_version}, post version "
                    f"{made.post_version}"
                ),
            ),
            *((name, str(text)) for name, text in made.head.items() if name != "Not covered"),
            ("Priced as", _event(made.mechanisms)),
            ("Parameters", _facts(made.parameters)),
            ("Intended use", certificate.product.intended_use),
            ("Contract", f"SHA-256 {made.contract_sha256}"),
            ("Issued with", _facts(made.issued_with)),
        ],
        [
            *([("File", f"{file.name}, SHA-256 {file.sha256}")] if file else []),
            *([("Rows", file.only_rows)] if file and file.only_rows else []),
            ("Release", evidence.release_id),
            ("Charged on", certificate.product.publication_date),
            ("Published draw", f"SHA-256 {evidence.artefact_sha256}"),
            *((f"Ledger, {record.kind}", record.hash) for record in evidence.records),
            *(
                [
                    ("Signed by", f"{signature.algorithm} key {signature.public_key}"),
                    ("Signature", signature.value),
                ]
                if signature
                else []
            ),
        ],
    )


def _section(title: str, pairs: _Pairs) -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in pairs)
    return f'<h2>{escape(title)}</h2>\n<dl class="facts">{rows}</dl>'


def _list(sentences: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(sentence)}</li>' for sentence in sentences)}</ul>"


def _facts(facts: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items() if value is not None)


def _event(event: Mechanism) -> str:
    parameters = f" ({_facts(event.parameters)})" if event.parameters else ""
    return (
        event.kind
        + parameters
        + (f" [{'; '.join(map(_event, event.parts))}]" if event.parts else "")
    )


def _epsilon(parameters: Parameters) -> str:
    return "∞" if parameters.epsilon is None else rounded(parameters.epsilon)


def _both(parameters: Parameters) -> str:
    return f"ε = {_epsilon(parameters)}, δ = {rounded(parameters.delta)}"


def rounded(number: float) -> str:
    """Five digits, rounded up: a sentence never states less than what is exact in the
    certificate.
    """
    exact = Decimal(f"{number:.12g}")
    return f"{Context(prec=5, rounding=ROUND_CEILING).plus(exact):.5g}"
