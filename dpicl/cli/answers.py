"""What commands answer: each a dataclass whose fields are the keys of --json, and whose rows or
lines are its text. `show` prints either; `docs/reference/json.md` lists the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar, cast

from rich.table import Table

from dpicl.cli.recomputed import RecomputedPrice
from dpicl.cli.terminal import PrintedRow, new_table, number, table_of
from dpicl.ground.nouns import many

Kind = TypeVar("Kind")
_LONGEST = 12
"""Characters of a parameter that are shown: a model's fingerprint is longer."""


def answer_of(kind: Callable[..., Kind], source: object, **more: object) -> Kind:
    """An answer with the attributes of a source that its keys are named by, and more."""
    names = (field.name for field in fields(cast(Any, kind)) if field.name not in more)
    return kind(**{name: getattr(source, name) for name in names}, **more)


@dataclass(frozen=True)
class SpentByUser(PrintedRow):
    """What one user has charged to an account with a cap, or may charge."""

    heads = ("user", "entries", "spent", "share", "left")

    user: str
    """Whom DPICL_USER named, or the user of the machine; bookkeeping."""
    releases: int
    """Number of releases."""
    epsilon_spent: float | None
    """Of all releases that the user charged."""
    epsilon_share: float | None
    """What the user may charge at most; null without a share."""
    epsilon_left: float | None
    """The share less what is spent, at least 0."""

    def row(self) -> tuple[str, ...]:
        """What is spent, and what is left of a share."""
        costs = number(self.epsilon_spent), number(self.epsilon_share)
        left = number(self.epsilon_left, "-")
        return self.user or "-", str(self.releases), *costs, left


@dataclass(frozen=True)
class LoweredCap:
    """How a contract lowered the caps of an account."""

    contract: str
    """Name of the contract."""
    epsilon_before: float
    """The cap until then."""
    delta_before: float
    """The same of δ."""


@dataclass(frozen=True)
class SpentAccount(PrintedRow):
    """One account, after the ledger's chain was verified."""

    heads = ("account", "protects", "spent", "delta", "cap", "left", "entries")

    account: str
    """Name of the account."""
    unit: str
    """What is protected: `row` or `person`."""
    neighbours: str
    """Relation of neighbouring tables."""
    benchmark: bool
    """Whether its rows are public; such an account has no cap."""
    epsilon_spent: float | None
    """Of all releases together, as the ledger composes them."""
    epsilon_cap: float | None
    """What may be spent at most."""
    epsilon_left: float | None
    """The cap less what is spent, at least 0."""
    delta_cap: float
    """Largest δ of all releases together."""
    releases: int
    """Number of releases."""
    users: Sequence[SpentByUser]
    """Who has spent it, and whose share it is; empty of a benchmark."""
    lowered: LoweredCap | None
    """Which contract lowered the cap; null where none did since a command set it."""

    def row(self) -> tuple[str, ...]:
        """What is protected, spent and left."""
        return (
            self.account,
            f"one {self.unit}, {self.neighbours}",
            number(self.epsilon_spent),
            f"{self.delta_cap:g}",
            number(self.epsilon_cap),
            number(self.epsilon_left, "-"),
            str(self.releases),
        )


@dataclass(frozen=True)
class ChargedRelease(PrintedRow):
    """One release of the account, in the order in which they were charged."""

    heads = ("charged", "by", "mechanism", "parameters", "epsilon", "total", "state")

    release: str
    """Name of the release."""
    mechanism: str
    """Mechanism that it is charged for."""
    parameters: Mapping[str, Any]
    """Public facts that it is charged for."""
    charged_utc: str
    """When it was charged."""
    user: str
    """Who charged it: whom DPICL_USER named, or the user of the machine; bookkeeping."""
    command: str
    """By which command."""
    state: str
    """`reserved` until something was published, then `published`."""
    epsilon: float | None
    """Of this release alone."""
    delta: float
    """Of this release alone."""
    epsilon_total: float | None
    """Of all releases up to this one."""

    def row(self) -> tuple[str, ...]:
        """The release with its parameters, cut, and the running total."""
        shown = ", ".join(
            f"{key}={str(value)[:_LONGEST]}"
            for key, value in self.parameters.items()
            if value is not None
        )
        costs = number(self.epsilon), number(self.epsilon_total)
        by = f"{self.user}, {self.command}" if self.user else ""
        return self.charged_utc[:19], by, self.mechanism, shown, *costs, self.state


@dataclass(frozen=True)
class PlannedCharge(PrintedRow):
    """One account that would be charged. Of texts whose release a run has paid for, the list is
    empty.
    """

    heads = ("account", "releases", "charged before", "would cost", "spent", "cap", "left after")

    account: str
    """Name of the account."""
    releases: int
    """Number of releases."""
    charged_before: int
    """How many of them exist already and cost nothing."""
    epsilon: float | None
    """Of the new releases alone."""
    delta: float
    """Of the new releases alone."""
    epsilon_spent: float | None
    """What is spent before."""
    epsilon_cap: float | None
    """The account's cap."""
    epsilon_left: float | None
    """What would be left after."""
    epsilon_left_of_share: float | None
    """The same of the user's share; null without one."""
    allowed: bool
    """False where the cap refuses it."""

    def row(self) -> tuple[str, ...]:
        """The charge, whether the cap refuses it, and what is left of a share, if any."""
        share = self.epsilon_left_of_share
        return (
            self.account,
            str(self.releases),
            str(self.charged_before),
            *map(number, (self.epsilon, self.epsilon_spent, self.epsilon_cap)),
            number(self.epsilon_left, "-") + ("" if self.allowed else " (refused)"),
            *([] if share is None else [number(share)]),
        )


@dataclass(frozen=True)
class ForecastAccount(PrintedRow):
    """One account of a scheduled pipeline that has a cap."""

    heads = (
        "pipeline",
        "account",
        "left",
        "cost per period",
        "periods affordable",
        "periods due",
        "until",
    )

    pipeline: str
    """Name of the pipeline."""
    account: str
    """Name of the account."""
    cost: float
    """ε of one run in a new period."""
    left: float
    """ε that is left."""
    affordable: int
    """New periods that fit in it, of those that are due."""
    due: int
    """New periods that are due within `horizon_days`."""
    lasts_until: str | None
    """Day of the last period that fits, null if none does."""
    horizon_days: int
    """How long the budget should last."""
    is_enough: bool
    """Whether all periods fit."""

    def row(self) -> tuple[str, ...]:
        """How long the account lasts."""
        until = "end of horizon" if self.is_enough else self.lasts_until or "no run"
        periods = str(self.affordable), str(self.due)
        return self.pipeline, self.account, number(self.left), number(self.cost), *periods, until


@dataclass(frozen=True)
class Listing:
    """What can be run."""

    pipelines: Sequence[Mapping[str, Any]]
    """Of each its `name`, the [keys of pipelines.yaml](pipelines.md#pipeline), and `is_own`:
    whether it is of the user's file, and not shipped.
    """
    models: Sequence[str]
    """Names of models in pipelines.yaml."""

    def lines(self) -> Iterator[str | Table]:
        """Pipelines by what they are for, models, and schedules."""
        table = new_table("pipeline", "what it runs", "takes", "needs")
        table.columns[0].no_wrap = True
        groups = (
            "try",
            "protect",
            "reproduce",
            *(pipeline["group"] for pipeline in self.pipelines),
        )
        for group in dict.fromkeys(groups):
            listed = [pipeline for pipeline in self.pipelines if pipeline["group"] == group]
            if listed:
                table.add_row(f"to {group}" if group else "others", style="bold")
            for one in listed:
                table.add_row(f"  {one['name']}", one["title"], one["takes"], one["needs"])
        yield table
        yield (
            f"models: {', '.join(self.models)}, a folder, a GGUF file, a hub id "
            f"org/name[@revision], or a server's URL#MODEL"
        )
        for one in self.pipelines:
            if schedule := one["schedule"]:
                yield f"scheduled: {one['name']}, {schedule['cron']} {schedule['timezone']}"


@dataclass(frozen=True)
class PlanWay:
    """One way to release, at one ε and signal."""

    method: str
    """Name of the method."""
    options: Mapping[str, str]
    """Options of the method."""
    shots: int
    """Number of demonstrations."""
    epsilon: float
    """Of the release."""
    charged: float
    """What the account would pay."""
    signal: float | None
    """AUC of a classifier on the raw rows; null where nothing is predicted."""
    auc: float | None
    """Expected AUC of a classifier on what is released."""
    auc_interval: tuple[float, float] | None
    """90 % interval of it."""
    columns: Mapping[str, float]
    """Expected error of each column."""
    column_error: float
    """Mean of these."""
    pair_error: float | None
    """Mean over pairs of columns."""
    recommended: bool
    """Whether this is the way to take."""


@dataclass(frozen=True)
class SimulatedPlan:
    """Every method simulated."""

    dataset: str
    """Name of the contract."""
    rows: int
    """Number of rows, as stated."""
    simulated_rows: int
    """Number of rows that were made up."""
    signals: Mapping[str, float]
    """By name, the AUC of a classifier on the raw rows."""
    refused: Mapping[str, str]
    """Methods that the contract rules out, and why."""
    ways: Sequence[PlanWay]
    """Every way at every ε and signal."""
    sentence: str
    """The recommendation."""
    command: str | None
    """The command that follows it; null where nothing is useful."""


@dataclass(frozen=True)
class DraftLine:
    """A line that still has the mark of a draft."""

    line: int
    """Its number."""
    text: str
    """What it says."""


@dataclass(frozen=True)
class CheckedContract:
    """A contract that holds."""

    file: str
    """Name of the file."""
    name: str
    """Name of the contract."""
    unreplaced: Sequence[DraftLine]
    """Lines of a draft that are left to fill in."""
    warnings: Sequence[str]
    """Advice in sentences."""
    contract: Mapping[str, Any]
    """The [keys of the contract](contract.md), with their defaults."""


@dataclass(frozen=True)
class StateFinding(PrintedRow):
    """One finding, faults first. The exit code is 1 if there is a fault."""

    heads = ("", "path", "rule", "what to do")

    fault: bool
    """False for a note, such as versions or who works now."""
    path: str
    """Where."""
    rule: str
    """What is so."""
    do: str
    """What to do about it."""

    def row(self) -> tuple[str, ...]:
        """Whether it is a fault, where, and what to do."""
        return "fault" if self.fault else "note", self.path, self.rule, self.do


@dataclass(frozen=True)
class RemovedPath:
    """What was removed, or would be."""

    path: str
    """Where it was."""
    what: str
    """What it was."""
    bytes: int | None
    """Its size; null for private files."""


@dataclass(frozen=True)
class CleanedState:
    """What was removed."""

    dry_run: bool
    """Whether nothing was removed, and only listed."""
    keep_days: int | None
    """Age from which runs are removed; null where all are kept."""
    removed: Sequence[RemovedPath]
    """Runs, and what killed processes left."""
    bytes: int
    """Of all but private files."""
    flow_runs: int | None
    """Flow runs of Prefect; null where it has no server or database here."""


@dataclass(frozen=True)
class WrittenBackup:
    """The backup that was written."""

    file: str
    """Its path."""
    bytes: int
    """Its size."""
    taken_utc: str
    """When it was taken."""
    record: int
    """Number of the last record of the ledger in it."""
    releases: int
    """Number of published releases in it."""
    ledger: str
    """`file`, or `server` where the ledger is in PostgreSQL and has to be copied by its own
    tools.
    """
    key_made: bool
    """Whether the key file is new."""
    missing: Sequence[str]
    """Releases whose artefact is gone."""

    def lines(self) -> Iterator[str]:
        """What is in it, and what is not."""
        yield (
            f"{self.file}: {many(self.releases, 'release')}, up to record {self.record} of "
            f"the ledger, {self.taken_utc}"
        )
        if self.ledger == "server":
            yield (
                "The ledger itself is kept in PostgreSQL: back it up with its own tools, such as "
                "pg_dump, after this."
            )


@dataclass(frozen=True)
class RestoredAccount(PrintedRow):
    """One account. Every cap is 0."""

    heads = ("account", "spent by then")

    account: str
    """Name of the account."""
    epsilon_spent: float | None
    """What was spent when the backup was taken."""

    def row(self) -> tuple[str, ...]:
        """What was spent."""
        return self.account, number(self.epsilon_spent)


@dataclass(frozen=True)
class RestoredState:
    """The backup that was restored."""

    home: str
    """Where it was restored."""
    taken_utc: str
    """When the backup was taken."""
    backup_record: int
    """Number of the last record in the backup."""
    record: int
    """Number of the record that closes the budgets."""
    in_use: str | None
    """Another state home in which the same ledger is in use, and stays so until a cap is stated
    in this one; null where there is none.
    """
    accounts: Sequence[RestoredAccount]
    """Every account."""

    def lines(self) -> Iterator[str | Table]:
        """What was restored, and what nobody here can know."""
        yield (
            f"{self.home}: restored from the backup of {self.taken_utc}, record "
            f"{self.backup_record}; record {self.record} of the ledger says so"
        )
        yield table_of(RestoredAccount, self.accounts)
        if self.in_use is not None:
            yield (
                f"The same ledger is in use in {self.in_use}, and stays so: this copy can be read, "
                f"and removed again. `dpicl budget NAME --cap CAP` here puts it in that one's "
                f"place, whose ledger is refused then."
            )
        yield (
            f"What was released after {self.taken_utc} is not in it, and nobody here can know all "
            f"of it. So every cap is 0 now, also of an account that is opened later, until you "
            f"state it: `dpicl budget NAME --cap CAP`."
        )
        yield (
            "Count first what was released since: files with their certificates, reports and "
            "manifests of runs, whoever received them. Subtract its epsilon from the cap that you "
            "state. Such a release, requested again, is drawn anew and charged again."
        )


@dataclass(frozen=True)
class ModelCheck(PrintedRow):
    """One check that holds."""

    heads = ("check", "what was found")

    check: str
    """What was checked."""
    detail: str
    """What was found."""

    def row(self) -> tuple[str, ...]:
        """What was found."""
        return self.check, self.detail


@dataclass(frozen=True)
class CheckedModel:
    """Whether a model can be used. The exit code is 2 if it cannot."""

    model: str
    """Its name."""
    usable: bool
    """Whether every check holds."""
    sentence: str
    """The verdict, with the reason of a refusal."""
    checks: Sequence[ModelCheck]
    """The checks that hold, in their order; the first that does not is the last."""


@dataclass(frozen=True)
class VerifiedFile:
    """A file whose certificate and signature hold. The exit code is 1 if it is of a simulation or a
    stated price is too small, 2 if the release was not recomputed.
    """

    file: str
    """Its name."""
    price: str | None
    """With --recompute: whether the stated privacy loss holds, in a sentence; else null."""
    signature: str
    """What was compared, and who signed, in a sentence."""
    certifies: str
    """The promise, in the certificate's words."""
    simulation: bool
    """Whether it is of a simulation on a public benchmark: nothing is certified."""
    key: str
    """The public key that signed."""
    prices: Sequence[RecomputedPrice]
    """With --recompute: each privacy loss that the certificate states, computed again."""

    def lines(self) -> Iterator[str | Table]:
        """The answer, who signed, what is promised, and each price."""
        if self.price is not None:
            yield self.price
        yield from (self.signature, self.certifies)
        if self.prices:
            table = new_table("privacy loss of", "δ", "stated ε", "recomputed ε", "bounds", "by")
            for price in self.prices:
                bounds = (
                    "-"
                    if price.epsilon_low is None
                    else f"{price.epsilon_low:.6g} to {price.epsilon_high:.6g}"
                )
                again = ("not recomputed", "", price.reason)
                if price.holds is not None:
                    again = number(price.epsilon_recomputed, "∞", 6), bounds, price.by
                stated = number(price.epsilon_stated, "∞", 6)
                table.add_row(price.what, f"{price.delta:g}", stated, *again)
            yield table
