"""Whether an embedder tells the right answer: step 3 of DP-ICL without noise and without a model,
on summaries of SAMSum.

Of each dialogue 20 candidates, runs of three neighbouring turns, stand for what a model writes
without private rows; ten copies of the reference with four words in ten left out stand for the
ensemble's answers. Chosen is the candidate nearest to the answers' mean; it is judged by ROUGE-1
against the reference, beside a candidate drawn at random and the best one.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from dpicl.ground.randomness import stream
from dpicl.home.settings import Settings
from dpicl.mechanisms.noisy_embedding import EmbeddingNoise, nearest, whole_vectors
from dpicl.methods.ensemble_voting import RADIUS
from dpicl.models.embedding import Embedder, open_embedder
from lab.benchmarks.figures import Figures, sized

DIALOGUES, CANDIDATES, TURNS, ANSWERS, KEPT = sized(200, 4), 20, 3, 10, 0.6
SHARE_GOAL = 0.6


def _cases(path: Path) -> list[tuple[str, list[str], list[str]]]:
    """Reference, candidates and answers of each dialogue."""
    generator, cases = np.random.Generator(np.random.PCG64(0)), []
    for line in path.read_text("utf-8").splitlines():
        record = json.loads(line)
        turns = [turn.strip() for turn in record["dialogue"].splitlines() if turn.strip()]
        runs = [" ".join(turns[start : start + TURNS]) for start in range(len(turns) - TURNS + 1)][
            :CANDIDATES
        ]
        words = record["summary"].split()
        if len(runs) > TURNS and words:
            kept = generator.random((ANSWERS, len(words))) < KEPT
            cases.append(
                (record["summary"], runs, [" ".join(np.array(words)[one]) for one in kept])
            )
        if len(cases) == DIALOGUES:
            break
    return cases


def share_of_the_way(embedder: Embedder, path: Path) -> tuple[float, float, float, float]:
    """ROUGE-1 at random, as chosen and at best, and how much of the way from the first to the last
    the choice goes.
    """
    from rouge_score.rouge_scorer import RougeScorer

    scorer, means = RougeScorer(["rouge1"], use_stemmer=True), []
    for reference, candidates, answers in _cases(path):
        points = embedder.embed(candidates)
        centre = points.mean(axis=0)
        vectors = whole_vectors(embedder.embed(answers), centre=centre, radius=RADIUS)
        chosen = nearest(
            points, EmbeddingNoise(None).release(vectors, stream(0, "", "", "")), centre
        )
        rouge = [scorer.score(reference, candidate)["rouge1"].fmeasure for candidate in candidates]
        means.append((np.mean(rouge), rouge[chosen], max(rouge)))
    random, taken, best = (float(mean) for mean in np.mean(means, axis=0))
    return random, taken, best, (taken - random) / (best - random)


def measure(figures: Figures) -> None:
    """The default embedder has a goal."""
    data = Settings.from_environment().data
    if data is None:
        print("DPICL_DATA is not set, not measured")
        return
    random, taken, best, share = share_of_the_way(
        open_embedder(None), data / "text" / "samsum" / "test.jsonl"
    )
    print(
        f"hashed n-grams: ROUGE-1 {taken:.3f}, at random {random:.3f}, at best {best:.3f}: "
        f"{share:.2f} of the way"
    )
    figures.at_least("ensembles-embedder-share", share, SHARE_GOAL)
