"""A run as one side of a comparison, also before it is done, and whether two asked the same
queries.

Guarantee   none spent: reads what a run released, and its answers to public queries; no private
            row, no truth of one, and no ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from dpicl.ground.files import read_json
from dpicl.methods.evaluation import results_frame_columns
from dpicl.report.cells import read_stored
from dpicl.report.load import (
    RESULT_NUMBERS,
    Manifest,
    Model,
    Run,
    RunGrid,
    UsedContract,
    load_run,
    read_values,
)
from dpicl.runs.artefacts import PREDICTIONS, RESULTS, VALUES
from dpicl.runs.probe import DESCRIPTIONS
from dpicl.runs.results import MANIFEST, TIMING_COLUMNS, results_of, timings_of
from dpicl.runs.run_folder import Plan, not_run, read_plan


@dataclass(frozen=True)
class Side:
    """One of two runs: its folder, its plan, what is there of it, and how many of its units are
    done.
    """

    folder: Path
    plan: Plan
    run: Run
    done: int

    @property
    def name(self) -> str:
        """The run's name."""
        return self.folder.name

    @property
    def is_done(self) -> bool:
        """Whether all units have their results, or time left no room for them."""
        return self.done + sum(map(len, not_run(self.folder, self.plan).values())) == len(
            self.plan.units
        )

    @property
    def queries(self) -> dict[str, str]:
        """The digest of the queries, by data set, of those that are public."""
        return {
            path.stem: str(read_json(path))
            for path in sorted((self.folder / "queries").glob("*.json"))
        }


def side_of(folder: Path) -> Side:
    """Read a run.

    Raises:
        DpiclError: there is no such run, or a file of it is not what its name says.
    """
    plan = read_plan(folder)
    done = sum((folder / "units" / key / RESULTS).exists() for key in plan.units)
    return Side(
        folder,
        plan,
        load_run(folder) if (folder / MANIFEST).exists() else _unfinished(folder, plan),
        done,
    )


def _unfinished(folder: Path, plan: Plan) -> Run:
    """What the units left that are done and whose queries are public: how noisy other results are
    stands in the manifest alone.
    """
    keys = [key for key in plan.units if (folder / "units" / key / VALUES).exists()]
    described = next(
        (folder / name for name in DESCRIPTIONS.values() if (folder / name).exists()), None
    )
    pinned = sorted((folder / "contracts").glob("*.json"))
    manifest = Manifest(
        run_id=plan.run_id,
        pipeline=plan.pipeline_name,
        title=plan.pipeline.title,
        created_utc="",
        dpicl_version="",
        simulated=False,
        model=None if described is None else Model.model_validate(read_json(described)),
        writer=plan.writer.name if plan.writer else None,
        grid=RunGrid(seeds=list(plan.pipeline.seeds), draws=plan.pipeline.draw_count),
        contracts={path.stem: UsedContract(digest=str(read_json(path))) for path in pinned},
    )
    results = _frame(results_of(folder, keys), results_frame_columns(), RESULT_NUMBERS)
    timings = _frame(timings_of(folder, plan.units), TIMING_COLUMNS, ("seed", "seconds"))
    return Run(manifest, results, timings, (), read_values(folder))


def _frame(
    rows: Iterable[Mapping[str, Any]], columns: Sequence[str], numbers: Sequence[str]
) -> pd.DataFrame:
    frame = pd.DataFrame(list(rows), columns=list(columns))
    return frame.assign(**{name: pd.to_numeric(frame[name]).astype(float) for name in numbers})


def why_apart(first: Side, second: Side, dataset: str) -> str:
    """Why answers to a data set's queries cannot be compared one by one; empty where both runs
    asked the same ones, with the same truth.
    """
    if "charged" in (
        first.run.manifest.evaluation.get(dataset),
        second.run.manifest.evaluation.get(dataset),
    ):
        return "only noisy counts of right answers were released"
    for side in (first, second):
        if dataset not in side.queries:
            return f"{side.name} did not record which queries it asked"
    if first.queries[dataset] != second.queries[dataset]:
        return "the runs did not ask the same queries"
    truths = [_truth(side, dataset) for side in (first, second)]
    if truths[0] is None or truths[1] is None:
        return "the right answers were not stored"
    return "" if truths[0].equals(truths[1]) else "the same queries have other right answers"


def _truth(side: Side, dataset: str) -> pd.Series | None:
    """The right answers by query; all units of a data set have the same."""
    for key, unit in side.plan.units.items():
        path = side.folder / "units" / key
        if unit.dataset == dataset and (path / PREDICTIONS).exists():
            stored = read_stored(path, PREDICTIONS)
            if {"query", "truth"} <= set(stored.column_names):
                rows = stored.select(["query", "truth"]).to_pandas().drop_duplicates("query")
                return rows.set_index("query")["truth"].astype(str).sort_index()
    return None
