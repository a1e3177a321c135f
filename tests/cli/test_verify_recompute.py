"""`dpicl verify --recompute`: real releases priced again, a price that is too small, an unknown
kind of event, and what is said without the second library.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpicl.ground.installed import to_install
from dpicl.home.settings import Settings
from dpicl.release.certificate import Certificate, Mechanism, Parameters
from dpicl.release.certificate_files import certificate_of, signed
from tests.cli.conftest import Cli
from tests.cli.test_json import printed
from tests.cli.test_verify import certified
from tests.harness import Place, install, shop

Edit = Callable[[Certificate], dict[str, Any]]


def with_delta(name: str) -> dict[str, Any]:
    """Of rows that come or go, with a delta to spend."""
    contract = shop(name, private=True)
    budget = {"epsilon": 1000, "delta": 1e-5}
    contract["privacy"] |= {"neighbours": "add-or-remove-one", "budget": budget}
    return contract


@pytest.fixture
def file(place: Place, cli: Cli) -> Path:
    """A file with its certificate, of a table whose rows may be replaced."""
    return certified(place, cli, install(place, shop("priced", private=True)))


def signed_anew(file: Path, edit: Edit) -> None:
    """The certificate with other statements, signed by this installation all the same."""
    beside = certificate_of(file)
    statement = Certificate.from_json(beside.read_bytes())
    changed = signed(statement.model_copy(update=edit(statement)), Settings.from_environment())
    beside.write_text(changed.to_json(), "utf-8")


def lowered(statement: Certificate) -> dict[str, Any]:
    loss = statement.privacy_loss
    stated = Parameters(epsilon=0.99 * (loss.privacy_parameters.epsilon or 0), delta=0)
    return {"privacy_loss": loss.model_copy(update={"privacy_parameters": stated})}


def of_tomorrow(statement: Certificate) -> dict[str, Any]:
    made = statement.implementation
    event = Mechanism(kind="of-tomorrow", parameters={"epsilon": 1})
    return {"implementation": made.model_copy(update={"mechanisms": event})}


def noisy(place: Place, cli: Cli) -> Path:
    """Demonstrations whose certificate states their noise."""
    path = place.root / "noisy.jsonl"
    name = install(place, shop("with_noise", private=True))
    cli(f"protect {name} --method gdp_tabicl --shots 2 --out {path}")
    return path


def test_the_first_sentence_says_that_the_price_holds(place: Place, cli: Cli) -> None:
    first, second, third, *table = cli(f"verify {noisy(place, cli)} --recompute").splitlines()
    assert first.startswith("noisy.jsonl: its price holds: ε = 1 at δ = 0 is stated for the ")
    assert "dp-accounting " in first and " the certificate states ε and no noise" not in first
    assert second.startswith("noisy.jsonl: is as it was certified, signed by this installation")
    assert third.startswith("Differential privacy with epsilon 1 and delta 0")
    text = "\n".join(table)
    assert "account with this release" in text and "not recomputed" not in text


@pytest.mark.parametrize("method", ["aim_tabicl", "mst_tabicl"])
def test_the_option_that_is_named_states_noise(place: Place, cli: Cli, method: str) -> None:
    path = place.root / "rows.csv"
    name = install(place, with_delta("gaussian"))
    cli(f"synth {name} --method {method} --option noise=gaussian --epsilon 2 --out {path} --anyway")
    code, out, _ = cli.whole(f"verify {path} --recompute")
    assert code == 0 and out.startswith("rows.csv: its price holds: ε = ")


def test_a_stated_epsilon_alone_is_no_second_price(place: Place, cli: Cli, file: Path) -> None:
    """`its price holds … computes 1` was said of an epsilon that was read from the certificate."""
    code, out, _ = cli.whole(f"verify {file} --recompute")
    first, second, *rest = out.splitlines()
    assert code == 2 and first == (
        "priced.csv: its price could not be recomputed: no noise is stated that ε could be "
        "computed from; AIM-TabICL and MST-TabICL state theirs with `--option noise=gaussian`."
    )
    assert second.startswith("priced.csv: is as it was certified, signed by this installation")
    assert "\n".join(rest).count("not recomputed") == 2
    code, out, _ = cli.whole(f"verify {file} --recompute --json")
    prices = printed("dpicl verify FILE", out)["prices"]
    assert code == 2 and [
        (price["what"], price["holds"], price["epsilon_recomputed"], price["as_stated"])
        for price in prices
    ] == [(what, None, None, ["pure"]) for what in ("release", "account with this release")]


def test_a_price_that_is_too_small_is_caught_and_one_of_no_known_kind_is_not_passed(
    place: Place, cli: Cli, file: Path
) -> None:
    original = certificate_of(file).read_bytes()
    signed_anew(file, lowered)
    cli(f"verify {file}")  # the signature holds
    code, out, err = cli.whole(f"verify {file} --recompute")
    assert code == 1 and out.startswith("priced.csv: a stated price is too small: ε = 0.99 at ")
    certificate_of(file).write_bytes(original)
    signed_anew(file, of_tomorrow)
    code, out, err = cli.whole(f"verify {file} --recompute")
    assert code == 2
    assert out.startswith("priced.csv: its price could not be recomputed: events of ")
    assert "the kind 'of-tomorrow' are not known here." in out.splitlines()[0]


def test_a_sample_and_gaussian_noise_are_priced_from_real_files(place: Place, cli: Cli) -> None:
    name = install(place, with_delta("priced_with_delta"))
    sampled, noisy = place.root / "demos.jsonl", place.root / "rows.csv"
    cli(f"protect {name} --method gdp_tabicl --shots 2 --out {sampled}")
    cli(f"synth {name} --method mst_tabicl --option noise=gaussian --out {noisy}")
    first = printed("dpicl verify FILE", cli(f"verify {sampled} --recompute --json"))["prices"]
    assert [price["what"] for price in first] == [
        "release",
        "release before amplification",
        "account with this release",
    ]
    assert all(price["holds"] and not price["as_stated"] for price in first)
    release, account = printed("dpicl verify FILE", cli(f"verify {noisy} --recompute --json"))[
        "prices"
    ]
    assert release["holds"] and release["delta"] > 0 and release["epsilon_low"] < 1
    assert release["epsilon_recomputed"] == pytest.approx(1, rel=6e-3)
    assert account["holds"] is None and "earlier releases" in account["reason"]


def test_programs_get_every_price(place: Place, cli: Cli) -> None:
    file = noisy(place, cli)
    answer = printed("dpicl verify FILE", cli(f"verify {file} --recompute --json"))
    release, _, account = answer["prices"]
    assert (release["what"], release["epsilon_stated"], release["holds"]) == ("release", 1, True)
    assert release["epsilon_recomputed"] == pytest.approx(1) and account["holds"]
    assert answer["key"] == cli("verify --show-key").strip()
    plain = printed("dpicl verify FILE", cli(f"verify {file} --json"))
    assert plain == {**answer, "price": None, "prices": []}
    signed_anew(file, lowered)
    code, out, _ = cli.whole(f"verify {file} --recompute --json")
    assert code == 1 and printed("dpicl verify FILE", out)["prices"][0]["holds"] is False


def test_without_the_second_library_a_sentence_says_what_to_install(place: Place, cli: Cli) -> None:
    file, hidden = noisy(place, cli), place.root / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import sys\nsys.modules['prv_accountant'] = None\n")
    repository = str(Path(__file__).parents[2])
    done = place.dpicl(f"verify {file} --recompute", PYTHONPATH=f"{hidden}:{repository}")
    assert done.returncode == 0 and "its price holds" in done.stdout
    (sentence,) = done.stderr.splitlines()
    assert sentence == (
        "no bounds by a second library: prv_accountant is not installed; " + to_install("local")
    )


def test_a_simulation_certifies_nothing_whatever_its_price(place: Place, cli: Cli) -> None:
    path = certified(place, cli, install(place, shop("priced_benchmark")))
    code, out, err = cli.whole(f"verify {path} --recompute")
    assert (code, out) == (1, "") and "Nothing is certified" in err
    code, out, _ = cli.whole(f"verify {path} --json")
    assert code == 1 and printed("dpicl verify FILE", out)["simulation"]
