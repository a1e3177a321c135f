"""What every contract declares, of a table or of texts: origin, unit of protection and budget."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, StringConstraints, field_validator, model_validator

from dpicl.contract.base import Frozen, Name, Rate, Text
from dpicl.contract.periods import MOST_PERIODS, Calendar, Every
from dpicl.contract.sources import Evaluation, Origin
from dpicl.errors import ParameterError


class Budget(Frozen):
    """The account's cap, or the statement that the data are a public benchmark."""

    benchmark: bool = False
    """True for public data: no cap, seeded noise; `inf` is allowed, and central baselines are
    fitted.
    """
    epsilon: Annotated[float, Field(gt=0)] | None = None
    """Cap on the total epsilon of all releases of the account, in nats; a cap set later by
    `dpicl budget` replaces it.
    """
    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Delta of the cap; 0 where every mechanism is pure, as those for tables are without
    `noise: gaussian`.
    """

    @model_validator(mode="after")
    def _one_of(self) -> Budget:
        if self.benchmark == (self.epsilon is not None):
            raise ValueError(
                "the budget is unclear; expected `benchmark: true` or `epsilon: CAP`, not both"
            )
        return self


class Person(Frozen):
    """Persons as the unit of protection: whom a row is about, and how many rows of one person enter
    a release.

    Ids are hashed as they are read, and are never shown, grouped by, queried or released.
    """

    unsaid: ClassVar[tuple[str, ...]] = ("max_rows_in_horizon",)

    id_column: Name
    """The column that identifies the person a row is about."""
    max_rows: Annotated[int, Field(ge=1)]
    """Maximum number of rows per person that enter a release, sampled at random; a release costs
    that many times its cost per row.
    """
    max_rows_in_horizon: Annotated[int, Field(ge=1)] | None = None
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
            raise ValueError(
                "unit and person disagree; expected `person:` exactly when `unit: person`"
            )
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

    unsaid: ClassVar[tuple[str, ...]] = ("horizon", "first")

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
    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
    """The file name without `.yaml`; also the name of the account, if the rows have none yet."""
    description: Text = "Private records."
    """One sentence for reports: what is predicted for which rows."""
    source: Origin
    """Where the rows are, who published them, and under which licence."""
    privacy: Privacy
    """What releases protect, and what they may cost."""
    draft: bool = False
    """True while parts of it were taken from rows; a draft releases nothing."""
    account: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")] | None = None
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
    def tells_row_count(self) -> bool:
        """Whether the number of rows is public: of a benchmark, and where a row is only ever
        exchanged for another, at the same time.
        """
        return self.privacy.budget.benchmark or (self.exchanges and self.privacy.unit == "row")

    @property
    def leaves_out(self) -> bool:
        """Whether what breaks the contract by itself is left out, or mended, where its column does
        not say: a refusal amid releases would date it.
        """
        if self.source.invalid is not None:
            return self.source.invalid == "leave-out"
        return self.releases.every != "once" and not self.privacy.budget.benchmark

    @property
    def exchanges(self) -> bool:
        """Whether units are only ever exchanged for others, so that none of a table may be left
        out.
        """
        return (
            self.privacy.neighbours == "replace-one"
            and self.releases.horizon is None
            and not self.privacy.budget.benchmark
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
