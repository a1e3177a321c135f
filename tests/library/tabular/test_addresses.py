"""A download connects to public addresses that were looked up once; TLS is about the name; a proxy
is used if set.
"""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
import time
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dpicl.ground.cache import Visit
from dpicl.ground.downloads import download, guarded_transport, is_public
from dpicl.ground.errors import SourceError

from ..hostile_server import HostileServer, good
from ..repositories import LIMITS

PUBLIC = "1.1.1.1 93.184.216.34 2606:4700::1111 64:ff9b::101:101 ::ffff:1.1.1.1"
NOT_PUBLIC = (
    "127.0.0.1 127.8.8.8 0.0.0.0 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 "
    "169.254.170.2 100.64.0.1 "
    "100.100.100.200 168.63.129.16 192.0.2.1 198.18.0.1 224.0.0.1 240.0.0.1 255.255.255.255 :: "
    "::1 ::127.0.0.1 fe80::1 fe80::1%eth0 "
    "fc00::1 fd00:ec2::254 ff02::1 2001:db8::1 ::ffff:127.0.0.1 ::ffff:169.254.169.254 "
    "64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 2002:7f00:1::"
)


def test_addresses_of_this_machine_its_network_or_cloud_are_not_public() -> None:
    assert [one for one in NOT_PUBLIC.split() if is_public(one)] == []
    assert [one for one in PUBLIC.split() if not is_public(one)] == []


@pytest.mark.parametrize("host", ["no-such-host.invalid", "x" * 70 + ".example", "a..b"])
def test_a_name_that_nobody_has_is_one_sentence(tmp_path: Path, host: str) -> None:
    with pytest.raises(SourceError, match="the connection failed|invalid address"):
        download(
            f"https://{host}/",
            tmp_path / "x",
            Visit("https://www.openml.org", tmp_path, replace(LIMITS, attempts=1)),
        )


def test_a_name_is_looked_up_once_for_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is one address when it is checked and another when it is used gets nowhere."""
    lookups, real = [], socket.getaddrinfo

    def changing(host: str, *arguments: object, **options: object) -> object:
        lookups.append(host)
        return real(
            "127.0.0.1" if lookups.count("localhost") < 2 else "192.0.2.1", *arguments, **options
        )  # type: ignore[arg-type]

    with HostileServer() as server:
        server.replies["/x"] = [good(b"content")]
        monkeypatch.setattr(socket, "getaddrinfo", changing)
        assert get("http", server, ssl.create_default_context()) == b"content"
    assert lookups.count("localhost") == 1


def get(scheme: str, server: HostileServer, roots: ssl.SSLContext) -> bytes:
    """What the server says at localhost."""
    port = int(server.url.rpartition(":")[2])
    url, own = f"{scheme}://localhost:{port}/x", ("localhost", port)
    transport = guarded_transport(
        httpx.URL(url), roots=roots, own=own, deadline=time.monotonic() + 5
    )
    with httpx.Client(transport=transport, timeout=5) as client:
        return client.get(url).content


def certificate(folder: Path, name: str) -> Path:
    """A certificate that signs itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    days = now, now + datetime.timedelta(days=1)
    made = x509.CertificateBuilder(
        subject, subject, key.public_key(), x509.random_serial_number(), *days
    )
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / f"{name}.pem"
    path.write_bytes(
        made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM) + private
    )
    return path


@pytest.mark.parametrize(("named", "answered"), [("localhost", True), ("elsewhere.example", False)])
def test_the_certificate_must_be_of_the_name_though_the_address_is_connected_to(
    tmp_path: Path, named: str, answered: bool
) -> None:
    path = certificate(tmp_path, named)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    with HostileServer() as server:
        server._server.socket = context.wrap_socket(server._server.socket, server_side=True)
        server.replies["/x"] = [good(b"content")]
        roots = ssl.create_default_context(cafile=str(path))
        if answered:
            assert get("https", server, roots) == b"content"
        else:
            with pytest.raises(httpx.ConnectError, match="certificate"):
                get("https", server, roots)


def test_a_proxy_that_the_user_has_set_is_asked_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    with socket.create_server(("127.0.0.1", 0)) as proxy:

        def answer() -> None:
            connection, _ = proxy.accept()
            asked.append(connection.recv(100).split(b"\r\n")[0])
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.setenv("no_proxy", "")
        with pytest.raises(SourceError):
            download(
                "https://openml.example/x",
                tmp_path / "x",
                Visit("https://openml.example", tmp_path, replace(LIMITS, attempts=1)),
            )
        thread.join()
    assert asked == [b"CONNECT openml.example:443 HTTP/1.1"]
