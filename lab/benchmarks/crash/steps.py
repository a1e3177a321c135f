"""The steps of the release protocol as places to die at, and what a process saw on its way.

Works on the stages themselves, in a process that is meant to die: steps are watched from
outside, no line of the product knows of them. All state is files in the schedule's folder, so
that processes share it and a kill leaves it:

    deaths/<step>.<turn>.<pass|kill>   taken by whoever gets to the step first
    kills/<step>.<pid>.<nonce>         a process that killed itself there
    seen/<release>.<sha256>            bytes that a reader was given for a release
    drawn/<release>.<charged|free>     a release whose rows were read, and what the ledger said then
    faults/<nonce>                     a failed try of a stage, tried again like the orchestrator
                                       would
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import secrets
import signal
import threading
import time
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event, make_url, text
from sqlalchemy.pool import NullPool

import dpicl.release.releases
import dpicl.runs.draw
from dpicl.home.settings import Settings
from dpicl.ledger import Ledger
from dpicl.ledger.keys import Anchor
from dpicl.release.journal import FileJournal, KeptVotes
from dpicl.release.releases import NamedRelease
from dpicl.release.rows import Rows
from dpicl.runs.chain import drawing_stages
from dpicl.runs.draw import CHARGED, charge
from dpicl.runs.draw import release as release_unit
from tasks.stages import TASKS

Stage = Callable[[str, str], Any]


def _stages(name: str) -> tuple[Stage, ...]:
    """From the charge to the last release, of a method."""
    drawing = (
        (lambda run, key, of=stage: of(run, (key,))) if stage.together else stage
        for stage in drawing_stages(name)
    )
    return (charge, *drawing, release_unit)


STAGES: dict[str, tuple[Stage, ...]] = {
    name: _stages(name) for name in ("ldp_tabicl", "gdp_tabicl", "few_shot_generation", "dp_icl")
}
STEPS = (
    "before reserve",
    "reserve uncommitted",
    "reserve committed",
    "after reserve",
    "rows read",
    "token kept",
    "votes kept",
    "drawn",
    "draft unnamed",
    "draft written",
    "publish uncommitted",
    "publish committed",
    "after publish",
    "renamed",
    "before read",
    "after read",
    "gathered",
)
"""In the order of the protocol; `committed` is before the ledger's anchor follows, tokens are of
texts and votes of ensembles only.
"""

_PAUSES_SECONDS = (0.0, 0.0, 0.0, 0.001, 0.03)

_here: dict[str, Path] = {}
_inside = threading.local()


def _mark(kind: str, name: str, content: str = "") -> None:
    """Leave a file; it outlives a SIGKILL."""
    folder = _here["schedule"] / kind
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(content)


def _reach(step: str) -> None:
    """Take the next turn at a step, and die if it says so; wait a moment, so that twins mix."""
    time.sleep(random.choice(_PAUSES_SECONDS))
    for turn in sorted((_here["schedule"] / "deaths").glob(f"{step}.*")):
        try:
            turn.unlink()
        except FileNotFoundError:
            continue  # a twin took it
        if turn.suffix == ".kill":
            _mark("kills", f"{step}.{os.getpid()}.{secrets.token_hex(4)}")
            os.kill(os.getpid(), signal.SIGKILL)
        return


def _around(
    function: Callable[..., Any],
    before: str | None = None,
    after: str | None = None,
    inside: str = "",
) -> Callable[..., Any]:
    @wraps(function)
    def watched(*arguments: Any, **options: Any) -> Any:
        if before:
            _reach(before)
        _inside.call = inside
        try:
            answer = function(*arguments, **options)
        finally:
            _inside.call = ""
        if after:
            _reach(after)
        return answer

    return watched


def _in_ledger(moment: str) -> None:
    if call := getattr(_inside, "call", ""):
        _reach(f"{call} {moment}")


def _advancing(advance: Callable[..., None]) -> Callable[..., None]:
    @wraps(advance)
    def watched(*arguments: Any) -> None:
        _in_ledger("committed")
        advance(*arguments)

    return watched


def _reading_rows(function: Callable[[Rows], Any]) -> Callable[[Rows], Any]:
    """Note whether the releases that a run is about to draw are charged at the moment its rows are
    read.
    """

    @wraps(function)
    def watched(rows: Rows) -> Any:
        charged = charged_ids(os.environ["DPICL_LEDGER"])
        units = [json.loads(path.read_text()) for path in rows.folder.glob(f"*/{CHARGED}")]
        for name in (entry["release"] for unit in units for entry in unit.values()):
            _mark("drawn", f"{name}.{'charged' if name in charged else 'free'}")
        answer = function(rows)
        _reach("rows read")
        return answer

    return watched


def charged_ids(url: str) -> set[str]:
    """Releases that the ledger's database holds, asked past the ledger."""
    address = make_url(url)
    engine = create_engine(
        address.set(drivername="postgresql+psycopg")
        if address.get_backend_name() == "postgresql"
        else url,
        poolclass=NullPool,
    )
    with engine.connect() as connection:
        told = map(json.loads, connection.execute(text("SELECT content FROM records")).scalars())
        charged = [content for content in told if "guarantee" in content]
        replaced = {content.get("in_place_of") for content in charged}
        return {content["release_id"] for content in charged} - replaced


def _reading_release(function: Callable[..., bytes]) -> Callable[..., bytes]:
    @wraps(function)
    def watched(named: NamedRelease, ledger: Ledger) -> bytes:
        _reach("before read")
        content = function(named, ledger)
        _mark("seen", f"{named.charge.release_id}.{hashlib.sha256(content).hexdigest()}")
        _reach("after read")
        return content

    return watched


def _naming(link: Callable[..., None]) -> Callable[..., None]:
    @wraps(link)
    def watched(source: Any, target: Any, **options: Any) -> None:
        if Path(target).suffix == ".draft":
            _reach("draft unnamed")
        link(source, target, **options)

    return watched


def _renaming(replace: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(replace)
    def watched(source: Path, target: Any) -> Any:
        answer = replace(source, target)
        if source.suffix == ".draft":
            _reach("renamed")
        return answer

    return watched


def watch() -> None:
    """Turn every step of this process into a place to die at; once per process."""
    if getattr(Ledger, "is_watched", False):
        return
    Ledger.is_watched = True  # type: ignore[attr-defined]
    patches: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = (
        (
            Ledger,
            "reserve",
            lambda f: _around(f, "before reserve", "after reserve", inside="reserve"),
        ),
        (Ledger, "publish", lambda f: _around(f, None, "after publish", inside="publish")),
        (Anchor, "advance", _advancing),
        (NamedRelease, "publish", lambda f: _around(f, "drawn")),
        (NamedRelease, "read", _reading_release),
        (dpicl.release.releases, "publish", lambda f: _around(f, None, "draft written")),
        (os, "link", _naming),
        (Path, "replace", _renaming),
        (Rows, "train", _reading_rows),
        (FileJournal, "keep", lambda f: _around(f, None, "token kept")),
        (KeptVotes, "write", lambda f: _around(f, None, "votes kept")),
        (dpicl.runs.draw, "gather", lambda f: _around(f, None, "gathered")),
    )
    for owner, name, watched in patches:
        setattr(owner, name, watched(getattr(owner, name)))
    event.listen(Engine, "commit", lambda _: _in_ledger("uncommitted"))


def enter(
    schedule: Path, environment: Mapping[str, str], mutate: Callable[[], None] | None
) -> None:
    """Make this process one of the schedule's; `mutate` breaks the protocol before it is
    watched.
    """
    os.environ.update(environment)
    logging.disable(logging.CRITICAL)
    _here["schedule"] = schedule
    if mutate is not None:
        mutate()
    watch()


def release(run: str, unit_key: str, method: str) -> None:
    """Do the stages of a unit up to its gathered release, each tried as often as the orchestrator
    would.
    """
    with Settings.from_environment().entered():
        _release(run, unit_key, method)


def _release(run: str, unit_key: str, method: str) -> None:
    for stage in STAGES[method]:
        for left in reversed(range((TASKS["charge"].retries or 0) + 1)):
            try:
                stage(run, unit_key)
                break
            except Exception as error:
                _mark("faults", secrets.token_hex(8), str(error))
                if not left:
                    raise


def in_threads(
    schedule: Path,
    environment: Mapping[str, str],
    twins: list[tuple[str, str, str]],
    mutate: Callable[[], None] | None,
) -> None:
    """All twins at once in this process; leaves with 1 if one of them cannot end."""
    enter(schedule, environment, mutate)
    failed, together = [], threading.Barrier(len(twins))

    def twin(arguments: tuple[str, str, str]) -> None:
        together.wait()
        try:
            release(*arguments)
        except Exception:  # noqa: BLE001 - told by the exit code
            failed.append(arguments)

    threads = [threading.Thread(target=twin, args=(arguments,)) for arguments in twins]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os._exit(bool(failed))  # no farewell: there is nothing to keep


def on_worker(
    schedule: Path,
    environment: Mapping[str, str],
    twin: tuple[str, str, str],
    mutate: Callable[[], None] | None,
) -> int:
    """One twin as a task of a cluster; gives the process that did it."""
    enter(schedule, environment, mutate)
    release(*twin)
    return os.getpid()
