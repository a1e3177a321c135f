"""A new user's path, timed: from a clone of the last commit to demonstrations of a table of their
own.

    setup      git clone, `make setup` with this machine's Python and without what pip has kept
    after it   `contract new` on wines that come with scikit-learn, `contract check`, `protect`, as
               docs/how-to/own-table.md has it

What a user reads, and writes into the contract between two commands, takes no time here.
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import sklearn.datasets

from dpicl.contract.draft import MARK
from lab.benchmarks.figures import Figures, sized

REPOSITORY = Path(__file__).parents[3]
WINES = Path(sklearn.datasets.__file__).parent / "data" / "wine_data.csv"
KNOWN = {
    # per cent by volume: from what may be called wine to what needs no fortifying
    "alcohol": (
        7,
        17,
    ),
    "malic_acid": (0, 10),  # g/l
    "ash": (0, 5),  # g/l
    "alcalinity_of_ash": (0, 50),
    "magnesium": (30, 250),  # mg/l
    "total_phenols": (0, 6),
    "flavanoids": (0, 6),
    "nonflavanoid_phenols": (0, 2),
    "proanthocyanins": (0, 5),
    "color_intensity": (0, 20),
    "hue": (0, 2),
    "od280_od315": (0, 5),
    "proline": (0, 3000),  # mg/l
}
"""What somebody knows of red wine who has not seen these: bounds that analyses report between."""


@dataclass
class Visitor:
    """Somebody who types commands into a shell; nothing of ours is in their environment."""

    folder: Path
    environment: dict[str, str]
    taken: list[tuple[str, float]] = field(default_factory=list)

    def types(self, line: str) -> None:
        """Run a command to its end, and tell how long it took."""
        started = time.perf_counter()
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        self._tell(line, time.perf_counter() - started)
        assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        print("".join(f"             {said}\n" for said in done.stdout.splitlines()[-6:]), end="")

    def exports(self, name: str, value: str) -> None:
        """Set a variable for what is typed from now on."""
        self.environment[name] = value
        self._tell(f"export {name}={value}", 0.0)

    def _tell(self, line: str, seconds: float) -> None:
        self.taken.append((line, seconds))
        print(f"{seconds:8.1f} s  $ {line}", flush=True)


def new_visitor(folder: Path) -> Visitor:
    """In an empty folder, with the machine's own tools, and nothing installed."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DPICL_", "PREFECT_", "DASK_", "PYTHON", "VIRTUAL_ENV"))
    }
    return Visitor(folder, {**kept, "PIP_NO_CACHE_DIR": "1"})


def write_table(path: Path) -> None:
    """The wines as a user would have them: a header, and whether each is of the first of three
    cultivars.
    """
    path.parent.mkdir()
    with (
        WINES.open(encoding="utf-8") as source,
        path.open("w", encoding="utf-8", newline="") as file,
    ):
        _, *wines = csv.reader(source)
        rows = csv.writer(file)
        rows.writerow([*KNOWN, "barolo"])
        rows.writerows([*wine[:-1], "yes" if wine[-1] == "0" else "no"] for wine in wines)


def from_knowledge(draft: str) -> str:
    """A draft with public knowledge in the place of what was looked up, as its lines ask for."""
    lines = [
        _known(line) if line.endswith(MARK) else line
        for line in draft.splitlines()
        if line != "draft: true"
    ]
    return "\n".join([*lines[2:], ""])  # the first two say that it is a draft


def _known(line: str) -> str:
    """One line of a draft: bounds of a column."""
    line = line.removesuffix(MARK).rstrip()
    name = line.strip().partition(":")[0]
    if name not in KNOWN:
        return line  # the label's: yes and no
    low, high = KNOWN[name]
    return re.sub(r"bounds: \[.*?\]", f"bounds: [{low}, {high}]", line)


def new_user(figures: Figures) -> None:
    """The whole path, in a folder that is gone after it."""
    with tempfile.TemporaryDirectory() as folder:
        visitor = new_visitor(Path(folder))
        visitor.types(f"git clone --quiet {REPOSITORY} dpicl")
        visitor.folder = Path(folder) / "dpicl"
        visitor.types(
            sized(f"make setup PYTHON={sys.base_prefix}/bin/python3", f"ln -s {sys.prefix} .venv")
        )
        setup = len(visitor.taken)
        protect_wines(visitor)
    for name, part, goal in (
        ("of-setup", visitor.taken[:setup], 10),
        ("after-setup", visitor.taken[setup:], 2),
    ):
        figures.at_most(
            f"new-user-minutes-{name}", sum(seconds for _, seconds in part) / 60, goal, " min"
        )
    figures.at_most("new-user-commands", len(visitor.taken), 6)


def protect_wines(visitor: Visitor) -> None:
    """What follows the setup, on a table that is not in the repository."""
    write_table(visitor.folder / "data" / "wines.csv")
    visitor.exports("DPICL_DATA", str(visitor.folder / "data"))
    visitor.types(
        ".venv/bin/dpicl contract new wines.csv --label barolo --positive yes --epsilon 2"
    )
    contract = visitor.folder / "data_contracts" / "wines.yaml"
    contract.write_text(from_knowledge(contract.read_text("utf-8")), "utf-8")
    visitor.types(".venv/bin/dpicl contract check wines")
    visitor.types(".venv/bin/dpicl protect wines --epsilon 1 --shots 2 --out demos.jsonl")
    demonstrations = (visitor.folder / "demos.jsonl").read_text("utf-8").splitlines()
    assert len(demonstrations) == 2, "two demonstrations were asked for"


def main() -> None:
    """Measure this path alone."""
    figures = Figures()
    new_user(figures)
    figures.finish()


if __name__ == "__main__":
    main()
