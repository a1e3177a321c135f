"""`dpicl verify`: whether a file and its certificate hold, who signed it and what was promised."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpicl.cli.terminal import errors, say
from dpicl.engine.settings import Settings
from dpicl.errors import CertificateError, DpiclError


def verify(
    file: Annotated[Path | None, typer.Argument(help="A file that dpicl wrote, or a certificate by itself.")] = None,
    certificate: Annotated[Path | None, typer.Option(help="Its certificate. Default: FILE.certificate.json, beside it.")] = None,
    key: Annotated[
        str | None, typer.Option(help="The issuer's public key, or a file with it. Default: this installation's; elsewhere it is needed.")
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Also write the verified certificate to this new file, as a page of HTML.")] = None,
    show_key: Annotated[bool, typer.Option("--show-key", help="Print this installation's public key, for others to verify with.")] = False,
) -> None:
    """Verify a file against its signed certificate; exit code 1 if a byte of either was changed, another key signed, or nothing is certified."""
    from dpicl.certificate.files import verify_file
    from dpicl.certificate.signing import public_key, read_public_key, trusted_key
    from dpicl.engine.files import publish

    settings = Settings.from_environment()
    if show_key == (file is not None):
        raise DpiclError("verify: expected FILE, or --show-key alone")
    if file is None:
        say(public_key(settings))
        return
    if page is not None and page.exists():
        raise DpiclError(f"page={page.name}: expected a new file")
    trusted = read_public_key(key) if key is not None else trusted_key(settings)
    try:
        statement = verify_file(file, key=trusted, certificate=certificate)
    except CertificateError as error:
        say(f"dpicl: {error.message}", to=errors)
        raise typer.Exit(1) from None
    if page is not None:
        content = statement.to_page().encode()
        publish(page, lambda target: target.write(content))
    signer = f"the key {trusted}" if key is not None else f"this installation, key {trusted}"
    named = statement.product.file
    compared = named is not None and not (certificate is None and file.name.endswith(".certificate.json"))
    what = (
        "is as it was certified, signed"
        if compared
        else f"is signed; no file was compared{f', it is of {named.name}' if named else ''}; signed"
    )
    if statement.simulation:
        say(f"dpicl: {file.name}: {what} by {signer}. {statement.certifies}", to=errors)
        raise typer.Exit(1)
    say(f"{file.name}: {what} by {signer}.", statement.certifies)
