"""The pages of docs/reference, made from the code: `python -m tools.reference`, or
`make reference`.

A page contains what the code says and nothing else: the docstring of every key, the help of every
option. A dash means none.
"""

from __future__ import annotations

import ast
import json
import re
import typing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel, TypeAdapter

from dpicl.cli import answers
from dpicl.cli.app import app
from dpicl.contract import Contract, TextContract
from dpicl.contract.load import meanings, models
from dpicl.data import report_counts
from dpicl.ground.yaml_file import read_yaml
from dpicl.home import settings
from dpicl.methods import METHODS
from dpicl.methods.base import FIELDS, head_of
from dpicl.models.spec import ModelSpec
from dpicl.release.pipelines import Pipeline, Pipelines
from flows import environment
from lab.audit.end_to_end import leaves
from lab.compare import json_output as compared
from tools import packages as packages_of
from tools.interface import interface_page
from tools.words import ROOT, Schema, code, kind_of, prose, table

PAGES = ROOT / "docs" / "reference"
_WRITTEN = "\n\nWritten by `make reference` from {source}; change it there.\n\n"
_FIELDS = tuple(name for name in FIELDS if name != "Symbols")
COMMANDS: dict[str, Any] = {
    "dpicl budget": list[answers.SpentAccount],
    "dpicl budget ACCOUNT": list[answers.ChargedRelease],
    "dpicl run PIPELINE --dry-run": list[answers.PlannedCharge],
    "dpicl protect CONTRACT --dry-run": list[answers.PlannedCharge],
    "dpicl synth CONTRACT --dry-run": list[answers.PlannedCharge],
    "dpicl collect CONTRACT REPORTS": report_counts.Received,
    "dpicl forecast": list[answers.ForecastAccount],
    "dpicl list": answers.Listing,
    "dpicl plan CONTRACT": answers.SimulatedPlan,
    "dpicl contract check NAME": answers.CheckedContract,
    "dpicl model check MODEL": answers.CheckedModel,
    "dpicl state check": list[answers.StateFinding],
    "dpicl state clean": answers.CleanedState,
    "dpicl state backup FILE": answers.WrittenBackup,
    "dpicl state restore FILE": answers.RestoredState,
    "dpicl verify FILE": answers.VerifiedFile,
    "dpicl compare RUN RUN": compared.ComparedRuns,
}
"""What each command prints, with --json after it."""
_GRID = ("title", "methods", "datasets", "epsilons", "shots", "seeds")


# The command line.


def _commands(group: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every command by its full name, a group's own commands after it."""
    for word, command in group.commands.items():
        yield f"{name} {word}", command
        if hasattr(command, "commands"):
            yield from _commands(command, f"{name} {word}")


def _parameter(parameter: Any, hints: Mapping[str, Any]) -> list[str]:
    """One line of a command's table: how it is written, what it takes, what is taken if it is left
    out, and its help.
    """
    kinds = {
        int: "whole number",
        float: "number",
        Path: "path",
        str: "text",
        bool: "",
        list[str]: "text",
    }
    wanted = hints[parameter.name]
    kind = next(kinds[part] for part in (*typing.get_args(wanted), wanted) if part in kinds)
    limits = [
        f"from {parameter.min}" if parameter.min is not None else "",
        f"to {parameter.max}" if parameter.max is not None else "",
    ]
    written = (
        " / ".join(parameter.opts + parameter.secondary_opts)
        if parameter.opts[-1].startswith("-")
        else parameter.metavar
    )
    default = (
        "required"
        if parameter.required
        else ""
        if parameter.default is None or kind == ""
        else code(parameter.default)
    )
    return [code(written), " ".join([kind, *filter(None, limits)]), default, parameter.help or ""]


def cli_page() -> str:
    """Every command with its arguments and options."""
    page = "# Commands" + _WRITTEN.format(source="dpicl/cli, flows/commands.py and lab/commands")
    page += (
        "An error is one sentence on standard error, with exit code 2; a stopped command ends "
        "with that of its signal, 130 or 143. `dpicl COMMAND --help` shows the content of this "
        "page. Every command "
        "takes `--quiet` (`-q`), which prints the result or the error and nothing else. An option "
        "is plural where it takes several values; "
        "`--epsilon` for `--epsilons` and the like mean the same. `serve`, `deploy` and `metrics` "
        "are run from a clone or the image; `audit`, `compare` and `reproduce` are in the package "
        "dpicl-lab.\n\n"
    )
    for name, command in _commands(typer.main.get_command(app), "dpicl"):
        page += f"## {name}\n\n{prose(command.help)}\n\n"
        if hasattr(command, "commands"):
            continue
        hints = typing.get_type_hints(command.callback)
        rows = [
            _parameter(parameter, hints)
            for parameter in command.params
            if parameter.name in hints and not parameter.hidden
        ]
        page += (
            table(("argument or option", "type", "default", "meaning"), rows)
            if rows
            else "It takes no options.\n\n"
        )
    return (
        page
        + "`python -m dpicl.client --help` and `python -m lab.training --help` list the options "
        "of these two programs.\n"
    )


# Declarations: contracts and pipelines.


def _default(key: str, schema: Schema, part: Schema) -> str:
    if key in part.get("required", ()):
        return "required"
    value = schema.get("default")
    return (
        "" if value in (None, "") or isinstance(value, dict) else code(json.dumps(value).strip('"'))
    )


def _part(name: str, part: Schema, level: int) -> str:
    """The section of one type: its docstring and a table of its keys."""
    kind = models()[name]
    descriptions = meanings(kind)
    rows = [
        [
            code(key),
            kind_of(schema),
            _default(key, schema, part),
            descriptions.get(key) or schema.get("description", ""),
        ]
        for key, schema in part.get("properties", {}).items()
    ]
    return f"{'#' * level} {name}\n\n{prose(part.get('description'))}\n\n" + table(
        ("key", "type", "default", "meaning"), rows
    )


def _parts(kinds: Iterable[type[BaseModel]]) -> str:
    """These types one after another, then all parts that they are made of, each once."""
    schemas = [kind.model_json_schema() for kind in kinds]
    inner = {name: part for schema in schemas for name, part in schema.get("$defs", {}).items()}
    outer = {str(schema["title"]): schema for schema in schemas}
    page = "".join(_part(name, schema, 2) for name, schema in outer.items())
    return (
        page
        + "## Parts\n\n"
        + "".join(_part(name, inner[name], 3) for name in sorted(inner) if name not in outer)
    )


def contract_page() -> str:
    """Every key of a contract, of tables and of texts."""
    page = "# Keys of a contract" + _WRITTEN.format(source="the models of dpicl/contract")
    page += (
        "A table's contract is a [Contract](#contract), `data_contracts/NAME.yaml`; one of texts "
        "is a [TextContract](#textcontract), "
        "`data_contracts/texts/NAME.yaml`. An unknown key is an error. Rules between keys (a "
        "template that names a column, groups that "
        "multiply to the shots) are checked by `dpicl contract check FILE`.\n\n"
    )
    return page + _parts((Contract, TextContract))


def pipelines_page() -> str:
    """The keys of pipelines.yaml and what it ships with."""
    shipped = typing.cast(dict[str, Any], read_yaml(ROOT / "pipelines.yaml"))
    page = "# pipelines.yaml" + _WRITTEN.format(
        source="pipelines.yaml, dpicl/release/pipelines.py, dpicl/methods/options.py and "
        "dpicl/models/spec.py"
    )
    page += "The shipped pipelines, the shipped models, then all keys.\n\n## Shipped pipelines\n\n"
    for name, entry in shipped["pipelines"].items():
        rows = [[key, ", ".join(map(str, entry[key]))] for key in _GRID[1:] if key in entry]
        rows += [[key, code(json.dumps(value))] for key, value in entry.items() if key not in _GRID]
        page += f"### {name}\n\n{entry['title']}.\n\n" + table(("key", "value"), rows)
    page += "## Shipped models\n\n"
    page += table(
        ("name", "entry"),
        ([code(name), code(json.dumps(entry))] for name, entry in shipped["models"].items()),
    )
    return page + _parts((Pipelines, Pipeline, ModelSpec))


# JSON output.


def json_page() -> str:
    """What every command prints with --json, and the types that it is made of."""
    page = "# JSON output" + _WRITTEN.format(source="dpicl/cli/answers.py and lab/compare")
    page += (
        "Epsilon is in nats, times are in UTC. A number that has no bound is null. Types are "
        "those of JSON.\n\n"
    )
    known = {
        name: kind
        for module in (answers, report_counts, compared)
        for name, kind in vars(module).items()
        if isinstance(kind, type)
    }
    shown = dict[str, str]()
    for command, kind in COMMANDS.items():
        schema = TypeAdapter(kind).json_schema()
        parts = schema.pop("$defs", {})
        listed = schema["type"] == "array"
        outer = parts.pop(schema["items"]["$ref"].rsplit("/", 1)[-1]) if listed else schema
        page += f"## {command} --json\n\n"
        if (name := outer["title"]) in shown:
            page += f"The same as `{shown[name]}`.\n\n"
            continue
        shown[name] = f"{command} --json"
        page += _printed(known[name], outer, " The output is a list of these." if listed else "")
        page += "".join(
            f"### {name}\n\n" + _printed(known[name], part) for name, part in parts.items()
        )
    return page


def _printed(kind: type, schema: Schema, more: str = "") -> str:
    """The docstring of a type that is printed, and a table of its keys."""
    rows = (
        [code(key), kind_of(described), meanings(kind)[key]]
        for key, described in schema["properties"].items()
    )
    return f"{prose(kind.__doc__)}{more}\n\n" + table(("key", "type", "meaning"), rows)


# What leaves.


def leaves_page() -> str:
    """All that leaves of a command or run, as the audit holds it to it."""
    page = "# What leaves" + _WRITTEN.format(source="lab/audit/end_to_end/leaves.py")
    page += (
        "A closed list: whatever a command or run lets others see is here, with who pays for it, "
        "or why it is public. `dpicl audit end-to-end` "
        "fails on anything else that it sees: a file in a folder of runs, in the state home "
        "(`home`), beside what `--out` names (`out`), among "
        "temporary files; a folder, a mode that lets others read what is for the holder, a "
        "stream. What is here is the same byte for byte between "
        "sources that differ in one row (or person), with its name, size and mode, once the draws "
        "of the mechanisms are; charges pay for these. "
        f"{leaves.TIMES}\n\n{leaves.NAMES}\n\nOn a terminal the holder of the rows is also told "
        f"counts and verdicts on them; nothing "
        "of that is in outputs that no terminal reads. A run on a benchmark, whose rows are "
        "public, has verdicts on them and all times as well.\n\n"
    )
    for title, entries in leaves.PARTS.items():
        rows = [
            [
                code(entry.pattern),
                entry.what,
                entry.price if entry.is_compared else f"{entry.price}; not compared",
            ]
            for entry in entries
        ]
        page += f"## {title}\n\n" + table(
            ("name", "what it is", "price, or why it is public"), rows
        )
    return page


# Mechanisms and methods.


def mechanisms_page() -> str:
    """What every mechanism and method states of itself."""
    page = "# What mechanisms and methods state" + _WRITTEN.format(
        source="the heads of the modules"
    )
    page += "Equations and symbols are in the modules themselves. Epsilon is in nats.\n\n"
    mechanisms = sorted((ROOT / "dpicl" / "mechanisms").glob("[!_]*.py"))
    parts = {
        "Methods": [ROOT / "dpicl" / "methods" / f"{method}.py" for method in METHODS],
        "Mechanisms": [*mechanisms, ROOT / "dpicl" / "data" / "central" / "aggregate.py"],
    }
    for title, paths in parts.items():
        page += f"## {title}\n\n"
        for path in paths:
            sentence, fields = head_of(ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "")
            page += f"### {path.stem}\n\n{sentence} `{path.relative_to(ROOT)}`\n\n"
            page += "".join(f"- **{name}.** {fields[name]}\n" for name in _FIELDS) + "\n"
    return page


# The environment.


def _reads(path: Path) -> Iterator[tuple[str, str, str]]:
    """Variables that a module reads or sets: name, what it is set to if missing, and the function
    with what it says of itself.
    """
    tree = ast.parse(path.read_text("utf-8"))
    constants = {
        ast.unparse(statement.targets[0]): statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign)
    }
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for node in ast.walk(function):
            arguments = (
                node.args
                if isinstance(node, ast.Call)
                else [node.slice]
                if isinstance(node, ast.Subscript)
                else []
            )
            owner = (
                ast.unparse(node.func if isinstance(node, ast.Call) else node.value)  # type: ignore[attr-defined]
                if arguments
                else ""
            )
            if owner not in ("os.environ", "os.environ.get", "os.environ.setdefault"):
                continue
            name = constants.get(ast.unparse(arguments[0]), arguments[0])
            if isinstance(name, ast.Constant):
                said = (ast.get_docstring(function) or "").partition("\n\n")[0]
                yield (
                    str(name.value),
                    code(ast.unparse(arguments[1])) if "setdefault" in owner else "",
                    f"`{function.name}`: {said}",
                )


def environment_page() -> str:
    """Every environment variable that the program reads or sets."""
    page = "# Environment variables" + _WRITTEN.format(
        source="dpicl/home/settings.py, flows/environment.py and whatever else reads one"
    )
    page += "## Where things are\n\n"
    lines = re.sub(r"\n +", " ", settings.__doc__ or "")
    ours = re.findall(r"^([A-Z_]+)\s+(\S.*?)\s+default (.*)$", lines, re.MULTILINE)
    page += table(
        ("variable", "meaning", "if not set"),
        ([code(name), meaning, default] for name, meaning, default in ours),
    )
    page += "## Set for Prefect, Dask and others, if not set already\n\n"
    page += table(
        ("variable", "set to"),
        ([code(name), code(value)] for name, value in environment.DEFAULTS.items()),
    )
    page += "## Read or set elsewhere\n\n"
    known, rows = {name for name, *_ in ours} | set(environment.DEFAULTS), list[list[str]]()
    for path in sorted(
        path
        for package in ("dpicl", "tasks", "flows", "infra", "lab/audit")
        for path in (ROOT / package).rglob("*.py")
    ):
        for name, default, function in dict.fromkeys(_reads(path)):
            if name not in known:
                rows.append([code(name), default, f"`{path.relative_to(ROOT)}`, {function}"])
    page += table(("variable", "set to if missing", "by"), sorted(rows))
    page += (
        "You choose the names of two more: `url_env` of a contract's [query](contract.md#query) "
        "is a variable with a database URL, `key_env` "
        "of a [model](pipelines.md#modelspec) one with a server's API key.\n"
    )
    return page


# Dependencies.


def dependencies_page() -> str:
    """The packages that pyproject.toml names."""
    page = "# Dependencies" + _WRITTEN.format(source="pyproject.toml and uv.lock")
    page += (
        "The packages that dpicl names itself; `requirements.lock` has all that these bring, with "
        "digests that an installation compares. "
        "Released is when the locked version came out, which is the latest that the bounds "
        "allowed when the lock was made. MB is what is "
        "downloaded on Linux; `python -m lab.benchmarks.stranger_parts.sizes` prints what an "
        "installation takes on the disk.\n\n"
    )
    packages, rows = packages_of.locked(), list[list[str]]()
    for name, extra, why in packages_of.direct():
        released, size = packages_of.download(packages[name])
        rows.append(
            [name, extra, packages[name]["version"], released, size, packages_of.licence(name), why]
        )
    return page + table(("package", "extra", "version", "released", "MB", "licence", "for"), rows)


# Architectures of models.


def models_page() -> str:
    """What became of every architecture of causal language models."""
    kept = json.loads((ROOT / "lab" / "architectures" / "results.json").read_text("utf-8"))
    page = "# Models that run here" + _WRITTEN.format(source="`python -m lab.architectures`")
    verdicts = Counter(finding["verdict"] for finding in kept["findings"])
    page += (
        f"Every architecture of a causal language model that transformers {kept['transformers']} "
        f"has, and some variants, built small with random "
        "weights in float32. Each was read alone, in a batch, with shared beginnings, as voters, "
        "as voters that are kept from token to token, and "
        "wrote texts; all of it was compared with plain transformers, one prompt at a time, to "
        "1e-4 nats or shares of a vote. How a model is read "
        "is not looked up here: it is found by reading a public text when the model is loaded, on "
        "any machine, so a model that is not in this "
        "table is read rightly or refused as well. `dpicl model check` says which for yours.\n\n"
        + "; ".join(f"{verdict} {count}" for verdict, count in sorted(verdicts.items()))
        + ". A refusal comes at loading, before anything is charged. What is not built needs more "
        "than random weights and a small config.\n\n"
    )
    rows = (
        [code(finding["name"]), finding["verdict"], finding["reads"] or finding["sentence"]]
        for finding in kept["findings"]
    )
    return page + table(("architecture", "verdict", "how it is read, or why not"), rows)


GENERATED: dict[str, Callable[[], str]] = {
    "api.md": lambda: interface_page(_WRITTEN.format(source="the docstrings of dpicl")),
    "cli.md": cli_page,
    "contract.md": contract_page,
    "json.md": json_page,
    "leaves.md": leaves_page,
    "mechanisms.md": mechanisms_page,
    "models.md": models_page,
    "pipelines.md": pipelines_page,
    "environment.md": environment_page,
    "dependencies.md": dependencies_page,
}
"""The pages by their file's name."""


def main() -> None:
    """Write all pages."""
    PAGES.mkdir(parents=True, exist_ok=True)
    for name, page in GENERATED.items():
        (PAGES / name).write_text(page().rstrip() + "\n", "utf-8")


if __name__ == "__main__":
    main()
