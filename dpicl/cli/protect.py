"""`dpicl protect` and `dpicl synth`: one release of a table into a new file, and what it cost."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from dpicl.certificate.files import certificate_of
from dpicl.cli.budget import warn_of_caps
from dpicl.cli.terminal import say
from dpicl.engine.files import publish
from dpicl.engine.quote import accounts_of
from dpicl.engine.releases import one_ledger
from dpicl.engine.settings import Settings
from dpicl.errors import ParameterError
from dpicl.release import Release
from dpicl.release.demonstrations import FORMS
from dpicl.release.release import TABLE_FORMS, check_has_rows
from dpicl.release.texts import release_of
from dpicl.yaml_file import parse_yaml

_EARLIER = {"prompt": "text"}
"""Forms by their earlier names."""


def release_to_file(
    dataset: str,
    out: Path,
    form: str,
    *,
    method: str | None,
    trust: str,
    epsilon: str,
    shots: int = 4,
    rows: int | None = None,
    options: Sequence[str] = (),
    anyway: bool = False,
    period: str | None,
    generator: str | None = None,
    quality: Path | None = None,
) -> None:
    """Release into a new file, and print what it costs.

    Args:
        form: of demonstrations, or of a table of `rows` rows.
        options: of the method, each `NAME=VALUE`.
        generator: of texts, the model that wrote them.
        quality: a new file for a page on how good the release is.

    Raises:
        DpiclError: a name or value breaks a rule, the budget does not allow it, or the file exists or cannot be written.
        StageFailed: something unforeseen; the same command resumes without another charge.
    """
    form = _EARLIER.get(form, form)
    if form not in (*FORMS, *TABLE_FORMS):
        raise ParameterError("as", form, f"one of {', '.join((*FORMS, *TABLE_FORMS))}")
    if form in TABLE_FORMS and method is not None:
        check_has_rows(method)
    for path in (out, certificate_of(out), *([] if quality is None else [quality])):
        _check_new(path)
    settings, chosen = Settings.from_environment(), dict(map(_option, options))
    with one_ledger(settings):
        how: dict[str, Any] = {"epsilon": epsilon, "shots": shots, "period": period, "trust": trust, "options": chosen, "anyway": anyway}
        release = release_of(dataset, method, settings, generator=generator, **how)
        what = release.write(out, form, rows)
        say(f"{out.name}: {what}", release.statement, *release.spent, *release.caveats)
        if quality is not None:
            _write_quality(release, quality)
        warn_of_caps(accounts_of([(dataset, release.method)], settings), settings)


def _write_quality(release: Release, out: Path) -> None:
    from dpicl.report.quality import quality_page

    found = release.quality()
    publish(out, lambda file: file.write(quality_page(found).encode()))
    say(str(found))


def _check_new(path: Path) -> None:
    """Before anything is charged; nothing is left there, so that a killed command can be run again."""
    try:
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        with TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise ParameterError("out", path.name, f"a new file in a folder that can be written ({error.strerror})") from None


def _option(text: str) -> tuple[str, Any]:
    """A value as pipelines.yaml would have it: a word, a number, or a list in brackets."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ParameterError("option", text[:60], "NAME=VALUE")
    return name.strip(), parse_yaml(value.encode(), f"option {name.strip()[:40]}")
