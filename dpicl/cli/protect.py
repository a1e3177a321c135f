"""`dpicl protect`: one release of a table into a new file, and what it cost."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from tempfile import TemporaryFile

from dpicl.cli.budget import warn_of_caps
from dpicl.cli.terminal import say
from dpicl.engine.artefacts import finite
from dpicl.engine.files import publish
from dpicl.engine.one_release import protect
from dpicl.engine.quote import accounts_of
from dpicl.engine.settings import Settings
from dpicl.errors import ParameterError
from dpicl.methods.gdp_tabicl import GdpTabicl

FORMATS = ("jsonl", "chat", "prompt")


def print_protected(dataset: str, method: str | None, *, epsilon: str, shots: int, out: Path, form: str, period: str | None) -> None:
    """Release into a new file, and print what it costs.

    Raises:
        DpiclError: as `protect`, or the file exists or cannot be written.
        StageFailed: something unforeseen; the same command resumes without another charge.
    """
    if form not in FORMATS:
        raise ParameterError("as", form, f"one of {', '.join(FORMATS)}")
    try:  # before anything is charged; nothing is left there, so that a killed command can be run again
        if os.path.lexists(out):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        with TemporaryFile(dir=out.parent):
            pass
    except OSError as error:
        raise ParameterError("out", out.name, f"a new file in a folder that can be written ({error.strerror})") from None
    settings, method = Settings.from_environment(), method or GdpTabicl.name
    release = protect(dataset, method, settings, epsilon=epsilon, shots=shots, period=period)
    if form == "prompt":
        lines = [f"{text} {answer}" for text, answer in release.demonstrations]
    elif form == "chat":
        turns = [(("user", text), ("assistant", answer)) for text, answer in release.demonstrations]
        messages = [{"role": role, "content": content} for turn in turns for role, content in turn]
        lines = [json.dumps({"messages": messages}, ensure_ascii=False)]
    else:
        contract = {"contract": release.dataset, "contract_sha256": release.contract_sha256}
        origin = {**contract, "method": release.method, "epsilon": finite(release.epsilon)}
        lines = [json.dumps({**origin, "text": text, "answer": answer}, ensure_ascii=False) for text, answer in release.demonstrations]
    content = "".join(f"{line}\n" for line in lines).encode()
    publish(out, lambda file: file.write(content))  # whole or not at all, and never over another file
    if out.read_bytes() != content:
        raise ParameterError("out", out.name, "a new file, but it was created meanwhile; repeating the release with another is free")
    say(f"{out.name}: {len(release.demonstrations)} demonstrations", release.statement, *release.spent, *release.caveats)
    warn_of_caps(accounts_of([(dataset, method)], settings), settings)
