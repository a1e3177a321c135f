"""Everything that is measured and tested before a release, over as many sittings as it takes:
`make release-check`.

    python -m lab.benchmarks.release_check [--list] [STEP …]      all that is missing, or the steps
    whose names begin so

A step is one command: the checks of a commit, some files of `make test-all`, one audit of
`make audit`, `make chaos`, one part of a topic of `make bench`. Its result, with commit, date and
machine, is a file of `.dpicl/release-check/`; what passed on this commit is not run again, and what
failed comes last. A sitting that is stopped or killed loses the step that was running. After every
step all figures stand on one page, `build/release-check.md`, which also says what is missing and
what is of another commit.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from lab.benchmarks.crash import matrix
from lab.benchmarks.figures import Part, name_of

ROOT = Path(__file__).parents[2]
STORE, PAGE = ROOT / ".dpicl" / "release-check", ROOT / "build" / "release-check.md"
WRITTEN = ("lab/benchmarks/speed/ratios.csv", "lab/architectures/results.json")
"""Files of the repository that steps write; all else must be as the commit has it."""
FILES_A_STEP, RUNS, RUNS_OF_THE_MACHINE, TRANSCRIPTS, SCHEDULES = 8, 1_000_000, 4000, 5000, 100
MOST_SECONDS = 4 * 3600
FIGURE = re.compile(
    r"^figure (?P<name>.+?): (?P<value>.*) \(goal (?P<goal>.*)\) (?P<verdict>ok|short)$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Step:
    """One command, run from the repository's root."""

    name: str
    command: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """What came of a step: `end` is the last line that it printed."""

    name: str
    passed: bool
    commit: str
    date: str
    machine: str
    seconds: float
    figures: tuple[tuple[str, str, str, str], ...]
    end: str


def topics() -> list[str]:
    """Modules of this folder, and packages, that end with `bench(PARTS`."""
    folder = Path(__file__).parent
    found = {path.stem: path for path in folder.glob("*.py")} | {
        path.parent.name: path for path in folder.glob("*/__main__.py")
    }
    return [
        name
        for name in sorted(found)
        if re.search(r"^ +bench\(PARTS", found[name].read_text("utf-8"), re.MULTILINE)
    ]


def parts_of(topic: str) -> Sequence[Part]:
    """The parts of a topic, by the program that measures it."""
    is_package = Path(__file__).with_name(topic).is_dir()
    return importlib.import_module(f"lab.benchmarks.{topic}{'.__main__' * is_package}").PARTS


def steps() -> list[Step]:
    """All, quick ones first within what belongs together; a part of two topics is measured once."""
    return [
        *(
            Step(f"check {name}", ("make", f"check-{name}"))
            for name in ("lint", "form", "types", "layers")
        ),
        *_audits(),
        Step(
            "chaos",
            (sys.executable, "-m", "lab.benchmarks.crash.matrix", "--schedules", str(SCHEDULES)),
        ),
        *_tests(),
        *_parts(),
    ]


def _audits() -> Iterator[Step]:
    from lab.audit import CASES

    program = str(Path(sys.executable).with_name("dpicl"))
    whole = (("transcripts", TRANSCRIPTS), ("end-to-end", RUNS_OF_THE_MACHINE))
    for name, runs in (*((name, RUNS) for name in CASES), *whole):
        yield Step(f"audit {name}", (program, "audit", name, "--runs", str(runs)))


def _tests() -> Iterator[Step]:
    """`make test-all`, a few files at a time."""
    folders = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"][
        "ini_options"
    ]["testpaths"]
    for folder in folders:
        files = sorted(
            path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("test_*.py")
        )
        groups = [
            files[start : start + FILES_A_STEP] for start in range(0, len(files), FILES_A_STEP)
        ]
        for number, group in enumerate(groups, 1):
            options = ("-q", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "-m", "")
            yield Step(
                f"{folder} {number} of {len(groups)}",
                (sys.executable, "-m", "pytest", *options, *group),
            )


def _parts() -> Iterator[Step]:
    seen: set[Part] = {matrix.measure}  # the chaos itself
    for topic in topics():
        parts = parts_of(topic)
        for part in parts:
            if part not in seen:
                seen.add(part)
                yield Step(
                    f"bench {topic} {name_of(part)}",
                    (sys.executable, "-m", f"lab.benchmarks.{topic}", name_of(part)),
                )


def commit_of(root: Path = ROOT) -> str:
    """The commit that is checked out; where files differ from it, it says so."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, check=True
        ).stdout.strip()

    changed = git("status", "--porcelain", "--", ".", *(f":(exclude){path}" for path in WRITTEN))
    return git("rev-parse", "--short=12", "HEAD") + "-changed" * bool(changed)


def machine() -> str:
    """What figures of time depend on."""
    found = re.search(
        r"^model name\s*: (.*)$",
        Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else "",
        re.MULTILINE,
    )
    return (
        f"{os.cpu_count()} cores of {found[1] if found else platform.machine()}, "
        f"{platform.system()}, Python {platform.python_version()}"
    )


class Store:
    """The last result of each step, a file each, which appears whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def log(self, step: Step) -> Path:
        """Where a step's output goes, while it runs too."""
        return self._folder / f"{re.sub(r'[^a-z0-9]+', '-', step.name.lower())}.log"

    def keep(self, step: Step, result: Result) -> None:
        """In place of the one before."""
        path = self.log(step).with_suffix(".json")
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(result), indent=1) + "\n", "utf-8")
        draft.replace(path)

    def of(self, step: Step) -> Result | None:
        """None where there is none."""
        path = self.log(step).with_suffix(".json")
        if not path.exists():
            return None
        stored = json.loads(path.read_text("utf-8"))
        return Result(**{**stored, "figures": tuple(tuple(figure) for figure in stored["figures"])})


def run(step: Step, log: Path, commit: str) -> Result:
    """A step to its end; its output stands in the log."""
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "thorough"}
    environment.pop("BENCH_SIZE", None)
    started = time.monotonic()
    with log.open("w+", encoding="utf-8") as output:
        try:
            done = subprocess.run(
                step.command,
                cwd=ROOT,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=MOST_SECONDS,
            )
            code: int | None = done.returncode
        except subprocess.TimeoutExpired:
            code = None
        output.seek(0)
        text = output.read()
    figures = tuple(
        (found["name"], found["value"], found["goal"], found["verdict"])
        for found in FIGURE.finditer(text)
    )
    end = (
        next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
        if code is not None
        else "did not end"
    )
    date, seconds = (
        datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        round(time.monotonic() - started, 1),
    )
    return Result(step.name, code == 0, commit, date, machine(), seconds, figures, end[:200])


def sitting(
    chosen: Sequence[Step],
    store: Store,
    commit: Callable[[], str] = commit_of,
    page: Callable[[], object] = lambda: None,
) -> bool:
    """Run what has not passed on this commit, what has failed last, and write the page after each;
    whether all have passed by then.
    """
    before = commit()
    known = {step: store.of(step) for step in chosen}
    here = {
        step: result
        for step, result in known.items()
        if result is not None and result.commit == before
    }
    waiting = [step for step in chosen if step not in here] + [
        step for step, result in here.items() if not result.passed
    ]
    print(f"{len(chosen)} steps, {len(chosen) - len(waiting)} have passed on {before}", flush=True)
    for step in waiting:
        print(f"{step.name} …", end=" ", flush=True)
        result = run(step, store.log(step), before)
        if commit() != before:
            print("the commit has changed meanwhile: this step counts for none")
            break
        store.keep(step, result)
        print(
            f"{'passed' if result.passed else 'FAILED'}, {result.seconds:.0f} s: {result.end}",
            flush=True,
        )
        page()
    page()
    return all(
        (found := store.of(step)) is not None and found.passed and found.commit == before
        for step in chosen
    )


def written_page(results: Mapping[Step, Result | None], commit: str) -> str:
    """Every figure with commit, date and machine, after what is missing, failed or of another
    commit.
    """
    known = [result for result in results.values() if result is not None]
    here = [result for result in known if result.commit == commit]
    groups = {
        "Missing": [step.name for step, result in results.items() if result is None],
        "Failed": [f"{result.name}: {result.end}" for result in here if not result.passed],
        "Of another commit": [
            f"{result.name}, {result.commit}" for result in known if result.commit != commit
        ],
    }
    lines = [f"# Figures of {commit}", ""]
    lines += [
        f"{len(here) - len(groups['Failed'])} of {len(results)} steps have passed on this commit.",
        "",
    ]
    for title, names in groups.items():
        lines += (
            [f"{title}: {len(names)}", "", *(f"- {_cell(name)}" for name in names), ""]
            if names
            else []
        )
    for heading in (
        "| step | figure | value | goal | | commit | date | machine |",
        "|" + "---|" * 8,
    ):
        lines.append(heading)
    for result in known:
        of_step = f"{result.commit} | {result.date} | {result.machine}"
        rows = result.figures or (
            (f"{result.seconds:.0f} s", result.end, "", "ok" if result.passed else "FAILED"),
        )
        lines += [
            f"| {result.name} | {' | '.join(map(_cell, figure))} | {of_step} |" for figure in rows
        ]
    return "\n".join([*lines, ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """What is missing, or the steps that are named."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.benchmarks.release_check", description=__doc__.partition("\n")[0]
    )
    parser.add_argument(
        "names", nargs="*", metavar="STEP", help="beginnings of names of steps; all by default"
    )
    parser.add_argument("--list", action="store_true", help="write the page and run nothing")
    asked, every, store = parser.parse_args(), steps(), Store(STORE)
    chosen = [step for step in every if not asked.names or step.name.startswith(tuple(asked.names))]
    commit = commit_of()

    def page() -> None:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(written_page({step: store.of(step) for step in every}, commit), "utf-8")

    if commit.endswith("-changed") and not asked.list:
        parser.error(
            "files differ from the commit, so that no figure would be of it; commit or stash them "
            "first"
        )
    passed = True
    if asked.list:
        page()
        print("\n".join(step.name for step in chosen))
    else:
        passed = sitting(chosen, store, page=page)
    print(f"written: {PAGE.relative_to(ROOT)}")
    sys.exit(not passed)


if __name__ == "__main__":
    main()
