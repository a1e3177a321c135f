"""Certificates for a cluster of one's own: `python -m infra.certificates FOLDER --host NAME...`.

ca.pem                       the authority of the Dask cluster; its key is discarded, so no
                             certificate can be added
scheduler, worker, client    `.pem` and `.key` of each role, for callers and called alike
server                       `.pem` and `.key` of the Prefect server, which signs for itself: it is
                             no party of the cluster
tls.env                      the variables that Dask and Prefect read, to be sourced

Dask demands a certificate of this authority and does not compare host names: the holder of one runs
code on the cluster. Prefect's clients do check the server's name.
"""

from __future__ import annotations

import argparse
import datetime
import ipaddress
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dpicl.ground.errors import DpiclError, ParameterError, RunError
from dpicl.ground.files import sync_folder

ROLES = ("scheduler", "worker", "client")
SERVER = "server"
ENVIRONMENT = "tls.env"
MOST_DAYS = 825
_CLOCKS_APART = datetime.timedelta(hours=1)


Signed = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]
"""A certificate and its key."""


def make_certificates(
    folder: Path, hosts: Sequence[str], *, days: int, at: Path | None = None
) -> str:
    """Write authority, certificates, keys (mode 0600) and the variables into a folder (mode 0700).

    Args:
        hosts: names and addresses by which the hosts are called.
        days: how long all of it is valid.
        at: where the folder will stand on the hosts, if not here.

    Returns:
        The text of the file of variables.

    Raises:
        ParameterError: a host is no name, the days are out of range, or `at` is no path from the
            root on.
        RunError: a file is there already.
        OSError: the folder cannot be written.
    """
    if not 1 <= days <= MOST_DAYS:
        raise ParameterError("days", days, f"1 to {MOST_DAYS}")
    if at is not None and not at.is_absolute():
        raise ParameterError("at", at, "a path from the root on")
    names = [_host(host) for host in hosts]
    text = environment(at or folder.resolve())
    authority = _signed("dpicl cluster", days, authority=True)
    both = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
    signed = {
        role: _signed(f"dpicl {role}", days, names=names, uses=both, by=authority) for role in ROLES
    }
    signed[SERVER] = _signed(
        "dpicl Prefect server", days, names=names, uses=(ExtendedKeyUsageOID.SERVER_AUTH,)
    )
    files = {"ca.pem": authority[0].public_bytes(Encoding.PEM), ENVIRONMENT: text.encode()}
    for role, (certificate, key) in signed.items():
        files[f"{role}.pem"] = certificate.public_bytes(Encoding.PEM)
        files[f"{role}.key"] = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    there = [name for name in files if (folder / name).exists()]
    if there:
        raise RunError(
            f"{folder.name}: {there[0]} is there already, and is not written over; name a new "
            f"folder"
        )
    for name, content in files.items():
        mode = 0o600 if name.endswith(".key") else 0o644  # keys are for their owner only
        with os.fdopen(
            os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb"
        ) as file:
            file.write(content)
    sync_folder(folder)
    return text


def environment(folder: Path) -> str:
    """The variables for Dask and Prefect, as lines that a shell can source."""
    variables = {
        "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True",
        "DASK_DISTRIBUTED__COMM__TLS__CA_FILE": folder / "ca.pem",
    }
    for role in ROLES:
        for kind, ending in (("CERT", "pem"), ("KEY", "key")):
            variables[f"DASK_DISTRIBUTED__COMM__TLS__{role.upper()}__{kind}"] = (
                folder / f"{role}.{ending}"
            )
    variables["PREFECT_API_SSL_CERT_FILE"] = folder / f"{SERVER}.pem"
    return "".join(
        f"export {name}={shlex.quote(str(value))}\n" for name, value in variables.items()
    )


def _signed(
    title: str,
    days: int,
    *,
    names: Sequence[x509.GeneralName] = (),
    uses: Sequence[x509.ObjectIdentifier] = (),
    by: Signed | None = None,
    authority: bool = False,
) -> Signed:
    """A new key and its certificate, signed by an authority or by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, title)])
    now = datetime.datetime.now(datetime.UTC)
    issuer, signer = (by[0].subject, by[1]) if by else (own, key)
    may = dict.fromkeys(
        (
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(own)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_APART)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(
            x509.BasicConstraints(ca=authority, path_length=0 if authority else None), critical=True
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .add_extension(
            x509.KeyUsage(
                digital_signature=not authority, key_cert_sign=authority, crl_sign=authority, **may
            ),
            critical=True,
        )
    )
    if uses:
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(signer, hashes.SHA256()), key


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        labels = text.removeprefix("*.").split(".")
        if all(
            label.isascii()
            and label.replace("-", "").replace("_", "").isalnum()
            and len(label) < 64
            for label in labels
        ):
            return x509.DNSName(text)
    raise ParameterError("host", text, "an address, or a name of letters, digits, dashes and dots")


class _Parser(argparse.ArgumentParser):
    """A mistake is one sentence, without the usage."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise RunError(message)


def main(words: Sequence[str] | None = None) -> int:
    """Make them and print the variables; a mistake is one sentence and exit code 2."""
    parser = _Parser(
        prog="python -m infra.certificates",
        description="Make the certificates of a Dask cluster and of a Prefect server.",
    )
    parser.add_argument("folder", type=Path, help="a new folder")
    parser.add_argument(
        "--host",
        dest="hosts",
        nargs="+",
        required=True,
        metavar="NAME",
        help="names and addresses of the hosts",
    )
    parser.add_argument(
        "--days", type=int, default=365, help=f"how long they are valid, at most {MOST_DAYS}"
    )
    parser.add_argument(
        "--at", type=Path, help="where the folder will stand on the hosts; here if left out"
    )
    try:
        options = parser.parse_args(words)
        sys.stdout.write(
            make_certificates(options.folder, options.hosts, days=options.days, at=options.at)
        )
    except (DpiclError, OSError) as error:
        message = (
            f"{Path(str(error.filename)).name}: {error.strerror}"
            if isinstance(error, OSError)
            else str(error)
        )
        sys.stderr.write(f"infra.certificates: {message}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
