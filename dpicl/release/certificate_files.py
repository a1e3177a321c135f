"""A file with its certificate beside it, `NAME` and `NAME.certificate.json`: written together, and
whether both hold.

The certificate comes first, which names the file's SHA-256 and says nothing without it: where the
file is, all is. A crash between the two leaves a certificate alone, and the same call again
completes it. Neither is ever written over another file.

Signatures: Ed25519 under a key of the installation, and whether one is of a key that is trusted.

Trust       who holds `keys/ledger.key` of the state home signs; a certificate proves that its
            holder says so, and not that the program ran unchanged.

The signing key is derived from the installation's secret key, which is made once, for its owner
only: of several makers the first wins, and there is one file to back up.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dpicl.ground.errors import CertificateError, ParameterError, StandingFileError
from dpicl.ground.files import publish, sha256_of
from dpicl.home.settings import KEY, Settings, check_restored
from dpicl.ledger.keys import keyed_hash, load_key
from dpicl.release.certificate import LARGEST_BYTES, Certificate, File, Signature

SUFFIX = ".certificate.json"


def certificate_of(path: Path) -> Path:
    """Where the certificate of a file lies: beside it."""
    return path.with_name(path.name + SUFFIX)


def write_certified(
    path: Path,
    write: Callable[[BinaryIO], object],
    certificate: Certificate,
    settings: Settings,
    condition: str | None = None,
) -> Certificate:
    """Write a file of what was released or derived, and its certificate beside it; gives the
    certificate that names the file.

        write_certified(Path("rows.csv"), lambda file: frame.to_csv(file, index=False),
        release.certificate, settings)

    Args:
        write: writes the content, made from the release and public randomness alone; it is held in
            memory.
        certificate: of the release, as `certificate_issue.certify` gives it.
        condition: what all rows of the file meet, in words; None of all kinds of rows.
    Raises ParameterError: another file stands under one of the two names; neither is written then;
    OSError: the disk is full or the folder cannot be written.
    """
    buffer = BytesIO()
    write(buffer)
    content = buffer.getvalue()
    file = File(name=path.name, sha256=sha256_of(content), condition=condition)
    of_file = signed(
        certificate.model_copy(
            update={"product": certificate.product.model_copy(update={"file": file})}
        ),
        settings,
    )
    files = ((certificate_of(path), of_file.to_json().encode()), (path, content))
    for place, wanted in reversed(files):  # the file that was named first
        if os.path.lexists(place) and not _holds(place, wanted):
            raise StandingFileError(place.name)
    for place, wanted in files:
        if _holds(place, wanted):  # of a call that is repeated: nothing is written
            continue
        publish(place, lambda target, wanted=wanted: target.write(wanted))  # type: ignore[misc]
        if not _holds(place, wanted):
            raise StandingFileError(place.name)  # which was made meanwhile
    return of_file


def verify_file(path: Path, *, key: str, certificate: Path | None = None) -> Certificate:
    """The certificate of a file, if it and the file hold.

    Args:
        path: the file; or a certificate by itself, whose name ends in `.certificate.json`.
        key: the public key that is trusted, 64 hexadecimal digits.
        certificate: where the certificate is; beside the file if left out.
    Raises CertificateError: a byte of file or certificate is another one, it is signed by another
    key, or of another file; ParameterError: there is no such file.
    """
    alone = certificate is None and path.name.endswith(SUFFIX)
    place = path if alone else certificate or certificate_of(path)
    for needed in (path, place):
        if not needed.is_file():
            raise ParameterError(
                "certificate" if needed == place else "file",
                needed.name,
                "a file that can be read; there is none",
            )
    with place.open("rb") as file:
        statement = Certificate.from_json(file.read(LARGEST_BYTES + 1), place.name)
    check_signature(statement, key, place.name)
    named = statement.product.file
    if alone:
        return statement
    if named is None:
        raise CertificateError(
            f"{place.name}: is the certificate of a release and names no file; expected the one "
            f"written beside {path.name}"
        )
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != named.sha256:
        raise CertificateError(
            f"{path.name}: is not the file that its certificate names: it was changed, or is "
            f"another one"
        )
    return statement


def is_certified(path: Path, settings: Settings) -> bool:
    """Whether a file and its certificate are there, as this installation wrote them."""
    try:
        verify_file(path, key=trusted_key(settings))
    except (CertificateError, ParameterError, OSError):
        return False
    return True


def _holds(path: Path, content: bytes) -> bool:
    return path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content


_KEY = re.compile(r"[0-9a-f]{64}")


def public_key(settings: Settings) -> str:
    """The key that this installation's certificates are verified with: 64 hexadecimal digits; made
    on first use.
    """
    return _private_key(settings).public_key().public_bytes_raw().hex()


def read_public_key(text: str) -> str:
    """A public key as a user writes it: 64 hexadecimal digits, or a file with them. Raises
    ParameterError: it is neither.
    """
    key = text.strip().lower()
    if not _KEY.fullmatch(key) and Path(text).is_file() and Path(text).stat().st_size <= 1 << 10:
        key = Path(text).read_text("utf-8", errors="replace").strip().lower()
    if not _KEY.fullmatch(key):
        raise ParameterError(
            "key",
            repr(text[:80]),
            "64 hexadecimal digits or a file with them, as `dpicl verify --show-key` prints at "
            "the issuer",
        )
    return key


def trusted_key(settings: Settings) -> str:
    """This installation's public key, where there is an installation; makes none. Raises
    ParameterError: there is none here.
    """
    if not (settings.home / KEY).exists():
        raise ParameterError(
            "key",
            "none",
            "the issuer's public key, as `dpicl verify --show-key` prints it there: this machine "
            "has released nothing itself",
        )
    return public_key(settings)


def signed(certificate: Certificate, settings: Settings) -> Certificate:
    """The same certificate, signed by this installation; whatever signature it had is dropped."""
    key = _private_key(settings)
    signature = Signature(
        algorithm="Ed25519",
        public_key=key.public_key().public_bytes_raw().hex(),
        value=key.sign(certificate.signed_content).hex(),
    )
    return certificate.model_copy(update={"signature": signature})


def check_signature(certificate: Certificate, key: str, name: str = "certificate") -> None:
    """Refuse a certificate that this key did not sign as it stands.
    `key`: a public key that is trusted, 64 hexadecimal digits; `name`: of the file, for messages.
    Raises CertificateError: it is not signed, by another key, or was changed since.
    """
    if certificate.signature is None:
        raise CertificateError(f"{name}: is not signed")
    if certificate.signature.public_key != key:
        raise CertificateError(
            f"{name}: is signed by the key {certificate.signature.public_key}, which is not the "
            f"trusted one, {key}; expected that, or "
            "--key with the public key that you have from the issuer itself"
        )
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(
            bytes.fromhex(certificate.signature.value), certificate.signed_content
        )
    except (InvalidSignature, ValueError):
        raise CertificateError(
            f"{name}: was changed after it was signed, or its signature was"
        ) from None


def _private_key(settings: Settings) -> Ed25519PrivateKey:
    check_restored(settings.home)
    secret = keyed_hash(load_key(settings.make_home() / KEY), "certificates")
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secret))
