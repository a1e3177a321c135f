"""What a certificate says of a series: whom it protects across periods, that there is one charge,
and for which periods.
"""

from __future__ import annotations

from dpicl.contract import Contract
from dpicl.release.certificate_issue import most_rows, release_type, unit_in_words
from tests.library.series_contracts import series_tree


def test_a_person_is_bounded_across_all_periods_and_charged_once() -> None:
    contract = Contract.model_validate(series_tree())
    person, periods = contract.privacy.person, len(contract.releases.calendar.periods)
    assert person is not None and person.max_rows_in_horizon
    stated = (
        f"{person.max_rows} in a period and {person.max_rows_in_horizon} in all {periods} periods"
    )
    assert most_rows(contract) == stated and stated in unit_in_words("person", contract)
    assert release_type(contract).startswith(
        f"Counters of a table that grows: one charge for {periods} periods"
    )
