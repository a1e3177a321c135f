"""A data set's private rows on their way to a mechanism: read from where the contract says they
are, checked against its rules, split into rows to protect and rows to ask, and drawn from.

Between these steps they are in `held`, this process's memory, where a release is made here alone;
else in files of `folder`, which is private, for the stages of a run on any host. A large table is
in batches, which are always files (`batches`): it is counted batch by batch, exact sums of a
subsample or what the clients of a batch sent. Every batch's counts stand in a private file, the
first that is written whole; a batch whose worker died was never seen and is drawn again. They are
merged where the release is drafted, and noise is drawn.

Guarantee   that of the method, for releases that are charged before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpicl.contract import Contract, TextContract
from dpicl.contract.declared import Declared
from dpicl.contract.pipeline import Point, unit_key
from dpicl.data.central.chosen_bins import Bins
from dpicl.data.reading.batches import held_out, merged_violations
from dpicl.data.reading.checks import rules_of, violations
from dpicl.data.reading.files import in_batches, survey
from dpicl.data.reading.parse import typed_table
from dpicl.data.reading.queries import load_queries
from dpicl.data.reading.source import load_source, query_parts, read_deliveries
from dpicl.data.reading.split import fewer, split_table
from dpicl.ground.errors import DataError, RunError
from dpicl.ground.files import PRIVATE_MODE, read_arrays, read_json, write_arrays, write_json
from dpicl.ground.nouns import many
from dpicl.ground.printable import tell_holder
from dpicl.ground.types import DataRule, PrivateTable, QueryTable, Violation
from dpicl.home.accounts import check_payer, ledger_key
from dpicl.home.benchmarks import check_published, content_digest
from dpicl.home.settings import Settings
from dpicl.ledger import content_version
from dpicl.methods import METHODS, tabular
from dpicl.methods.base import draws_for
from dpicl.methods.grid import draw, prepare
from dpicl.methods.tabular_method import Arrays, TabularMethod
from dpicl.release.table_files import (
    INDEX,
    Batches,
    begin,
    check_open,
    keep_stream,
    keep_table,
    kept_table,
    private_folder,
    split_key,
)

TABLE = "private_table.arrow"
TRAIN = "private_train.arrow"
DIGEST = "private_digest.json"
TEST = "queries_test.arrow"
QUERIES = "queries_asked.npz"


@dataclass(frozen=True)
class Rows:
    """The private rows of one data set, wherever they are."""

    contract: Declared
    settings: Settings
    folder: Path
    held: dict[str, Any] | None = None

    @property
    def batches(self) -> Batches | None:
        """Of a table that was read so; None of one that is whole."""
        return Batches.find(self.contract, self.settings, self.folder)

    def read(
        self, period: str | None, uncounted: Callable[[Contract], Sequence[int]] | None
    ) -> str:
        """Read the source once, whole or in batches; gives a line of counts.

        Args:
            period: of texts that come in deliveries, whose.
            uncounted: of a table that comes in deliveries, numbers of those to read.

        Raises:
            DataError: a row breaks the contract by itself; SourceError: there is no source.
        """
        contract = self.contract
        settings = self.settings
        if isinstance(contract, TextContract):
            from dpicl.data.text_files import load_texts  # of a table it is not needed

            table = load_texts(
                contract, **settings.folders, period=period if contract.is_delivered else None
            )
        else:
            assert isinstance(contract, Contract)
            if (self.folder / INDEX).exists():
                return "already done"
            check = partial(check_payer, contract, settings)
            if contract.source.frame:
                if settings.given is None or settings.given.rows is None:
                    raise RunError(
                        f"{contract.name}: its rows are given by the program that makes the "
                        f"release, and are not here"
                    )
                table = typed_table(settings.given.rows, contract, contract.name)
            elif contract.source.deliveries is not None:
                if uncounted is None:
                    raise RunError(f"{contract.name}: deliveries are counted by their horizon")
                table = read_deliveries(contract, settings.data, list(uncounted(contract)))
            elif in_batches(contract) and contract.source.query is not None:
                return keep_stream(query_parts(contract, check), contract, settings, self.folder)
            elif in_batches(contract) and (files := survey(contract, settings.data)) is not None:
                return begin(files, contract, self.folder)
            else:
                table = load_source(contract, **settings.folders, check=check)
        self._keep(TABLE, table)
        return many(table.num_rows, "row") if contract.tells_row_count else "rows read"

    def verdicts(self) -> tuple[tuple[DataRule, ...], tuple[Violation, ...]]:
        """The contract's rules, and those that the rows break."""
        contract = self.contract
        batches = self.batches
        if batches is not None:
            return rules_of(batches.contract), merged_violations(batches.facts(), batches.contract)
        table = self.whole()
        if isinstance(contract, TextContract):
            from dpicl.data.text_files import text_rules, text_violations

            return text_rules(contract), text_violations(table, contract)
        assert isinstance(contract, Contract)
        return rules_of(contract), violations(table, contract)

    def split(self, most: int | None) -> tuple[int, int, int]:
        """Hold out what is asked, `most` queries at most; gives how many rows there are to protect,
        to ask, and held out in all.
        """
        contract = self.contract
        settings = self.settings
        batches = self.batches
        if batches is not None:
            facts = batches.facts()
            check_published(
                batches.contract, partial(facts.whole_digest, batches.contract), settings
            )
            asked = load_queries(batches.contract, data_folder=settings.data)
            parts = [batches.test(number) for number in range(batches.count)]
            train_rows = facts.train_rows
            digest = facts.digest(batches.contract)
            test, positions = held_out(
                parts, train_rows, batches.contract, key=batches.key, most=most, queries=asked
            )
        else:
            table = self.whole()
            check_published(contract, partial(content_digest, contract, table), settings)
            if isinstance(contract, Contract):
                asked = load_queries(contract, data_folder=settings.data)
                key = split_key(settings, contract)
                whole = split_table(table, contract, key=key, most=most, queries=asked)
            else:
                from dpicl.data.text_files import split_texts

                assert isinstance(contract, TextContract)
                whole = split_texts(table, contract, most=most)
            digest = content_digest(contract, whole.train.data)
            train_rows = whole.train.row_count
            test = whole.test.data
            positions = whole.query_positions
            self._keep(TRAIN, whole.train.data)
            if self.held is not None:  # a file stays, for a run that is resumed
                self.held.pop(TABLE, None)
        if self.held is None:
            write_json(self.folder / DIGEST, digest, mode=PRIVATE_MODE)
        else:
            self.held[DIGEST] = digest
        self._hold(test, positions)
        return train_rows, len(positions), test.num_rows

    def public_queries(self, most: int | None) -> int | None:
        """Where clients report there are no rows to split: the contract's public queries; how many,
        None where it names none.
        """
        contract = self.contract
        assert isinstance(contract, Contract)
        asked = load_queries(contract, data_folder=self.settings.data)
        if asked is None or contract.evaluation != "public":
            return None
        self._hold(asked, fewer(np.arange(asked.num_rows), most, contract.name))
        return asked.num_rows

    def whole(self) -> pa.Table:
        """All rows as they were read, of a table that is not in batches."""
        return self._kept(TABLE)

    def train(self) -> PrivateTable:
        """The rows to protect, all in memory."""
        if (batches := self.batches) is None:
            return PrivateTable(self._kept(TRAIN))
        parts = [batches.train(number).data for number in range(batches.count)]
        return PrivateTable(pa.concat_tables(parts, promote_options="permissive"))

    def test(self) -> QueryTable:
        """All held-out rows; reads no row to protect."""
        return QueryTable(self._kept(TEST))

    def queries(self) -> QueryTable:
        """The held-out rows that are put to the model; reads no row to protect."""
        return QueryTable(self._kept(TEST).take(self.asked))

    @property
    def asked(self) -> np.ndarray:
        """Positions of the queries among the held-out rows, shape (queries,)."""
        if self.held is not None:
            return np.asarray(self.held[QUERIES])
        return read_arrays(self.folder / QUERIES)["asked"]

    @property
    def state(self) -> str:
        """The keyed name of the state of the rows to protect, whatever their order; private, as who
        sees two of them can compare tables.
        """
        stored = read_json(self.folder / DIGEST) if self.held is None else self.held[DIGEST]
        return content_version(ledger_key(self.settings), bytes.fromhex(str(stored)))

    def _hold(self, test: pa.Table, positions: np.ndarray) -> None:
        self._keep(TEST, test)
        # the positions of the queries come last
        if self.held is None:
            write_arrays(self.folder / QUERIES, {"asked": positions}, mode=PRIVATE_MODE)
        else:
            self.held[QUERIES] = positions

    def _keep(self, name: str, table: pa.Table) -> None:
        """The first stays."""
        if self.held is None:
            keep_table(self.folder / name, table)
        else:
            self.held.setdefault(name, table)

    def _kept(self, name: str) -> pa.Table:
        return self.held[name] if self.held is not None else kept_table(self.folder / name)


def check_rules(rules: Sequence[DataRule], violated: Sequence[Violation], name: str) -> None:
    """Refuse rows that break a rule. Raises DataError: names column, rule and count."""
    counts = {violation.rule: violation.count for violation in violated}
    failed = [rule for rule in rules if rule in counts and rule.severity == "fail"]
    if failed:
        more = f"and {len(failed) - 1} more rules fail" if len(failed) > 1 else ""
        broken = f"breaks {failed[0].rule}: expected {failed[0].description}"
        raise DataError(
            name, broken, column=failed[0].column or "", count=counts[failed[0]], detail=more
        )


def warnings_of(rules: Sequence[DataRule], violated: Sequence[Violation], name: str) -> str:
    """Which rules do not hold, and only warn, for the rows' holder."""
    warned = ", ".join(
        f"{' '.join(filter(None, (broken.rule.rule, broken.rule.column)))} ({broken.count})"
        for broken in violated
    )
    return f"{name}: of {len(rules)} rules these do not hold, and only warn: {warned}"


def note_state(rows: Rows, names: Collection[str], drawn: Collection[str]) -> None:
    """Note what releases were drawn from now, and tell a person at a terminal that the rows have
    changed since the others were.

    It decides nothing, and is reported nowhere else: whether rows have changed is no public fact.
    What was drawn from which state of the rows is kept in the private part of the installation.
    """
    notes = rows.settings.private("drawn-from")
    state = {"rows": rows.state}
    for name in drawn:
        write_json(notes / f"{name}.json", state, mode=PRIVATE_MODE, replace=True)
    earlier = [notes / f"{name}.json" for name in set(names) - set(drawn)]
    if any(read_json(file) != state for file in earlier if file.exists()):
        tell_holder(
            f"{rows.contract.name}: its rows have changed since they were released from, and the "
            "release stands for its period; a new period draws anew (`releases: {every: month}` in "
            "the contract, or another period)"
        )


_BETWEEN = "|"
"""Between a cell and the name of one of its arrays, of counts."""


def counted_batches(rows: Rows, method: str) -> Batches | None:
    """What a method counts one by one; None where it reads all rows at once, of which batches are
    put together.
    """
    by_name = METHODS[method]
    return rows.batches if isinstance(by_name, TabularMethod) and by_name.takes_batches else None


def marked(rows: Rows, method: str, asked: Sequence[Point[Any]]) -> dict[str, np.ndarray]:
    """Private marks of rows, shape (rows,), that these releases are drawn with, by the keys of what
    they are asked for; none of batches.
    """
    contract = rows.contract
    assert isinstance(contract, Contract)
    if tabular(method).prepare_stage is None or not asked or counted_batches(rows, method):
        return {}
    draws = draws_for(contract, asked[0].seed)
    return prepare(tabular(method), rows.train(), contract, by_key(asked), draws)


def by_key(asked: Iterable[Point[Any]]) -> dict[str, Point[Any]]:
    """What releases are asked for by its key."""
    return {point.key: point for point in asked}


def drafted(
    rows: Rows, method: str, asked: Sequence[Point[Any]], marks: Mapping[str, np.ndarray]
) -> dict[str, bytes]:
    """Draw these releases of one seed, which are charged. Of a large table, counts the batches that
    are missing.
    """
    contract = rows.contract
    of_method = tabular(method)
    batches = counted_batches(rows, method)
    assert isinstance(contract, Contract)
    for point in asked:
        of_method.check(contract, point)
    draws = draws_for(contract, asked[0].seed)
    if batches is None:
        drawn = draw(of_method, rows.train(), contract, by_key(asked), draws, marks)
    else:
        counts: list[dict[str, dict[str, np.ndarray]]] = []
        for number in range(batches.count):
            stored: dict[str, dict[str, np.ndarray]] = {}
            for name, values in read_arrays(counted(rows, method, batches, number, asked)).items():
                key, _, array = name.partition(_BETWEEN)
                stored.setdefault(key, {})[array] = values
            if any(point.key not in stored for point in asked):
                raise _other_releases(contract, method)
            counts.append(stored)
        bins = _settled(rows, method, batches, 0, asked)
        drawn = {
            point.key: of_method.merge(
                [batch[point.key] for batch in counts], contract, point, draws, bins[point.key]
            )
            for point in asked
        }
    return {key: of_method.encode(release) for key, release in drawn.items()}


def counted(
    rows: Rows, method: str, batches: Batches, number: int, asked: Sequence[Point[Any]]
) -> Path:
    """The file of a batch's counts; its rows are read and counted for every release, unless that
    is done.
    """
    contract = batches.contract
    of_method = tabular(method)
    seed = asked[0].seed
    path = _counts_folder(rows, method, seed) / f"{number:05}.npz"
    if not path.exists():
        for point in asked:
            of_method.check(contract, point)
        bins = _settled(rows, method, batches, number, asked)
        draws = draws_for(contract, seed).of_batch(number)
        shared = batches.train(number).sharing()
        arrays = {
            f"{point.key}{_BETWEEN}{name}": values
            for point in asked
            for name, values in of_method.count(
                shared, contract.with_bins(bins[point.key]), point, draws
            ).items()
        }
        check_open(path.parent)
        write_arrays(path, arrays, mode=PRIVATE_MODE)
    return path


def _settled(
    rows: Rows, method: str, batches: Batches, first: int, asked: Sequence[Point[Any]]
) -> dict[str, Bins]:
    """Bins of each release that nobody states, chosen once from all batches; whoever needs them
    looks at those that nobody has looked at yet, from this one on.
    """
    contract = batches.contract
    of_method = tabular(method)
    seed = asked[0].seed
    folder = _counts_folder(rows, method, seed)
    path = folder / "bins.json"
    if not contract.open_numbers:
        return {point.key: {} for point in asked}
    if not path.exists():
        looks = dict[int, Arrays]()
        for number in (*range(first, batches.count), *range(first)):
            look = folder / f"look-{number:05}.npz"
            if not look.exists():
                draws = draws_for(contract, seed).of_batch(number)
                seen = of_method.look(batches.train(number), contract, draws)
                check_open(folder)
                write_arrays(look, dict(seen), mode=PRIVATE_MODE)
            looks[number] = read_arrays(look)
        in_order = [looks[number] for number in sorted(looks)]
        draws = draws_for(contract, seed)
        chosen = {point.key: of_method.choose(in_order, contract, point, draws) for point in asked}
        check_open(folder)
        write_json(path, chosen, mode=PRIVATE_MODE)
    settled: dict[str, Bins] = {
        key: {name: tuple(edges) for name, edges in bins.items()}
        for key, bins in read_json(path).items()
    }
    if any(point.key not in settled for point in asked):
        raise _other_releases(contract, method)
    return settled


def _other_releases(contract: Contract, method: str) -> RunError:
    return RunError(
        f"{contract.name}: a batch was counted for other releases of {method}; start a new run"
    )


def _counts_folder(rows: Rows, method: str, seed: int) -> Path:
    return private_folder(rows.folder, unit_key(method, rows.contract.name, seed), "counts")
