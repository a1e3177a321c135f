"""`dpicl protect` and `dpicl synth`: one release of a table into a new file, and what it cost; or
with --dry-run what it would cost.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pyarrow as pa

from dpicl.certificate.files import certificate_of
from dpicl.cli.budget import print_quotes, warn_of_caps
from dpicl.cli.terminal import note
from dpicl.engine.files import write_text
from dpicl.engine.open_ledger import one_ledger
from dpicl.engine.payers import accounts_of
from dpicl.engine.quote import check_quotes
from dpicl.engine.request import ReleaseRequest
from dpicl.engine.settings import Settings
from dpicl.engine.text_release import TEXTUAL
from dpicl.errors import ParameterError
from dpicl.release.demonstrations import FORMS
from dpicl.release.door import quote_of, release_of
from dpicl.release.release import TABLE_FORMS, check_has_quality, check_has_rows
from dpicl.yaml_file import parse_yaml


class _NoPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)


def without_pandas() -> None:
    """Keep Arrow from importing pandas in this process, which takes a quarter of the time and
    memory of a release.

    Arrow looks for it once: at the first value from Python, which might be one of pandas.
    """
    if "pandas" not in sys.modules:
        finder = _NoPandas()
        sys.meta_path.insert(0, finder)
        pa.array([])
        sys.meta_path.remove(finder)


def release_to_file(
    request: ReleaseRequest,
    out: Path,
    form: str,
    *,
    rows: int | None = None,
    quality: Path | None = None,
) -> None:
    """Release into a new file, and print what it costs.

    Args:
        form: of demonstrations, or of a table of `rows` rows.
        quality: a new file for a page on how good the release is.

    Raises:
        DpiclError: a name or value breaks a rule, the budget does not allow it, or the file exists
            or cannot be written.
        StageFailed: something unforeseen; the same command resumes without another charge.
    """
    form = _checked(form, request.method, [out, *([] if quality is None else [quality])])
    settings = Settings.from_environment()
    if quality is not None:
        check_has_quality(settings.declared(request.dataset), request.method)
    with one_ledger(settings):
        # of a command that was killed before its file, and so was charged
        if os.path.lexists(certificate_of(out)):
            quotes = quote_of(request, settings)
            if any(line.releases > line.charged_before for line in quotes):
                raise ParameterError(
                    "out",
                    certificate_of(out).name,
                    "a new file; the certificate of another release stands there",
                )
        release = release_of(request, settings)
        found = None if quality is None else release.quality()
        what = release.write(out, form, rows)
        note(f"{out.name}: {what}", release.statement, *release.spent, *release.caveats)
        if quality is not None and found is not None:
            from dpicl.report.quality import quality_page

            write_text(quality, quality_page(found))
            note(str(found))
        warn_of_caps(accounts_of([(request.dataset, release.method)], settings), settings)


def print_price(
    request: ReleaseRequest,
    out: Path | None,
    form: str,
    *,
    as_json: bool,
    quality: Path | None = None,
) -> None:
    """What `release_to_file` would charge, by account; it refuses the same, spends nothing and
    reads no row.

    Raises:
        DpiclError: as `release_to_file`; where a cap refuses it, after the price.
    """
    _checked(form, request.method, [path for path in (out, quality) if path is not None])
    quotes = quote_of(request, Settings.from_environment())
    print_quotes(quotes, as_json=as_json)
    check_quotes(quotes)


def _checked(form: str, method: str | None, new: Sequence[Path]) -> str:
    """Today's name of a form; it exists, the method has it, and files can be made in these
    places.
    """
    if form not in (*FORMS, *TABLE_FORMS):
        raise ParameterError("as", form, f"one of {', '.join((*FORMS, *TABLE_FORMS))}")
    if form in TABLE_FORMS and method is not None and method not in TEXTUAL:
        check_has_rows(method)
    for path in new:
        # before anything is charged; a certificate alone is what a killed command may leave, which
        # this one completes
        try:
            if os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            with TemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            raise ParameterError(
                "out", path.name, f"a new file in a folder that can be written ({error.strerror})"
            ) from None
    return form


def chosen_options(options: Sequence[str]) -> dict[str, Any]:
    """Options of a method, each a value as pipelines.yaml would have it: a word, a number, or a
    list in brackets.
    """
    chosen = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not name or not equals:
            raise ParameterError("option", option[:60], "NAME=VALUE")
        chosen[name.strip()] = parse_yaml(value.encode(), f"option {name.strip()[:40]}")
    return chosen
