"""Mistakes around the mechanism: rules about all rows, names of assets, thresholds, verdicts and
times in public, files that nobody listed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

from dpicl.data.reading.files import survey
from dpicl.ground.errors import PrivacyError
from dpicl.ground.files import PUBLIC_MODE, LivingPaths, write_json
from dpicl.ground.types import DataRule
from dpicl.home.settings import Settings
from dpicl.ledger import accounts
from dpicl.methods.gdp_tabicl import GdpTabicl
from dpicl.methods.tab_pe import TabPe
from dpicl.runs import chain
from dpicl.runs import stage as verdicts
from dpicl.runs.stage import Verdicts, stage
from lab.audit.end_to_end.claims import BATCH
from lab.audit.end_to_end.mistakes import mistake
from lab.audit.end_to_end.world import NAME

_BORDERS, _RUN = f"borders of a method: {TabPe.name}", f"bytes of a run: {GdpTabicl.name}"


def _with_rule(rule: Literal["row_count", "both_labels"], at_least: int) -> Callable[[Any], Any]:
    return lambda rules_of: (
        lambda contract: (
            *rules_of(contract),
            DataRule(rule, None, "fail", at_least, f"{rule} of {at_least}"),
        )
    )


@mistake("two rows at least", _BORDERS, "rules_of")
def _two_rows(rules_of: Any) -> Any:
    """A table of fewer rows is refused."""
    return _with_rule("row_count", 2)(rules_of)


@mistake("both labels", _BORDERS, "rules_of")
def _both_labels(rules_of: Any) -> Any:
    """A table of one label is refused."""
    return _with_rule("both_labels", 1)(rules_of)


@mistake("a database by its address", "spellings of an asset: databases", "_file_address")
def _by_url(_: Any) -> Any:
    """An account is of an address as it is spelt."""
    return lambda address: f"sqlite:{address}"


@mistake("a file by its path", "spellings of an asset: files", "payers_at", accounts)
def _by_path(payers_at: Any) -> Any:
    """An account is of a path alone, whatever it leads to."""

    def by_path(connection: Any, addresses: Any) -> Any:
        no_inodes = patch.object(accounts, "inode_address", lambda _: None)
        with patch.object(LivingPaths, "overlap", lambda *_: False), no_inodes:
            return payers_at(connection, addresses)

    return by_path


@mistake("a bucket by its spelling", "spellings of an asset: stores", "_reason", accounts)
def _by_letters(_: Any) -> Any:
    """An address pays for itself alone."""
    return lambda mine, bound, _living: "" if mine == bound else None


@mistake("batches by the number of rows", f"borders of a folder: {TabPe.name}", "counted_batches")
def _by_number(counted_batches: Any) -> Any:
    """A table of more rows is in batches, which a method that does not count them refuses."""

    def by_number(rows: Any, method: str) -> Any:
        surveyed = survey(rows.contract, Settings.current().data)
        if surveyed is not None and surveyed.rows > 2 * BATCH:
            raise PrivacyError(f"{method} reads all rows at once; these are in batches")
        return counted_batches(rows, method)

    return by_number


@mistake("verdicts beside the report", "borders of a run: a value", "of", Verdicts)
def _public_verdicts(_: Any) -> Any:
    """Whether every rule holds stands in the run's folder."""
    return staticmethod(lambda run, _declared, _settings: Verdicts(run, PUBLIC_MODE, run.name))


@mistake("verdicts that others may read", _RUN, "PRIVATE_MODE", verdicts)
def _loose_verdicts(_: Any) -> Any:
    """Private files have the mode of public ones."""
    return PUBLIC_MODE


@mistake("times that follow the rows", "borders of a run: a value", "timed")
def _times_by_rows(_: Any) -> Any:
    """`timings.csv` says how long the rows were read."""

    @contextmanager
    def by_rows(
        run: Path, owner: str, stage: str, part: str = "", *, reads_rows: bool = True
    ) -> Iterator[None]:
        yield
        seconds = (
            (Settings.current().data or Path()).joinpath(f"{NAME}.csv").read_bytes().count(b"\n")
            if reads_rows
            else 0
        )
        write_json(
            run / f"timings/{owner}/{stage}{part}.json",
            {"owner": owner, "stage": stage, "seconds": seconds},
            replace=True,
        )

    return by_rows


def _then(name: str, work: Callable[[Path], object]) -> Callable[[Any], Any]:
    """A stage that does something else as well."""

    def made(right: Any) -> Any:
        def also(run: str, key: str) -> str:
            work(Path(run))
            return str(right(run, key))

        return stage(name, right.place)(also)

    return made


@mistake("counts beside the report", _RUN, "evaluate", chain)
def _counts(evaluate: Any) -> Any:
    """A stage writes a file that nobody has listed, although it tells nothing."""
    return _then(
        "evaluate", lambda run: write_json(run / "counts.json", {"rows": "some"}, replace=True)
    )(evaluate)


@mistake("rows left in a temporary folder", _RUN, "evaluate", chain)
def _left_behind(evaluate: Any) -> Any:
    """A stage leaves a file where all processes may."""
    return _then("evaluate", lambda _: Path(tempfile.gettempdir(), "rows").write_text("left"))(
        evaluate
    )


@mistake("a folder for each row", _RUN, "evaluate", chain)
def _named(evaluate: Any) -> Any:
    """A name tells what no content does."""
    return _then("evaluate", lambda run: (run / "north").mkdir(exist_ok=True))(evaluate)
