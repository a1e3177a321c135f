"""Certificates of the command let a cluster's parts in, and nobody else."""

from __future__ import annotations

import datetime
import re
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
import pytest
from cryptography import x509

from dpicl.ground.errors import RunError
from flows.runtime import check_named
from infra.certificates import ROLES, main
from tests.doors import family, open_doors, pages, refusal
from tests.harness import free_port, new_place
from tests.infra.parts import DASK, WORKER, certificates, started, wait_for


@dataclass(frozen=True)
class Cluster:
    """A scheduler and a worker over TLS."""

    folder: Path
    address: str
    processes: tuple[subprocess.Popen[str], ...]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Started by command line, as the recipes do it."""
    root = tmp_path_factory.mktemp("cluster")
    place, folder, port = new_place(root / "place"), root / "certificates", free_port()
    environment, address = certificates(folder, "localhost", "127.0.0.1"), f"tls://127.0.0.1:{port}"
    at = f"--host tls://127.0.0.1 --port {port} --dashboard-address 127.0.0.1:0"
    scheduler = [DASK, "scheduler", *at.split()]
    worker = [DASK, "worker", address, "--host", "127.0.0.1", *WORKER]
    with (
        started(place, root / "scheduler.log", scheduler, **environment) as first,
        started(place, root / "worker.log", worker, **environment) as second,
    ):
        wait_for(root / "worker.log", "Registered to", second)
        yield Cluster(folder, address, (first, second))


def settings(folder: Path) -> dict[str, Any]:
    """Dask's settings of a client that holds a certificate of this folder."""
    return {
        "distributed.comm.require-encryption": True,
        "distributed.comm.tls.ca-file": str(folder / "ca.pem"),
        "distributed.comm.tls.client.cert": str(folder / "client.pem"),
        "distributed.comm.tls.client.key": str(folder / "client.key"),
    }


def test_every_port_of_the_cluster_refuses_whoever_has_no_certificate_or_a_foreign_one(
    cluster: Cluster,
) -> None:
    doors = [door for process in cluster.processes for door in open_doors(family(process.pid))]
    speaking = {door: found for door in doors if (found := pages(door.port))}
    # the heartbeat alone is shown
    assert {found["/info/main/workers.html"] for found in speaking.values()} == {404}
    told = {
        door.port: (refusal(door.port), refusal(door.port, foreign=True))
        for door in doors
        if door not in speaking
    }
    # scheduler, worker and nanny
    assert len(told) == 3
    assert {door.host for door in doors} == {"127.0.0.1"}, (doors, speaking)
    for without, foreign in told.values():
        assert "CERTIFICATE_REQUIRED" in without or "HANDSHAKE_FAILURE" in without, without
        assert (
            "UNKNOWN_CA" in foreign or "DECRYPT_ERROR" in foreign or "BAD_SIGNATURE" in foreign
        ), foreign


def refused(monkeypatch: pytest.MonkeyPatch, address: str, **named: Any) -> str:
    """What `dpicl` says to a user with these settings before it begins."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", address)
    with dask.config.set(named), pytest.raises(RunError) as error:
        check_named()
    return str(error.value).removeprefix(f"DASK_SCHEDULER_ADDRESS={address}: ")


def test_a_user_without_the_right_certificate_is_told_so(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    certificates(tmp_path / "other", "localhost")
    other = refused(monkeypatch, cluster.address, **settings(tmp_path / "other"))
    assert other.startswith(
        "no scheduler answers there, or it refuses the certificate of Dask's settings "
        "distributed.comm.tls"
    )
    assert (
        refused(monkeypatch, cluster.address)
        == "needs a certificate; expected Dask's settings distributed.comm.tls"
    )
    plain = refused(
        monkeypatch, cluster.address.replace("tls:", "tcp:"), **settings(cluster.folder)
    )
    assert plain == "expected tls://…, as Dask's setting distributed.comm.require-encryption is on"


def test_keys_are_for_their_owner_and_the_authority_s_is_nowhere(tmp_path: Path) -> None:
    certificates(tmp_path / "made", "a.example", "192.0.2.7")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "made").iterdir()}
    assert {name for name, mode in modes.items() if mode == 0o600} == {
        f"{role}.key" for role in (*ROLES, "server")
    }
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o700
    for role in (*ROLES, "server"):
        certificate = x509.load_pem_x509_certificate(
            (tmp_path / "made" / f"{role}.pem").read_bytes()
        )
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert [str(name.value) for name in names] == ["a.example", "192.0.2.7"]
        assert (
            364
            <= (certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC)).days
            <= 365
        )


def test_the_prefect_server_s_certificate_is_none_of_the_cluster(tmp_path: Path) -> None:
    certificates(tmp_path / "made", "localhost")
    server, authority = (
        x509.load_pem_x509_certificate((tmp_path / "made" / f"{name}.pem").read_bytes())
        for name in ("server", "ca")
    )
    server.verify_directly_issued_by(server)
    with pytest.raises(ValueError, match="does not match"):
        server.verify_directly_issued_by(authority)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["{folder}"], "the following arguments are required: --host"),
        (
            ["{folder}", "--host", "a b"],
            "host=a b: expected an address, or a name of letters, digits, dashes and dots",
        ),
        (["{folder}", "--host", "a", "--days", "9999"], "days=9999: expected 1 to 825"),
        (["{folder}", "--host", "a", "--days", "x"], "argument --days: invalid int value: 'x'"),
        (["{folder}", "--host", "a", "--at", "here"], "at=here: expected a path from the root on"),
        (
            ["{folder}/full", "--host", "a"],
            "full: worker.key is there already, and is not written over; name a new folder",
        ),
        (["{folder}/full/worker.key", "--host", "a"], "worker.key: File exists"),
    ],
)
def test_a_mistake_is_one_sentence_and_changes_nothing(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "worker.key").write_text("a key")
    assert main([word.format(folder=tmp_path) for word in words]) == 2
    assert capsys.readouterr() == ("", f"infra.certificates: {told}\n")
    assert [path.name for path in tmp_path.rglob("*")] == ["full", "worker.key"]
    assert (tmp_path / "full" / "worker.key").read_text() == "a key"


def test_the_folder_may_stand_elsewhere_on_the_hosts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "made"), "--host", "a", "--at", "/etc/dpicl"]) == 0
    printed = capsys.readouterr().out
    assert printed == (tmp_path / "made" / "tls.env").read_text()
    paths = re.findall(r"=(/\S+)$", printed, re.MULTILINE)
    assert len(paths) == 8
    assert all(
        path.startswith("/etc/dpicl/") and (tmp_path / "made" / Path(path).name).is_file()
        for path in paths
    )
