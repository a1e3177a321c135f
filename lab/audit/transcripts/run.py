"""Transcripts of a case: each is drawn on one neighbour, forced upon the other, and held against
what the method states.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpicl.ground.randomness import stream
from lab.audit.transcripts.losses import Loss, losses
from lab.audit.transcripts.record import Coins, Diverged, Forcing, Step, Transcript
from lab.audit.transcripts.worlds import Case, Price, World

_OF_ROWS = ("contribution ", "subsample ")
_ENOUGH = 50
"""Transcripts of which some tell something, where rows are counted at all."""
_ROUNDING = 1e-9
"""Of sums of logarithms, as a share of what is stated."""


@dataclass(frozen=True)
class Found:
    """What one transcript tells: shares of what is stated, at most 1.

    Attributes:
        sum: of all steps together.
        step: of the step that tells most of its own part.
    """

    sum: float
    step: float
    steps: int


@dataclass(frozen=True)
class Tally:
    """What the transcripts of a case told.

    Attributes:
        broken: what was wrong, as a sentence; empty where nothing was.
        seconds: of the processor.
    """

    case: str
    transcripts: int
    steps: int
    sum: float
    step: float
    broken: str
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether nothing told more than it states."""
        return not self.broken


def transcript(world: World, seed: int) -> Found:
    """One transcript. Raises Diverged: rows decide which steps there are, or what is published
    beside them, or a step tells more than it states.
    """
    if world.stranger:  # what is remembered from one draw to the next shows in the next
        world.draw(True, Transcript(seed + 1).opened)
    recorded = Transcript(seed)
    published = world.draw(False, recorded.opened)
    if world.stranger:
        _check_stranger(recorded)
    forcing = Forcing(recorded, world.rows)
    again = world.draw(True, forcing.opened)
    steps = forcing.finish()
    if again != published:
        raise Diverged("what is published differs though all draws are the same")
    return _held(losses(steps), world.price)


def _check_stranger(recorded: Transcript) -> None:
    """Raises Diverged: a method of another package asks for no noise, or for bits that are not
    those by which rows of a person, or of a sample, are chosen.
    """
    if not any(isinstance(one, Step) for passed in recorded.passed.values() for one in passed):
        raise Diverged("no noise is asked for")
    for (name, _), passed in recorded.passed.items():
        if any(isinstance(one, Coins) for one in passed) and not name.startswith(_OF_ROWS):
            raise Diverged(f"stream {name!r}: bits are drawn that no law of dpicl asked for")


def _held(told: Sequence[Loss], price: Price) -> Found:
    """Each step and all together. Raises Diverged: they tell more than is stated."""
    pure = min(price.epsilon, price.step) < math.inf
    gaussian = min(price.squared, price.movement) < math.inf
    for loss in told:
        if (loss.movement and not gaussian) or (loss.ratio and not pure and not loss.squared):
            raise Diverged("a step has a kind of noise that is not what is paid for")
        if loss.variance < price.variance * (1 - _ROUNDING):
            raise Diverged(
                f"noise of variance {loss.variance:.6g}, and {price.variance:.6g} is paid for"
            )
    step = max((loss.part for loss in told), default=0.0) / price.rows
    step = max(step, *(loss.movement / price.movement for loss in told), 0.0)
    step = max(step, *(abs(loss.ratio) / price.step for loss in told), 0.0)
    telling = sum(bool(loss.ratio or loss.movement or loss.failed) for loss in told)
    shares = {
        "log-ratios": abs(math.fsum(loss.ratio for loss in told)) / price.epsilon,
        "squared movements": math.fsum(loss.squared for loss in told) / price.squared,
        "telling steps": telling / price.steps,
    }
    failed = math.fsum(loss.failed for loss in told)
    if failed > price.failed:
        raise Diverged(f"outputs that the neighbour never has: {failed:.3g} of {price.failed:.3g}")
    if step > 1 + _ROUNDING:
        raise Diverged(f"one step tells {step:.6g} times what it states")
    for name, share in shares.items():
        if share > 1 + _ROUNDING:
            raise Diverged(f"{name}: {share:.6g} times what is stated")
    return Found(max(shares.values()), step, len(told))


def audit_transcripts(
    case: Case,
    *,
    seed: int,
    count: int | None = None,
    seconds: float = math.inf,
    progress: Callable[[int], None] = lambda done: None,
) -> Tally:
    """So many transcripts of a case, or as many as so many seconds of the processor allow; stops at
    the first that tells more than is stated.
    """
    start, done, steps, largest, broken = time.process_time(), 0, 0, [0.0, 0.0], ""
    while (count is None or done < count) and time.process_time() - start < seconds and not broken:
        rng = stream(seed, "transcripts", case.name, str(done)).generator()
        try:
            found = transcript(case.make(rng), int(rng.integers(2**62)))
        except Diverged as wrong:
            broken = f"transcript {done}: {wrong}"
        except Exception as wrong:
            if not case.stranger:
                raise
            broken = f"transcript {done}: {type(wrong).__name__}: {wrong}"
        else:
            steps += found.steps
            largest = [max(largest[0], found.sum), max(largest[1], found.step)]
        done += 1
        progress(done)
    if case.stranger and not broken and done >= _ENOUGH and not any(largest):
        broken = "no row moved anything: what is counted is not what is there"
    spent = time.process_time() - start
    return Tally(case.name, done, steps, largest[0], largest[1], broken, spent)
