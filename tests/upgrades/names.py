"""What earlier releases are found again by: digests of the shipped contracts, and ids of releases
of fixed data under a fixed key.

`python -m tests.upgrades.names` writes data/names.json anew, for a change that is meant.
"""

from __future__ import annotations

import json
from pathlib import Path

from dpicl.contract import Contract, TextContract, load_contract
from dpicl.contract.load import contract_digest, edition, edition_names
from dpicl.contract.periods import ONCE
from dpicl.ledger import release_id
from dpicl.methods import METHODS, Options, grid, unit_of
from dpicl.release.names import ReleaseFacts, account_of, public_facts
from tests.direct import point

ROOT = Path(__file__).resolve().parents[2]
STORED = Path(__file__).parent / "data" / "names.json"
KEY = bytes(range(32))
UNITS = {
    "ldp_tabicl": "breast_cancer",
    "gdp_tabicl": "breast_cancer",
    "mst_tabicl": "breast_cancer",
    "few_shot_generation": "docstrings",
    "dp_icl": "docstrings",
}
"""A data set that each method is at home on."""


def contracts() -> dict[str, Contract | TextContract]:
    """The shipped contracts by name; of a published set of texts the first slice, which was all
    that there was before.
    """
    stated = {
        path.stem: load_contract(path) for path in sorted((ROOT / "data_contracts").rglob("*.yaml"))
    }
    return {name: _as_before(contract) for name, contract in stated.items()}


def _as_before(contract: Contract | TextContract) -> Contract | TextContract:
    is_published = isinstance(contract, TextContract) and contract.source.published
    return edition(contract, edition_names(contract)[1]) if is_published else contract


def names() -> dict[str, dict[str, str]]:
    """Digest by contract, and id by release."""
    known = contracts()
    releases: dict[str, str] = {}
    for method, dataset in UNITS.items():
        releases |= _releases(method, known[dataset])
    return {
        "contracts": {name: contract_digest(contract) for name, contract in known.items()},
        "releases": releases,
    }


def _releases(method: str, contract: Contract | TextContract) -> dict[str, str]:
    """As `dpicl.release.releases.named_releases` names them in a new installation, made once, for a
    writer called `writer`.
    """
    unit = unit_of(
        method,
        contract.name,
        seed=0,
        epsilons=(1.0, 5.0),
        shots=(2,),
        sampling_rates=(),
        baselines=False,
        options=Options(),
    )
    account = account_of(contract, method)
    return {
        f"{contract.name} {method} {cell.key}": release_id(
            KEY,
            public_facts(contract, method, point(unit, cell), ReleaseFacts(writer="writer")),
            account=account.name,
            neighbours=account.neighbours,
            period=ONCE,
        )
        for cell in grid.prices(METHODS[unit.method], contract, unit)
    }


if __name__ == "__main__":
    STORED.write_text(json.dumps(names(), indent=1, sort_keys=True) + "\n")
