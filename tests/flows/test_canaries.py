"""Rows with marked values go in; outside the private folder nobody ever sees them again."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tests.harness import World, complaint, install, shop, until
from tests.leaks import api, files, hits

CANARY_ROWS = 20
_rng = random.Random(20240311)
INTEGERS = [_rng.randrange(10**8, 10**9) for _ in range(CANARY_ROWS)]
REALS = [round(_rng.uniform(1, 99), 9) for _ in range(CANARY_ROWS)]
WORDS = [f"canary-{_rng.randrange(16**8):08x}" for _ in range(CANARY_ROWS)]
CANARIES = [*INTEGERS, *REALS, *WORDS]


def contract(name: str, *, private: bool) -> dict[str, Any]:
    """Wide numbers, a column that is ignored, and a published split: canaries are never queries."""
    content = shop(name, private=private)
    content["source"]["ignore"] = ["note"]
    content["split"] = {"column": "part", "train": "train", "test": "test"}
    content["columns"] = {
        **content["columns"],
        "age": {"type": "integer", "bounds": [0, 10**9]},
        "part": {"type": "category", "categories": ["train", "test"]},
    }
    return content


def table(spoilt: str = "") -> str:
    """Canaries among ordinary rows; `spoilt` replaces a category of one canary row."""
    lines = ["age,spent,colour,member,bought,part,note"]
    for number in range(CANARY_ROWS):
        colour = spoilt if spoilt and number == 7 else _rng.choice(["red", "green", "blue"])
        lines.append(f"{INTEGERS[number]},{REALS[number]},{colour},no,{_rng.choice(['no', 'yes'])},train,{WORDS[number]}")
    for number in range(120):
        lines.append(f"{number},{number % 90}.5,red,yes,{'no' if number % 2 else 'yes'},{'test' if number % 3 else 'train'},plain")
    return "\n".join(lines) + "\n"


def left_behind(world: World, *said: str) -> dict[str, bytes]:
    """Everything but the private folder and the data themselves."""
    left = {
        **files(path for path in (*world.root.iterdir(), *world.home.iterdir()) if path.name not in ("data", "home", "private")),
        **api(world),
        "server.log": (world.root / "server.log").read_bytes(),
        "said": "".join(said).encode(),
    }
    assert any(name.endswith("prefect.db") for name in left) and b"canaries-" in left["flow_runs"] and len(left["logs"]) > 1000
    return left


def test_the_search_finds_what_is_there(world: World, tmp_path: Path) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": INTEGERS, "b": REALS, "c": WORDS}), tmp_path / "x.parquet", compression="zstd")
    np.savez(tmp_path / "x.npz", a=np.array(INTEGERS), b=np.array(REALS))
    (tmp_path / "x.csv").write_text(table())
    found = hits(files([tmp_path]), CANARIES)
    assert len(found) == 3 * CANARY_ROWS + 2 * CANARY_ROWS + 3 * CANARY_ROWS


def test_no_canary_leaves_a_private_run(world: World) -> None:
    name = install(world, contract("canaries", private=True), table())
    arguments = ("--datasets", name, "--epsilons", "1,8", "--shots", "2,4", "--seeds", "0", "--model", "fake")
    finished = world.dpicl("run", "private", *arguments, "--run-id", "canaries-private")
    assert finished.returncode == 0, finished.stderr
    assert len(list(world.run("canaries-private").glob("units/*/results.json"))) == 2
    assert not hits(left_behind(world, finished.stdout, finished.stderr), CANARIES)
    assert not [path for path in (world.home / "private").rglob("*") if path.is_file() and "canaries-private" in str(path)]


def test_no_canary_leaves_a_benchmark_run_with_baselines_and_no_noise(world: World) -> None:
    name = install(world, contract("bench", private=False), table())
    changes = {"model": "fake", "datasets": [name], "epsilons": ["1", "inf"], "shots": [2, 4], "seeds": [0]}
    run = world.sweep("canaries-bench", changes)
    assert (run / "results.csv").exists()
    assert not hits(left_behind(world), CANARIES)


def test_no_canary_leaves_a_run_whose_table_is_refused(world: World) -> None:
    name = install(world, contract("spoilt", private=True), table(spoilt=WORDS[7]))
    arguments = ("--datasets", name, "--methods", "ldp_tabicl", "--epsilons", "1", "--shots", "2", "--model", "fake")
    finished = world.dpicl("run", "private", *arguments, "--run-id", "canaries-spoilt")
    assert complaint(finished) == "spoilt.csv: column 'colour': is not one of the 3 categories (1 value)"
    until(lambda: b"3 categories" in api(world)["logs"], 20, "the log of the refused run")
    assert not hits(left_behind(world, finished.stdout, finished.stderr), CANARIES)
