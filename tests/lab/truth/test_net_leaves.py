"""The net: what leaves is on a closed list, which is also a page; whatever is not on it is seen,
whatever kind of thing it is.
"""

from __future__ import annotations

import logging
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dpicl.home.settings import Settings
from dpicl.methods import METHODS
from dpicl.runs.run_folder import read_plan
from lab.audit.end_to_end.borders import BATCH, numbers, values
from lab.audit.end_to_end.claims import apart
from lab.audit.end_to_end.commands import Command, ask, captured, protect, run, synth
from lab.audit.end_to_end.leaves import LEAVES, MODE, OUT_FILES, leaf_of, unlisted
from lab.audit.end_to_end.observation import Observation, observed, without_nonces
from lab.audit.end_to_end.stand_ins import ReplayedDraws
from lab.audit.end_to_end.suite import BORDERS, CLAIMS, QUERY
from lab.audit.end_to_end.world import NAME, Declaration, World, base_rows
from tools.reference import PAGES

RUN = "home/runs/audited"
UNIT = f"{RUN}/units/gdp_tabicl__shop__seed0"


# Pages and code


def test_the_page_has_every_entry_and_no_other() -> None:
    rows = re.findall(
        r"^\| `([^`]+)` \| (.+) \| (.+) \|$", (PAGES / "leaves.md").read_text(), re.MULTILINE
    )
    assert [(name, what) for name, what, _ in rows] == [
        (leaf.pattern, leaf.what) for leaf in LEAVES
    ]
    for (_, _, price), leaf in zip(rows, LEAVES, strict=True):
        assert price == leaf.price + ("" if leaf.is_compared else "; not compared")


def test_every_entry_has_a_price_or_a_reason() -> None:
    starts = ("paid for by ", "public because ", "not public: ")
    assert [leaf.pattern for leaf in LEAVES if not leaf.price.startswith(starts)] == []
    assert [
        leaf.pattern for leaf in LEAVES if leaf.price.startswith("not public") != leaf.is_hidden
    ] == []
    assert len({leaf.pattern for leaf in LEAVES}) == len(LEAVES)


def test_artefacts_of_every_method_are_listed_as_paid_for() -> None:
    for method in METHODS.values():
        leaf = leaf_of(f"home/runs/r/units/{method.name}__shop__seed0/{method.artefact}")
        assert leaf is not None and leaf.price.startswith("paid for"), method.name


@pytest.mark.parametrize(
    ("name", "is_listed"),
    [
        ("exit code", True),
        ("exit codes", False),
        ("artifact 0", True),
        ("artifact of a row", False),
        ("budget shop", True),
        ("budget SHOP", False),
        ("out/demonstrations.jsonl", True),
        ("out/demonstrations.jsonl.bak", False),
        ("out/demonstrations.jsonl.certificate.json", True),
        (f"{RUN}/report.html", True),
        (f"{RUN}/report.html.1", False),
        (f"{RUN}/deeper/report.html", False),
        (f"{UNIT}/scored/0000.npz", True),
        (f"{UNIT}/scored/north.npz", False),
        (f"{RUN}/units/north/results.json", False),
        (f"{RUN}/timings/gdp_tabicl__shop__seed0/charge.json", True),
        (f"{RUN}/timings/gdp_tabicl__shop__seed0/aggregate.json", False),
        (f"{RUN}/timings/shop/ingest.json", False),
        (f"{RUN}/validation/shop.json", False),
        (f"home/released/shop/{'a' * 64}", True),
        (f"home/released/shop/{'a' * 63}", False),
        ("home/private/anything/at/all", True),
        ("home/private", False),
        ("home/counts.json", False),
        ("tmp/rows", False),
        ("data/shop.csv.bak", False),
    ],
)
def test_names_are_on_the_list_or_not(name: str, is_listed: bool) -> None:
    assert (leaf_of(name) is not None) == is_listed


# What a command leaves that it should not


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """In which a run was made."""
    declaration = Declaration(measured="public queries")
    with apart(declaration) as world:
        world.put(base_rows(declaration), "csv")
        assert run("gdp_tabicl")().code == 0
        yield world


@contextmanager
def as_it_was(world: World) -> Iterator[None]:
    """At the end nothing is there that was not, and all modes are what they were."""
    modes = {path: path.lstat().st_mode for path in world.root.rglob("*")}
    yield
    for path in sorted(set(world.root.rglob("*")) - modes.keys(), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    for path, mode in modes.items():
        path.chmod(mode)


def written(name: str, mode: int = 0o644) -> Callable[[World], object]:
    def write(world: World) -> None:
        path = world.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
        path.chmod(mode)

    return write


def loosened(name: str) -> Callable[[World], object]:
    return lambda world: (world.root / name).chmod(0o755 if (world.root / name).is_dir() else 0o644)


UNLISTED: dict[str, tuple[Callable[[World], object], str]] = {
    "counts beside the report": (written(f"{RUN}/counts.json"), f"{RUN}/counts.json"),
    "a hidden file": (written(f"{RUN}/.rows"), f"{RUN}/.rows"),
    "a draft": (written(f"{UNIT}/results.json.draft"), f"{UNIT}/results.json.draft"),
    "a file in a folder of runs": (written("home/runs/notes.txt"), "home/runs/notes.txt"),
    "a file in the state home": (written("home/cap.txt", 0o600), "home/cap.txt"),
    "a release of no name": (
        written("home/released/shop/newest", 0o600),
        "home/released/shop/newest",
    ),
    "a file beside what was asked for": (
        written(f"out/{OUT_FILES[0]}.part"),
        f"out/{OUT_FILES[0]}.part",
    ),
    "a temporary file": (written("tmp/dpicl-123/rows.arrow"), "tmp/dpicl-123/rows.arrow"),
    "a file beside the rows": (written("data/shop.csv.idx"), "data/shop.csv.idx"),
    "a file beside the contract": (
        written("contracts/shop.stats.json"),
        "contracts/shop.stats.json",
    ),
    "a file where a command works": (written("core"), "core"),
    "a file of the user's": (written("user/dpicl/rows.json"), "user/dpicl/rows.json"),
    "an empty folder with a name": (
        lambda world: (world.root / UNIT / "north").mkdir(),
        f"{MODE}{UNIT}/north",
    ),
    "a link": (
        lambda world: (world.root / RUN / "rows").symlink_to(world.data / f"{NAME}.csv"),
        f"{RUN}/rows",
    ),
    "times of what reads rows": (
        written(f"{RUN}/timings/{NAME}/validate.json"),
        f"{RUN}/timings/{NAME}/validate.json",
    ),
    "a private file that others may read": (
        written("home/private/x/rows.arrow"),
        f"{MODE}home/private/x/rows.arrow",
    ),
    "a private folder that others may enter": (loosened("home/private"), f"{MODE}home/private"),
    "a key that others may read": (loosened("home/keys/ledger.key"), f"{MODE}home/keys/ledger.key"),
    "a ledger that others may read": (loosened("home/ledger.db"), f"{MODE}home/ledger.db"),
    "a receipt that others may read": (
        loosened("home/released/newest.json"),
        f"{MODE}home/released/newest.json",
    ),
}


@pytest.mark.quick(
    "a file of the user's",
    "a key that others may read",
    "a link",
    "a temporary file",
    "an empty folder with a name",
    "counts beside the report",
)
@pytest.mark.parametrize("name", UNLISTED)
def test_whatever_is_on_no_list_is_seen(world: World, name: str) -> None:
    more, where = UNLISTED[name]
    with as_it_was(world):
        seen = observed(world, lambda: captured(lambda: more(world)))
    assert where in [sentence.partition(": ")[0] for sentence in unlisted(seen.seen)]
    assert [sentence for sentence in seen.differing(seen) if sentence.startswith(f"{where}: ")], (
        "a claim sees it, though both worlds have it"
    )


def test_nothing_else_is(world: World) -> None:
    with as_it_was(world):
        assert unlisted(observed(world, lambda: captured(lambda: None)).seen) == []


@pytest.mark.parametrize(
    "stream", ["artifact", "trace", "stdout of a worker", "event", "mode of nothing"]
)
def test_a_stream_that_nobody_listed_is_seen(stream: str) -> None:
    plain = Observation({"exit code": b"0", "stderr": b"", stream: b"0o40755"})
    assert plain.differing(plain) == [f"{stream}: is not on the list of what leaves"]


SAID: dict[str, tuple[Callable[[], object], str]] = {
    "printed": (lambda: print("40", file=sys.stdout), "stdout"),
    "an error": (lambda: print("40", file=sys.stderr), "stderr"),
    "logged": (lambda: logging.getLogger("dpicl.tasks").info("40"), "log"),
    "warned of": (
        lambda: warnings.warn("overflow in 40", RuntimeWarning, stacklevel=1),
        "warnings",
    ),
    "a library's warning, again": (
        lambda: [warnings.warn("40", UserWarning, stacklevel=1) for _ in range(2)],
        "warnings",
    ),
    "a name": (lambda: Path(tempfile.gettempdir(), "40").touch(), "tmp/40"),
}


@pytest.mark.quick("a library's warning, again", "a name", "logged")
@pytest.mark.parametrize("name", SAID)
def test_whatever_is_said_is_compared(world: World, name: str) -> None:
    work, where = SAID[name]
    shown = []
    for more in (lambda: None, work):
        with as_it_was(world):
            shown.append(observed(world, lambda more=more: captured(more)))  # type: ignore[misc]
    assert any(sentence.startswith(f"{where}: ") for sentence in shown[0].differing(shown[1]))


def test_stages_and_the_ledger_are_seen(world: World) -> None:
    world.forget()
    seen = observed(world, run("gdp_tabicl")).seen
    done = [line.split(" ")[0] for line in seen["tasks"].decode().splitlines()]
    assert done[:4] == ["probe", "ingest", "validate", "split"] and done[-2:] == [
        "collect",
        "report",
    ]
    assert b'INSERT INTO "records"' in seen["ledger"] and b"TIME" in seen["ledger"]
    assert unlisted(seen) == []


# Borders


def test_border_worlds_are_at_the_borders() -> None:
    sizes = {len(rows) for rows in numbers(Declaration()).values()}
    assert sizes >= {0, 1, 2, BATCH, BATCH + 1, 2 * BATCH, 2 * BATCH + 1}
    mended = values(Declaration(mends=True))
    assert {"above", "below", "a gap", "no such city", "no such label"} < mended.keys()
    assert all(name in CLAIMS for name in BORDERS) and len(BORDERS) > 20


@pytest.mark.parametrize(
    ("declaration", "command"),
    [
        (Declaration(measured="public queries"), run("gdp_tabicl")),
        (Declaration(), protect("mst_tabicl")),
        (Declaration(), synth("mst_tabicl", more=("--card",))),
        (Declaration("texts"), ask(QUERY)),
        (Declaration("query"), protect("gdp_tabicl")),
        (Declaration("texts"), run("few_shot_generation")),
    ],
)
def test_all_that_these_leave_is_on_the_list(declaration: Declaration, command: Command) -> None:
    with apart(declaration) as world:
        world.put(base_rows(declaration), declaration.kind)
        seen = observed(world, command)
    assert seen.code == 0 and unlisted(seen.seen) == []


# The orchestrator


def shown(
    rows: list[Any], declaration: Declaration, world: World, replay: ReplayedDraws
) -> Observation:
    """A run, and all that its tasks would give an orchestrator to store."""
    from tasks import artifacts as pages

    world.forget()
    world.put(rows, declaration.kind, ("spent", "city", "member"))
    artifacts, events = list[Any](), list[Any]()
    with replay.recorded(), pytest.MonkeyPatch.context() as patch:
        seen = observed(world, run("gdp_tabicl"))
        for name in ("create_table_artifact", "create_markdown_artifact"):
            patch.setattr(pages, name, lambda **artifact: artifacts.append(artifact))
        patch.setattr(pages, "emit_event", lambda *event, **more: events.append((event, more)))
        folder = Settings.current().runs / "audited"
        (unit,) = read_plan(folder).units
        for task, *more in (
            ("checks", NAME),
            ("release", unit),
            ("results",),
            ("figures",),
            ("budget",),
        ):
            getattr(pages, f"show_{task}").fn(str(folder), *more)
    kinds = {"artifact": artifacts, "event": events}
    stored = {
        f"{kind} {number}": without_nonces(repr(one).encode())
        for kind, some in kinds.items()
        for number, one in enumerate(some)
    }
    return Observation({**seen.seen, **stored})


def test_what_an_orchestrator_stores_is_listed_and_the_same() -> None:
    declaration, replay = Declaration(measured="public queries"), ReplayedDraws()
    rows = base_rows(declaration)
    odd = [{**rows[0], "spent": 104}, *rows[1:]]
    with apart(declaration) as world:
        first, *others = [shown(some, declaration, world, replay) for some in (rows, odd, [])]
    assert sum(name.startswith("artifact") for name in first.seen) >= 4
    assert [first.differing(other) for other in others] == [[]] * 2
