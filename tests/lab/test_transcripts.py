"""Exact transcripts: no method tells more than it states, every mutant is found, and the laws that
are looked at are those of the equations.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from importlib import import_module
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

import dpicl
from dpicl.ground.randomness import Stream
from dpicl.mechanisms.discrete_gaussian import GaussianSums
from dpicl.mechanisms.joint_exponential import JointTop
from dpicl.mechanisms.noisy_count import LaplaceCounts, noisy_counts
from dpicl.mechanisms.noisy_max import BoundedRange, PermuteAndFlip
from dpicl.mechanisms.private_token import UNITS
from dpicl.mechanisms.sparse_vector import AreBelow, SparseVector
from lab.audit.transcripts import losses
from lab.audit.transcripts.cases import every_case
from lab.audit.transcripts.mutants import MUTANTS, Mutant
from lab.audit.transcripts.record import Diverged, ForcedStep, Forcing, Open, Transcript
from lab.audit.transcripts.report import show_tallies
from lab.audit.transcripts.run import audit_transcripts, transcript
from lab.audit.transcripts.worlds import Case, Price, World
from tests.library.examples import seeded

FEW, FEW_OF_WIDE = 25, 5
MECHANISMS = Path(dpicl.__file__).parent / "mechanisms"
NOISE = {"discrete_laplaces", "discrete_gaussians", "bernoulli_exps", "geometrics"}


@pytest.mark.parametrize("case", every_case(), ids=lambda case: case.name)
def test_no_step_and_no_sum_tells_more_than_is_stated(case: Case) -> None:
    count = FEW_OF_WIDE if "wide" in case.name else FEW
    tally = audit_transcripts(case, seed=3, count=count)
    assert tally.holds, tally.broken
    assert tally.steps >= count
    assert 0 < max(tally.sum, tally.step) <= 1 + 1e-9


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mistake_is_found(mutant: Mutant) -> None:
    tally = mutant.tally(seed=0, count=1000)
    assert tally.broken, mutant.what_is_wrong


def test_every_method_of_ours_is_looked_at_and_its_price_is_reached() -> None:
    from dpicl.methods import METHODS

    assert {case.method for case in every_case()} == set(METHODS)
    tight = {"mst_tabicl: gaussian", "tab_pe: histograms", "ldp_tabicl: subset"}
    for case in every_case():
        if case.name in tight:
            assert audit_transcripts(case, seed=0, count=40).sum > 0.999


def _world(draw: object) -> World:
    return World(draw, Price(epsilon=1.0), 1)  # type: ignore[arg-type]


def _counted(opened: Open, count: int, epsilon: Fraction = Fraction(1)) -> bytes:
    return repr(noisy_counts([count], epsilon=epsilon, stream=opened("counts"))).encode()


def test_the_worst_output_tells_all_of_epsilon_and_no_more() -> None:
    found = [transcript(_world(lambda which, opened: _counted(opened, 5 + which)), 0)]
    found.append(transcript(_world(lambda which, opened: _counted(opened, 5 - which)), 0))
    assert {one.sum for one in found} == {1.0} and {one.step for one in found} == {1.0}
    with pytest.raises(Diverged, match="tells 2 times what it states"):
        transcript(_world(lambda which, opened: _counted(opened, 5 + 2 * which)), 0)


def test_what_tells_more_is_named_once_with_how_much_more_and_without_zeros(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def case(name: str, moved: int) -> Case:
        world = _world(lambda which, opened: _counted(opened, 5 + moved * which))
        return Case(f"mine: {name}", "mine", lambda rng: world)

    kinds = [case("as it is", 2), case("as it is, persons", 3), case("none", 1)]
    show_tallies([audit_transcripts(kind, seed=0, count=3) for kind in kinds], [])
    first, *table = capsys.readouterr().out.splitlines()
    assert first == (
        "5 transcripts, 3 noisy steps: mine does not keep what it states in 2 of 3 kinds of worlds "
        "(first 'as it is': one step tells 2 times what it states)."
    )
    shown = " ".join(" ".join(table).split())
    assert "0.0000" not in shown and "mine: none 3 1.0000 1.0000 holds" in shown
    assert "step tells 3 times what it states" in shown


def test_rows_that_decide_what_is_asked_for_are_found() -> None:
    def more_steps(which: bool, opened: Open) -> bytes:
        return _counted(opened, 1) if not which else _counted(opened, 1) + _counted(opened, 1)

    def other_law(which: bool, opened: Open) -> bytes:
        return _counted(opened, 1, Fraction(1 + which))

    def beside(which: bool, opened: Open) -> bytes:
        return _counted(opened, 1) + bytes([which])

    def coins(which: bool, opened: Open) -> bytes:
        opened("coins").words(5 + 5 * which, np.uint64)
        return b""

    def fewer(which: bool, opened: Open) -> bytes:
        return more_steps(not which, opened)

    for draw, said in (
        (more_steps, "is opened 2 times, and was 1 times"),
        (fewer, "1 steps are not asked for"),
        (other_law, "is asked for LaplaceCounts"),
        (beside, "what is published differs"),
        (coins, "10 words, and were 5"),
    ):
        with pytest.raises(Diverged, match=said):
            transcript(_world(draw), 0)


class Exactly(LaplaceCounts):
    """Adds nothing."""

    def draw(self, exact: Sequence[int], stream: Stream) -> list[int]:
        return list(exact)


def _of_law(law: object, which: bool, opened: Open) -> bytes:
    return repr(opened("counts").passes(law, [5 + which])).encode()  # type: ignore[arg-type]


def test_a_law_counts_as_what_it_is_and_for_what_is_paid() -> None:
    laplace, gaussian = LaplaceCounts(Fraction(1)), GaussianSums(Fraction(9))
    for law, price, said in (
        (Exactly(Fraction(1)), Price(epsilon=1.0), "a law that is not known here"),
        (gaussian, Price(epsilon=1.0), "a kind of noise that is not what is paid for"),
        (laplace, Price(squared=1.0), "a kind of noise that is not what is paid for"),
        (gaussian, Price(movement=1.0, variance=10.0), "noise of variance 9, and 10 is paid for"),
        (gaussian, Price(squared=0.19), "squared movements: 1.05"),
    ):
        with pytest.raises(Diverged, match=said):
            transcript(World(partial(_of_law, law), price, 1), 0)
    assert transcript(World(partial(_of_law, gaussian), Price(squared=0.2), 1), 0).sum == 1


def test_bits_serve_for_one_input() -> None:
    def drawn(other: int, which: bool, opened: Open) -> bytes:
        streams = [opened("noise", again=True) for _ in range(2)]
        both = zip(streams, (3 + which, 3 + other + which), strict=True)
        counts = [noisy_counts([n], epsilon=Fraction(1), stream=one) for one, n in both]
        return repr(counts).encode()

    transcript(World(partial(drawn, 0), Price(epsilon=2.0), 1), 0)
    with pytest.raises(Diverged, match="gives the same bits to another input"):
        transcript(World(partial(drawn, 1), Price(epsilon=2.0), 1), 0)


def test_less_is_taken_for_granted_of_a_stranger() -> None:
    remembered = dict[str, int]()

    def cached(which: bool, opened: Open) -> bytes:
        return str(remembered.setdefault("counts", 5 + which)).encode()

    def coarse(which: bool, opened: Open) -> bytes:
        opened("mine").words(1, np.uint64)
        return _counted(opened, 5 + which)

    for draw, said in ((cached, "no noise is asked for"), (coarse, "no law of dpicl asked for")):
        with pytest.raises(Diverged, match=said):
            transcript(World(draw, Price(epsilon=1.0), 1, stranger=True), 0)
    still = World(lambda which, opened: _counted(opened, 5), Price(epsilon=1.0), 1, stranger=True)
    case = Case("still", "other", lambda rng: still, stranger=True)
    assert audit_transcripts(case, seed=0, count=60).broken.startswith("no row moved anything")

    def crash(which: bool, opened: Open) -> bytes:
        raise ValueError("no row says x")

    crashing = World(crash, Price(epsilon=1.0), 1, stranger=True)
    case = Case("crash", "other", lambda rng: crashing, stranger=True)
    assert "ValueError: no row says x" in audit_transcripts(case, seed=0, count=1).broken


def test_counts_are_whole() -> None:
    with pytest.raises(TypeError):
        noisy_counts([0.5], epsilon=Fraction(1), stream=seeded())  # type: ignore[list-item]


def test_a_stream_of_a_release_keeps_nothing_and_nothing_of_the_product_listens() -> None:
    kinds = [
        f"{path.name}: {node.name}"
        for path in Path(dpicl.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
        and any(
            isinstance(base, ast.Name) and base.id in ("Stream", "Draws") for base in node.bases
        )
    ]
    assert not kinds
    stream = Stream(bytes(32), simulated=True)
    before = set(vars(stream))
    noisy_counts([1, 2], epsilon=Fraction(1), stream=stream)
    assert set(vars(stream)) == before


def _noise_calls(tree: ast.AST, inside: str = "") -> Iterator[str]:
    """Functions in which noise is drawn."""
    for child in ast.iter_child_nodes(tree):
        name = child.name if isinstance(child, ast.FunctionDef) else inside
        called = child.func if isinstance(child, ast.Call) else None
        if isinstance(called, ast.Name) and called.id in NOISE:
            yield inside
        yield from _noise_calls(child, name)


def test_noise_is_drawn_by_laws_alone() -> None:
    found = 0
    for path in MECHANISMS.glob("*.py"):
        if path.name != "samplers.py":
            calls = list(_noise_calls(ast.parse(path.read_text("utf-8"))))
            assert set(calls) <= {"draw"}, path.name
            found += len(calls)
    assert found >= 6


def test_every_law_has_a_loss() -> None:
    not_laws = {"Sequences", "JointLaw"}  # which a law draws by
    laws = {
        kind
        for path in MECHANISMS.glob("*.py")
        for kind in vars(import_module(f"dpicl.mechanisms.{path.stem}")).values()
        if isinstance(kind, type) and hasattr(kind, "draw") and kind.__name__ not in not_laws
    }
    looked_at_together = {AreBelow}
    default = losses._loss.dispatch(object)
    assert len(laws) >= 9
    assert {law for law in laws if losses._loss.dispatch(law) is default} == looked_at_together


def _step(law: object, exact: object, other: object, output: object) -> ForcedStep:
    return ForcedStep("", law, exact, other, output)  # type: ignore[arg-type]


def test_laws_add_up_to_one() -> None:
    votes = np.array([3, 1, 0, 3, -5], dtype=object)
    flip, chosen = PermuteAndFlip(Fraction(3, 2), 2), BoundedRange(Fraction(3, 2), 2)
    places = range(len(votes))
    assert math.fsum(math.exp(losses._flipped(votes, i, flip)) for i in places) == pytest.approx(1)
    assert math.fsum(math.exp(losses._chosen(votes, i, chosen)) for i in places) == pytest.approx(1)
    counts, top = [4, 4, 2, 0], JointTop(2, Fraction(3), 2)
    sequences = permutations(range(4), 2)
    told = (math.exp(losses._sequence(counts, places, top)) for places in sequences)
    assert math.fsum(told) == pytest.approx(1)


def test_permute_and_flip_is_the_largest_after_exponential_noise() -> None:
    """Two candidates, where the integral is known: 1 - e^-g / 2 of the one ahead by g."""
    for gap in (0, 1, 4):
        law = PermuteAndFlip(Fraction(1), 1)
        ahead = math.exp(losses._flipped(np.array([gap, 0], dtype=object), 0, law))
        assert ahead == pytest.approx(1 - math.exp(-gap) / 2)


def test_tests_under_one_threshold_are_added_up_over_its_noise() -> None:
    """Against the sum over both noises, of small units."""
    vector, threshold = SparseVector(Fraction(3, 2), 1), 2
    totals, others, said = [0, 1, 3], [1, 2, 4], [True, True, False]
    noise = np.array([7], dtype=object)
    steps = [
        _step(
            AreBelow(vector, threshold),
            (np.array([one], dtype=object), noise),
            (np.array([other], dtype=object), noise),
            np.array([below]),
        )
        for one, other, below in zip(totals, others, said, strict=True)
    ]
    weights = {z: math.exp(-abs(z) * 0.75) for z in range(-60, 61)}
    all_of_it = sum(weights.values())

    def chance(sums: list[int]) -> float:
        total = 0.0
        for level, weight in weights.items():
            each = weight / all_of_it
            for one, below in zip(sums, said, strict=True):
                under = sum(w for z, w in weights.items() if one + z < threshold + level)
                each *= (under if below else all_of_it - under) / all_of_it
            total += each
        return total

    (loss,) = losses.losses(steps)
    assert loss.ratio == pytest.approx(math.log(chance(totals) / chance(others)), abs=1e-9)
    assert loss.part == pytest.approx(abs(loss.ratio) / 1.5)
    large = [
        _step(
            AreBelow(SparseVector(Fraction(3, 2), UNITS), threshold * UNITS),
            (step.exact[0] * UNITS, noise),
            (step.other[0] * UNITS, noise),
            step.output,
        )
        for step in steps
    ]
    (of_units,) = losses.losses(large)
    assert abs(of_units.ratio) <= 1.5 * (1 + 1e-6)


def test_whole_numbers_beyond_floats_are_told_apart() -> None:
    law = LaplaceCounts(Fraction(1, 2), 3)
    here, there = [2**70], [2**70 + 3]
    (loss,) = losses.losses([_step(law, here, there, here)])
    assert loss.ratio == 0.5 and loss.part == 1


def test_a_transcript_is_the_same_again() -> None:
    case = next(case for case in every_case() if case.name == "aim_tabicl: laplace")
    one, two = (audit_transcripts(case, seed=5, count=4) for _ in range(2))
    assert (one.steps, one.sum, one.step) == (two.steps, two.sum, two.step)


def test_what_is_forced_is_what_was_drawn() -> None:
    recorded = Transcript(1)
    published = _counted(recorded.opened, 3)
    forcing = Forcing(recorded, 1)
    assert _counted(forcing.opened, 900) == published
    (step,) = forcing.finish()
    assert step.exact == [3] and step.other == [900]
