"""`dpicl verify`: whether a file, its certificate and the signature hold, and, by another program,
whether the stated privacy loss does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpicl.cli.options import AsJson
from dpicl.cli.terminal import errors, note, say, show
from dpicl.ground.errors import CertificateError, DpiclError
from dpicl.ground.installed import extra_missing
from dpicl.home.settings import Settings

if TYPE_CHECKING:
    from dpicl.cli.answers import VerifiedFile
    from dpicl.cli.recomputed import Recomputation, RecomputedPrice
    from dpicl.release.certificate import Certificate


def verify(
    file: Annotated[
        Path | None, typer.Argument(help="A file that dpicl wrote, or a certificate by itself.")
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(help="Its certificate. Default: FILE.certificate.json, beside it."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            help="The issuer's public key, or a file with it. Default: this installation's; "
            "elsewhere it is needed."
        ),
    ] = None,
    recompute: Annotated[
        bool,
        typer.Option(
            "--recompute",
            help="Also compute the stated privacy loss again with dp-accounting and "
            "prv-accountant, by a program that uses none of dpicl's accounting. Takes seconds, of "
            "thousands of steps or choices minutes; it stops after five. Exit code 2 where it "
            "could not, as where steps are chosen by the rows and no noise is stated.",
        ),
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option(
            help="Also write the verified certificate to this new file, as a page of HTML."
        ),
    ] = None,
    show_key: Annotated[
        bool,
        typer.Option(
            "--show-key", help="Print this installation's public key, for others to verify with."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Verify a file against its signed certificate. Exit code 1 if a byte of either was changed,
    another key signed, nothing is certified, or, with --recompute, the stated privacy loss is too
    small.
    """
    from dpicl.ground.files import publish
    from dpicl.release.certificate_files import (
        SUFFIX,
        public_key,
        read_public_key,
        trusted_key,
        verify_file,
    )

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
        say(f"dpicl: {error.details()}", to=errors)
        raise typer.Exit(1) from None
    again = _recomputed(statement) if recompute and not statement.simulation else None
    if page is not None:
        publish(page, statement.to_page().encode())
    alone = certificate is None and file.name.endswith(SUFFIX)
    signer = f"the key {trusted}" if key is not None else f"this installation, key {trusted}"
    answer = _answer(file.name, statement, signer, again, alone=alone)
    if statement.simulation and not as_json:
        say(f"dpicl: {answer.signature} {answer.certifies}", to=errors)
    else:
        show(answer, answer.lines(), as_json=as_json)
    if code := _exit_code(answer):
        raise typer.Exit(code)


def _answer(
    name: str,
    statement: Certificate,
    signer: str,
    again: Recomputation | None,
    *,
    alone: bool,
) -> VerifiedFile:
    from dpicl.cli.answers import VerifiedFile

    named = statement.product.file
    what = (
        "is as it was certified, signed"
        if named is not None and not alone
        else f"is signed; no file was compared{f', it is of {named.name}' if named else ''}; signed"
    )
    assert statement.signature is not None
    return VerifiedFile(
        file=name,
        price=None if again is None else f"{name}: {_sentence(again.prices)}",
        signature=f"{name}: {what} by {signer}.",
        certifies=statement.certifies,
        simulation=statement.simulation,
        key=statement.signature.public_key,
        prices=() if again is None else again.prices,
    )


def _recomputed(statement: Certificate) -> Recomputation:
    from dpicl.cli.recomputed import recomputed

    again = recomputed(statement)
    if not again.has_second and (missing := extra_missing("prv_accountant")):
        note(f"no bounds by a second library: {missing}", to=errors)
    return again


def _sentence(prices: Sequence[RecomputedPrice]) -> str:
    """The answer: whether all stated prices hold, and if not which."""
    short = next((price for price in prices if price.holds is False), None)
    price = short or prices[0]
    if price.holds is None:
        return f"its price could not be recomputed: {price.reason}."
    stated = f"ε = {_written(price.epsilon_stated)} at δ = {price.delta:g} is stated for the "
    if price.epsilon_recomputed is None:
        again = "there is no bound"
    elif short and price.epsilon_recomputed <= (price.epsilon_stated or 0):
        again = f"prv-accountant computes at least {_written(price.epsilon_low)}"
    else:
        again = f"{price.by.partition(',')[0]} computes {_written(price.epsilon_recomputed)}"
    answer = "a stated price is too small" if short else "its price holds"
    taken = (
        f" Of {' and '.join(price.as_stated)} events in it the certificate states ε and no noise: "
        f"theirs is taken as stated."
    )
    return f"{answer}: {stated}{price.what}, {again}.{taken * bool(price.as_stated)}"


def _written(epsilon: float | None) -> str:
    return "∞" if epsilon is None else f"{epsilon:.6g}"


def _exit_code(answer: VerifiedFile) -> int:
    """1 where something does not hold, 2 where the release has no second price."""
    if answer.simulation or any(price.holds is False for price in answer.prices):
        return 1
    return 2 if answer.prices and answer.prices[0].holds is None else 0
