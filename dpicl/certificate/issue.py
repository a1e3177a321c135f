"""From a published release to its certificate: public facts of the contract, the method and the
ledger's records.

Guarantee   none spent: reads no row, and nothing that depends on rows but the hash of what was
            released. When a release was published is left out: the time between charge and
            publication goes with the number of rows.

What a release was charged, and what its account had spent before and after, is read from the record
of the chain that charged it, whose hash is checked under the installation's key: not from tables
that somebody may have edited, and not as of now.
"""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import dpicl
from dpicl.accounting.events import guarantee_from_json
from dpicl.accounting.filters import Spent
from dpicl.accounting.guarantee import Event
from dpicl.accounting.ledger import Release
from dpicl.accounting.ledger.chain import true_content
from dpicl.accounting.ledger.keys import plain
from dpicl.certificate import statement, wording
from dpicl.certificate.signing import check_signature, public_key, signed
from dpicl.certificate.statement import Certificate, Mechanism, Parameters, Record
from dpicl.contract.declared import Declared
from dpicl.contract.load import contract_digest
from dpicl.engine import receipts
from dpicl.engine.files import PRIVATE_MODE, publish
from dpicl.engine.names import ReleaseFacts, parts_of
from dpicl.engine.open_ledger import ledger_key, open_ledger
from dpicl.engine.releases import is_part, named_releases
from dpicl.engine.settings import Settings
from dpicl.errors import CertificateError, LedgerError, LedgerRefusedError, ParameterError
from dpicl.methods import METHODS
from dpicl.methods.heads import head_of_method
from dpicl.pipeline import Cell, Unit
from dpicl.tabular.reading.stability import steps_before

_PACKAGES = ("numpy", "pyarrow", "scipy", "cryptography")


def certify(
    contract: Declared,
    unit: Unit,
    settings: Settings,
    facts: ReleaseFacts = ReleaseFacts(),  # noqa: B008 - frozen
    *,
    cell: Cell | None = None,
) -> Certificate:
    """The certificate of a published release: issued once, and the same whenever it is asked for
    again.

        certificate = certify(contract, unit, settings, ReleaseFacts(period))
        certificate.to_json(), certificate.to_page(), certificate.accounting.spent_after

    Args:
        cell: which of the unit's releases, of `method.releases`; may be left out where there is
            one.
        facts: what else names the release.

    Raises:
        ParameterError: the unit makes several releases, or none of this cell.
        LedgerError: nothing is published for this release.
        LedgerRefusedError: its receipt is no record of this installation's ledger.
    """
    with open_ledger(settings) as ledger:
        named = named_releases(ledger, contract, unit, settings, facts, opens=False)
        if cell is None and len(named) == 1:
            (cell,) = named
        if cell not in named:
            raise ParameterError(
                "cell", getattr(cell, "key", None), f"one of {', '.join(one.key for one in named)}"
            )
        release = part = named[cell]
        if is_part(contract, unit):  # its horizon is charged, and it is what was written
            part = parts_of(ledger_key(settings), named, contract, facts.period)[cell]
        artefact = ledger.published(part.release_id)
        if artefact is None:
            raise LedgerError(
                f"{unit.key}: {cell.key}: nothing is published for this release; expected it "
                f"before its certificate"
            )
        for one in {release.release_id: release, part.release_id: part}.values():
            receipts.write_receipt(ledger, one, settings)
    path = receipts.artefact_of(settings, part).with_name(part.release_id + receipts.CERTIFICATE)
    if path.exists():
        try:
            issued = Certificate.from_json(path.read_bytes())
            check_signature(issued, public_key(settings))
            if issued.evidence.release_id == part.release_id:
                return issued
        except CertificateError:  # of another key, or damaged: it is issued anew
            path.unlink(missing_ok=True)
    made = signed(
        _statement(contract, unit, cell, release, part, artefact, facts.period, settings), settings
    )
    publish(path, lambda file: file.write(made.to_json()), mode=PRIVATE_MODE)
    return Certificate.from_json(path.read_bytes())  # of several the first


def _statement(
    contract: Declared,
    unit: Unit,
    cell: Cell,
    release: Release,
    part: Release,
    artefact: str,
    period: str,
    settings: Settings,
) -> Certificate:
    method, cost = METHODS[unit.method], METHODS[unit.method].releases(contract, unit)[cell]
    records, charge = _records(release, settings)
    if part is not release:
        records += _records(part, settings)[0]
    guarantee, parameters = (
        guarantee_from_json(json.loads(charge["guarantee"])),
        json.loads(charge["parameters"]),
    )
    simulation, amplified = bool(parameters["simulated"]), cost.amplified is not None
    accounting = _accounting(contract, release.account, charge, sampled=amplified)
    return Certificate(
        certifies=wording.promise(guarantee, accounting, simulation=simulation),
        simulation=simulation,
        product=statement.Product(
            name=contract.name,
            description=contract.description,
            data_source=contract.source.title,
            intended_use=wording.intended_use(method),
            data_product_type="Query answers" if method.answers_queries else "Synthetic data",
            publication_date=charge["reserved_utc"][:10],
        ),
        dp_flavor=statement.Flavor(
            name="None" if simulation else "Approximate DP" if guarantee.delta > 0 else "Pure DP",
            unprotected_quantities=wording.unprotected(contract),
        ),
        privacy_loss=statement.PrivacyLoss(
            privacy_unit=guarantee.unit,
            privacy_unit_description=wording.unit(guarantee.unit, contract),
            neighbours=guarantee.neighbours.value,
            neighbours_description=wording.neighbours(guarantee),
            privacy_parameters=_parameters(guarantee.epsilon, guarantee.delta),
            nominal_parameters=_parameters(cost.nominal.epsilon, cost.nominal.delta)
            if amplified
            else None,
            statement=method.statement(contract, unit, cell, cost),
        ),
        model=statement.Model(
            model_name="Local" if method.trust == "local" else "Central",
            trust_model=wording.trust(method),
            threat_model=wording.THREAT,
            release_type=wording.release_type(contract),
            period=_periods(contract, period)
            if part is release
            else f"{period}, of {_periods(contract, period)}",
        ),
        accounting=accounting,
        implementation=statement.Implementation(
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
        evidence=statement.Evidence(
            release_id=part.release_id, artefact_sha256=artefact, records=records
        ),
        not_covered=wording.not_covered(contract, head_of_method(method)),
    )


def _records(release: Release, settings: Settings) -> tuple[tuple[Record, ...], dict[str, Any]]:
    """The records of a release's receipt, and the content of the one that charged it.
    Raises LedgerRefusedError: one of them is no record of this installation's ledger, or none
    charged the release.
    """
    key, charge = ledger_key(settings), None
    stored = receipts.read(receipts.receipt_of(settings, release.account, release.release_id))
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
    return tuple(Record(kind=one["kind"], hash=one["hash"]) for one in stored), charge


def _accounting(
    contract: Declared, name: str, charge: Mapping[str, Any], *, sampled: bool
) -> statement.Accounting:
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
        _parameters(one.epsilon, one.delta) if one else None
        for one in (totals.get("before"), totals.get("spent"))
    )
    steps = steps_before(contract, sampled=sampled)
    return statement.Accounting(
        account=name,
        spent_before=before,
        spent_after=after,
        cap=None
        if account.get("epsilon_cap") is None
        else _parameters(account["epsilon_cap"], account["delta_cap"]),
        composition=wording.COMPOSITION,
        composition_rule=totals["spent"].method if "spent" in totals else "none",
        post_processing=wording.POST_PROCESSING,
        transformations=tuple(
            statement.Transformation(name=step.name, stability=step.stability, why=step.why)
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
