"""What every contract declares, of a table or of texts: origin, unit of protection and budget.

Where the rows of a data set come from, which are held out, and what answers are measured on.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BeforeValidator,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    StringConstraints,
    field_validator,
    model_serializer,
    model_validator,
)

from dpicl.contract.base import (
    Category,
    CategoryName,
    DateForm,
    Frozen,
    Name,
    Positive,
    Rate,
    Share,
    Text,
)
from dpicl.contract.periods import MOST_PERIODS, Calendar, Every
from dpicl.ground.errors import ParameterError

FilePath = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]*$", max_length=255)
]
_PLACE = r"^(s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/)?[A-Za-z0-9_][A-Za-z0-9_./-]*$"
_ALIASES = ("-s3alias", "--ol-s3", ".mrap")


def _known_scheme(value: Any) -> Any:
    """Of a store there is one spelling of each object and prefix, and one name of each bucket."""
    scheme, separator, place = str(value).partition("://")
    if not separator:
        return value
    if scheme != "s3":
        raise ValueError(
            f"got the scheme {scheme[:20]!r}; expected a path below the data folder, or "
            f"s3://BUCKET/KEY"
        )
    bucket, *parts = place.removesuffix("/").split("/")
    if bucket.endswith(_ALIASES):
        raise ValueError("is the alias of an access point; expected the bucket's own name")
    if {"", ".", ".."} & set(parts):
        raise ValueError(
            "has an empty part, `.` or `..` in its key; expected s3://BUCKET/KEY without them"
        )
    return value


TablePath = Annotated[
    str, BeforeValidator(_known_scheme), StringConstraints(pattern=_PLACE, max_length=255)
]
"""Below the data folder, or the address of an object; keys and endpoint of the store come from the
environment only.
"""
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Evaluation = Literal["public", "charged", "none"]
"""What answers are measured on: public rows, exactly; held-out private rows, by noisy counts that
are charged; nothing.
"""


class Remote(Frozen):
    """A data set in a public repository, and how to convert it."""

    id: Annotated[int, Field(gt=0)]
    """The set's number in the repository."""
    rename: dict[str, str] = {}
    """{their column: our column}."""
    values: dict[str, dict[Category, Category]] = {}
    """column -> {their value: our value}."""
    scale: dict[str, float] = {}
    """column -> factor."""
    published_split: tuple[str, int, str, str] | None = None
    """(column to add, rows of the first part, its value, value of the other rows)."""


ORIGIN_WORDS = ("obtain", "stands_in")
"""Keys of `Origin` that came later and are words for people: no digest of a contract contains
them.
"""


class Origin(Frozen):
    """Who published a data set, and under which licence."""

    unsaid: ClassVar[tuple[str, ...]] = ("invalid", *ORIGIN_WORDS)

    title: Text = "Private records"
    """The title under which it was published."""
    licence: Text = "not published"
    """The licence under which it may be used."""
    citation: Text = "none"
    """What to cite; `none` if it was not published."""
    invalid: Literal["refuse", "leave-out"] | None = None
    """What becomes of a row, or text, that breaks the contract by itself: `refuse` refuses all of
    them, which tells that there is one; `leave-out` leaves it out, or makes a value of a nullable
    column missing. If left out: `refuse` where one release is made, `leave-out` where
    `releases.every` is a period.
    """
    obtain: Text | None = None
    """Where anyone can get rows that are not shipped, and in which form, in words."""
    stands_in: Text | None = None
    """Of what this set takes the place in a paper's tables, and how it differs, in words."""


class QuerySource(Frozen):
    """Rows from a database: the statement, and the environment variable that holds the address."""

    url_env: Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,99}$")]
    """Name of the environment variable that holds the database URL, password included."""
    sql: Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
    """One statement that returns the contract's columns; give it an ORDER BY, at least with a
    LIMIT.
    """


CSV, TSV = (".csv", ".csv.gz"), (".tsv", ".tsv.gz")
_OF_FILES = ("delimiter", "decimal", "encoding", "dates", "rename")


class Source(Origin):
    """Origin, licence and checksum, and at least one place to get the rows from."""

    unsaid = (
        *Origin.unsaid,
        *("folder", "query", "moved_from", "frame", "arrived", "sign", "deliveries", "undelivered"),
        *_OF_FILES,
    )

    bundled: Literal["breast_cancer"] | None = None
    """Rows that are shipped with an installed package."""
    file: TablePath | None = None
    """CSV (`.csv`), TSV (`.tsv`), JSON lines (`.jsonl`, `.ndjson`), each of them also with `.gz`,
    Parquet or the first sheet of an Excel workbook (`.xlsx`): a path relative to the data folder,
    or `s3://BUCKET/KEY`.
    """
    folder: TablePath | None = None
    """A folder of Parquet files, relative to the data folder, or `s3://BUCKET/PREFIX/`; all are
    read, in order of their names.
    """
    deliveries: TablePath | None = None
    """Of a series (`releases.horizon`) whose rows do not say when they arrived: a folder, relative
    to the data folder, or `s3://BUCKET/PREFIX/`, with a file for each period, named by it, such as
    2027-01-31.csv (any kind that `file` may be). A period without rows has a file without rows.
    """
    undelivered: Literal["refused", "empty"] = "refused"
    """With `deliveries`: what a period that is over and has no file means: that its rows are yet to
    come, so that nothing is released; or, with `empty`, that nothing arrived in it.
    """
    moved_from: TablePath | None = None
    """The earlier value of `file`, `folder` or `deliveries`, if the same rows were moved after
    releases had been charged: no release is charged again.
    """
    query: QuerySource | None = None
    """Rows from a database."""
    frame: bool = False
    """Rows are given by the program that makes the release, under the account that the contract
    names.
    """
    openml: Remote | None = None
    """Rows on OpenML, for `dpicl data fetch`."""
    uci: Remote | None = None
    """Rows in the UCI repository, for `dpicl data fetch`."""
    content_sha256: Sha256 | None = None
    """Benchmarks only: digest of the typed rows in canonical order, independent of where they come
    from.
    """
    delimiter: Literal[",", ";", "\t", "|"] = ","
    """What separates the columns of CSV files; those of `.tsv` are separated by tabs. This key and
    the four below are about files, the one of `queries` too.
    """
    decimal: Literal[".", ","] = "."
    """The decimal mark of numbers that a file has as text: with `,`, 3,5 is a number, and 3.5 is
    none. Thousands are not separated.
    """
    encoding: Literal["utf-8", "latin-1", "windows-1252", "utf-16"] = "utf-8"
    """Of CSV and TSV files."""
    dates: DateForm | dict[Name, DateForm] | None = None
    """How a file writes dates as text, if not as 2026-11-25: %d.%m.%Y for 25.11.2026, %m/%d/%Y
    %H:%M for 11/25/2026 14:30; or {column: form}, if columns differ.
    """
    rename: dict[str, Name] = {}
    """{column of the file: its name here}, for names that are long or have a line break in them.
    """
    ignore: tuple[str, ...] = ()
    """Columns of the file to ignore, by their names here."""
    arrived: Name | None = None
    """Of a series (`releases.horizon`): the column with the day on which a row arrived, such as
    2027-01-31; it is used for nothing else.
    """
    sign: Name | None = None
    """Of a series that protects persons: the column with 1 for a row that comes, and -1 for one
    that takes an earlier row of that person back. Both count among the person's rows.
    """
    missing: Category | None = None
    """A word that stands for a missing value, beside an empty cell, in every column without a
    `missing` of its own; rows that have it in a column that is not nullable are dropped.
    """

    @model_validator(mode="after")
    def _some_way(self) -> Source:
        ways = (self.bundled, self.file, self.folder, self.deliveries, self.query)
        others = [way for way in (*ways, self.openml, self.uci) if way is not None]
        if not (others or self.frame):
            raise ValueError(
                "no way to get the rows; expected one of bundled, file, folder, deliveries, "
                "query, openml, uci"
            )
        if len(others) > 1 - self.frame and (
            self.folder or self.deliveries or self.query or self.frame
        ):
            raise ValueError(
                "more than one place for the rows; expected `folder`, `deliveries`, `query` or "
                "`frame` alone"
            )
        if self.moved_from and not (self.file or self.folder or self.deliveries):
            raise ValueError(
                "`moved_from` is given alone; expected it with the `file`, `folder` or "
                "`deliveries` that the rows were moved to"
            )
        return self

    @model_validator(mode="after")
    def _of_files(self) -> Source:
        """Whatever says how a file is written is of a file that can be written so."""
        said = [
            name
            for name in _OF_FILES
            if getattr(self, name) != type(self).model_fields[name].default
        ]
        local = self.file or self.deliveries or self.folder
        if said and (local is None or self.openml or self.uci or self.bundled):
            raise ValueError(
                f"`{said[0]}` is about rows in a file of one's own; expected `file`, `folder` or "
                "`deliveries` alone beside it, or rows that are converted where they come from"
            )
        for name, endings in (("delimiter", CSV), ("encoding", (*CSV, *TSV))):
            if name in said and not (self.deliveries or (self.file or "").endswith(endings)):
                raise ValueError(
                    f"`{name}` is of files that end in {', '.join(endings)}, and not of {local}; "
                    "expected no such key"
                )
        if len({*self.rename.values()}) < len(self.rename):
            raise ValueError("`rename` gives a name twice; expected another one for each column")
        return self

    @model_serializer(mode="wrap")
    def _stable_form(
        self, serialise: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, Any]:
        """With the rows' first address: a release does not depend on where the rows are stored."""
        content = super()._stable_form(serialise, info)
        moved = content.pop("moved_from", None)
        return {
            name: moved if moved and name in ("file", "folder", "deliveries") and value else value
            for name, value in content.items()
        }


class QueryFile(Frozen):
    """Public rows: they are sent to the model as they are, and accuracy on them is measured without
    noise.
    """

    file: FilePath
    """A file of any kind that `source.file` may be, written as that one is, relative to the data
    folder, with all columns of the contract including the label.
    """
    sha256: Sha256 | None = None
    """SHA-256 of the file."""


class Split(Frozen):
    """How rows are split into demonstrations and held-out rows.

    Either a published split column, or a random fraction `test_fraction`. Of the held-out
    rows, `query_fraction` serve as queries.
    """

    unsaid = ("evaluation_epsilon",)

    column: Name | None = None
    """The category column of a published split; requires `train` and `test`."""
    train: CategoryName | None = None
    """Its value in training rows, which demonstrations are made from."""
    test: CategoryName | None = None
    """Its value in held-out rows."""
    test_fraction: Share | None = None
    """The fraction of rows held out at random, if there is no published split; the same rows in
    every run.
    """
    query_fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    """The fraction of held-out rows that serve as queries."""
    evaluation_epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Epsilon charged for evaluating one unit on held-out private rows, in nats; if left out,
    nothing is evaluated on them.
    """

    @model_validator(mode="after")
    def _one_of(self) -> Split:
        published = (self.column, self.train, self.test)
        if all(published) == (self.test_fraction is not None) or (
            any(published) and not all(published)
        ):
            raise ValueError(
                "the split is unclear; expected column, train and test, or test_fraction"
            )
        if all(published) and self.train == self.test:
            raise ValueError(
                "train and test are the same part; expected two different values of the column"
            )
        return self


class Budget(Frozen):
    """The account's cap, or the statement that the data are a public benchmark."""

    unsaid = ("by",)

    benchmark: bool = False
    """True for public data: no cap, seeded noise; `inf` is allowed, and central baselines are
    fitted.
    """
    epsilon: Annotated[float, Field(gt=0)] | None = None
    """Cap on the total epsilon of all releases of the account, in nats. A charge by this contract
    lowers a larger cap of the account; one that `dpicl budget` has set holds instead of this.
    """
    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Delta of the cap; 0 where every mechanism is pure, as those for tables are without
    `noise: gaussian`.
    """
    by: Mapping[Category, Annotated[float, Field(ge=0)]] | None = None
    """The most epsilon that each of these users may charge by any contract of the account, until
    `dpicl budget` raises it. Whom DPICL_USER names, or else the machine; no access control.
    """

    @model_validator(mode="after")
    def _one_of(self) -> Budget:
        if self.benchmark and self.by:
            raise ValueError("a public benchmark has no cap to share; expected no `by`")
        if self.benchmark == (self.epsilon is not None):
            raise ValueError(
                "the budget is unclear; expected `benchmark: true` or `epsilon: CAP`, not both"
            )
        if (most := max((self.by or {}).values(), default=0.0)) > (self.epsilon or 0):
            raise ValueError(
                f"by: a share of {most:g} can never be used up under a cap of {self.epsilon:g}; "
                f"expected at most the cap"
            )
        return self


class Person(Frozen):
    """Persons as the unit of protection: whom a row is about, and how many rows of one person enter
    a release.

    Ids are hashed as they are read, and are never shown, grouped by, queried or released.
    """

    unsaid = ("max_rows_in_horizon",)

    id_column: Name
    """The column that identifies the person a row is about."""
    max_rows: Positive
    """Maximum number of rows per person that enter a release, sampled at random; together they cost
    its epsilon, so that noise grows with them.
    """
    max_rows_in_horizon: Positive | None = None
    """Of a series (`releases.horizon`): the same in all periods together, while `max_rows` is of
    one period; noise grows with both.
    """

    @property
    def rows_in_horizon(self) -> int:
        """Of a series: k. A contract with a horizon states it, or is refused."""
        assert self.max_rows_in_horizon is not None
        return self.max_rows_in_horizon


class Privacy(Frozen):
    """Unit of protection, neighbouring relation and budget."""

    unit: Literal["row", "person"] = "row"
    """What a release protects: one row, or one person with all of their rows."""
    person: Person | None = None
    """Required for unit `person`, left out for unit `row`."""
    neighbours: Literal["add-or-remove-one", "replace-one"] = "add-or-remove-one"
    """Neighbouring relation of central mechanisms; local mechanisms always use replace-one."""
    sampling_rate: Rate = Fraction(1, 10)
    """Public rate of Poisson subsampling in GDP-TabICL; where it counts a horizon all rows enter,
    and no rate below 1 may be stated.
    """
    budget: Budget
    """The cap on all releases, or `benchmark: true`."""

    @field_validator("sampling_rate")
    @classmethod
    def _rate(cls, value: Fraction) -> Fraction:
        if not 0 < value <= 1:
            raise ValueError(f"got {value}; expected a rate in (0, 1]")
        return value

    @model_validator(mode="after")
    def _person_given(self) -> Privacy:
        if (self.unit == "person") != (self.person is not None):
            fix = "unit: person" if self.person else "person: {id_column: COLUMN, max_rows: NUMBER}"
            raise ValueError(f"has one of `unit: person` and `person` alone; expected `{fix}` too")
        return self


@lru_cache(maxsize=64)
def _calendar(every: Every, first: datetime, length: int | str) -> Calendar | None:
    """A property of frozen models that is looked up for every period."""
    return Calendar.over(every, first=first, length=length)


def _as_count(value: object) -> object:
    """A number that is written as text, as a number."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


class Releases(Frozen):
    """How often releases are renewed, whether or not the rows have changed."""

    unsaid = ("horizon", "first")

    every: Every = "once"
    """`once`, or a calendar period in UTC: within a period the first release is reused; a new
    period makes and charges a new one.
    """
    horizon: Annotated[int | str, BeforeValidator(_as_count)] | None = None
    """Number of periods, or a time such as `2 years`, that are charged together by the first
    release; the rows that arrive in each are counted once. If left out, each period is a release of
    its own.
    """
    first: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = None
    """The day on which the first period of the horizon begins, or any day in it, such as
    2027-01-01; rows of before are counted with it.
    """

    @model_validator(mode="after")
    def _horizon_placed(self) -> Releases:
        if (self.horizon is None) != (self.first is None):
            raise ValueError(
                "horizon and first go together; expected both, such as `{every: day, horizon: 2 "
                "years, first: 2027-01-01}`"
            )
        if self.horizon is not None:
            _ = self.calendar
        return self

    @property
    def first_day(self) -> datetime:
        """Of the horizon. Raises ValueError: `first` is no date."""
        try:
            return datetime.strptime(str(self.first), "%Y-%m-%d").replace(tzinfo=UTC)
        except ValueError:
            raise ValueError(
                f"first is {self.first!r}; expected a day such as 2027-01-01"
            ) from None

    @property
    def calendar(self) -> Calendar:
        """The periods of the horizon. Raises ValueError: there are none, or too many."""
        if self.every == "once" or self.horizon is None:
            raise ValueError(
                "a horizon needs periods; expected `every: day`, week, month, quarter or year"
            )
        try:
            calendar = _calendar(self.every, self.first_day, self.horizon)
        except ParameterError as error:  # pydantic gives file and key to a ValueError
            raise ValueError(f"horizon has too many periods: {error}") from None
        if calendar is None:
            raise ValueError(
                f"horizon is {str(self.horizon)[:40]!r}; expected 1 to {MOST_PERIODS} periods: a "
                f"number, or a time such as 2 years"
            )
        return calendar


class Declared(Frozen):
    """What contracts of tables and of texts have in common."""

    unsaid: ClassVar[tuple[str, ...]] = ("draft", "account", "releases", "ledger")

    version: Literal[1, 2] = 2
    """Version of the contract format. In version 2, caps and `population` are no part of what names
    a release.
    """
    name: Slug
    """The file name without `.yaml`; also the name of the account, if the rows have none yet."""
    description: Text = "Private records."
    """One sentence for reports: what is predicted for which rows."""
    source: Origin
    """Where the rows are, who published them, and under which licence."""
    privacy: Privacy
    """What releases protect, and what they may cost."""
    draft: bool = False
    """True while parts of it were taken from rows; a draft releases nothing."""
    account: Slug | None = None
    """The account to charge, for contracts that reach the same rows at different addresses; if left
    out, the address determines it.
    """
    releases: Releases = Releases()
    """How often releases are renewed; once if left out."""
    ledger: (
        Annotated[
            str,
            StringConstraints(
                pattern=r"^postgresql://[A-Za-z0-9.-]+(:[0-9]{1,5})?/[A-Za-z0-9_-]+$"
            ),
        ]
        | None
    ) = None
    """The only ledger that may charge these rows, as `postgresql://HOST/DATABASE`; if left out, the
    one that DPICL_LEDGER names.
    """

    @property
    def is_benchmark(self) -> bool:
        """Whether its rows are public: noise is seeded, and nothing is charged."""
        return self.privacy.budget.benchmark

    @property
    def rows_of_unit(self) -> int:
        """At most so many rows of one unit of protection enter a release."""
        return self.person.max_rows if self.person else 1

    @property
    def person(self) -> Person | None:
        """Who is protected, where it is not a row."""
        return self.privacy.person

    @property
    def periods(self) -> tuple[str, ...]:
        """Names of those of the horizon. Raises ValueError: there is none."""
        return self.releases.calendar.periods

    @property
    def tells_row_count(self) -> bool:
        """Whether the number of rows is public: of a benchmark, and where a row is only ever
        exchanged for another, at the same time.
        """
        return self.is_benchmark or (self.exchanges and self.privacy.unit == "row")

    @property
    def leaves_out(self) -> bool:
        """Whether what breaks the contract by itself is left out, or mended, where its column does
        not say: a refusal amid releases would date it.
        """
        if self.source.invalid is not None:
            return self.source.invalid == "leave-out"
        return self.releases.every != "once" and not self.is_benchmark

    @property
    def exchanges(self) -> bool:
        """Whether units are only ever exchanged for others, so that none of a table may be left
        out.
        """
        return (
            self.privacy.neighbours == "replace-one"
            and self.releases.horizon is None
            and not self.is_benchmark
        )

    @property
    def takes_back(self) -> bool:
        """Whether rows may take back others, as corrections of a series do."""
        return False

    @property
    def is_delivered(self) -> bool:
        """Whether rows are delivered period by period (`source.deliveries`), so that those of past
        periods are not read again.
        """
        return False

    @property
    def evaluation(self) -> Evaluation:
        """What answers are measured on."""
        raise NotImplementedError
