"""`dpicl verify`: who signed, what was promised, and exit code 1 where anything does not hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpicl.home.settings import Settings
from dpicl.release.certificate_files import certificate_of, write_certified
from dpicl.release.certificate_issue import certify
from dpicl.release.one_release import planned_table
from dpicl.release.request import ReleaseRequest
from tests.cli.conftest import Cli
from tests.harness import Place, install, shop


@pytest.fixture
def file(place: Place, cli: Cli) -> Path:
    """A file with its certificate, written by this installation."""
    return certified(place, cli, install(place, shop("verified", private=True)))


def certified(place: Place, cli: Cli, name: str) -> Path:
    cli(f"protect {name} --method mst_tabicl --shots 2 --out {place.root / f'{name}.jsonl'}")
    settings, path = Settings.from_environment(), place.root / f"{name}.csv"
    planned = planned_table(
        ReleaseRequest(dataset=name, epsilon=1, method="mst_tabicl", shots=2), settings
    )
    write_certified(
        path,
        lambda target: target.write(b"a\n1\n"),
        certify(planned.contract, planned.method, planned.point, settings),
        settings,
    )
    return path


def test_it_says_who_signed_and_what_was_promised(place: Place, cli: Cli, file: Path) -> None:
    key = cli("verify --show-key").strip()
    first, second = cli(f"verify {file}").splitlines()
    assert first == f"verified.csv: is as it was certified, signed by this installation, key {key}."
    assert second.startswith("Differential privacy with epsilon 1 and delta 0 for one row")
    assert "of a cap of epsilon 1000" in second
    alone = cli(f"verify {certificate_of(file)}").splitlines()[0]
    assert "no file was compared, it is of verified.csv" in alone


def test_a_changed_byte_and_a_missing_file_are_told_apart(
    place: Place, cli: Cli, file: Path
) -> None:
    beside = certificate_of(file)
    content, statement = file.read_bytes(), beside.read_bytes()
    file.write_bytes(b"a\n2\n")
    code, told = cli.ended(f"verify {file}")
    assert (code, told) == (
        1,
        (
            "dpicl: verified.csv: is not the file that its certificate names: it was changed, or "
            "is another one\n"
        ),
    )
    file.write_bytes(content)
    beside.write_bytes(statement.replace(b'"epsilon": 1', b'"epsilon": 2', 1))
    code, told = cli.ended(f"verify {file}")
    assert code == 1
    assert told.endswith("was changed after it was signed, or its signature was\n")
    assert told.count("\n") == 1
    beside.unlink()
    assert "certificate=verified.csv.certificate.json: expected a file" in cli.refused(
        f"verify {file}"
    )
    for wrong in ("", f"{file} --show-key", f"{place.root / 'nowhere.csv'}"):
        cli.refused(f"verify {wrong}")


def test_elsewhere_the_issuers_key_is_needed_and_its_own_key_is_no_help(
    place: Place, cli: Cli, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = cli("verify --show-key").strip()
    monkeypatch.setenv("DPICL_HOME", str(tmp_path / "elsewhere"))
    assert "key=none: expected the issuer's public key" in cli.refused(f"verify {file}")
    assert not (tmp_path / "elsewhere").exists()
    assert f"signed by the key {key}" in cli(f"verify {file} --key {key}")
    (tmp_path / "issuer.key").write_text(f"{key}\n")
    cli(f"verify {file} --key {tmp_path / 'issuer.key'}")
    own = cli("verify --show-key").strip()
    assert own != key
    for wrong in ((), ("--key", own)):
        code, told = cli.ended(f"verify {file}", *wrong)
        assert code == 1 and f"is signed by the key {key}, which is not the trusted one" in told
    assert "64 hexadecimal digits" in cli.refused(f"verify {file} --key abc")


def test_a_page_is_written_of_what_holds(place: Place, cli: Cli, file: Path) -> None:
    page = place.root / "certificate.html"
    cli(f"verify {file} --page {page}")
    assert "Differential privacy with epsilon 1" in page.read_text()
    assert "expected a new file" in cli.refused(f"verify {file} --page {page}")
    page.unlink()
    file.write_bytes(b"changed")
    assert cli.ended(f"verify {file} --page {page}")[0] == 1 and not page.exists()


def test_a_simulation_is_signed_and_certifies_nothing(place: Place, cli: Cli) -> None:
    path = certified(place, cli, install(place, shop("verified_benchmark")))
    code, told = cli.ended(f"verify {path}")
    assert code == 1 and "Nothing is certified: this is a simulation on a public benchmark." in told
