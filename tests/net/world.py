"""The made-up world that scenarios run in, and what is noted of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.net.contracts import state_moved, write_contracts
from tests.net.data import move_shop, write_data, write_more_nights
from tests.net.place import Driver, Place, accounts, driver, noted
from tests.net.postgres import running_postgres
from tests.net.scenarios import ON_POSTGRES, SCENARIOS


def _moved(place: Place) -> None:
    """The shop's rows lie elsewhere, and its contract says where they lay."""
    move_shop(place.data)
    state_moved(place.data.parent)


def _edited(place: Place) -> None:
    """Somebody changes a released file."""
    with (place.root / "rows.csv").open("a") as file:
        file.write("1,2,3\n")


MEANWHILE: Mapping[str, Callable[[Place], None]] = {
    "later": lambda place: write_more_nights(place.data),
    "moved": _moved,
    "edited": _edited,
}
"""What happens between commands, by the lines that say so."""


@dataclass(frozen=True)
class World:
    """A folder with rows and contracts, and a driver of commands."""

    root: Path
    driver: Driver

    def place(self, name: str) -> Place:
        """An installation whose state begins empty, with rows of its own: some arrive later."""
        root = self.root / name.replace(" ", "-")
        (root / "work").mkdir(parents=True)
        write_data(root / "data")
        write_contracts(root)
        return Place(root / "work", root / "data", self.root / "cache", self.driver)

    def observed(self, name: str) -> dict[str, Any]:
        """Of every line its exit code and digest, and of every account its charges."""
        place = self.place(name)
        if name != ON_POSTGRES:
            return self._observed(name, place)
        with running_postgres(place.data / "shop.csv") as variables:
            return self._observed(name, replace(place, extra=tuple(variables.items())))

    def _observed(self, name: str, place: Place) -> dict[str, Any]:
        steps: dict[str, Any] = {}
        for line in SCENARIOS[name]:
            if line in MEANWHILE:
                MEANWHILE[line](place)
                continue
            typed = line
            for word, path in place.words.items():
                typed = typed.replace(f"{word}/", f"{path}/")
            again = sum(known.rstrip("+") == line for known in steps)
            steps[line + "+" * again] = noted(place, typed)
        return {"steps": steps, "accounts": accounts(place)}


@contextmanager
def world(root: Path) -> Iterator[World]:
    """Its driver is ended with the block."""
    with driver() as driving:
        yield World(root, driving)
