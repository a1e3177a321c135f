"""`dpicl protect`: one release of a table into a new file, and what it cost."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from pathlib import Path
from tempfile import TemporaryFile

import pyarrow as pa
from rich.console import Console

from dpicl.cli.budget import print_unheeded
from dpicl.engine.artefacts import finite
from dpicl.engine.files import publish
from dpicl.engine.one_release import Protected, protect
from dpicl.engine.quote import accounts_of
from dpicl.engine.settings import Settings
from dpicl.errors import ParameterError
from dpicl.methods.gdp_tabicl import GdpTabicl


class _NoPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)


def without_pandas() -> None:
    """Keep Arrow from importing pandas in this process, which takes a quarter of the time and memory of a release.

    Arrow looks for it once: at the first value from Python, which might be one of pandas.
    """
    if "pandas" not in sys.modules:
        finder = _NoPandas()
        sys.meta_path.insert(0, finder)
        pa.array([])
        sys.meta_path.remove(finder)


def print_protected(
    dataset: str, method: str | None, *, epsilon: str, shots: int, out: Path, form: str, console: Console, period: str | None = None
) -> None:
    """Release into a new file, and say what it costs.

    Raises:
        DpiclError: as `protect`, or there is such a file, or it cannot be written.
        StageFailed: something unforeseen; done again, it goes on without another charge.
    """
    if form not in _FORMS:
        raise ParameterError("as", form, f"one of {', '.join(_FORMS)}")
    _check_new(out)
    settings, method = Settings.from_environment(), method or GdpTabicl.name
    found = protect(dataset, method, settings, epsilon=epsilon, shots=shots, period=period)
    _publish_new(out, "".join(f"{line}\n" for line in _FORMS[form](found)).encode())
    told = f"{out.name}: {len(found.demonstrations)} demonstrations"
    for sentence in (told, found.statement, *found.spent, *found.caveats):
        console.print(sentence, highlight=False, soft_wrap=True)
    print_unheeded(accounts_of([(dataset, method)], settings), settings, console)


def _check_new(out: Path) -> None:
    """Before anything is charged; nothing is left there, so that a command that is killed can be typed again."""
    try:
        if os.path.lexists(out):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        with TemporaryFile(dir=out.parent):
            pass
    except OSError as error:
        raise ParameterError("out", out.name, f"a new file in a folder that can be written ({error.strerror})") from None


def _publish_new(out: Path, content: bytes) -> None:
    """Whole or not at all; what somebody else has put there meanwhile stays."""
    publish(out, lambda file: file.write(content))
    if out.read_bytes() != content:
        raise ParameterError("out", out.name, "a new file: there is one since; typed again with another, it costs nothing more")


def _jsonl(found: Protected) -> list[str]:
    whose = {"contract": found.dataset, "contract_sha256": found.contract_sha256, "method": found.method, "epsilon": finite(found.epsilon)}
    return [json.dumps({**whose, "text": text, "answer": answer}, ensure_ascii=False) for text, answer in found.demonstrations]


def _chat(found: Protected) -> list[str]:
    turns = [(("user", text), ("assistant", answer)) for text, answer in found.demonstrations]
    messages = [{"role": role, "content": content} for turn in turns for role, content in turn]
    return [json.dumps({"messages": messages}, ensure_ascii=False)]


def _prompt(found: Protected) -> list[str]:
    return [f"{text} {answer}" for text, answer in found.demonstrations]


_FORMS: dict[str, Callable[[Protected], list[str]]] = {"jsonl": _jsonl, "chat": _chat, "prompt": _prompt}
