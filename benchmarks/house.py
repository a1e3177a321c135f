"""The house counted from its tree, and what a release of a table costs a plain process.
`make bench TOPIC=house`.

Counted over the Python files that git tracks in dpicl, tasks, flows and infra. A caller of a
private function is a place that names it; a circle is a set of modules that import each other,
imports inside functions included.
"""

from __future__ import annotations

import ast
import compileall
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import networkx
import numpy as np

from benchmarks.figures import Figures, bench, sized
from dpicl.methods import METHODS

ROOT = Path(__file__).parents[1]
PRODUCT = ("dpicl", "tasks", "flows", "infra")
ROWS, COLUMNS = 2_000, 8
FOREIGN = ("prefect", "dask", "distributed", "great_expectations", "torch", "jax", "matplotlib")
_PROGRAM = """
import json, resource, sys
from dpicl.cli import main
sys.argv = ["dpicl", *sys.argv[1:]]
try:
    main()
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    loaded = sorted({name.partition(".")[0] for name in sys.modules})
    print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, loaded]), file=sys.stderr)
"""  # noqa: E501


def product() -> dict[str, ast.Module]:
    """Trees of the product's files, by path."""
    listed = subprocess.run(
        ["git", "ls-files", "--", *PRODUCT], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    return {
        path: ast.parse((ROOT / path).read_text("utf-8")) for path in listed if path.endswith(".py")
    }


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a file, methods and inner ones too."""
    return (
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How long a function is."""
    return (node.end_lineno or 0) - node.lineno + 1


def one_caller(trees: Mapping[str, ast.Module]) -> float:
    """Share of private functions that are named in exactly one place, in per cent."""
    private, once = 0, 0
    for tree in trees.values():
        named = Counter(
            node.id if isinstance(node, ast.Name) else node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Name | ast.Attribute)
        )
        names = [node.name for node in functions(tree) if re.match(r"_[^_]", node.name)]
        private += len(names)
        once += sum(named[name] == 1 for name in names)
    return 100 * once / private


def circles(trees: Mapping[str, ast.Module]) -> list[list[str]]:
    """Modules that import each other, whenever they do so; names that only types need do not
    count.
    """
    names = {
        path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): tree
        for path, tree in trees.items()
    }
    graph = networkx.DiGraph()
    for name, tree in names.items():
        graph.add_edges_from(
            (name, other)
            for other in _imported(tree) & names.keys()
            if not name.startswith(f"{other}.")
        )
    return [
        sorted(found) for found in networkx.strongly_connected_components(graph) if len(found) > 1
    ]


def _imported(tree: ast.Module) -> set[str]:
    for_types = {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
        for child in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node not in for_types:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def count_house(figures: Figures) -> None:
    """What stands in the tree."""
    trees = product()
    lines = {path: len((ROOT / path).read_text("utf-8").splitlines()) for path in trees}
    for package in PRODUCT:
        print(
            f"{package:10s} "
            f"{sum(count for path, count in lines.items() if path.startswith(package)):7,d} lines"
        )
    quoted = re.compile(rf"[\"']({'|'.join(METHODS)})[\"']")
    elsewhere = [path for path in trees if not path.startswith("dpicl/methods/")]
    shown = subprocess.run(
        ["git", "ls-files", "--", "tests/packages"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    figures.at_most("files-of-a-new-method", sum(path.endswith(".py") for path in shown), 1)
    named = sum(
        bool(quoted.search(line))
        for path in elsewhere
        for line in (ROOT / path).read_text("utf-8").splitlines()
    )
    figures.at_most("quoted-method-names-outside-methods", named, 0)
    figures.at_most("product-lines", sum(lines.values()), 27_000)
    figures.at_most("private-functions-with-one-caller", one_caller(trees), 40, " %")
    figures.at_most("files-over-300-lines", sum(count > 300 for count in lines.values()), 0)
    median = statistics.median(
        lines_of(node) for tree in trees.values() for node in functions(tree)
    )
    figures.at_least("median-function-lines", median, 8)
    figures.at_most("median-function-lines", median, 14)
    found = circles(trees)
    for circle in found:
        print("circle:", " ".join(circle))
    figures.at_most("import-circles", len(found), 0)
    figures.at_most("readme-lines", len((ROOT / "README.md").read_text("utf-8").splitlines()), 130)


def write_visits(folder: Path) -> None:
    """A table of a user and its contract: numbers and categories that say something about the
    label.
    """
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, ROWS)
    numbers = np.clip(rng.normal(50 + 10 * label[:, None], 15, (ROWS, COLUMNS - 1)), 0, 100).round(
        1
    )
    names = [f"reading_{number}" for number in range(COLUMNS - 1)]
    rows = [
        ",".join([*map(str, row), "yes" if answer else "no"])
        for row, answer in zip(numbers, label, strict=True)
    ]
    (folder / "data").mkdir()
    (folder / "data" / "visits.csv").write_text(
        "\n".join([",".join([*names, "returned"]), *rows, ""]), "utf-8"
    )
    fields = [
        {"name": name, "type": "number", "constraints": {"minimum": 0, "maximum": 100}}
        for name in names
    ]
    fields.append({"name": "returned", "type": "string", "constraints": {"enum": ["no", "yes"]}})  # type: ignore[dict-item]
    (folder / "visits.schema.json").write_text(json.dumps({"fields": fields}), "utf-8")


def _command(arguments: list[str], folder: Path) -> tuple[float, float, list[str]]:
    """Processor seconds, peak MiB and loaded packages of one command."""
    environment = {
        **os.environ,
        "DPICL_HOME": str(folder / "home"),
        "DPICL_DATA": str(folder / "data"),
    }
    environment |= {
        "DPICL_CONTRACTS": str(folder / "contracts"),
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "",
    }
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return tuple(json.loads(done.stderr.splitlines()[-1]))  # type: ignore[return-value]


def measure_release(figures: Figures) -> None:
    """A release of a table of 2,000 rows by the command line, in processes of their own, and the
    same asked for again.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_visits(folder)
        (folder / "contracts").mkdir()
        compileall.compile_dir(ROOT / "dpicl", quiet=1)  # as an installed program is
        _command(
            [
                "contract",
                "new",
                "visits.csv",
                "--schema",
                "visits.schema.json",
                "--label",
                "returned",
                "--positive",
                "yes",
            ],
            folder,
        )
        contract = folder / "contracts" / "visits.yaml"
        contract.write_text(contract.read_text("utf-8").replace("draft: true\n", ""), "utf-8")
        release = ["protect", "visits", "--method", "mst_tabicl", "--epsilon", "1", "--shots", "8"]
        first, again = (
            _command([*release, "--out", f"{number}.jsonl"], folder) for number in range(2)
        )
        imported = statistics.median(_seconds("import dpicl") for _ in range(sized(5, 1)))
    figures.at_most("protect-mst-processor-seconds", first[0], 1.5, " s")
    figures.at_most("protect-mst-memory", first[1], 200, " MiB")
    figures.at_most("protect-mst-again-processor-seconds", again[0], 0.8, " s")
    figures.at_most("import-dpicl-processor-seconds", imported, 0.4, " s")
    figures.exactly(
        "foreign-modules-of-a-release",
        ",".join(name for name in FOREIGN if name in first[2]) or 0,
        0,
    )


def _seconds(program: str) -> float:
    told = (
        f"{program}; import resource; used = resource.getrusage(0); print(used.ru_utime + "
        f"used.ru_stime)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return float(
        subprocess.run(
            [sys.executable, "-c", told],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )


PARTS = (count_house, measure_release)

if __name__ == "__main__":
    bench(PARTS)
