"""The first queries of a run as models were asked them, with and without demonstrations: for
whoever has not yet seen what a model reads.

Guarantee   none spent: public queries, and what was released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dpicl.engine.artefacts import LOG_PROBABILITY, PREDICTIONS
from dpicl.methods.common import ZERO_SHOT
from dpicl.pipeline import BY, asked_by
from dpicl.report.cells import is_released, place_of, read_prompts, read_stored, stated_of, unit_of

QUERIES = 2
"""The first of the run, whatever was answered."""


@dataclass(frozen=True)
class Asked:
    """One query, its truth, and what was answered: by model, empty of the run's own, without
    demonstrations and with them.
    """

    text: str
    truth: str
    answers: Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class FirstAnswers:
    """Queries of one unit, and the demonstrations of the least epsilon and the most shots, as
    released.
    """

    method: str
    epsilon: float
    shots: int
    demonstrations: str
    queries: tuple[Asked, ...]


def first_answers(units: Iterable[Path], is_public: Callable[[str], bool]) -> FirstAnswers | None:
    """Of the first unit, in this order, whose model was shown demonstrations and chose among
    labels. Raises RunError: a file is damaged.
    """
    for unit in units:
        method, dataset, _ = unit_of(unit)
        if (
            is_public(dataset)
            and (unit / PREDICTIONS).exists()
            and (found := _of(unit, method)) is not None
        ):
            return found
    return None


def _of(unit: Path, method: str) -> FirstAnswers | None:
    table = read_stored(unit, PREDICTIONS)
    if not any(name.startswith(LOG_PROBABILITY) for name in table.column_names) or not {
        "truth",
        "answer",
    } <= {*table.column_names}:
        return None
    rows = table.select(["cell", "query", "truth", "answer"]).to_pandas()
    rows = rows[rows["query"] < QUERIES].astype({"cell": str, "truth": str, "answer": str})
    shown = [
        key
        for key in rows["cell"].unique()
        if key.startswith("icl,") and is_released(key) and "draw" not in stated_of(key)
    ]
    if not shown:
        return None
    key = min(shown, key=lambda one: (place_of(one)[1], -place_of(one)[2]))
    prompts = read_prompts(unit, range(QUERIES))
    bare, full = prompts.get(ZERO_SHOT.key, {}), prompts.get(key, {})
    if not bare or any(not full.get(query, "").endswith(text) for query, text in bare.items()):
        return None
    given = {
        (cell, query): answer
        for cell, query, answer in rows[["cell", "query", "answer"]].itertuples(
            index=False, name=None
        )
    }
    truth = rows.drop_duplicates("query").set_index("query")["truth"]
    models = dict.fromkeys(
        model
        for asked, model in map(asked_by, (place_of(one)[0] for one in rows["cell"].unique()))
        if asked == "icl"
    )

    def of_model(base: str, query: int, model: str) -> str:
        system, comma, rest = base.partition(",")
        return str(given.get((f"{system}{BY}{model}{comma}{rest}" if model else base, query), ""))

    queries = (
        Asked(
            text,
            truth[query],
            {
                model: (of_model(ZERO_SHOT.key, query, model), of_model(key, query, model))
                for model in models
            },
        )
        for query, text in sorted(bare.items())
    )
    _, epsilon, shots, _ = place_of(key)
    return FirstAnswers(
        method,
        epsilon,
        int(shots),
        full[min(bare)].removesuffix(bare[min(bare)]).strip("\n"),
        tuple(queries),
    )
