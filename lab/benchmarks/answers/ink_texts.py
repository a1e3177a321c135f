"""What generated texts teach a classifier, at equal epsilon: invisible ink with few voters against
kept batches with many.

News of four kinds, private; `topic_model` writes, counted from two other public sets, since no
trained weights are at hand: the models in the box know no language, and their texts teach nothing
whatever is done. So this says which mechanism carries more of the rows' words at the same price,
and not how an LLM's texts would read. Naive Bayes on the texts' words answers the real test texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB

from dpicl.contract.pipeline import Unit
from dpicl.contract.text import TextContract
from dpicl.data.prompts import instruction_piece
from dpicl.data.text_files import load_texts, split_texts
from dpicl.ground.types import Demonstration, SplitTable
from dpicl.home.settings import Settings
from dpicl.methods import METHODS, Options, unit_of
from dpicl.methods.base import draws_for
from dpicl.methods.few_shot_generation import job_of, write, write_public
from dpicl.methods.grid import points
from dpicl.methods.text_method import Memory
from lab.benchmarks.answers.topic_model import TopicModel
from lab.benchmarks.figures import Figures, sized

EPSILONS, SHOTS, SEEDS, TOKENS = sized((1.0, 4.0), (4.0,)), sized(40, 4), sized(4, 1), sized(20, 3)
KEPT_VOTERS, INK_VOTERS = 100, 8
"""The voters of kept batches are those of the pipeline `few-shot-demo`."""
INK, KEPT = "invisible ink", "kept batches"
JUDGED = 4.0
_KEPT = {
    "mechanism": "clipped-logits",
    "batches": "fixed",
    "voters": KEPT_VOTERS,
    "max_tokens": TOKENS,
}
WAYS: dict[str, dict[str, object]] = {
    KEPT: _KEPT,
    f"{KEPT}, clip 20": {**_KEPT, "clip": 20.0},
    f"{KEPT}, clip 40": {**_KEPT, "clip": 40.0},
    INK: {
        "mechanism": "invisible-ink",
        "batches": "fixed",
        "voters": INK_VOTERS,
        "max_tokens": TOKENS,
        "temperature": 0.7,
    },
}
"""Both have a free parameter that sets how greedy they are: one of three clips is best for kept
batches, and is what counts.
"""
PUBLIC = ("dbpedia", "amazon")


def read(settings: Settings, name: str) -> tuple[TextContract, SplitTable]:
    """A set that is at hand."""
    contract = settings.texts(name)
    return contract, split_texts(load_texts(contract, data_folder=settings.data), contract)


def unit_for(contract: TextContract, seed: int, way: str) -> Unit:
    """One seed of one way."""
    chosen = Options.model_validate({"few_shot_generation": WAYS[way]})
    return unit_of(
        "few_shot_generation", contract.name, seed, EPSILONS, (SHOTS,), (), False, chosen
    )


def accuracy(texts: tuple[Demonstration, ...], split: SplitTable, words: Sequence[str]) -> float:
    """Of the classifier on the real test texts, in per cent; of labels alone where no text has a
    word.
    """
    counts = CountVectorizer(vocabulary=words)
    learned = MultinomialNB().fit(
        counts.fit_transform([text.text for text in texts]), [text.label for text in texts]
    )
    tests = split.test.data
    answers = learned.predict(counts.transform(tests.column("text").to_pylist()))
    return 100 * float(
        np.mean(answers == np.array(tests.column("label").to_pylist(), dtype=object))
    )


def _prompt_words(contract: TextContract) -> str:
    words = contract.prompts.generation
    assert words is not None
    return f"{instruction_piece(contract)} {words.label} {words.text}"


def measure(figures: Figures) -> None:
    """Mean accuracies over the seeds, of both ways, and of texts from the instruction alone."""
    settings = Settings.from_environment()
    if settings.data is None:
        print("DPICL_DATA is not set, not measured")
        return
    contract, split = read(settings, "agnews")
    topics: dict[str, list[str]] = {}
    for name in PUBLIC:
        data = read(settings, name)[1].train.data
        for label, text in zip(
            data.column("label").to_pylist(), data.column("text").to_pylist(), strict=True
        ):
            topics.setdefault(f"{name} {label}", []).append(text)
    model = TopicModel.of(topics, _prompt_words(contract))
    found: dict[tuple[str, float], list[float]] = {}
    for seed in range(SEEDS):
        for way in WAYS:
            unit = unit_for(contract, seed, way)
            asked = points(METHODS[unit.method], unit).values()
            job = job_of(contract, asked, Memory(draws_for(contract, seed)))
            (texts,) = write(split.train, contract, model, [job])
            judged = [(way, point.epsilon, texts[point.key]) for point in asked]
            if way == INK:
                public = write_public(contract, unit, model)
                judged += [("no rows", 0.0, shown) for shown in public.values()]
            for named, epsilon, demonstrations in judged:
                found.setdefault((named, epsilon), []).append(
                    accuracy(demonstrations, split, model.names[1:])
                )
    means = {key: fmean(values) for key, values in found.items()}
    for (way, epsilon), mean in sorted(means.items(), key=lambda one: (one[0][1], one[0][0])):
        spread = np.std(found[way, epsilon], ddof=1) / SEEDS**0.5
        print(
            f"{way:>21}, epsilon {epsilon:g}: {mean:.1f} % of test texts, standard error "
            f"{spread:.1f}",
            flush=True,
        )
    ink, kept = means[INK, JUDGED], max(means[way, JUDGED] for way in WAYS if way != INK)
    figures.at_least("invisible-ink-classifier-over-kept-batches", ink - kept, 0, " points")
    figures.at_least(
        "invisible-ink-classifier-over-no-rows", ink - means["no rows", 0.0], 0, " points"
    )


def main() -> None:
    """Only this."""
    figures = Figures()
    measure(figures)
    figures.finish()


if __name__ == "__main__":
    main()
