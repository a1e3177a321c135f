"""Every topic of `make bench` runs: each in its smoke size, whole, as a program of its own; and
none is left out of the list.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lab.benchmarks.figures import name_of
from lab.benchmarks.release_check import FIGURE, parts_of, topics

ROOT = Path(__file__).parents[3]
WITHOUT_FIGURES = {
    "peers": "no peers are installed",
    "scale_out": "scale-out is not measured: ",
}
"""Topics that need what may not be here, and the sentence that says so."""
BROKEN = {
    "raises": 'def part(figures):\n    figures.exactly("seen", 0, 0)\n    raise AttributeError("shots")',  # noqa: E501
    "raises-before-a-figure": "def part(figures):\n    raise KeyError(1)",
    "names-what-is-gone": "from dpicl.methods import nothing_of_this_name\ndef part(figures): pass",
    "prints-no-figure": "def part(figures):\n    pass",
    "leaves-early": "import sys\ndef part(figures):\n    sys.exit(3)",
}


def smoke(command: list[str], instead: str | None = None) -> None:
    """Asserts that a topic ends without an exception and prints its figures, or `instead` of them
    why it has none.
    """
    environment = {**os.environ, "BENCH_SIZE": "smoke"}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, (
        done.stdout[-2000:] + done.stderr[-4000:]
    )
    assert FIGURE.search(done.stdout) or (instead and instead in done.stdout), done.stdout[-2000:]


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("topic", topics())
def test_a_topic_runs_to_its_end(topic: str) -> None:
    smoke([sys.executable, "-m", f"lab.benchmarks.{topic}"], WITHOUT_FIGURES.get(topic))


@pytest.mark.parametrize("fault", BROKEN)
def test_a_mutant_topic_is_caught(fault: str, tmp_path: Path) -> None:
    program = tmp_path / "topic.py"
    program.write_text(
        f"{BROKEN[fault]}\nfrom lab.benchmarks.figures import bench\nbench((part,))\n"
    )
    command = [
        sys.executable,
        "-c",
        (
            f"import runpy, sys; sys.path.insert(0, '.'); sys.argv = ['topic']; "
            f"runpy.run_path({str(program)!r})"
        ),
    ]
    with pytest.raises(AssertionError):
        smoke(command)


def test_every_program_of_the_folder_is_a_topic_but_helpers() -> None:
    """A module that is new runs with the others."""
    modules = {
        path.stem: path.read_text("utf-8") for path in (ROOT / "lab" / "benchmarks").glob("*.py")
    }
    modules |= {
        path.parent.name: path.read_text("utf-8")
        for path in (ROOT / "lab" / "benchmarks").glob("*/__main__.py")
    }
    programs = {
        name
        for name, text in modules.items()
        if re.search(r'^if __name__ == "__main__":', text, re.MULTILINE)
    }
    assert programs - set(topics()) == {"release_check", "real_model"}, (
        "the second makes a page of runs"
    )
    assert {"machine", "models", "truth", "papers", "peers", "series", "speed"} <= set(topics())


def test_every_topic_that_a_page_names_is_one() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    named = {
        topic.replace("-", "_")
        for page in pages
        for topic in re.findall(r"bench TOPIC=([a-z-]+)", page.read_text("utf-8"))
    }
    assert len(named) > 4 and not named - set(topics())


@pytest.mark.exhaustive  # imports every topic
@pytest.mark.parametrize("topic", topics())
def test_parts_have_names_of_their_own(topic: str) -> None:
    names = [name_of(part) for part in parts_of(topic)]
    assert len(names) == len(set(names)) and not any(name.startswith("_") for name in names)


def test_a_part_that_is_none_is_refused_with_those_that_are() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lab.benchmarks.house", "nothing"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (
        done.returncode == 1
        and "nothing: no part; expected some of count_house, walk, " in done.stderr
    )


@pytest.mark.parametrize(("size", "code"), [("", 1), ("whole", 1), ("smoke", 0)])
def test_a_short_figure_fails_the_whole_bench_and_no_smoke(size: str, code: int) -> None:
    program = (
        "from lab.benchmarks.figures import bench\ndef part(figures): figures.at_least('speed', 1, "
        "2)\nbench((part,))"
    )
    environment = {**os.environ, "BENCH_SIZE": size}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "figure speed: 1 (goal >= 2) short" in done.stdout and done.returncode == code, (
        done.stderr
    )
