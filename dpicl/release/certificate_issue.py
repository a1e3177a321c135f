"""From a published release to its certificate: public facts of the contract, the method and the
ledger's records.

Guarantee   none spent: reads no row, and nothing that depends on rows but the hash of what was
            released. When a release was published is left out: the time between charge and
            publication goes with the number of rows.

What a release was charged, and what its account had spent before and after, is read from the record
of the chain that charged it, whose hash is checked under the installation's key: not from tables
that somebody may have edited, and not as of now.

The sentences of a certificate: what is promised in words, and what is not.
"""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import dpicl
from dpicl.accounting.events import guarantee_from_json
from dpicl.accounting.filters import Spent
from dpicl.accounting.guarantee import Event, Guarantee, Neighbours
from dpicl.contract.declared import Declared
from dpicl.contract.load import contract_digest
from dpicl.contract.models import Contract
from dpicl.contract.persons import most_rows
from dpicl.contract.pipeline import Point
from dpicl.contract.text import TextContract
from dpicl.data.reading.stability import steps_before
from dpicl.ground.errors import CertificateError, LedgerError, LedgerRefusedError
from dpicl.ground.files import PRIVATE_MODE, publish
from dpicl.home import accounts
from dpicl.home.accounts import ledger_key, open_ledger
from dpicl.home.settings import Settings
from dpicl.ledger import ReleaseCharge
from dpicl.ledger.chain import true_content
from dpicl.ledger.keys import plain
from dpicl.methods import METHODS
from dpicl.methods.base import Method, head_of_method
from dpicl.release import certificate
from dpicl.release.certificate import (
    Accounting,
    Certificate,
    Mechanism,
    Parameters,
    Record,
    rounded,
)
from dpicl.release.certificate_files import check_signature, public_key, signed
from dpicl.release.names import ReleaseFacts, account_of
from dpicl.release.releases import check_ledger, named_releases

_PACKAGES = ("numpy", "pyarrow", "scipy", "cryptography")


def certify(
    contract: Declared,
    method: str,
    point: Point[Any],
    settings: Settings,
    facts: ReleaseFacts = ReleaseFacts(),  # noqa: B008 - frozen
) -> Certificate:
    """The certificate of a published release: issued once, and the same whenever it is asked for
    again.

        certificate = certify(contract, method, point, settings, ReleaseFacts(period))
        certificate.to_json(), certificate.to_page(), certificate.accounting.spent_after

    Args:
        point: what the release was asked for.
        facts: what else names the release.

    Raises:
        LedgerError: nothing is published for this release.
        LedgerRefusedError: its receipt is no record of this installation's ledger.
    """
    with open_ledger(settings) as ledger:
        check_ledger(contract, settings)
        account = ledger.find_account(
            account_of(contract, method),
            accounts.addresses_of(contract, settings),
            named=contract.account is not None,
        )
        if account is None:
            raise LedgerError(
                f"{contract.name}: no account is open for its rows; expected a release of them "
                f"first"
            )
        (named,) = named_releases(account, contract, method, [point], settings, facts).values()
        release = named.paying
        part = named.charge
        artefact = ledger.published(part.release_id)
        if artefact is None:
            raise LedgerError(
                f"{contract.name}: {method}, {point.key}: nothing is published for this release; "
                f"expected it before its certificate"
            )
        for charge in {release.release_id: release, part.release_id: part}.values():
            accounts.write_receipt(ledger, charge, settings)
    path = accounts.artefact_of(settings, part).with_name(part.release_id + accounts.CERTIFICATE)
    if path.exists():
        try:
            issued = Certificate.from_json(path.read_bytes())
            check_signature(issued, public_key(settings))
            if issued.evidence.release_id == part.release_id:
                return issued
        except CertificateError:  # of another key, or damaged: it is issued anew
            path.unlink(missing_ok=True)
    made = signed(
        _statement(
            contract,
            METHODS[method],
            point,
            _Charged(release, part, facts.period, artefact),
            settings,
        ),
        settings,
    )
    publish(path, made.to_json().encode(), mode=PRIVATE_MODE)
    return Certificate.from_json(path.read_bytes())  # of several the first


@dataclass(frozen=True)
class _Charged:
    """What was charged, and what of it is published for a period: of a horizon a part."""

    release: ReleaseCharge
    part: ReleaseCharge
    period: str
    artefact_sha256: str


def _statement(
    contract: Declared, method: Method, point: Point[Any], charged: _Charged, settings: Settings
) -> Certificate:
    cost = method.cost(contract, point)
    release = charged.release
    part = charged.part
    records, charge = _records(release, settings)
    if part is not release:
        records += _records(part, settings)[0]
    guarantee = guarantee_from_json(json.loads(charge["guarantee"]))
    parameters = json.loads(charge["parameters"])
    simulation = bool(parameters["simulated"])
    amplified = cost.amplified is not None
    accounting = _accounting(contract, release.account, charge, sampled=amplified)
    return Certificate(
        certifies=promise(guarantee, accounting, simulation=simulation),
        simulation=simulation,
        product=certificate.Product(
            name=contract.name,
            description=contract.description,
            data_source=contract.source.title,
            intended_use=intended_use(method),
            data_product_type="Query answers" if method.answers_queries else "Synthetic data",
            publication_date=charge["reserved_utc"][:10],
        ),
        dp_flavor=certificate.Flavor(
            name="None" if simulation else "Approximate DP" if guarantee.delta > 0 else "Pure DP",
            unprotected_quantities=(_ROW_COUNT,) if contract.tells_row_count else (),
        ),
        privacy_loss=certificate.PrivacyLoss(
            privacy_unit=guarantee.unit,
            privacy_unit_description=unit_in_words(guarantee.unit, contract),
            neighbours=guarantee.neighbours.value,
            neighbours_description=neighbours(guarantee),
            privacy_parameters=_parameters(guarantee.epsilon, guarantee.delta),
            nominal_parameters=_parameters(cost.nominal.epsilon, cost.nominal.delta)
            if amplified
            else None,
            statement=method.statement(contract, point, cost),
        ),
        model=certificate.TrustModel(
            model_name="Local" if method.trust == "local" else "Central",
            trust_model=trust(method),
            threat_model=THREAT,
            release_type=release_type(contract),
            period=_periods(contract, charged.period)
            if part is release
            else f"{charged.period}, of {_periods(contract, charged.period)}",
        ),
        accounting=accounting,
        implementation=certificate.Implementation(
            method=method.name,
            title=method.title,
            draw_version=method.draw_version,
            post_version=method.post_version,
            head=head_of_method(method),
            mechanisms=_mechanism(guarantee.event),
            parameters=plain(parameters),
            contract_sha256=contract_digest(contract),
            issued_with={"dpicl": dpicl.__version__, "python": platform.python_version()}
            | {name: version(name) for name in _PACKAGES},
        ),
        evidence=certificate.Evidence(
            release_id=part.release_id, artefact_sha256=charged.artefact_sha256, records=records
        ),
        not_covered=not_covered(contract, head_of_method(method)),
    )


def _records(
    release: ReleaseCharge, settings: Settings
) -> tuple[tuple[Record, ...], dict[str, Any]]:
    """The records of a release's receipt, and the content of the one that charged it.
    Raises LedgerRefusedError: one of them is no record of this installation's ledger, or none
    charged the release.
    """
    key = ledger_key(settings)
    charge = None
    stored = accounts.read(accounts.receipt_of(settings, release.account, release.release_id))
    for record in stored:
        content = true_content(key, record)
        if content is None or content.get("release_id") != release.release_id:
            raise LedgerRefusedError(
                f"release {release.release_id}: its receipt is no record of this installation's "
                f"ledger"
            )
        charge = charge if record["kind"] == "published" else content
    if charge is None:
        raise LedgerRefusedError(
            f"release {release.release_id}: it has no receipt; expected released/ of the "
            f"installation that charged it"
        )
    return tuple(Record(kind=record["kind"], hash=record["hash"]) for record in stored), charge


def _accounting(
    contract: Declared, name: str, charge: Mapping[str, Any], *, sampled: bool
) -> certificate.Accounting:
    """What the account had spent by the record that charged the release; that of one that took
    another's place says less.
    """
    account = charge.get("account_row", {})
    written = {
        time: json.loads(charge[time])
        for time in ("before", "spent")
        if account and charge.get(time)
    }
    totals = {
        time: Spent.from_json(content).cost(account["delta_cap"])
        for time, content in written.items()
    }
    before, after = (
        _parameters(total.epsilon, total.delta) if total else None
        for total in (totals.get("before"), totals.get("spent"))
    )
    steps = steps_before(contract, sampled=sampled)
    return certificate.Accounting(
        account=name,
        spent_before=before,
        spent_after=after,
        cap=None
        if account.get("epsilon_cap") is None
        else _parameters(account["epsilon_cap"], account["delta_cap"]),
        composition=COMPOSITION,
        composition_rule=totals["spent"].method if "spent" in totals else "none",
        post_processing=POST_PROCESSING,
        transformations=tuple(
            certificate.Transformation(name=step.name, stability=step.stability, why=step.why)
            for step in steps
        ),
    )


def _parameters(epsilon: float, delta: float) -> Parameters:
    return Parameters(epsilon=None if math.isinf(epsilon) else epsilon, delta=delta)


def _mechanism(event: Event) -> Mechanism:
    return Mechanism(
        kind=event.kind,
        parameters=plain(dict(event.parameters)),
        parts=tuple(map(_mechanism, event.parts)),
    )


def _periods(contract: Declared, period: str) -> str:
    """The period that a release was made for, or the first and last one of its horizon, which are
    charged together.
    """
    names = contract.releases.calendar.periods if contract.releases.horizon else ()
    return f"{names[0]} to {names[-1]}" if names else period


_SIMULATION = (
    "Nothing is certified: this is a simulation on a public benchmark. Its noise is seeded, so "
    "that anyone with the seed can remove it, and no account with a cap paid for it."
)
THREAT = (
    "Anybody who sees this release and all others that the account paid for, with any side "
    "information, all other rows included, and unlimited computation, and who may have chosen "
    "later releases after seeing earlier ones. Not: somebody who can read the curator's machine or "
    "state home."
)
COMPOSITION = (
    "Every release charged to the account counts, published or not, whatever method or contract "
    "made it, and however later ones were chosen (sequential composition, fully adaptive, by a "
    "privacy filter; losses of pure releases add up). What other accounts, ledgers or "
    "organisations release about the same people is not counted. Totals are those at this charge; "
    "later releases add to them."
)
POST_PROCESSING = (
    "Whatever is derived from the release without the rows, any number of times, costs nothing "
    "more."
)
_ROW_COUNT = "the number of rows: the contract says that it is public"
_LARGEST = 20.0
"""Epsilons beyond are not written as a factor."""
_ALWAYS = (
    "Losses in other accounts, ledgers and organisations.",
    "Correlated units: what can be learnt about somebody from other people's rows.",
    "Timing, memory use, and which checks of the contract fail.",
    (
        "Whoever holds the installation's key, its state home or its machine, and a broken random "
        "generator of its operating system."
    ),
    (
        "Whether the program ran unchanged: this is the installation's own signed statement, and "
        "no audit of it."
    ),
)


def promise(guarantee: Guarantee, accounting: Accounting, *, simulation: bool) -> str:
    """The first line: what is certified, in a sentence or two."""
    if simulation:
        return _SIMULATION
    is_person = guarantee.unit == "person"
    whole = "all rows of one person" if is_person else "it"
    change = (
        f"replacing {whole} by {'those of ' * is_person}another"
        if guarantee.neighbours is Neighbours.REPLACE_ONE
        else f"adding or removing {whole}"
    )
    exception = f", except with probability {rounded(guarantee.delta)}" if guarantee.delta else ""
    factor = rounded(math.exp(guarantee.epsilon)) if guarantee.epsilon < _LARGEST else "e^epsilon"
    first = (
        f"Differential privacy with epsilon {rounded(guarantee.epsilon)} and delta "
        f"{rounded(guarantee.delta)} for one {guarantee.unit}: {change} changes the probability of "
        f"any outcome by a factor of at most {factor}{exception}."
    )
    if accounting.spent_before is None or accounting.spent_after is None or accounting.cap is None:
        return first
    before, after, cap = (
        ("infinite epsilon" if total.epsilon is None else f"epsilon {rounded(total.epsilon)}")
        + (f" at delta {rounded(total.delta)}" * (total.delta > 0))
        for total in (accounting.spent_before, accounting.spent_after, accounting.cap)
    )
    return (
        f"{first} Account {accounting.account!r} had spent {before} before and {after} with it, "
        f"of a cap of {cap}."
    )


def unit_in_words(name: str, contract: Declared) -> str:
    """Whom the promise is made to."""
    if contract.privacy.person:
        return f"One person with all of their rows, of which at most {most_rows(contract)} enter."
    what = "row" if isinstance(contract, Contract) else "text with its label"
    if name == "client":
        return f"One client, who holds one {what}."
    return f"One {what}. Somebody with several is protected for each by itself."


def neighbours(guarantee: Guarantee) -> str:
    """Which tables are hard to tell apart."""
    if guarantee.neighbours is Neighbours.REPLACE_ONE:
        return (
            f"Tables in which one {guarantee.unit} is replaced by another (bounded): how many "
            f"there are is not protected."
        )
    return (
        f"Tables of which one has one {guarantee.unit} more than the other (unbounded): how many "
        f"there are is protected too."
    )


def intended_use(method: Method) -> str:
    """What may be done with it."""
    if method.answers_queries:
        return "Answers to the queries of this release."
    return (
        "Synthetic rows, demonstrations for language models and predictors, which are derived "
        "from this release."
    )


def trust(method: Method) -> str:
    """Who has seen true rows."""
    model = (
        " So is the language model that read them, which ran where the contract's rules for "
        "private rows allow." * method.model_reads_rows
    )
    if method.trust == "local":
        return (
            "Every client's row is randomised by itself, before it is counted. Here the holder of "
            "the table did this for the clients, has "
            "seen true rows and is trusted with them; readers of what is released are not."
        )
    return (
        f"The curator, who holds the rows and ran the program, is trusted with them; readers of "
        f"what is released are not.{model}"
    )


def release_type(contract: Declared) -> str:
    """Whether there will be more."""
    every = contract.releases.every
    if contract.releases.horizon and isinstance(contract, TextContract):
        periods = len(contract.releases.calendar.periods)
        return (
            f"Texts of {periods} periods, one every {every}, each written from its own delivery "
            f"alone: one charge for all of them"
        )
    if contract.releases.horizon:
        return (
            f"Counters of a table that grows: one charge for "
            f"{len(contract.releases.calendar.periods)} periods, a new one every {every}"
        )
    if every == "once":
        return "One release"
    return f"Many releases: a new one every {every}, each charged"


def not_covered(contract: Declared, head: Mapping[str, str]) -> tuple[str, ...]:
    """What no promise is made about: by the method, for this source, and always."""
    of_method = head.get("Not covered", "")
    by_query = isinstance(contract, Contract) and contract.source.query is not None
    return (
        *([of_method[:1].upper() + of_method[1:]] if of_method else []),
        *(
            [
                (
                    "What the SQL statement does inside the database: neighbours are those of the "
                    "rows that it returns."
                )
            ]
            if by_query
            else []
        ),
        *_ALWAYS,
    )
