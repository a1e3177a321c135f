"""What the methods share: what a cell costs, what is refused, and the rows of results.

Guarantee   none spent: works on released values and metrics only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np

from dpicl.accounting.guarantee import Guarantee, Neighbours, to_person, to_replace_one
from dpicl.contract.declared import Declared
from dpicl.contract.models import Contract
from dpicl.errors import PrivacyError
from dpicl.evaluation import Metrics, Result
from dpicl.pipeline import Cell, Unit, wired
from dpicl.randomness import Draws

ZERO_SHOT = Cell("zero-shot", shots=0)
MAJORITY = Cell("majority")


@dataclass(frozen=True)
class Cost:
    """What one cell's release costs: as drawn, and after amplification by subsampling."""

    nominal: Guarantee
    amplified: Guarantee | None = None

    @property
    def charged(self) -> Guarantee:
        """What an account is charged: the cost of everything that was done, subsampling included."""
        return self.amplified or self.nominal


def asked_epsilon(cell: Cell) -> float:
    """Of a cell that releases."""
    assert cell.epsilon is not None
    return cell.epsilon


def shots_of(cell: Cell) -> int:
    """Of a cell that has demonstrations."""
    assert cell.shots is not None
    return cell.shots


def draws_for(contract: Declared, seed: int) -> Draws:
    """Seeded streams on benchmarks, the operating system's randomness otherwise."""
    return Draws(seed, contract.name, simulated=contract.privacy.budget.benchmark)


def check_supported(contract: Declared, unit: Unit) -> None:
    """Refuse what this version cannot guarantee, before any private row is read.

    Raises:
        PrivacyError: the contract is a draft; the method is not registered; no noise, or baselines that read private rows, on a table
            that is not a benchmark; or such baselines where persons are protected.
    """
    if contract.draft:
        raise PrivacyError(
            f"{contract.name}: is a draft, and its lines marked LOOKED hold what rows say; write what is publicly known there, then take "
            "`draft: true` out"
        )
    from dpicl.methods import METHODS  # whose modules import this one

    reads_again = wired(METHODS, unit.method, "dpicl.methods.METHODS").BASELINES == "private" and unit.baselines
    if contract.privacy.person and reads_again:
        raise PrivacyError(f"{contract.name}: central baselines protect rows, not persons; run with baselines off")
    if contract.privacy.budget.benchmark:
        return
    if any(np.isinf(epsilon) for epsilon in unit.epsilons):
        raise PrivacyError(f"{contract.name}: epsilon=inf releases rows without noise; only a contract with `benchmark: true` allows it")
    if reads_again:
        raise PrivacyError(f"{contract.name}: central baselines read the rows again and are charged to no budget; run with baselines off")
    if isinstance(contract, Contract) and unit.method == "ldp_tabicl":
        _check_clients(contract)


def _check_clients(contract: Contract) -> None:
    """The number of clients is seen without noise: no row's content may decide whether it is one."""
    for key, states in (("split", contract.split is not None), ("source.missing", contract.source.missing is not None)):
        if states:
            raise PrivacyError(
                f"{contract.name}: ldp_tabicl shows how many rows report, and `{key}` lets a row's content decide that; expected no such "
                "key (queries may come from a public file: `queries`)"
            )


def check_queries(contract: Declared, unit: Unit) -> None:
    """Refuse to answer the queries of a run where the contract names none that are public, before anything is charged.

    Raises:
        PrivacyError: the method's release is answers, and the texts that it would answer are private.
    """
    if unit.method == "dp_icl" and contract.evaluation != "public":
        raise PrivacyError(
            f"{contract.name}: a run of dp_icl answers queries, and held-out texts with something at stake are no public ones; expected "
            "`source.queries` with texts declared public, or `dpicl ask` with queries of yours"
        )


def check_free(contract: Declared, unit: Unit) -> None:
    """What a method's `run` checks, which knows of no ledger: nothing needs to be charged.

    Raises:
        PrivacyError: as `check_supported`, or the contract is not a benchmark's.
    """
    check_supported(contract, unit)
    if not contract.privacy.budget.benchmark:
        raise PrivacyError(
            f"{contract.name}: `run` charges no ledger, and these rows have a budget; expected a contract with `benchmark: true`, or "
            "`dpicl protect` or `dpicl run`, which charge"
        )


def for_unit(guarantee: Guarantee, contract: Contract) -> Guarantee:
    """A guarantee for added or removed rows, stated for the contract's unit and neighbours."""
    if contract.privacy.person:
        guarantee = to_person(guarantee, contract.privacy.person.max_rows)
    replaced = Neighbours(contract.privacy.neighbours) is Neighbours.REPLACE_ONE
    return to_replace_one(guarantee) if replaced else guarantee


def results(unit: Unit, measured: Mapping[Cell, Metrics], costs: Mapping[Cell, Cost]) -> list[Result]:
    """One row per cell: the model's, the majority's and the baselines'."""
    return [_result(unit, cell, metrics, costs.get(cell) or costs.get(replace(cell, system="icl"))) for cell, metrics in measured.items()]


def _result(unit: Unit, cell: Cell, metrics: Metrics, cost: Cost | None) -> Result:
    return Result(
        method=unit.method,
        system=cell.system,
        dataset=unit.dataset,
        seed=unit.seed,
        epsilon=cell.epsilon,
        shots=cell.shots,
        sampling_rate=None if cell.sampling_rate is None else float(cell.sampling_rate),
        amplified_epsilon=cost.amplified.epsilon if cost and cost.amplified else None,
        **asdict(metrics),
    )
