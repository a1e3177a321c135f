"""Demonstrations without any model: the stages of a run up to its release, in this process.

Charged, drawn and published like those of a run: asked for again, by this command or by a run,
the same release is the same bytes and costs nothing.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile

from rich.console import Console

from dpicl.contract import Contract
from dpicl.contract.load import contract_digest
from dpicl.engine.artefacts import finite, remove_private
from dpicl.engine.collect import bought
from dpicl.engine.files import publish, read_json
from dpicl.engine.order import released, rows_ready
from dpicl.engine.plan import begin, periods_of
from dpicl.engine.quote import accounts_of
from dpicl.engine.run_folder import Plan, read_plan, run_folder
from dpicl.engine.settings import Settings
from dpicl.engine.stages.serialize import DEMONSTRATIONS, demonstrate
from dpicl.errors import ParameterError
from dpicl.lm.models import ModelSpec
from dpicl.methods import METHODS
from dpicl.methods.common import asked_epsilon
from dpicl.pipeline import Cell, Pipeline, read_epsilon
from dpicl.snapshots import is_free, locked
from dpicl.yaml_file import validate as validate_yaml
from flows.budget import print_unheeded
from flows.run_facts import ONE_RELEASE, ONE_RELEASE_TITLE

TABULAR = tuple(name for name, method in METHODS.items() if method.DATA == "table")
_PREFIX, _LOCK = f"{ONE_RELEASE}-", "lock"
_SIMULATED = "Its contract is a public benchmark: the noise is seeded, and anyone with the seed can take it away. Not a release."
_HELD_OUT = "Rows that the contract's split holds out were not used."


@dataclass(frozen=True)
class Protected:
    """Released demonstrations with their answers, the guarantee in a sentence, what was spent, and what to keep in mind."""

    dataset: str
    method: str
    epsilon: float
    contract_sha256: str
    demonstrations: tuple[tuple[str, str], ...]
    statement: str
    spent: tuple[str, ...]
    caveats: tuple[str, ...]


def protect(dataset: str, method: str, *, epsilon: str, shots: int, period: str | None = None) -> Protected:
    """Release `shots` demonstrations of a table, by the method's usual options.

    Raises:
        DpiclError: a name or value breaks a rule, or the budget does not allow it; nothing was read then.
    """
    settings = Settings.from_environment()
    if method not in TABULAR or not isinstance(settings.declared(dataset), Contract):
        raise ParameterError("method", method, f"one of {', '.join(TABULAR)} on a table; texts are released by `dpicl run`")
    _sweep(settings)
    run = begin(_plan(dataset, method, epsilon, shots, periods_of([dataset], settings, period)), settings)
    (key,) = read_plan(run).units
    with locked(run / _LOCK):
        try:
            for steps in (rows_ready(str(run), dataset), released(str(run), key), ((demonstrate, (str(run), key)),)):
                for stage, references in steps:
                    stage(*references)
            found = _found(run, key, Cell("icl", read_epsilon(epsilon), shots), settings)
        finally:
            remove_private(run, settings)
    shutil.rmtree(run, ignore_errors=True)  # the release stands elsewhere, and nothing goes on with this folder
    return found


def _plan(dataset: str, method: str, epsilon: str, shots: int, periods: dict[str, str]) -> Plan:
    """A grid of one release, whatever pipelines.yaml says; its name is nobody else's."""
    grid = {"datasets": [dataset], "methods": [method], "epsilons": [epsilon], "shots": [shots], "queries": 1, "baselines": False}
    pipeline = validate_yaml(Pipeline, {"title": ONE_RELEASE_TITLE, **grid}, "command line")
    run_id = f"{_PREFIX}{dataset}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
    return Plan(run_id, ONE_RELEASE, pipeline, ModelSpec(name="tiny", kind="tiny"), periods=periods)


def _sweep(settings: Settings) -> None:
    """Private files of killed processes: who lives holds the lock of their run."""
    for folder in (settings.home / "private").glob(f"*/{_PREFIX}*"):
        run = run_folder(settings, folder.name)
        if not run.is_dir() or is_free(run / _LOCK):
            remove_private(run, settings)


def _found(run: Path, key: str, cell: Cell, settings: Settings) -> Protected:
    units = read_plan(run).units
    unit = units[key]
    contract = settings.contract(unit.dataset)
    texts = read_json(run / "units" / key / DEMONSTRATIONS)[cell.key]
    cost = METHODS[unit.method].costs(contract, unit)[cell]
    statement = METHODS[unit.method].statement(contract, unit, cell, cost)
    spent = bought(run, units, {unit.dataset: contract}, settings)
    parted = (text.rpartition(" ") for text in texts)
    demonstrations = tuple((before, answer) for before, _, answer in parted)
    caveats = (*([_SIMULATED] if contract.privacy.budget.benchmark else []), *([_HELD_OUT] if contract.split else []))
    asked, digest = asked_epsilon(cell), contract_digest(contract)
    return Protected(unit.dataset, unit.method, asked, digest, demonstrations, statement, tuple(spent), caveats)


def print_protected(
    dataset: str, method: str, *, epsilon: str, shots: int, out: Path, form: str, console: Console, period: str | None = None
) -> None:
    """Release into a new file, and say what it costs.

    Raises:
        DpiclError: as `protect`, or there is such a file, or it cannot be written.
        StageFailed: something unforeseen; done again, it goes on without another charge.
    """
    if form not in _FORMS:
        raise ParameterError("as", form, f"one of {', '.join(_FORMS)}")
    _check_new(out)
    found = protect(dataset, method, epsilon=epsilon, shots=shots, period=period)
    _publish_new(out, "".join(f"{line}\n" for line in _FORMS[form](found)).encode())
    told = f"{out.name}: {len(found.demonstrations)} demonstrations"
    for sentence in (told, found.statement, *found.spent, *found.caveats):
        console.print(sentence, highlight=False, soft_wrap=True)
    settings = Settings.from_environment()
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
