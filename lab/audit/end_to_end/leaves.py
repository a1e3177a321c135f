"""The closed list of what leaves: all that anybody but the holder of the rows may see of a command
or run, each with its price.

Whatever an `Observation` names that is not on this list breaks the claim that observes it. What is
on it is equal between neighbouring sources once the draws of the mechanisms are, and a charge pays
for these; but for what is for the holder alone, or said to be left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Literal

from dpicl.methods import METHODS
from dpicl.observers.mlflow import MEASURES

OUT_FILES = ("demonstrations.jsonl", "given.parquet", "rows.csv")
"""Files that commands of an audit are asked for."""
MODE = "mode of "
"""Before the name of a file or folder: its mode, as octal digits."""
UNLISTED = "is not on the list of what leaves"
OTHERS = 0o077
"""Bits of a mode that let others than the owner at a file."""
Reader = Literal["anybody", "the holder"]
_PAID = "paid for by the charge of the release"
_DERIVED = f"{_PAID}: post-processing of what was released, and public facts"
_FACTS = "public because it follows from the contract, the command and the program"
_ENDS = f"{_FACTS}; failures as on stderr"
_STATE = "public because it follows from what was charged, which follows from public facts"
_LOCKS = "public because it is empty: a mark that a command works here"
_HOLDER = "not public: for the holder of the rows alone (files of mode 0600 in folders of 0700)"
_TIMES = (
    "not compared: how long work takes goes by the rows, which is [not "
    "covered](../threat-model.md#not-covered)"
)
_WORDS: Mapping[str, str] = {
    "DATA_SET": r"[a-z][a-z0-9_]*",
    "RUN": r"[A-Za-z0-9._-]+",
    "UNIT": r"[a-z][a-z0-9_]*__[a-z][a-z0-9_]*__seed\d+",
    "STAGE": r"charge|reconstruct|label|score\d+|evaluate",
    "RELEASE": r"[0-9a-f]{64}",
    "LEDGER": r"[0-9a-f]+",
    "NUMBER": r"\d+",
    "OUT": "|".join(map(re.escape, OUT_FILES)),
    "…": r".+",
}
_PUBLIC_ROWS = {"receive": "clients' reports", "split": "public queries, where clients report,"}


@dataclass(frozen=True)
class Leaf:
    """One kind of thing that leaves.

    Attributes:
        pattern: what an `Observation` calls it: a stream, or a file's path below the place where a
            command works.
        what: it holds.
        price: who pays for it, or why it is public.
        reader: who may read the file.
        is_compared: whether its bytes are compared between neighbours; of a file its name and mode
            are at any rate.
    """

    pattern: str
    what: str
    price: str
    reader: Reader = "anybody"
    is_compared: bool = True

    @property
    def is_hidden(self) -> bool:
        """Whether nobody else sees more of it than that it is there: a file for the holder, in a
        folder for the holder.
        """
        return self.reader == "the holder" and not self.is_compared


def _of_run(name: str, what: str, price: str, *, is_compared: bool = True) -> Leaf:
    return Leaf(f"home/runs/RUN/{name}", what, price, "anybody", is_compared)


def _in_home(name: str, what: str, price: str, *, is_compared: bool = True) -> Leaf:
    return Leaf(f"home/{name}", what, price, "the holder", is_compared)


STREAMS = (
    Leaf(
        "exit code",
        "whether a command did what it was asked for",
        f"{_FACTS}; of rows only by a rule that the contract states",
    ),
    Leaf("stdout", "what a command prints", f"{_DERIVED}; charges"),
    Leaf(
        "stderr",
        "messages and refusals, where no terminal reads them",
        f"{_FACTS}; a refusal names the column, the rule and the fix, never a value or a number "
        f"of rows",
    ),
    Leaf("warnings", "what libraries warn of", _FACTS),
    Leaf(
        "log",
        "lines of a log, as text or JSON",
        f"{_FACTS}; counts are of releases, queries and clients' reports; times, also of stages "
        "that read private rows, are [not covered](../threat-model.md#not-covered)",
    ),
    Leaf(
        "tasks",
        "stages in the order in which they are done, what each is called with and gives back",
        _FACTS,
    ),
    Leaf("budget", "`dpicl budget`: every account, its cap and what is spent", _STATE),
    Leaf("budget DATA_SET", "`dpicl budget NAME`: every charge of one account", _STATE),
    Leaf(
        "ledger", "accounts, the addresses of their rows, charges and the chain of records", _STATE
    ),
)
"""What has no file."""
ORCHESTRATED = (
    Leaf("artifact NUMBER", "an artifact that the orchestrator stores and shows", _DERIVED),
    Leaf(
        "event NUMBER",
        "an event: of a check that stops a run, of a budget that is low",
        f"{_STATE}; or by a rule that the contract states",
    ),
    Leaf(
        "flow run",
        "the orchestrator's name, parameters and states of a run",
        _ENDS,
    ),
    Leaf(
        "task runs",
        "number, names, states and results of the orchestrator's tasks, which are the stages",
        _ENDS,
    ),
)
"""What an orchestrator stores, whatever its database."""
METRICS = Leaf("metrics", "`dpicl metrics`: runs, and what accounts have spent", _STATE)
OUTS = (
    Leaf("out/OUT", "rows or demonstrations", _PAID),
    Leaf(
        "out/OUT.certificate.json",
        "what the release promised, signed",
        f"{_STATE}; and the digest of the file",
    ),
    Leaf("out/README.md", "dataset card: what the certificate says, and the columns", _STATE),
    Leaf(
        "out/croissant.json",
        "the same as a Croissant file",
        f"{_STATE}; and the digest of the file",
    ),
)
_CERTIFIED = f"{_STATE}: as the certificate has it"
_WHEN = f"{_FACTS}; how long a run takes is not protected"
_MLFLOW = "public because MLflow makes it"
OBSERVED = (
    *(
        Leaf(f"openlineage/{name}", what, price, "anybody", is_compared)
        for name, what, price, is_compared in (
            (
                "eventType",
                "that a run starts, completes or fails",
                _ENDS,
                True,
            ),
            ("eventTime", "when", _WHEN, False),
            ("run/runId", "what both events of a run have", "public because it is random", False),
            ("producer", "the program and its version", _FACTS, True),
            ("schemaURL", "the form of the event", _FACTS, True),
            ("job/namespace", "`OPENLINEAGE_NAMESPACE`", _FACTS, True),
            ("job/name", "the pipeline", _FACTS, True),
            *(
                (f"{facet}/{name}", what, _FACTS, True)
                for facet in ("job/facets/jobType", "inputs/NUMBER/facets/schema")
                for name, what in (
                    ("_producer", "the program and its version"),
                    ("_schemaURL", "the form of the facet"),
                )
            ),
            ("job/facets/jobType/processingType", "`BATCH`", _FACTS, True),
            ("job/facets/jobType/integration", "`DPICL`", _FACTS, True),
            ("inputs/NUMBER/facets/schema/fields/NUMBER/name", "a column", _FACTS, True),
            ("inputs/NUMBER/facets/schema/fields/NUMBER/type", "the column's type", _FACTS, True),
            ("inputs/NUMBER/namespace", "`OPENLINEAGE_NAMESPACE`", _FACTS, True),
            ("inputs/NUMBER/name", "a contract, and no address of its rows", _FACTS, True),
            ("outputs/NUMBER/namespace", "`OPENLINEAGE_NAMESPACE`", _FACTS, True),
            ("outputs/NUMBER/name", "a contract and the name of a release", _STATE, True),
        )
    ),
    *(
        Leaf(f"openlineage/outputs/NUMBER/facets/dpicl_privacy/{name}", what, price)
        for name, what, price in (
            ("_producer", "the program and its version", _FACTS),
            ("_schemaURL", "the form of the facet", _FACTS),
            ("release", "the name of the release", _CERTIFIED),
            ("method", "the method", _CERTIFIED),
            ("unit", "whom it protects", _CERTIFIED),
            ("neighbours", "which tables are neighbours", _CERTIFIED),
            ("epsilon", "what was charged", _CERTIFIED),
            ("delta", "what was charged", _CERTIFIED),
            ("account", "who paid", _CERTIFIED),
            ("account_epsilon", "what the account has spent as the run ends", _STATE),
            ("simulation", "whether the rows are public", _CERTIFIED),
        )
    ),
    Leaf("mlflow/info/run_name", "the pipeline", _FACTS),
    Leaf("mlflow/info/status", "that a run has started, completed or failed", _ENDS),
    Leaf("mlflow/info/user_id", "`unknown`", _FACTS),
    *(
        Leaf(f"mlflow/info/{name}", what, _WHEN, "anybody", False)
        for name, what in {"start_time": "when", "end_time": "when"}.items()
    ),
    *(
        Leaf(
            f"mlflow/info/{name}",
            "MLflow's own",
            _MLFLOW,
            "anybody",
            False,
        )
        for name in ("run_id", "experiment_id", "artifact_uri", "lifecycle_stage")
    ),
    Leaf("mlflow/data/tags/mlflow.runName", "the pipeline", _FACTS),
    *(
        Leaf(f"mlflow/data/params/{name}", f"the run's {what}", _FACTS)
        for name, what in {
            "pipeline": "pipeline",
            "dataset": "contracts",
            "method": "methods",
            "epsilon": "epsilons",
        }.items()
    ),
    *(
        Leaf(f"mlflow/data/metrics/DATA_SET/…/{name}", "of results.csv, the last seed", _DERIVED)
        for name in MEASURES
    ),
    Leaf(
        "mlflow/artifacts/DATA_SET/RELEASE.certificate.json",
        "certificate of a release of the run",
        _STATE,
    ),
)
"""Fields that observers of runs send, where `OPENLINEAGE_URL` or `MLFLOW_TRACKING_URI` is set."""
RUNS = (
    _of_run("plan.json", "what the run does", _FACTS),
    _of_run(
        "asked.json",
        "how a model is asked, by its answers to public questions of the package",
        _FACTS,
    ),
    _of_run(".lock", "a mark", _LOCKS),
    _of_run("contracts/DATA_SET.json", "digest of the contract", _FACTS),
    _of_run("queries/DATA_SET.json", "digest of the queries", "public because queries are"),
    _of_run(
        "queries/DATA_SET.parquet",
        "the queries",
        "public because queries are; held-out rows that are private are not written",
    ),
    _of_run(
        "reports/DATA_SET.npz",
        "how many reports of clients there are of each kind",
        "paid for by the clients, who randomised them",
    ),
    _of_run("probe.json", "that the models answered", _FACTS),
    _of_run("model.json", "the model that answers", _FACTS),
    _of_run("model-text.json", "the model that writes", _FACTS),
    _of_run("units/UNIT/releases.json", "what the run was charged", _STATE),
    _of_run("units/UNIT/periods.json", "periods of a horizon that were released", _STATE),
    *(
        _of_run(f"units/UNIT/{name}", what, _PAID)
        for name, what in {
            # of a method of another package too
            **{one.artefact: "releases" for one in METHODS.values()},
            "released_groups.json": "averages",
            "released_rows.npz": "rows",
            "released_reports.npz": "reports",
            "released_counts.json": "counts",
            "released_votes.json": "votes, or a teacher's labels",
            "released_texts.json": "texts",
            "released_answers.json": "answers",
        }.items()
    ),
    _of_run("units/UNIT/public_texts.json", "texts of a model that read nothing private", _FACTS),
    _of_run("units/UNIT/public_candidates.json", "answers to choose among", _FACTS),
    *(
        _of_run(f"units/UNIT/{name}", what, _DERIVED)
        for name, what in {
            "values.parquet": "what was released, as a table",
            "demonstrations.json": "demonstrations",
            "worth.json": "released rows, and what is known of their quality",
            "forms.json": "how many of the released texts have the form that their contract states",
            "prompts.parquet": "prompts of released demonstrations and public queries",
            "scored/NUMBER.npz": "a model's answers to them",
            "scored/NUMBER.json": "how many were asked",
            "predictions.parquet": "answers, beside the queries' labels",
            "results.json": "accuracy on public queries, or by noisy counts that are charged",
        }.items()
    ),
    _of_run(
        "units/UNIT/baselines.json",
        "classifiers on released rows and public queries",
        f"{_DERIVED}; of private rows none",
    ),
    _of_run(
        "progress/UNIT.partNUMBER.json",
        "how many public queries a model has answered so far",
        _FACTS,
        is_compared=False,
    ),
    _of_run(
        "progress/UNIT.json",
        "length of the longest text so far",
        f"{_PAID}: the release holds it too",
        is_compared=False,
    ),
    _of_run(
        "timings/UNIT/STAGE.json",
        "how long a stage took that reads no private row",
        f"{_FACTS}, and of what was released",
    ),
    *(
        _of_run(f"timings/DATA_SET/{name}.json", f"how long {what} were read", _FACTS)
        for name, what in _PUBLIC_ROWS.items()
    ),
    _of_run("timings.csv", "the same as a table", f"{_FACTS}, and of what was released"),
    *(
        _of_run(name, "results of all units, charges and guarantees", _DERIVED)
        for name in ("results.csv", "manifest.json")
    ),
    *(
        _of_run(name, "the report and its figures", _DERIVED)
        for name in ("report.md", "report.html", "gain.svg", "fitted.svg")
    ),
)
"""Files of a run whose rows are private."""
HOME = (
    _in_home(
        "ledger.db", "the ledger; what it says is a stream of its own", _HOLDER, is_compared=False
    ),
    _in_home("ledger.db-…", "what its database writes besides", _HOLDER, is_compared=False),
    _in_home("ledger.anchor.json", "the ledger's last record", _STATE),
    *(
        _in_home(name, "a mark", _LOCKS)
        for name in (
            ".ledger.anchor.json.lock",
            ".protect.lock",
            ".restore.lock",
            "benchmarks.json.lock",
            "released/.newest.json.lock",
        )
    ),
    _in_home(
        "benchmarks.json",
        "digests of sets that were said to be public",
        "public because its owner said so",
    ),
    _in_home("audited/…", "that transcripts of a method of another package passed", _FACTS),
    _in_home("restoring", "which backup the state home is restored from", _FACTS),
    _in_home("released/newest.json", "the newest receipt", _STATE),
    _in_home("released/adopted.json", "the first record of a ledger that was made anew", _STATE),
    _in_home("released/DATA_SET/cap.json", "the cap of an account", _STATE),
    _in_home("released/DATA_SET/RELEASE", "what was released", _PAID),
    _in_home("released/DATA_SET/RELEASE.receipt", "its charge", _STATE),
    _in_home("released/DATA_SET/RELEASE.certificate", "its certificate", _STATE),
    *(
        _in_home(f"{name}/…", what, _HOLDER, is_compared=False)
        for name, what in {
            "private": "rows, verdicts on them, times of what reads them, journals of draws",
            "series": "exact counts of periods",
            "keys": "secret keys",
            "cache": "published sets that were fetched",
            "models": "notes on models that answered",
            "prefect": "the orchestrator's database; what it says are streams of their own",
            "dask": "scratch files of workers",
            "locks": "marks of scheduled runs",
        }.items()
    ),
)
WITNESS = (
    Leaf(
        "settings/dpicl/witness/LEDGER.json",
        "what a ledger has reached, and its accounts have spent",
        _STATE,
        "the holder",
    ),
    Leaf("settings/dpicl/witness/.lock", "a mark", _LOCKS, "the holder"),
)
"""In the user's settings, outside of the state home."""
PARTS: Mapping[str, Sequence[Leaf]] = {
    "Streams": (*STREAMS, METRICS),
    "The orchestrator": ORCHESTRATED,
    "Observers of runs": OBSERVED,
    "Files that were asked for": OUTS,
    "A run": RUNS,
    "The state home": HOME,
    "The user's settings": WITNESS,
}
"""All of them, by where they are seen."""
_READER_OF: Mapping[str, Reader] = {
    "home": "the holder",
    "home/runs": "the holder",
    "settings": "anybody",
    "settings/dpicl": "anybody",
}
LEAVES = tuple(chain.from_iterable(PARTS.values()))
TIMES = f"Times of files, and of the orchestrator's tasks, are {_TIMES}."
NAMES = (
    "A word in capitals stands for a name: DATA_SET, RUN, UNIT (method, data set and seed), STAGE "
    "(one that reads no private row), RELEASE (a "
    "digest of public facts), LEDGER (a keyed digest), NUMBER, OUT (the file that was asked for); "
    "`…` stands for anything."
)
"""Of patterns."""


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    words = "|".join(map(re.escape, _WORDS))
    parts = (
        f"(?:{_WORDS[part]})" if part in _WORDS else re.escape(part)
        for part in re.split(rf"({words})", pattern)
    )
    return re.compile("".join(parts), re.DOTALL)


@cache
def _folders() -> frozenset[tuple[str, Reader]]:
    """All folders that files on the list stand in; those of runs, and of the user's settings above
    the witness, are for anybody.
    """
    above = {
        ("/".join(leaf.pattern.split("/")[:depth]), leaf)
        for leaf in LEAVES
        for depth in range(1, leaf.pattern.count("/") + 1)
    }
    return frozenset((folder, _READER_OF.get(folder, leaf.reader)) for folder, leaf in above)


def leaf_of(name: str) -> Leaf | None:
    """The entry of a stream or file; None where it is not on the list."""
    return next((leaf for leaf in LEAVES if _compiled(leaf.pattern).fullmatch(name)), None)


def unlisted(seen: Mapping[str, bytes]) -> list[str]:
    """Sentences on what is seen and not on the list: streams, files, folders, and modes that let
    others read what is for the holder.
    """
    return [
        sentence
        for name in sorted(seen)
        if (sentence := _unlisted(name, seen[name], seen)) is not None
    ]


def _unlisted(name: str, content: bytes, seen: Iterable[str]) -> str | None:
    path = name.removeprefix(MODE)
    leaf = leaf_of(path)
    reader = (
        leaf.reader
        if leaf is not None
        else _reader_of_folder(path)
        if name.startswith(MODE) and path not in seen
        else None
    )
    if reader is None:
        return f"{name}: {UNLISTED}"
    if name.startswith(MODE) and reader == "the holder" and int(content, 8) & OTHERS:
        return (
            f"{name}: {content.decode()}, which others may read; expected it to be for its owner "
            f"alone"
        )
    return None


def _reader_of_folder(path: str) -> Reader | None:
    return next(
        (reader for folder, reader in sorted(_folders()) if _compiled(folder).fullmatch(path)), None
    )
