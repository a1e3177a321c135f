"""Exact transcripts of every method: which are covered, how many a second, the most that a step and
a whole draw told of what is stated, and which mistakes are found.

    python -m lab.benchmarks.referee_parts.transcripts
"""

from __future__ import annotations

from dpicl.methods import METHODS
from lab.audit.transcripts.cases import every_case
from lab.audit.transcripts.mutants import MUTANTS
from lab.audit.transcripts.run import audit_transcripts
from lab.benchmarks.figures import Figures, sized

COUNT = sized(400, 10)
"""Transcripts of each kind of worlds."""
MOST_OF_MUTANTS = 2000
ROUNDING = 1e-6


def measure(figures: Figures) -> None:
    """All kinds of worlds one after another, then all mutants."""
    tallies = []
    for case in every_case():
        tallies.append(audit_transcripts(case, seed=1, count=COUNT))
        found = tallies[-1]
        print(
            f"{found.case}: {found.transcripts:,} transcripts, {found.steps:,} steps, in sum "
            f"{found.sum:.4f}, one step {found.step:.4f} {found.broken}",
            flush=True,
        )
    covered = {case.method for case in every_case()}
    figures.exactly(
        "methods covered by transcripts",
        f"{len(covered)} of {len(METHODS)}",
        f"{len(METHODS)} of {len(METHODS)}",
    )
    figures.exactly(
        "kinds of worlds that hold",
        f"{sum(tally.holds for tally in tallies)} of {len(tallies)}",
        f"{len(tallies)} of {len(tallies)}",
    )
    transcripts = sum(tally.transcripts for tally in tallies)
    seconds = sum(tally.seconds for tally in tallies)
    figures.at_least("transcripts a second of one core", transcripts / seconds, 40)
    figures.at_most("most that all steps told", max(tally.sum for tally in tallies), 1 + ROUNDING)
    figures.at_most("most that one step told", max(tally.step for tally in tallies), 1 + ROUNDING)
    mutants = {mutant.name: mutant.tally(seed=0, count=MOST_OF_MUTANTS) for mutant in MUTANTS}
    for name, tally in mutants.items():
        print(f"{name}: {tally.broken or 'not found'}", flush=True)
    caught = sum(not tally.holds for tally in mutants.values())
    figures.exactly(
        "mistakes found by transcripts",
        f"{caught} of {len(mutants)}",
        f"{len(mutants)} of {len(mutants)}",
    )


if __name__ == "__main__":
    _figures = Figures()
    measure(_figures)
    _figures.finish()
