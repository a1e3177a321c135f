"""Where things are, from the environment.

DPICL_HOME        state: runs, private files, caches, models        default ./.dpicl
DPICL_DATA        folder of data files that contracts name          default none
DPICL_CONTRACTS   folder of contracts                               default ./data_contracts, else the packaged ones
DPICL_PIPELINES   pipelines.yaml                                    default ./pipelines.yaml, else the packaged one
DPICL_POWER_WATTS power that running time is turned into energy with  default 100
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

import dpicl
from dpicl.contract import Contract, load_contract
from dpicl.errors import ParameterError

_REPOSITORY = Path(dpicl.__file__).parent.parent
_PACKAGED = Path(dpicl.__file__).parent / "resources"


def _resource(variable: str, name: str) -> Path:
    """The user's file or folder, the one in the working directory, or the one we ship."""
    if os.environ.get(variable):
        return Path(os.environ[variable]).resolve()
    candidates = (Path.cwd() / name, _REPOSITORY / name, _PACKAGED / name)
    return next((path for path in candidates if path.exists()), candidates[-1])


def power_watts() -> float:
    """Power of the machine, to turn time into energy.

    Raises:
        ParameterError: DPICL_POWER_WATTS is no positive number.
    """
    text = os.environ.get("DPICL_POWER_WATTS") or "100"
    try:
        watts = float(text)
    except ValueError:
        watts = math.nan
    if not 0 < watts < math.inf:
        raise ParameterError("DPICL_POWER_WATTS", repr(text[:40]), "a positive number of watts")
    return watts


@dataclass(frozen=True)
class Settings:
    """Folders of one installation."""

    home: Path
    data: Path | None
    contracts: Path
    pipelines: Path

    @staticmethod
    def from_environment() -> Settings:
        """Read the environment; creates nothing."""
        data = os.environ.get("DPICL_DATA")
        return Settings(
            Path(os.environ.get("DPICL_HOME") or ".dpicl").resolve(),
            Path(data).resolve() if data else None,
            _resource("DPICL_CONTRACTS", "data_contracts"),
            _resource("DPICL_PIPELINES", "pipelines.yaml"),
        )

    @property
    def cache(self) -> Path:
        """Downloads, checked against their digests."""
        return self.home / "cache"

    @property
    def models(self) -> Path:
        """Models made on this machine."""
        return self.home / "models"

    def private(self, *parts: str) -> Path:
        """A folder of private files below `private/`; it and those above are for their owner only."""
        folder = self.home / "private"
        for part in ("", *parts):
            folder = folder / part
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)
        return folder

    def contract(self, name: str) -> Contract:
        """The contract of a data set, by its plain name.

        Raises:
            ParameterError: there is no such contract; the message lists the names.
            DeclarationError: the file breaks a rule.
        """
        known = self.contract_names()
        if name not in known:
            raise ParameterError("dataset", repr(name[:60]), "one of " + ", ".join(known))
        return load_contract(self.contracts / f"{name}.yaml")

    def contract_names(self) -> list[str]:
        """Names of all contracts."""
        return sorted(path.stem for path in self.contracts.glob("*.yaml"))
