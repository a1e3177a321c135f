"""What pip installs: packages and megabytes on the disk of a plain installation, and of one with an
extra, each into a fresh environment; and how long README's first block takes in one.

    python -m lab.benchmarks.stranger_parts.sizes --extras local,pipeline    the extras too, which
    are gigabytes where torch comes with CUDA
    python -m lab.benchmarks.stranger_parts.sizes --demo                     a clone's `make demo`
    from nothing to its report, too

A package counts with the files that its wheel brings; bytecode, which pip and Python write and
which may be deleted, is a line of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from lab.benchmarks.figures import Figures, children, sized
from lab.benchmarks.installation.new_user import REPOSITORY, new_visitor

PACKAGES, MEGABYTES, DEMO_MINUTES, FIRST_SECONDS = 40, 550, 3.0, 60
_PYTHON = f"{sys.base_prefix}/bin/python3"
_COUNT = """
import importlib.metadata, json, pathlib, site
ours, found = 0, []
for package in importlib.metadata.distributions():
    if package.metadata["Name"] in ("pip", "setuptools"):  # of the environment
        continue
    found.append(package.metadata["Name"])
    ours += sum(file.locate().stat().st_size for file in package.files or () if file.suffix != ".pyc" and file.locate().exists())
compiled = sum(file.stat().st_size for file in pathlib.Path(site.getsitepackages()[0]).rglob("*.pyc"))
print(json.dumps([sorted(found), ours / 1e6, compiled / 1e6]))
"""  # noqa: E501


def installed(wheel: Path, extra: str, folder: Path) -> tuple[int, float]:
    """Packages and megabytes of the wheel with an extra, or without one."""
    subprocess.run([_PYTHON, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    subprocess.run(
        [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            *sized((), ("--no-deps",)),
            f"{wheel}[{extra}]" if extra else str(wheel),
        ],
        check=True,
    )
    packages, own, compiled = json.loads(
        subprocess.run([python, "-c", _COUNT], capture_output=True, text=True, check=True).stdout
    )
    print(
        f"{extra or 'plain'}: {len(packages)} packages, {own:.0f} MB, and {compiled:.0f} MB of "
        f"bytecode\n  {' '.join(packages)}",
        flush=True,
    )
    return len(packages), own


def measure(figures: Figures, extras: Sequence[str] = (), *, demo: bool = False) -> None:
    """The plain installation against its goals; these extras are printed."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", scratch],
            cwd=REPOSITORY,
            check=True,
        )
        (wheel,) = folder.glob("*.whl")
        packages, megabytes = installed(wheel, "", folder / "plain")
        figures.at_most("plain-installation-packages", packages, PACKAGES)
        figures.at_most("plain-installation-megabytes", megabytes, MEGABYTES, " MB")
        for extra in ("plot", *extras):
            installed(wheel, extra, folder / extra)
        if sized(True, False):  # else packages are not installed
            seconds = _first_release(folder / "plot" / "bin" / "python", folder)
            figures.at_most("installed-to-first-release-seconds", seconds, FIRST_SECONDS, " s")
    if demo:
        _demo(figures)


def _first_release(python: Path, scratch: Path) -> float:
    """README's first block in an empty folder, in a new process."""
    readme = (REPOSITORY / "README.md").read_text("utf-8")
    block = readme.partition("```python\n")[2].partition("```")[0]
    (empty := scratch / "empty").mkdir()
    homes = {"XDG_STATE_HOME": str(scratch), "XDG_CONFIG_HOME": str(scratch)}
    environment = new_visitor(empty).environment | homes
    started = time.perf_counter()
    subprocess.run([python, "-c", block], cwd=empty, env=environment, check=True)
    return time.perf_counter() - started


def _demo(figures: Figures) -> None:
    """A clone of the last commit; what pip has kept is not used. The processors' time does not
    depend on what else the machine does.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        visitor = new_visitor(Path(scratch))
        visitor.types(f"git clone --quiet {REPOSITORY} dpicl")
        visitor.folder /= "dpicl"
        before, started = children(), time.perf_counter()
        visitor.types(f"make .venv/.ready-to-run PYTHON={_PYTHON}")
        between = children()
        visitor.types("make demo")
        minutes, after = (time.perf_counter() - started) / 60, children()
        print(
            f"processors: {between - before:.0f} s for the installation, {after - between:.0f} s "
            f"for the run"
        )
    figures.at_most("fresh-machine-to-report-minutes", minutes, DEMO_MINUTES, " min")


def main() -> None:
    """Measure this part alone."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--extras", default="")
    parser.add_argument("--demo", action="store_true")
    chosen, figures = parser.parse_args(), Figures()
    measure(figures, [extra for extra in chosen.extras.split(",") if extra], demo=chosen.demo)
    figures.finish()


if __name__ == "__main__":
    main()
