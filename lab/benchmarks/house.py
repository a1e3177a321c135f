"""The house counted from its tree, the walk of one release through it, and what that release costs
a plain process. `make bench TOPIC=house`.

Tokens are Python's (3.11) without comments, docstrings, line ends and indents, so that a layout
changes nothing. Counted are the files that git tracks. A circle is a set of modules that import
each other, imports inside functions included; names that only types need do not count.
"""

from __future__ import annotations

import ast
import compileall
import io
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import tokenize
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import networkx
import numpy as np

from dpicl.methods import METHODS
from lab.benchmarks.figures import Figures, bench, sized

ROOT = Path(__file__).parents[2]
PRODUCT, APART = ("dpicl", "tasks", "flows", "infra"), ("lab", "tools")
NET, NET_STANDS = "tests/net", "669f98be"
"""What users get from outside, and the commit since which no file of it may change."""
ROWS, COLUMNS = 2_000, 8
FOREIGN = ("prefect", "dask", "distributed", "great_expectations", "torch", "jax", "matplotlib")
CODE_ELSEWHERE = 117_406
"""Characters of code that is no Python, as the house had them before it was rebuilt."""
CODE = (".py", ".sql", ".html", ".css", ".js", ".yaml", ".yml", ".toml", ".sh", ".j2", ".mako")
_LAYOUT = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
)
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
_WALK = """
import json, sys, tempfile
import numpy as np, pandas as pd
import dpicl
made = np.random.default_rng(0)
rows = pd.DataFrame({"age": made.integers(18, 90, 500), "spent": made.random(500), "buys": made.choice(["no", "yes"], 500)})
schema = {"columns": {"age": {"type": "integer", "bounds": [18, 90]}, "spent": {"type": "real", "bounds": [0, 1]}, "buys": {"type": "category", "categories": ["no", "yes"]}}, "label": "buys"}
home = tempfile.mkdtemp()
release = lambda number: dpicl.protect(rows, schema, epsilon=1, account=f"walk{number}", method="gdp_tabicl", home=home)
release(0)
walked = set()
sys.setprofile(lambda frame, event, argument: walked.add(frame.f_code) if event == "call" else None)
release(1)
sys.setprofile(None)
own = [code for code in walked if "/dpicl/" in code.co_filename and "/site-packages/" not in code.co_filename and "<" not in code.co_filename]
named = [code for code in own if code.co_name[0] != "<"]
print(json.dumps([len(named), len({code.co_filename for code in named}), sum(name.partition(".")[0] == "dpicl" for name in sys.modules)]))
"""  # noqa: E501
_MISSPELT = """
import dpicl
from dpicl.release.request import ReleaseRequest
ReleaseRequest(dataset="x", epsilonn=5)
dpicl.protect("x", epsilon=1, budgett="two")
dpicl.Session().collect("x", "reports", epsilon=1, perid="2027-01")
"""


def tracked(*folders: str) -> list[Path]:
    """Files that git tracks in these folders, relative to the repository's root."""
    listed = subprocess.run(
        ["git", "ls-files", "--", *folders], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [Path(line) for line in listed.stdout.splitlines()]


def docstrings(tree: ast.AST) -> set[tuple[int, int]]:
    """Where texts begin that are statements of their own."""
    return {
        (node.lineno, node.col_offset)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }


def tokens(text: str) -> int:
    """The size of a Python file."""
    left_out = docstrings(ast.parse(text))
    found = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(one.type not in _LAYOUT and one.start not in left_out for one in found)


def written_elsewhere(path: Path) -> int:
    """Characters of code that is no Python: a whole file, or what stands in texts of several
    lines.
    """
    text = (ROOT / path).read_text("utf-8", errors="ignore")
    if path.suffix != ".py":
        return len(text)
    tree = ast.parse(text)
    left_out = docstrings(tree)
    return sum(
        len(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and "\n" in node.value.strip()
        and (node.lineno, node.col_offset) not in left_out
    )


@dataclass(frozen=True)
class House:
    """The product's Python files, by path."""

    trees: Mapping[Path, ast.Module]

    @classmethod
    def now(cls) -> House:
        """As it stands."""
        paths = [path for path in tracked(*PRODUCT) if path.suffix == ".py"]
        return cls({path: ast.parse((ROOT / path).read_text("utf-8")) for path in paths})

    @cached_property
    def modules(self) -> dict[str, ast.Module]:
        """By name."""
        return {
            ".".join(path.with_suffix("").parts).removesuffix(".__init__"): tree
            for path, tree in self.trees.items()
        }

    @cached_property
    def imports(self) -> networkx.DiGraph:
        """From each module to those that it imports, whenever it does so, and by string too."""
        graph = networkx.DiGraph()
        graph.add_nodes_from(self.modules)
        for name, tree in self.modules.items():
            found = _imported(tree) | set(imported_by_string(tree))
            graph.add_edges_from(
                (name, other)
                for other in found & self.modules.keys()
                if not name.startswith(f"{other}.")
            )
        return graph

    def circles(self) -> list[str]:
        """Sets of modules that import each other."""
        return [
            " ".join(sorted(component))
            for component in networkx.strongly_connected_components(self.imports)
            if len(component) > 1
        ]

    def unloaded(self) -> list[str]:
        """Modules that no other imports, and that no entry point, text or Makefile names."""
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        groups = [project.get("scripts", {}), *project.get("entry-points", {}).values()]
        entered = {target.partition(":")[0] for group in groups for target in group.values()}
        makefile = (ROOT / "Makefile").read_text("utf-8")
        entered |= {name for name in self.modules if f"-m {name}" in makefile}
        entered |= {
            node.value
            for tree in self.trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        return sorted(
            name
            for name in self.modules
            if not self.imports.in_degree(name)
            and name not in entered
            and not name.endswith("__main__")
            and not (ROOT / name.replace(".", "/")).is_dir()
            and not name.startswith("infra.")
        )

    def imports_up(self, layers: list[str]) -> list[str]:
        """Imports inside dpicl from a floor to one above it."""
        floor = {room: number for number, rooms in enumerate(layers) for room in rooms.split(" | ")}

        above = {name: number - 3 for number, name in enumerate(("infra", "flows", "tasks"))}

        def at(module: str) -> int | None:
            package, _, rest = module.partition(".")
            return floor.get(rest.partition(".")[0]) if package == "dpicl" else above[package]

        return [
            f"{one} -> {other}"
            for one, other in self.imports.edges
            if (low := at(one)) is not None and (high := at(other)) is not None and high < low
        ]

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Every function, methods and inner ones too."""
        for tree in self.trees.values():
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield node

    def classes_twice(self) -> dict[str, list[str]]:
        """Names of classes that stand for two things, with their modules."""
        found = defaultdict(list)
        for name, tree in self.modules.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(name)
        return {name: where for name, where in found.items() if len(where) > 1}


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


def imported_by_string(tree: ast.Module) -> list[str]:
    """What `import_module` is called with; where that is no text, `?`."""
    return [
        node.args[0].value
        if isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
        else "?"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and node.args
        and (
            (isinstance(node.func, ast.Attribute) and node.func.attr == "import_module")
            or (isinstance(node.func, ast.Name) and node.func.id in ("import_module", "__import__"))
        )
    ]


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many a caller may give, itself left out."""
    names = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return sum(name.arg not in ("self", "cls") for name in names)


def takes_anything(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it takes arguments by any name that nothing types."""
    rest = node.args.kwarg
    return (
        rest is not None
        and isinstance(rest.annotation, ast.Name)
        and rest.annotation.id in ("Any", "object")
    )


def count_house(figures: Figures) -> None:
    """What stands in the tree."""
    house = House.now()
    sizes = {
        folder: sum(
            tokens((ROOT / path).read_text("utf-8"))
            for path in tracked(folder)
            if path.suffix == ".py"
        )
        for folder in (*PRODUCT, *APART, "tests")
    }
    print(" ".join(f"{folder}: {size:,}" for folder, size in sizes.items()))
    figures.at_most("product-tokens", sum(sizes[one] for one in PRODUCT), 300_000)
    figures.at_most(
        "lab-benchmarks-tools-tokens", sum(sizes[one] for one in APART), 164_886 + 20_045
    )
    figures.at_most("test-tokens", sizes["tests"], 380_000)
    elsewhere = sum(
        written_elsewhere(path)
        for path in (*tracked(*PRODUCT), Path("pipelines.yaml"))
        if path.suffix in CODE
    )
    figures.at_most("code-elsewhere-characters", elsewhere, CODE_ELSEWHERE)
    figures.at_most("product-files", len(house.trees), 280)
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = pyproject["tool"]["importlinter"]["contracts"]
    layers = next(
        contract["layers"] for contract in contracts if contract.get("containers") == ["dpicl"]
    )
    for title, found, goal in (
        ("floors", layers, 10),
        ("imports-up", house.imports_up(layers), 0),
        ("import-circles", house.circles(), 0),
        (
            "imports-by-string",
            [
                f"{name}: {one}"
                for name, tree in house.modules.items()
                for one in imported_by_string(tree)
            ],
            0,
        ),
        ("files-that-nothing-loads", house.unloaded(), 0),
        (
            "class-names-of-two-things",
            [f"{name}: {', '.join(where)}" for name, where in house.classes_twice().items()],
            0,
        ),
        (
            "functions-of-7-parameters",
            [node.name for node in house.functions() if parameters(node) >= 7],
            15,
        ),
        (
            "functions-of-any-argument",
            [node.name for node in house.functions() if takes_anything(node)],
            0,
        ),
    ):
        if len(found) > goal:
            print(f"{title}:", *found, sep="\n  ")
        figures.at_most(title, len(found), goal)
    quoted = re.compile(rf"[\"']({'|'.join(METHODS)})[\"']")
    named = [path for path in house.trees if not path.is_relative_to("dpicl/methods")]
    lines = [line for path in named for line in (ROOT / path).read_text("utf-8").splitlines()]
    figures.at_most(
        "quoted-method-names-outside-methods", sum(bool(quoted.search(line)) for line in lines), 0
    )
    shown = [path for path in tracked("tests/packages") if path.suffix == ".py"]
    figures.at_most("files-of-a-new-method", len(shown), 1)
    dispatch = re.compile(
        r"isinstance\([^()]*\b(Any|Number|Integer|Real|Date|Category|Boolean)Column"
    )
    asks = [path for path in house.trees if dispatch.search((ROOT / path).read_text("utf-8"))]
    figures.at_most("files-that-ask-for-a-column-s-type", len(asks), 2)
    words = sum(
        len((ROOT / path).read_text("utf-8").split())
        for path in tracked("docs")
        if path.suffix == ".md" and "reference" not in path.parts
    )
    figures.at_most("words-of-docs", words, 18_000)
    for name, goal in (("README.md", 130), ("CONTRIBUTING.md", 200)):
        figures.at_most(f"{name}-lines", len((ROOT / name).read_text("utf-8").splitlines()), goal)
    if tracked(NET):
        history = ["git", "log", "--format=%h", f"{NET_STANDS}..", "--", NET]
        edits = subprocess.run(history, cwd=ROOT, capture_output=True, text=True, check=True)
        figures.at_most("commits-that-edit-the-net", len(edits.stdout.split()), 0)


def front_door(figures: Figures) -> None:
    """Misspelt arguments that mypy finds."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "misspelt.py"
        program.write_text(_MISSPELT, "utf-8")
        told = subprocess.run(
            [sys.executable, "-m", "mypy", "--no-incremental", str(program)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        ).stdout
    figures.exactly("misspelt-arguments-found", len(re.findall("Unexpected keyword", told)), 3)


def walk(figures: Figures) -> None:
    """The second `dpicl.protect` of 500 rows of three columns by GDP-TabICL in one process: own
    functions that run, their files, own modules that are there.
    """
    with tempfile.TemporaryDirectory() as own:  # else the user's witness would know the next one
        done = subprocess.run(
            [sys.executable, "-c", _WALK],
            env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": own},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-2000:]
    for (name, goal), count in zip(
        (("functions", 250), ("files", 35), ("modules-imported", 100)),
        json.loads(done.stdout.splitlines()[-1]),
        strict=True,
    ):
        figures.at_most(f"protect-{name}", count, goal)


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
    fields.append({"name": "returned", "type": "string", "constraints": {"enum": ["no", "yes"]}})
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
    return tuple(json.loads(done.stderr.splitlines()[-1]))


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


PARTS = (count_house, walk, front_door, measure_release)

if __name__ == "__main__":
    bench(PARTS)
