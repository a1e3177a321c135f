"""Rows with marked values, tables of them, and faults that quote them as libraries do.

As a Dask preload it plants its faults in workers; the one of the flow's process is planted by
`all_flows`.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpicl.contract import Declared
from dpicl.ground.types import PrivateTable, SplitTable
from tests.harness import shop
from tests.library.text_contracts import lines, records

CANARY_ROWS = 20
_rng = random.Random(20240311)
# So long that no other digits hold them by chance: of nine digits some run in five hundred did.
INTEGERS = [_rng.randrange(10**14, 10**15) for _ in range(CANARY_ROWS)]
REALS = [round(_rng.uniform(1, 99), 9) for _ in range(CANARY_ROWS)]
WORDS = [f"canary-{_rng.randrange(16**8):08x}" for _ in range(CANARY_ROWS)]
CANARIES = [*INTEGERS, *REALS, *WORDS]
LEAKS = ("parameter", "exception", "printed", "on a worker", "result", "artifact")
MUTANTS = {kind: f"mutant-{_rng.randrange(16**8):08x}" for kind in LEAKS}
"""Values that `all_flows` lets out on purpose, each at another door."""

OUTSIDE = ("192.0.2.1", 9)
"""A documentation address, called on purpose: nobody is there."""

STAGES = ("ingest", "validate", "split", "randomise", "subsample", "aggregate")
"""Stages that read private rows of tables: the first in the flow's process, the others on
workers.
"""


def contract(name: str, *, private: bool, largest: int = 10**15) -> dict[str, Any]:
    """Wide numbers, a column that is ignored, and a published split or public queries: canaries are
    never queries.
    """
    content = shop(name, private=private)
    content["source"]["ignore"] = ["note", "part"] if private else ["note"]
    content["columns"] = {**content["columns"], "age": {"type": "integer", "bounds": [0, largest]}}
    if not private:
        content["columns"]["part"] = {"type": "category", "categories": ["train", "test"]}
        content["split"] = {"column": "part", "train": "train", "test": "test"}
    return content


def table(spoilt: str = "") -> str:
    """Ordinary rows with canaries deep among them; `spoilt` replaces a category of one canary
    row.
    """
    lines = ["age,spent,colour,member,bought,part,note"]
    for number in range(120):
        lines.append(
            f"{number},{number % 90}.5,red,yes,{'no' if number % 2 else 'yes'},{'test' if number % 3 else 'train'},plain"  # noqa: E501
        )
    for number in range(CANARY_ROWS):
        colour = spoilt if spoilt and number == 7 else ("red", "green", "blue")[number % 3]
        lines.append(
            f"{INTEGERS[number]},{REALS[number]},{colour},no,{'no' if number % 2 else 'yes'},train,{WORDS[number]}"  # noqa: E501
        )
    return "\n".join(lines) + "\n"


def texts() -> bytes:
    """Private texts with canaries deep among them, as JSON lines."""
    planted = [
        {"head": word, "body": f"{word} {integer} {real}"}
        for word, integer, real in zip(WORDS, INTEGERS, REALS, strict=True)
    ]
    return lines(
        [{**record, **planted[number % CANARY_ROWS]} for number, record in enumerate(records(40))]
    )


def fault(stage: str) -> str:
    """Name of the data set on which a stage fails."""
    return f"fault_{stage}"


def plant(module: Any, function: str, stage: str, act: Callable[[str], None] | None = None) -> None:
    """Make a library function do its work and then fail with the rows in its message, on one data
    set.
    """
    real = getattr(module, function)

    def faulty(*arguments: Any, **options: Any) -> Any:
        result = real(*arguments, **options)
        name = next(
            one.name
            for value in arguments
            for one in (value, getattr(value, "contract", None))
            if isinstance(one, Declared)
        )
        if name == fault(stage):
            raise ValueError(f"cannot use {_rows((*arguments, result))}")
        if act is not None:
            act(name)
        return result

    setattr(module, function, faulty)


def _rows(values: tuple[Any, ...]) -> list[Any]:
    """The private rows among a function's arguments and results."""
    for value in values:
        held = value.train if isinstance(value, SplitTable) else value
        held = held.data if isinstance(held, PrivateTable) else held
        if isinstance(held, pa.Table):
            return list(held.to_pylist())
    raise AssertionError("this function sees no rows: the fault would quote nothing")


def _die_once(name: str) -> None:
    """Kill this worker, rows in memory, the first time that it works on data set `doomed`."""
    died = Path(os.environ["DASK_TEMPORARY_DIRECTORY"], "died")
    if name == "doomed" and not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def dask_setup(_worker: Any) -> None:
    """Plant the faults of workers."""
    import dpicl.release.rows
    import tasks.expectations
    from dpicl.methods import dp_icl, few_shot_generation, ldp_tabicl
    from dpicl.methods.gdp_tabicl import GdpTabicl

    places = (
        (tasks.expectations, "evaluate"),
        (dpicl.release.rows, "split_table"),
        (ldp_tabicl, "collect"),
        (GdpTabicl, "prepare"),
        (GdpTabicl, "draw"),
    )
    for stage, (module, function) in zip(STAGES[1:], places, strict=True):
        plant(module, function, stage)
    plant(GdpTabicl, "baselines", "baselines", _die_once)
    plant(few_shot_generation, "write", "generate")
    plant(dp_icl, "consult", "consult")
