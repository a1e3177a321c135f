"""Signatures: Ed25519 under a key of the installation, and whether one is of a key that is trusted.

Trust       who holds `keys/ledger.key` of the state home signs; a certificate proves that its
            holder says so, and not that the program ran unchanged.

The signing key is derived from the installation's secret key, which is made once, for its owner
only: of several makers the first wins, and there is one file to back up.
"""

from __future__ import annotations

import re
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dpicl.accounting.ledger.keys import keyed_hash, load_key
from dpicl.certificate.statement import Certificate, Signature
from dpicl.engine.settings import Settings
from dpicl.engine.state_home import KEY, check_restored
from dpicl.errors import CertificateError, ParameterError

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
