"""A file with its certificate beside it, `NAME` and `NAME.certificate.json`: written together, and
whether both hold.

The certificate comes first, which names the file's SHA-256 and says nothing without it: where the
file is, all is. A crash between the two leaves a certificate alone, and the same call again
completes it. Neither is ever written over another file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from dpicl.certificate.signing import check_signature, signed
from dpicl.certificate.statement import LARGEST_BYTES, Certificate, File
from dpicl.engine.files import publish
from dpicl.engine.settings import Settings
from dpicl.errors import CertificateError, ParameterError

SUFFIX = ".certificate.json"


def certificate_of(path: Path) -> Path:
    """Where the certificate of a file lies: beside it."""
    return path.with_name(path.name + SUFFIX)


def write_certified(
    path: Path, write: Callable[[BinaryIO], object], certificate: Certificate, settings: Settings
) -> Certificate:
    """Write a file of what was released or derived, and its certificate beside it; gives the
    certificate that names the file.

        write_certified(Path("rows.csv"), lambda file: frame.to_csv(file, index=False),
        release.certificate, settings)

    Args:
        write: writes the content, made from the release and public randomness alone; it is held in
            memory.
        certificate: of the release, as `issue.certify` gives it.
    Raises ParameterError: another file stands under one of the two names; neither is written then;
    OSError: the disk is full or the folder cannot be written.
    """
    buffer = BytesIO()
    write(buffer)
    content = buffer.getvalue()
    file = File(name=path.name, sha256=hashlib.sha256(content).hexdigest())
    of_file = signed(
        certificate.model_copy(
            update={"product": certificate.product.model_copy(update={"file": file})}
        ),
        settings,
    )
    files = ((certificate_of(path), of_file.to_json()), (path, content))
    for place, wanted in files:
        if os.path.lexists(place) and not _holds(place, wanted):
            raise ParameterError("out", place.name, "a new file; another one stands there")
    for place, wanted in files:
        publish(place, lambda target, wanted=wanted: target.write(wanted))  # type: ignore[misc]
        if not _holds(place, wanted):
            raise ParameterError(
                "out", place.name, "a new file, but another one was created meanwhile"
            )
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


def _holds(path: Path, content: bytes) -> bool:
    return path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content
