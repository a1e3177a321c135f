"""Certificates priced again by `dpicl.recompute`: every kind of event that can be charged, prices
that are known otherwise, and prices that are stated too small.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from dpicl.accounting import pure as kinds
from dpicl.accounting.accountant import price
from dpicl.accounting.events import (
    approximate,
    gaussian,
    horizon_part,
    parallel,
    poisson_sampled,
    pure,
    repeated,
    sequential,
)
from dpicl.accounting.guarantee import Event, Guarantee, Neighbours, to_person, to_replace_one
from dpicl.accounting.pure import bounded_range, discrete_gaussian
from dpicl.mechanisms import joint_exponential, noisy_count, noisy_max, noisy_mean
from dpicl.mechanisms.noisy_mean import Grid
from dpicl.mechanisms.randomised_response import Response, response
from dpicl.mechanisms.sparse_vector import SparseVector
from dpicl.mechanisms.two_levels import two_levels
from dpicl.mechanisms.unary_encoding import Unary, unary
from dpicl.recompute.__main__ import main
from dpicl.recompute.choices import divergences
from dpicl.recompute.prices import NOMINAL, Price, prices
from dpicl.recompute.stated import Malformed, stated_of
from tests.library.certificates import certificate_for

ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE
DELTA = 1e-6
CAUGHT = 0.99
HALF = Fraction(1, 2)
GRID = Grid(0, 30, 1, "lower")
CHOICE = bounded_range(Fraction(1, 5), neighbours=ADD)
COUNTED = noisy_count.guarantee(HALF)
SMALL = discrete_gaussian(variance=Fraction(30), squared_sensitivity=2, neighbours=ADD)
LARGE = discrete_gaussian(variance=Fraction(30_000), squared_sensitivity=20, neighbours=ADD)


def charged(event: Event, neighbours: Neighbours = ADD, delta: float = DELTA) -> Guarantee:
    return price(event, neighbours=neighbours, unit="row", delta=delta)


def again(guarantee: Guarantee, lowered: float = 1.0) -> Price:
    """The second price of a release's certificate, read from its bytes."""
    content = certificate_for(guarantee, lowered=lowered).to_json().encode()
    return prices(stated_of(json.loads(content)))[0]


PURE = {
    "public-key": charged(Event("public-key")),
    "discrete-laplace": COUNTED,
    "noisy-mean": noisy_mean.guarantee(GRID, HALF),
    "noisy-sum": noisy_mean.sum_guarantee(GRID, HALF),
    "noisy-max": noisy_max.exponential_guarantee(HALF, spread=2, neighbours=ADD),
    "joint-exponential": joint_exponential.guarantee(HALF, sensitivity=1, neighbours=REPLACE),
    "sparse-vector": charged(SparseVector(HALF, 1).event()),
    "randomised-response": response(epsilon=1.5, categories=7).guarantee(),
    "unary-encoding": unary(epsilon=1.5, categories=7).guarantee(),
    "sequential": charged(sequential([COUNTED.event, pure(0.2)])),
    "repeated": charged(repeated(COUNTED.event, 3)),
    "grouped": to_person(COUNTED, 4),
    "parallel": charged(parallel([COUNTED.event, pure(0.2)])),
    "poisson-sampled": charged(poisson_sampled(Fraction(1, 10), COUNTED.event)),
    "replaced": to_replace_one(COUNTED),
}
"""By kind, a release that is charged without a delta."""
APPROXIMATE = {
    "gaussian": charged(gaussian(sigma=4)),
    "gaussian, replaced": charged(gaussian(sigma=4, sensitivity=2), REPLACE),
    "gaussian, sampled": charged(repeated(poisson_sampled(0.01, gaussian(sigma=1)), 200)),
    "gaussian, sampled, replaced": charged(
        repeated(poisson_sampled(0.01, gaussian(sigma=1)), 200), REPLACE
    ),
    "discrete-gaussian, its own law": charged(SMALL),
    "discrete-gaussian, its own law, replaced": charged(SMALL, REPLACE),
    "discrete-gaussian, as continual counts": charged(repeated(LARGE, 5)),
    "discrete-gaussian, sampled": charged(repeated(poisson_sampled(Fraction(1, 10), SMALL), 50)),
    "approximate": charged(repeated(approximate(0.05, 1e-9), 50)),
    "approximate, sampled": charged(repeated(poisson_sampled(0.1, approximate(0.3, 0.0)), 100)),
    "bounded-range": charged(CHOICE),
    "bounded-range, many": charged(repeated(CHOICE, 60)),
    "bounded-range, replaced": charged(repeated(CHOICE, 20), REPLACE),
    "bounded-range, sampled": charged(poisson_sampled(Fraction(1, 10), repeated(CHOICE, 40))),
    "bounded-range, of two ranges": charged(
        sequential([CHOICE, bounded_range(HALF, neighbours=ADD), gaussian(sigma=10)])
    ),
    "parallel": charged(parallel([gaussian(sigma=4), repeated(CHOICE, 20)])),
    "sequential, propose-test-release": charged(
        repeated(sequential([approximate(0.01, 1e-9), gaussian(sigma=30), pure(0.01)]), 10)
    ),
}
"""Releases that are charged with a delta, by the kind of noise."""


def test_every_kind_that_the_accountant_prices_is_here() -> None:
    known = {*kinds.LEAVES, *kinds._APPROXIMATE, *kinds._COMPOSITE} - {"pure"}  # below
    here = {name.partition(",")[0] for name in (*PURE, *APPROXIMATE)}
    assert known - here == {"horizon-part"}  # a certificate has the event of its whole horizon


@pytest.mark.parametrize("name", PURE)
def test_a_pure_price_is_the_same_and_a_hundredth_less_is_caught(name: str) -> None:
    found = again(PURE[name])
    assert found.holds and found.recomputed == pytest.approx(PURE[name].epsilon, rel=1e-9)
    if name != "public-key":  # which costs nothing
        assert again(PURE[name], CAUGHT).holds is False


@pytest.mark.parametrize(
    "guarantee",
    [
        charged(pure(0.3)),
        charged(approximate(0.05, 1e-9)),
        to_person(charged(pure(0.3)), 4),
        to_replace_one(charged(pure(0.3))),
        to_replace_one(to_person(charged(pure(0.3)), 4)),
        charged(sequential([pure(0.3), parallel([pure(0.1), pure(0.2)])])),
    ],
)
def test_an_epsilon_that_is_only_stated_is_not_said_to_be_recomputed(guarantee: Guarantee) -> None:
    """The library was given the stated epsilon, gave it back, and so `its price holds`. Less than
    the event's own is too small all the same.
    """
    found = again(guarantee)
    assert (found.holds, found.recomputed, found.by, found.low) == (None, None, "", None)
    assert found.reason.startswith("no noise is stated that ε could be computed from")
    assert found.as_stated == (("approximate",) if guarantee.delta else ("pure",))
    assert again(guarantee, CAUGHT).holds is False
    account = json.loads(certificate_for(guarantee).to_json())
    account["accounting"] |= {
        "composition_rule": "pure sum",
        "spent_before": {"epsilon": 1.0, "delta": 0},
        "spent_after": {"epsilon": 1.0 + guarantee.epsilon, "delta": 0},
    }
    assert [price.holds for price in prices(stated_of(account))] == [None, None]


@pytest.mark.parametrize("name", APPROXIMATE)
def test_a_price_with_a_delta_holds_and_a_hundredth_less_is_caught(name: str) -> None:
    found = again(APPROXIMATE[name])
    assert found.holds and found.recomputed is not None and not found.reason
    assert found.recomputed == pytest.approx(APPROXIMATE[name].epsilon, rel=5e-3)
    assert again(APPROXIMATE[name], CAUGHT).holds is False


@pytest.mark.parametrize("name", ["gaussian", "discrete-gaussian, sampled", "bounded-range, many"])
@pytest.mark.parametrize("share", [0.3, 1e-4, 0])
def test_a_price_that_is_far_too_small_is_caught(name: str, share: float) -> None:
    assert again(APPROXIMATE[name], share).holds is False


@pytest.mark.parametrize(
    "name", ["gaussian", "gaussian, sampled", "approximate", "sequential, propose-test-release"]
)
def test_the_second_library_agrees(name: str) -> None:
    found = again(APPROXIMATE[name])
    assert found.recomputed is not None and found.low is not None and found.high is not None
    assert found.low <= found.recomputed <= found.high * 1.001
    assert found.high - found.low < 0.03 * found.recomputed


def exact_gaussian(ratio: float, delta: float) -> float:
    """Balle and Wang's formula, solved for epsilon."""

    def excess(epsilon: float) -> float:
        first, second = ratio / 2 - epsilon / ratio, -ratio / 2 - epsilon / ratio
        return stats.norm.cdf(first) - math.exp(epsilon) * stats.norm.cdf(second) - delta

    return float(optimize.brentq(excess, 0, 200))


@settings(max_examples=8, deadline=None)
@given(st.floats(0.7, 30), st.sampled_from([ADD, REPLACE]), st.sampled_from([1e-9, 1e-5]))
def test_a_gaussian_costs_what_the_closed_formula_says(
    sigma: float, neighbours: Neighbours, delta: float
) -> None:
    truth = exact_gaussian((1 if neighbours is ADD else 2) / sigma, delta)
    stated = Guarantee(truth, delta, neighbours, "row", gaussian(sigma=sigma))
    found = again(stated)
    assert found.recomputed == pytest.approx(truth, rel=2e-4, abs=2e-6)
    assert again(stated, CAUGHT).holds is False


def test_prices_that_are_published() -> None:
    """A hundred pure events of 0.1 at 1e-6, by Kairouz, Oh and Viswanath's theorem; and one
    Gaussian of sigma 1 at 1e-5.
    """
    composed = Guarantee(4.7746, 1e-6, ADD, "row", repeated(approximate(0.1, 0.0), 100))
    assert again(composed).recomputed == pytest.approx(4.7746, abs=1e-3)
    for neighbours, epsilon in ((ADD, 4.377), (REPLACE, 9.997)):
        alone = Guarantee(epsilon, 1e-5, neighbours, "row", gaussian(sigma=1))
        assert again(alone).recomputed == pytest.approx(epsilon, abs=2e-3)


@pytest.mark.parametrize("count, reach", [(1, 0.7), (2, 0.7), (3, 2.0)])
def test_choices_cost_at_least_what_every_fixed_pair_of_laws_costs(
    count: int, reach: float
) -> None:
    """Log-ratios t and t - r, all n times the same t: an adversary who is not adaptive."""
    losses = stats.uniform.rvs(-reach, 2 * reach, size=40, random_state=0)
    bound = divergences(losses, reach, count, 1.0)
    worst = 0 * losses
    for place in range(21):
        t = reach * place / 20
        up = -math.expm1(t - reach) / -math.expm1(-reach)
        spent = 0 * losses
        for times in range(count + 1):
            ratio = count * t - (count - times) * reach
            mass = math.comb(count, times) * up**times * (1 - up) ** (count - times)
            spent = spent + mass * -np.expm1(np.minimum(losses - ratio, 0))
        worst = np.maximum(worst, spent)
    assert (bound >= worst - 1e-12).all()
    assert (bound <= worst + 0.05).all()


def responding(categories: int, bits: int, keep: int, lie: int | str) -> Event:
    stated = (("categories", categories), ("bits", bits), ("keep", keep), ("lie", lie))
    return Event("randomised-response", stated)


def encoding(weight: int | str, total: int) -> Event:
    stated = (("categories", 4), ("weight", weight), ("total", total))
    return Event("unary-encoding", stated)


def repeated_text(count: str) -> Event:
    return Event("repeated", (("count", count),), (pure(0.1),))


@pytest.mark.parametrize(
    "categories, keep, lie", [(2, 65_000, 536), (2, 40_000, 25_536), (1, 65_536, 0)]
)
def test_weights_that_add_up_have_their_price(categories: int, keep: int, lie: int) -> None:
    truth = abs(math.log(keep / lie)) if lie else 0.0
    event = responding(categories, 16, keep, lie)
    assert again(Guarantee(truth, 0, REPLACE, "client", event)).recomputed == pytest.approx(truth)


@pytest.mark.parametrize(
    "first", [response(epsilon=3, categories=5), unary(epsilon=3, categories=5)]
)
def test_two_levels_of_response_have_their_price(first: Response | Unary) -> None:
    sent = two_levels(first, epsilon=1).sent.guarantee()
    found = again(sent)
    assert found.holds and found.recomputed == pytest.approx(sent.epsilon, rel=1e-9)


events = st.deferred(
    lambda: st.one_of(
        st.floats(1e-3, 3).map(pure),
        st.fractions(Fraction(1, 100), 2).map(lambda e: noisy_count.guarantee(e).event),
        st.fractions(Fraction(1, 100), 2).map(lambda e: noisy_mean.guarantee(GRID, e).event),
        st.lists(events, min_size=1, max_size=3).map(sequential),
        st.lists(events, min_size=1, max_size=3).map(parallel),
        st.tuples(events, st.integers(1, 9)).map(lambda pair: repeated(*pair)),
        st.tuples(st.fractions(Fraction(1, 100), 1), events).map(lambda p: poisson_sampled(*p)),
    )
)


@settings(max_examples=60, deadline=None)
@given(events, st.booleans())
def test_any_pure_event_costs_what_was_charged(event: Event, replaced: bool) -> None:
    guarantee = charged(event)
    if replaced:
        guarantee = to_replace_one(to_person(guarantee, 3))
    found = again(guarantee)
    if not found.reason.startswith("no noise is stated"):
        assert found.recomputed == pytest.approx(guarantee.epsilon, rel=1e-9, abs=1e-12)
    assert again(guarantee, CAUGHT).holds is (
        CAUGHT * guarantee.epsilon + 1e-6 >= guarantee.epsilon
    )


@pytest.mark.parametrize(
    "event, neighbours, delta, why",
    [
        (Event("of-tomorrow", (("epsilon", 0.1),)), ADD, 0, "kind 'of-tomorrow'"),
        (sequential([pure(0.1), Event("of-tomorrow")]), ADD, 1e-6, "kind 'of-tomorrow'"),
        (Event("pure", (("epsilon", 0.1), ("times", 2))), ADD, 0, "states times, which is not"),
        (Event("pure", (("epsilon", 0.1),), (pure(1),)), ADD, 0, "has 1 parts; expected 0"),
        (Event("poisson-sampled", (("sampling_rate", "1/2"),)), ADD, 0, "0 parts; expected 1"),
        (
            Event("repeated", (("count", 10**40),), (gaussian(sigma=2),)),
            ADD,
            1e-6,
            "no price of it",
        ),
        (horizon_part("a" * 64, 2), ADD, 0, "kind 'horizon-part'"),
        (COUNTED.event, REPLACE, 0, "priced for add-or-remove-one neighbours"),
        (poisson_sampled(HALF, COUNTED.event), REPLACE, 0, "priced for add-or-remove-one"),
        (Event("gaussian", (("sensitivity", 1),)), ADD, 1e-6, "states no sigma"),
        (gaussian(sigma=2), ADD, 0, "no price at delta=0"),
        (Event("discrete-laplace", (("epsilon", -1), ("sensitivity", 1))), ADD, 0, ">= 0"),
        (responding(2, 16, 65_000, 64_999), REPLACE, 0, "add up to 129999; expected 2 to the"),
        (responding(3, 16, 65_000, 536), REPLACE, 0, "add up to 66072"),
        (responding(2, 17, 65_000, 536), REPLACE, 0, "expected 2 to the power of bits=17"),
        (responding(1, 16, 65_000, 0), REPLACE, 0, "add up to 65000"),
        (responding(2, 16, 65_000, "1071/2"), REPLACE, 0, "add up to"),
        (encoding(3, 2**32 - 1), REPLACE, 0, "weight=3 of total="),
        (encoding("1/2", 1), REPLACE, 0, "expected a whole number of at most the total"),
        (encoding(5, 4), REPLACE, 0, "weight=5 of total=4"),
        (repeated_text("1e99999999"), ADD, 0, "an exponent of at most 999"),
        (repeated_text("9" * 5000), ADD, 0, "at most 1,000 digits"),
        (repeated_text("1/0"), ADD, 0, "expected a finite number"),
        (Event("pure", (("epsilon", "1e-999999999"),)), ADD, 0, "an exponent of at most 999"),
        (repeated(bounded_range(HALF, neighbours=ADD), 2_000), ADD, 1e-6, "would take minutes"),
    ],
)
def test_what_has_no_second_price_is_said(
    event: Event, neighbours: Neighbours, delta: float, why: str
) -> None:
    found = again(Guarantee(0.1, delta, neighbours, "row", event))
    assert found.holds is None and found.recomputed is None and why in found.reason


def test_a_release_before_amplification_has_its_price_too() -> None:
    certificate = certificate_for(charged(poisson_sampled(Fraction(1, 10), COUNTED.event)))
    content = json.loads(certificate.to_json())
    for epsilon, holds in ((0.5, True), (0.495, False)):
        content["privacy_loss"]["nominal_parameters"] = {"epsilon": epsilon, "delta": 0}
        _, nominal = prices(stated_of(content))
        assert (nominal.what, nominal.recomputed, nominal.holds) == (
            NOMINAL,
            pytest.approx(0.5),
            holds,
        )


@pytest.mark.parametrize(
    "rule, before, after, holds",
    [
        ("pure sum", 1.0, 1.5, True),
        ("pure sum", 1.0, 1.49, False),
        ("PLD, interval 0.01", 0.0, 0.5, True),
        ("PLD, interval 0.01", 0.0, 0.49, False),
        ("Rényi filter", 1.0, 1.1, None),
    ],
)
def test_an_account_is_priced_where_its_total_is_known(
    rule: str, before: float, after: float, holds: bool | None
) -> None:
    content = json.loads(certificate_for(COUNTED).to_json())
    content["accounting"] |= {
        "composition_rule": rule,
        "spent_before": {"epsilon": before, "delta": 0},
        "spent_after": {"epsilon": after, "delta": 0 if rule == "pure sum" else 1e-5},
    }
    release, account = prices(stated_of(content))
    assert release.holds and account.holds is holds
    assert (account.reason == "") is (holds is not None)


@pytest.mark.parametrize(
    "before, after",
    [
        ({"epsilon": 0, "delta": 1e-3}, {"epsilon": 1, "delta": 1e-5}),
        ({"epsilon": 0, "delta": 0}, {"epsilon": None, "delta": 1e-5}),
        ({"epsilon": 1, "delta": 0}, {"epsilon": None, "delta": 0}),
        ({"epsilon": None, "delta": 0}, {"epsilon": None, "delta": 0}),
    ],
)
@pytest.mark.parametrize("rule", ["pure sum", "PLD, interval 0.01"])
def test_an_account_with_a_delta_before_or_without_a_bound_is_not_passed(
    rule: str, before: dict[str, float], after: dict[str, float]
) -> None:
    content = json.loads(certificate_for(COUNTED).to_json())
    content["accounting"] |= {
        "composition_rule": rule,
        "spent_before": before,
        "spent_after": after,
    }
    _, account = prices(stated_of(content))
    assert account.holds is None and account.recomputed is None
    why = "states no bound" if after["epsilon"] is None else "composed of earlier releases"
    assert why in account.reason


@pytest.mark.parametrize("event", [pure(0.1), gaussian(sigma=4), Event("public-key")])
@pytest.mark.parametrize("neighbours", ["whatever", "", None, ["replace-one"]])
def test_neighbours_that_nobody_knows_are_refused(event: Event, neighbours: object) -> None:
    content = json.loads(certificate_for(charged(event)).to_json())
    content["privacy_loss"]["neighbours"] = neighbours
    with pytest.raises(Malformed, match="expected add-or-remove-one or replace-one"):
        stated_of(content)


@pytest.mark.parametrize(
    "key, value",
    [
        ("kind", ["pure"]),
        ("parts", "ab"),
        ("parts", {}),
        ("parts", [3]),
        ("parameters", {"epsilon": {"a": 1}}),
        ("parameters", {"epsilon": [1]}),
        ("parameters", {"epsilon": None}),
        ("parameters", {"epsilon": True}),
        ("parameters", []),
    ],
)
def test_an_event_of_other_types_ends_with_exit_code_2(
    key: str, value: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(certificate_for(COUNTED).to_json())
    content["implementation"]["mechanisms"][key] = value
    refused(json.dumps(content), tmp_path, capsys, "is no certificate that can be read: ")


@pytest.mark.parametrize("value", [True, "1", [1], 10**400, -1])
@pytest.mark.parametrize("key", ["epsilon", "delta"])
def test_a_loss_of_another_type_ends_with_exit_code_2(
    key: str, value: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(certificate_for(COUNTED).to_json())
    content["privacy_loss"]["privacy_parameters"][key] = value
    refused(json.dumps(content), tmp_path, capsys, "is no certificate that can be read: ")


@pytest.mark.parametrize("depth, why", [(450, "could not be priced: "), (2_000, "can be read: ")])
def test_steps_nested_too_deep_end_with_exit_code_2(depth: int, why: str) -> None:
    """In a process, where whatever is not caught ends with 1."""
    content = json.loads(certificate_for(charged(pure(0.3))).to_json())
    inner = json.dumps(content["implementation"]["mechanisms"])
    content["implementation"]["mechanisms"] = "inner"
    outer = '{"kind": "sequential", "parameters": {}, "parts": ['
    done = subprocess.run(
        [sys.executable, "-m", "dpicl.recompute", "-"],
        input=json.dumps(content).replace('"inner"', outer * depth + inner + "]}" * depth),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr and done.stderr.count("\n") == 1


def refused(text: str, folder: Path, capsys: pytest.CaptureFixture[str], why: str) -> None:
    """One sentence on the standard error, and exit code 2."""
    file = folder / "broken.certificate.json"
    file.write_text(text, "utf-8")
    assert main([str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("dpicl.recompute: ") and err.count("\n") == 1
    assert why in err and "Traceback" not in err


def test_what_takes_too_long_is_stopped_and_not_recomputed() -> None:
    """Programs get an answer all the same."""
    choices = repeated(bounded_range(HALF, neighbours=ADD), 1_500)
    watched = (
        "import sys; from dpicl.recompute import __main__ as program, prices\n"
        "program._stop_after(1); sys.exit(program.main(['-']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", watched],
        input=certificate_for(Guarantee(600, DELTA, ADD, "row", choices)).to_json(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, "")
    (price,) = json.loads(done.stdout)["prices"]
    assert price["holds"] is None and price["epsilon_recomputed"] is None
    assert price["reason"] == "it takes more than 1 seconds"


@pytest.mark.parametrize("broken", [None, [], {"format": "other"}, {"format": "dpicl certificate"}])
def test_what_is_no_certificate_is_refused(broken: object) -> None:
    with pytest.raises(Malformed, match="expected"):
        stated_of(broken)


def test_the_process_imports_none_of_our_accounting() -> None:
    """Nothing of dpicl but the program itself; and both libraries, so that something ran."""
    watched = (
        "import runpy, sys; sys.argv[1:] = ['-']\n"
        "try: runpy.run_module('dpicl.recompute', run_name='__main__')\n"
        "except SystemExit as end: code = end.code\n"
        "print(code, *sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", watched],
        input=certificate_for(APPROXIMATE["gaussian"]).to_json(),
        capture_output=True,
        text=True,
        check=True,
    )
    code, *modules = done.stderr.split()
    assert code == "0" and {"dp_accounting", "prv_accountant"} <= {*modules}
    ours = {name for name in modules if name.split(".")[0] == "dpicl"}
    assert {name for name in ours if not name.startswith("dpicl.recompute")} == {"dpicl"}
    assert "dpicl.recompute.losses" in ours


def test_the_program_says_by_its_exit_code_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.csv.certificate.json"
    foreign = Guarantee(0.1, 0, ADD, "row", Event("of-tomorrow"))
    for certificate, code in (
        (certificate_for(COUNTED), 0),
        (certificate_for(COUNTED, lowered=CAUGHT), 1),
        (certificate_for(foreign), 2),
        (certificate_for(charged(pure(0.3))), 2),
    ):
        file.write_text(certificate.to_json(), "utf-8")
        assert main([str(file)]) == code
        assert len(json.loads(capsys.readouterr().out)["prices"]) == 1
    for words in ([], [str(tmp_path / "nowhere")], [__file__]):
        assert main(words) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1 and err.startswith("dpicl.recompute: ")
