"""A clock that jumps changes no release: the ledger goes by the order of its chain, not by the
times it shows.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import Place, install, said, shop, shop_rows


@pytest.fixture(scope="session")
def other_clock() -> str:
    """Debian's library that shows a process another time."""
    found = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
    if found is None:
        pytest.skip("needs libfaketime: apt-get install faketime")
    return str(found)


@pytest.mark.exhaustive
def test_what_was_bought_stays_bought_and_what_was_spent_stays_spent(
    place: Place, capsys: pytest.CaptureFixture[str], other_clock: str
) -> None:
    table = install(place, shop(private=True), shop_rows(60))

    def protected(epsilon: str, days: str) -> tuple[str, bytes]:
        out = place.root / f"{epsilon}{days}.jsonl"
        wrong = {"LD_PRELOAD": other_clock, "FAKETIME": days, "DONT_FAKE_MONOTONIC": "1"}
        done = place.dpicl(
            "protect", table, "--epsilon", epsilon, "--shots", "2", "--out", str(out), **wrong
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, out.read_bytes()

    told, content = protected("1", "+0d")
    assert "charged now" in told
    assert "charged now" in protected("0.5", "-400d")[0]
    told, again = protected("1", "+400d")
    assert "charged before and free now" in told
    assert again == content
    assert "chain intact" in said(capsys, "budget")
