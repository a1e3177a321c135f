"""Certificates: what they say is what the ledger's records say, the same whenever asked, and not a
byte of them or their file may change.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dpicl
from dpicl.accounting.events import gaussian
from dpicl.ground.errors import CertificateError, LedgerError, LedgerRefusedError, ParameterError
from dpicl.home.accounts import open_ledger, receipt_of, released_folder
from dpicl.home.settings import Settings
from dpicl.installation.restore import adopt
from dpicl.release.certificate import Certificate
from dpicl.release.certificate_files import (
    certificate_of,
    check_signature,
    public_key,
    signed,
    trusted_key,
    verify_file,
    write_certified,
)
from dpicl.release.certificate_issue import certify
from dpicl.release.one_release import planned_table
from dpicl.release.request import ReleaseRequest
from dpicl.runs.draw import asked_of, facts_of
from dpicl.runs.run_folder import open_unit
from tests.harness import (
    Place,
    grid_of,
    install,
    install_texts,
    letters,
    new_place,
    shop,
    shop_rows,
)
from tests.leaks import hits
from tests.ledger import workload
from tests.tasks.stages import do_run

NAME, BENCHMARK = "certified", "certified_benchmark"
ROWS = 6173
DIGESTS = re.compile(rb"[0-9a-f]{16,}")
"""A digest holds any four digits by chance."""
CONTENT = b"age,income\n31,50000\n"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Releases of a private table and of a public benchmark."""
    place = new_place(tmp_path_factory.mktemp("certificates") / "place")
    contract = shop(NAME, private=True)
    contract["privacy"] |= {"neighbours": "add-or-remove-one", "budget": {"epsilon": 5}}
    install(place, contract, shop_rows(ROWS))
    install(place, shop(BENCHMARK))
    with place.entered():
        settings = Settings.from_environment()
        release(settings, NAME, "gdp_tabicl", 0.5)
        release(settings, NAME, "mst_tabicl", 1.0)
        release(settings, BENCHMARK, "mst_tabicl", 1.0)
        yield settings


def release(settings: Settings, name: str, method: str, epsilon: float) -> None:
    session = dpicl.Session(settings.home, data=settings.data, contracts=settings.contracts)
    session.protect(name, method=method, epsilon=epsilon, shots=2)


def issued(
    settings: Settings,
    method: str = "mst_tabicl",
    epsilon: float = 1.0,
    *,
    name: str = NAME,
    shots: int = 2,
) -> Certificate:
    request = ReleaseRequest(dataset=name, epsilon=epsilon, method=method, shots=shots)
    planned = planned_table(request, settings)
    return certify(planned.contract, planned.method, planned.point, settings)


def test_a_certificate_says_what_the_account_was_charged_before_and_after(
    settings: Settings,
) -> None:
    first, second = issued(settings, "gdp_tabicl", 0.5), issued(settings)
    with open_ledger(settings) as ledger:
        entries, spent = ledger.entries(NAME), ledger.spent(NAME)
    for certificate, entry in zip((first, second), entries, strict=True):
        charged, paid = certificate.privacy_loss.privacy_parameters, entry.release.guarantee
        assert (charged.epsilon, charged.delta) == (paid.epsilon, paid.delta)
        assert certificate.evidence.artefact_sha256 == entry.artefact_sha256
        assert certificate.evidence.release_id == entry.release.release_id
        assert certificate.implementation.parameters == entry.release.parameters
    one, two = first.accounting, second.accounting
    assert one.spent_before and one.spent_after and two.spent_before and two.spent_after and two.cap
    assert one.spent_before.epsilon == 0
    assert one.spent_after == two.spent_before
    assert two.spent_after.epsilon == spent.epsilon
    assert two.cap.epsilon == 5 and two.composition_rule == "pure sum"
    assert first.privacy_loss.nominal_parameters
    # amplified by the secret subsample
    assert (first.privacy_loss.nominal_parameters.epsilon or 0) > 0.5
    assert first.privacy_loss.privacy_parameters.epsilon == pytest.approx(0.5)
    assert [step.name for step in first.accounting.transformations] == [
        "read",
        "drop",
        "subsample",
        "batch",
    ]
    assert second.privacy_loss.nominal_parameters is None and second.model.model_name == "Central"
    assert "epsilon 1 and delta 0 for one row" in second.certifies
    assert "of a cap of epsilon 5" in second.certifies


def test_a_later_release_does_not_change_a_certificate(settings: Settings) -> None:
    before = issued(settings).to_json()
    release(settings, NAME, "mst_tabicl", 0.25)
    assert issued(settings).to_json() == before
    # more shots of the same release
    assert issued(settings, shots=4).to_json() == before
    for path in released_folder(settings).rglob("*.certificate"):
        path.unlink()
    # issued anew, it is the same
    assert issued(settings).to_json() == before


def test_a_certificate_holds_neither_the_number_of_rows_nor_a_value(settings: Settings) -> None:
    for method, epsilon in (("gdp_tabicl", 0.5), ("mst_tabicl", 1.0)):
        certificate = issued(settings, method, epsilon)
        written = {
            "json": DIGESTS.sub(b"", certificate.to_json().encode()),
            "page": DIGESTS.sub(b"", certificate.to_page().encode()),
        }
        assert hits(written, [ROWS, f"{ROWS:,}"]) == []
        assert hits({**written, "planted": f"of {ROWS} rows".encode()}, [ROWS]) != []
        # where the rows are is nobody's business
        assert str(settings.data).encode() not in written["json"]


def test_nothing_is_certified_before_it_is_published(settings: Settings) -> None:
    with pytest.raises(LedgerError, match="nothing is published for this release"):
        issued(settings, epsilon=3.0)


def test_a_receipt_that_was_edited_certifies_nothing(settings: Settings) -> None:
    certificate = issued(settings, "gdp_tabicl", 0.5)
    path = receipt_of(settings, NAME, certificate.evidence.release_id)
    content = path.read_text()
    path.with_suffix(".certificate").unlink()
    records = json.loads(content)
    records[0]["content"] = records[0]["content"].replace('"epsilon":0.', '"epsilon":0.1')
    assert records != json.loads(content)
    path.write_text(json.dumps(records))
    try:
        with pytest.raises(
            LedgerRefusedError, match="its receipt is no record of this installation's ledger"
        ):
            issued(settings, "gdp_tabicl", 0.5)
    finally:
        path.write_text(content)
    assert issued(settings, "gdp_tabicl", 0.5) == certificate


@pytest.mark.quick("31")
@pytest.mark.parametrize("every", [1, 31])
def test_no_byte_of_a_certificate_or_its_file_may_change(
    settings: Settings, tmp_path: Path, every: int
) -> None:
    path, key = tmp_path / "rows.csv", public_key(settings)
    write_certified(path, lambda file: file.write(CONTENT), issued(settings), settings)
    assert verify_file(path, key=key).product.file
    for place in (path, certificate_of(path)):
        content = place.read_bytes()
        of_signature = range(max(content.find(b'"signature"'), 0), len(content))
        for position, flip in (
            *((at, 0x01) for at in range(0, len(content), every)),
            *((at, 0x20) for at in of_signature[::every]),
        ):
            changed = bytearray(content)
            changed[position] ^= flip  # another letter, or the other case of the same
            place.write_bytes(changed)
            with pytest.raises(CertificateError):
                verify_file(path, key=key)
        for other in (content[:-1], content + b" ", b"", content.replace(b"\n", b"\r\n")):
            place.write_bytes(other)
            with pytest.raises(CertificateError):
                verify_file(path, key=key)
        place.write_bytes(content)
    assert verify_file(path, key=key)


def test_another_key_is_refused_even_where_it_signed_the_same_statement(
    settings: Settings, tmp_path: Path
) -> None:
    other = replace(settings, home=tmp_path / "other")
    mine = issued(settings)
    forged = signed(mine, other)
    check_signature(forged, public_key(other))
    with pytest.raises(CertificateError, match="which is not the trusted one"):
        check_signature(forged, public_key(settings))
    assert mine.signature and forged.signature
    swapped = forged.model_copy(
        update={
            "signature": forged.signature.model_copy(
                update={"public_key": mine.signature.public_key}
            )
        }
    )
    with pytest.raises(CertificateError, match="was changed after it was signed"):
        check_signature(swapped, public_key(settings))
    with pytest.raises(CertificateError, match="is not signed"):
        check_signature(mine.model_copy(update={"signature": None}), public_key(settings))


def test_looking_for_a_key_makes_none(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="the issuer's public key"):
        trusted_key(Settings(tmp_path / "home", None, tmp_path, tmp_path, tmp_path))
    assert not list(tmp_path.iterdir())


def test_neither_file_is_written_over_another_and_a_crash_between_is_completed(
    settings: Settings, tmp_path: Path
) -> None:
    certificate, path = issued(settings), tmp_path / "rows.csv"

    def write() -> Certificate:
        return write_certified(path, lambda file: file.write(CONTENT), certificate, settings)

    write()
    beside = certificate_of(path).read_bytes()
    certificate_of(path).unlink()  # killed after the file
    write()
    assert certificate_of(path).read_bytes() == beside and path.read_bytes() == CONTENT
    path.write_bytes(b"mine")
    stands = (
        r"^rows.csv: expected a new file; another one stands there: remove it, or choose another "
        "name$"
    )
    with pytest.raises(ParameterError, match=stands):
        write()
    certificate_of(path).write_bytes(b"mine too")
    with pytest.raises(ParameterError, match=r"^rows.csv: expected a new file"):  # named first
        write()
    certificate_of(path).write_bytes(beside)
    assert path.read_bytes() == b"mine"
    path.unlink()
    certificate_of(path).write_bytes(b"mine")
    with pytest.raises(ParameterError, match="another one stands there"):
        write()
    assert not path.exists() and certificate_of(path).read_bytes() == b"mine"
    # nothing else is left
    assert sorted(os.listdir(tmp_path)) == ["rows.csv.certificate.json"]


def _reversed(value: object) -> object:
    if isinstance(value, dict):
        return {name: _reversed(part) for name, part in reversed(value.items())}
    return [_reversed(part) for part in value] if isinstance(value, list) else value


def test_the_certificate_of_a_release_is_of_no_file(settings: Settings, tmp_path: Path) -> None:
    certificate, path = issued(settings), tmp_path / "rows.csv"
    path.write_bytes(CONTENT)
    alone = tmp_path / "release.certificate.json"
    alone.write_text(certificate.to_json(), "utf-8")
    assert verify_file(alone, key=public_key(settings)) == certificate
    with pytest.raises(CertificateError, match="names no file"):
        verify_file(path, key=public_key(settings), certificate=alone)


def test_the_same_statement_has_no_other_form(settings: Settings) -> None:
    certificate = issued(settings, "gdp_tabicl", 0.5)
    content = json.loads(certificate.to_json())
    parameters = {"b": {"d": 1, "c": 2}, "a": 1}
    inside = {**content, "implementation": {**content["implementation"], "parameters": parameters}}

    def read(content: Any, indent: int | None = 1) -> Certificate:
        text = json.dumps(content, indent=indent, ensure_ascii=False)
        return Certificate.from_json(text.encode() + b"\n")

    for other, indent in ((content, None), (_reversed(content), 1), (inside, 1)):
        with pytest.raises(CertificateError):
            read(other, indent)
    assert read(content) == certificate


def test_hostile_bytes_are_no_certificate(settings: Settings) -> None:
    content = issued(settings).to_json().encode()
    deep = content.replace(b'"parts": []', b'"parts": [{"kind": "x", "parameters": {}, ' * 5000)
    for other in (
        deep,
        b"[" * 100_000,
        b"{}",
        b"\xff",
        b'"\\ud800"',
        b" " * (1 << 21),
        content.replace(b'"epsilon": 1', b'"epsilon": NaN', 1),
    ):
        with pytest.raises(CertificateError, match="is no certificate, or not as it was written"):
            Certificate.from_json(other)


def test_a_page_executes_and_fetches_nothing_whatever_a_certificate_says(
    settings: Settings,
) -> None:
    certificate = issued(settings)
    hostile = certificate.model_copy(
        update={"certifies": "<script>alert(1)</script>", "not_covered": ('"><img src=x>',)}
    )
    page = hostile.to_page()
    assert "<script" not in page and "<img" not in page and "default-src 'none'" in page
    plain = certificate.to_page()
    assert certificate.signature
    assert certificate.signature.public_key in plain
    assert certificate.evidence.artefact_sha256 in plain
    # e / (1 + e), rounded up
    assert (
        "is in the table or is not is at most 73.106 % sure of either after this release" in plain
    )


def test_the_total_before_a_charge_is_recorded_as_not_every_loss_can_be_subtracted(
    tmp_path: Path,
) -> None:
    """Of Gaussian noise the total is no sum: what it was before is a fact of the chain."""
    releases = [workload.release(name, workload.priced(gaussian(sigma=20.0))) for name in "12"]
    with workload.Place(f"sqlite:///{tmp_path}/ledger.db", tmp_path).ledger() as ledger:
        ledger.ensure_account(replace(workload.SHOP, epsilon_cap=10.0))
        for one in releases:
            ledger.reserve(one)
        first, second = (
            json.loads(ledger.records_of(one.release_id)[0]["content"]) for one in releases
        )
    assert json.loads(first["before"])["count"] == 0
    assert second["before"] == first["spent"] != second["spent"]


def test_texts_are_certified_with_their_delta_and_the_steps_that_they_passed(place: Place) -> None:
    contract = letters("certified_letters", private=True)
    install_texts(place, contract)
    grid = grid_of(contract["name"], "few_shot_generation", shots=[1, 2])
    run = do_run("private", grid, None)
    folder = open_unit(str(run), "few_shot_generation__certified_letters__seed0")
    made = [
        certify(folder.declared, folder.unit.method, point, folder.settings, facts_of(folder))
        for point in asked_of(folder)
    ]
    first, second = made
    assert first.dp_flavor.name == "Approximate DP"
    assert 0 < first.privacy_loss.privacy_parameters.delta < 0.05
    assert "except with probability" in first.certifies
    assert "the language model that read them" in first.model.trust_model
    assert [step.name for step in first.accounting.transformations] == [
        "read",
        "drop",
        "hold out by file",
    ]
    assert first.accounting.spent_after == second.accounting.spent_before
    assert first.accounting.composition_rule.startswith("PLD")
    assert first.accounting.spent_after and first.accounting.spent_after.delta == 0.05


def test_a_ledger_that_was_rebuilt_changes_no_certificate(place: Place) -> None:
    install(place, shop("adopted", private=True))
    settings = Settings.from_environment()
    release(settings, "adopted", "mst_tabicl", 1.0)
    before = issued(settings, name="adopted").to_json()
    for path in (
        settings.home / "ledger.db",
        settings.home / "ledger.anchor.json",
        *released_folder(settings).rglob("*.certificate"),
    ):
        path.unlink()
    adopt(settings)
    assert issued(settings, name="adopted").to_json() == before
