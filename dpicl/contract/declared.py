"""What every contract declares, of a table or of texts: origin, unit of protection and budget."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from dpicl.contract.base import Frozen, Grown, Name, Rate, Text
from dpicl.contract.periods import Every
from dpicl.contract.sources import Evaluation, Origin


class Budget(Frozen):
    """The cap of the account, or a declaration that nothing is at stake."""

    benchmark: bool = False
    """True of public data on which nothing is at stake: no cap, seeded noise, `inf` and central baselines allowed."""
    epsilon: Annotated[float, Field(gt=0)] | None = None
    """What all releases of the account together may cost, in nats; what a command decides in the ledger later holds instead."""
    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """At which epsilon is counted; 0 where every mechanism is pure, as those of tables are."""

    @model_validator(mode="after")
    def _one_of(self) -> Budget:
        if self.benchmark == (self.epsilon is not None):
            raise ValueError("the budget is unclear; expected `benchmark: true` or `epsilon: CAP`, not both")
        return self


class Person(Frozen):
    """People as the unit of protection: who a row is about, and how many rows of one person enter a release.

    The id column is read beside the contract's columns and kept as a hash; it is never
    shown, grouped, asked or released.
    """

    id_column: Name
    """The column that names whom a row is about."""
    max_rows: Annotated[int, Field(ge=1)]
    """Most rows of one person that enter a release, drawn at random; a release costs so many times what it costs of a row."""


class Privacy(Frozen):
    """Unit of protection, neighbouring relation of central mechanisms, and the budget."""

    unit: Literal["row", "person"] = "row"
    """Whom a release protects: the row, or the person that several rows may be about."""
    person: Person | None = None
    """Of unit `person`, and left out of unit `row`."""
    neighbours: Literal["add-or-remove-one", "replace-one"] = "add-or-remove-one"
    """Whether a row comes or goes, or is exchanged for another; a client's own report is always exchanged."""
    sampling_rate: Rate = Fraction(1, 10)
    """Public rate of the Poisson subsample of central methods."""
    budget: Budget
    """What may be spent in all, or that nothing is at stake."""

    @field_validator("sampling_rate")
    @classmethod
    def _rate(cls, value: Fraction) -> Fraction:
        if not 0 < value <= 1:
            raise ValueError(f"got {value}; expected a rate in (0, 1]")
        return value

    @model_validator(mode="after")
    def _person_given(self) -> Privacy:
        if (self.unit == "person") != (self.person is not None):
            raise ValueError("unit and person disagree; expected `person:` exactly when `unit: person`")
        return self


class Releases(Frozen):
    """When a release is made anew, whatever became of the rows."""

    every: Every = "once"
    """`once`, or a calendar period in UTC: the first draw in a period stands, and a new period is charged and drawn anew."""


class Declared(Grown):
    """Public knowledge on one data set, whatever its kind; code that needs only this takes every contract."""

    later: ClassVar[tuple[str, ...]] = ("draft", "account", "releases", "ledger")

    version: Literal[1]
    """Of the form of contracts."""
    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
    """The file's name without `.yaml`, and the name of the account where the rows have none yet."""
    description: Text
    """One sentence for reports: what is asked of which rows."""
    source: Origin
    """Where the rows are, who published them, and on what terms."""
    privacy: Privacy
    """Whom releases protect, and what they may cost."""
    draft: bool = False
    """Whether parts of it were taken from rows; nothing is released by a draft."""
    account: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")] | None = None
    """Which account pays, where several contracts are on the same rows under several addresses; left out, the rows' address says it."""
    releases: Releases = Releases()
    """When releases are made anew; once if left out."""
    ledger: Annotated[str, StringConstraints(pattern=r"^postgresql://[A-Za-z0-9.-]+(:[0-9]{1,5})?/[A-Za-z0-9_-]+$")] | None = None
    """The one ledger that these rows may be charged in, as `postgresql://HOST/DATABASE`; any that DPICL_LEDGER names if left out."""

    @property
    def tells_row_count(self) -> bool:
        """Whether the number of rows is public: of a benchmark, and where a row is only ever exchanged for another."""
        return self.privacy.budget.benchmark or (self.privacy.unit == "row" and self.privacy.neighbours == "replace-one")

    @property
    def evaluation(self) -> Evaluation:
        """What answers are measured on."""
        raise NotImplementedError
