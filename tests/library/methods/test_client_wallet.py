"""The wallet's cap against generated collectors, and a mutant that takes it from them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.client.wallet import DEFAULT_CAP, Wallet, open_wallet
from dpicl.ground.errors import BudgetError, DataError, ParameterError

Collector = tuple[float, float | None]
"""What a contract asks for, and the cap that it names."""
COLLECTORS_ONE = st.floats(0.01, 20), st.one_of(st.none(), st.floats(0.1, 1000))
COLLECTORS = st.lists(st.tuples(*COLLECTORS_ONE), max_size=8)


class CapOfTheContract(Wallet):
    """The mutant: whoever asks says what may be asked."""

    def join(self, *collection: Any, contract_cap: float | None, **asked: Any) -> None:
        """As the wallet, with the collector's cap for its own."""
        self._cap = contract_cap if contract_cap is not None else self._cap
        super().join(*collection, contract_cap=contract_cap, **asked)


def _granted(
    kind: type[Wallet], collectors: list[Collector], requested_cap: float | None = None
) -> float:
    """What is spent once all of them have asked."""
    file = os.open(os.devnull, os.O_WRONLY)
    try:
        wallet = kind([], file)
        for number, (epsilon, cap) in enumerate(collectors):
            try:
                wallet.join(
                    f"collection {number}",
                    epsilon,
                    requested_cap=requested_cap,
                    contract_cap=cap,
                    id_column=None,
                )
            except BudgetError:
                continue
        return wallet.spent
    finally:
        os.close(file)


@given(COLLECTORS, st.one_of(st.none(), st.floats(0.1, 50)))
def test_whatever_contracts_say_the_wallet_s_cap_holds(
    collectors: list[Collector], requested_cap: float | None
) -> None:
    assert _granted(Wallet, collectors, requested_cap) <= (
        DEFAULT_CAP if requested_cap is None else requested_cap
    ) * (1 + 1e-9)


@given(*COLLECTORS_ONE)
def test_the_smallest_cap_that_was_named_holds_for_its_own_collection(
    epsilon: float, cap: float | None
) -> None:
    most = DEFAULT_CAP if cap is None else cap
    assert _granted(Wallet, [(epsilon, cap)]) <= most * (1 + 1e-9)


def test_the_attack_that_the_wallet_withstands_succeeds_against_a_cap_of_the_contract() -> None:
    attack = [(2.0, 2.0), (12.0, 1000.0)]
    assert _granted(Wallet, attack) == 2.0
    assert _granted(CapOfTheContract, attack) == 14.0


@pytest.mark.parametrize(
    "line", ['{"cap": NaN}', '{"cap": Infinity}', '{"cap": 0}', '{"cap": "x"}', '{"cap": -1}', "[]"]
)
def test_a_cap_that_is_none_makes_no_wallet(tmp_path: Path, line: str) -> None:
    (tmp_path / "wallet").write_text(f"{line}\n")
    with (
        pytest.raises(DataError, match="is no wallet of reports"),
        open_wallet(tmp_path / "wallet"),
    ):
        pass


@pytest.mark.parametrize("broken_off", ['{"ca', '{"cap": 10', '{"collection": "ab', "{"])
def test_a_cap_that_a_kill_broke_off_was_never_set(tmp_path: Path, broken_off: str) -> None:
    (tmp_path / "wallet").write_text(f'{{"cap": 1}}\n{broken_off}')
    with open_wallet(tmp_path / "wallet") as wallet:
        assert wallet.cap == 1
        with pytest.raises(ParameterError, match="raise-to"):
            wallet.raise_cap(1)
        wallet.raise_cap(2)
    with open_wallet(tmp_path / "wallet") as wallet:
        assert wallet.cap == 2 and (tmp_path / "wallet").read_text() == '{"cap": 1}\n{"cap": 2}\n'
