"""A method is one object: what it states, what it draws from private rows, and what is made of the
draw for nothing.

Guarantee   none spent: this is about programs, not about rows.

    state     facts without defaults, `cost` and `identity`: known before a row is read
    draw      the only step that sees rows; charged before
    derive    rows, prompts, baselines: post-processing of what was drawn

What is stated and drawn is one release, of a `Point`; `grid` has the loops over many. A class that
leaves out a fact on which privacy hangs is refused when it is defined.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from dpicl.accounting.guarantee import Guarantee, Neighbours, each_of, to_person, to_replace_one
from dpicl.contract.base import Frozen
from dpicl.contract.declared import Declared
from dpicl.contract.models import Contract
from dpicl.contract.payment import UNPAID_BASELINES
from dpicl.contract.pipeline import Cell, Point, Unit
from dpicl.contract.text import TextContract
from dpicl.data.prompts import MOST_SHOTS
from dpicl.data.reading.files import in_batches
from dpicl.ground.errors import ParameterError, PrivacyError
from dpicl.ground.installed import extra_missing
from dpicl.ground.randomness import Draws

CellTexts = dict[Cell, list[str]]
"""Of each cell: prompts, or demonstrations."""
ShownRows = list[dict[str, Any]]
"""What a report shows of a release, row by row."""
Data = Literal["table", "texts"]
Trust = Literal["central", "local"]
Reads = Literal["none", "released", "private"]
_WORDS = (("data", Data), ("trust", Trust), ("baselines_read", Reads))
_FACTS: tuple[tuple[str, tuple[object, ...] | type, str], ...] = (
    *(
        (name, get_args(words), f"one of {', '.join(map(repr, get_args(words)))}")
        for name, words in _WORDS
    ),
    *((name, bool, "True or False") for name in ("model_reads_rows", "answers_queries")),
    *((name, int, "an integer") for name in ("draw_version", "post_version")),
    *((name, str, "a text") for name in ("name", "title", "artefact")),
)
"""What every class of methods states: a name, its values or their type, and these in words."""


class Method(ABC):
    """One way from private rows to demonstrations or answers."""

    name: ClassVar[str]
    """As pipelines.yaml, ledgers and folders call it: small letters, digits and underscores."""
    title: ClassVar[str]
    """As people call it."""
    data: ClassVar[Data]
    """What it reads."""
    trust: ClassVar[Trust]
    """Who sees true rows: a curator, whose account pays, or the client alone, whose report is
    published.
    """
    model_reads_rows: ClassVar[bool]
    """Whether a language model is shown private rows, so that it must be one that may see them."""
    answers_queries: ClassVar[bool]
    """Whether a release answers one set of queries only, which is then part of its name."""
    baselines_read: ClassVar[Reads]
    """What its baselines are fitted on: there are none; what is released already; or private rows
    again, which is charged to no account, so that they are fitted on benchmarks only.
    """
    options: ClassVar[type[Frozen]]
    """Its choices, as pipelines.yaml writes them; all of them have defaults."""
    draw_version: ClassVar[int]
    """Raised when the same parameters would draw something else: part of a release's name."""
    post_version: ClassVar[int]
    """Raised when something else is derived from the same draw: stands in the manifest, and costs
    nothing.
    """
    artefact: ClassVar[str]
    """The file of a run that gathers its releases: `released_*.json`, or `.npz` where a release is
    one array.
    """
    source: ClassVar[str] = "icl"
    """The system of its releases: `icl`, where each number of shots is a release of its own; else
    one epsilon has one, for any number. That of a variant has the variant's name behind it.
    """
    most_shots: ClassVar[int] = MOST_SHOTS
    """Most demonstrations, or texts, of one release."""
    draws_shots: ClassVar[bool] = False
    """Whether demonstrations are drawn from what is released, so that they may be drawn several
    times for a query.
    """
    is_default: ClassVar[bool] = False
    """Whether it releases what it reads where a user names no method: one of each trust, on tables
    and on texts.
    """
    takes_reports: ClassVar[bool] = False
    """Whether reports of real clients may stand in the place of its draw."""
    makes_series: ClassVar[bool] = False
    """Whether it counts the periods of a table that grows, or writes from texts that arrive in
    each, under one charge, where its contract has a horizon; else each is a release.
    """
    is_default_of_series: ClassVar[bool] = False
    """Of methods that count a table's horizon, whether it does where a user names none."""
    stated: ClassVar[tuple[tuple[str, type, str], ...]] = ()
    """Further facts that a kind of methods states, with their types in Python and in words."""
    kind: ClassVar[str] = "Method"
    """Of methods: the class whose functions stand for nothing."""

    def __init_subclass__(cls, *, abstract: bool = False) -> None:
        super().__init_subclass__()
        if not abstract:
            check_stated(cls)

    @property
    @abstractmethod
    def answers(self) -> Any:
        """The module that asks a model and measures its answers."""

    @classmethod
    def together(cls) -> tuple[tuple[str, bool, str], ...]:
        """Functions that are there only together with something else: a name, whether it is meant,
        and by what.
        """
        return ()

    @abstractmethod
    def systems(self, options: Any) -> tuple[str, ...]:
        """Systems that are evaluated beside `icl`."""

    def variants(self, options: Any) -> dict[str, Any]:
        """By the system of its releases, what is chosen for these: of options that have `variants`
        by name what their `variant` gives for `icl` and `icl-NAME`, else the options.
        """
        if not hasattr(options, "variants"):
            return {self.source: options}
        names = ("", *(f"-{name}" for name in options.variants))
        return {f"{self.source}{name}": options.variant(f"icl{name}") for name in names}

    @abstractmethod
    def cost(self, contract: Any, point: Point[Any]) -> CellCost:
        """What a release spends; known before any row is read. Raises PrivacyError: it has no
        price.
        """

    @abstractmethod
    def identity(self, contract: Any, point: Point[Any]) -> dict[str, object]:
        """The public facts that make a release another one besides epsilon, shots and seed."""

    @abstractmethod
    def statement(self, contract: Any, point: Point[Any], cost: CellCost) -> str:
        """The guarantee of a release as a sentence."""

    def refuse(self, contract: Any, point: Point[Any]) -> None:  # noqa: B027 - most refuse nothing of their own
        """What this method refuses beyond what all do, before any row is read. Raises DpiclError:
        names the contract and the rule.
        """

    def refuse_run(self, contract: Any) -> None:  # noqa: B027 - most refuse nothing of their own
        """What a run refuses beyond a query session, before any private row is read. Raises
        DpiclError: names the contract and the rule.
        """

    def default_options(
        self, contract: Any, stated: Mapping[str, Any], epsilon: float
    ) -> dict[str, Any]:
        """Its best choices for a release that is no pipeline's, beside those that are stated: those
        of `options` are a pipeline's.
        """
        return {}

    def is_series(self, contract: Declared) -> bool:
        """Whether its releases of this contract are the periods of a horizon."""
        return (
            self.makes_series
            and contract.releases.horizon is not None
            and isinstance(contract, TextContract) == (self.data == "texts")
        )

    def handed_out(self, unit: Unit) -> str:
        """The system whose demonstrations are those of a release that is no pipeline's: shown to
        any query.
        """
        return "icl"

    def evaluated_cells(self, unit: Unit) -> Iterator[Cell]:
        """Every cell in which the model is asked with demonstrations."""
        for system in ("icl", *self.systems(unit.chosen(self.options))):
            yield from unit.cells(system)

    def check(self, contract: Declared, point: Point[Any]) -> None:
        """Refuse what cannot be guaranteed, before any private row is read.
        Raises PrivacyError: the contract is a draft, or has rows that take others back; no noise on
        a table that is not a benchmark; or what the method itself refuses.
        """
        if contract.draft:
            raise PrivacyError(
                f"{contract.name}: is a draft, and its lines marked LOOKED hold what rows say; "
                "write what is publicly known there, then take `draft: true` out"
            )
        if contract.takes_back and not self.is_series(contract):
            raise PrivacyError(
                f"{contract.name}: some of its rows take others back (`source.sign`), which "
                f"{self.title} would count as rows that come; "
                "expected a method that counts its horizon"
            )
        if contract.is_delivered and not self.is_series(contract):
            raise PrivacyError(
                f"{contract.name}: its rows come in deliveries, of which those that were counted "
                f"are not read again; expected a method that "
                f"counts its horizon, and not {self.title}"
            )
        if not contract.is_benchmark and math.isinf(point.epsilon):
            raise PrivacyError(
                f"{contract.name}: epsilon=inf releases rows without noise; only a contract with "
                f"`benchmark: true` allows it"
            )
        self.refuse(contract, point)

    def without_baselines(self, contract: Declared) -> str | None:
        """Why this method's baselines are never fitted on a data set, as a sentence: nobody pays
        for what they would read, or it is too much; else None.
        """
        if self.baselines_read != "private":
            return None
        why = extra_missing("diffprivlib")
        if not contract.is_benchmark:
            why = UNPAID_BASELINES
        elif contract.person:
            why = "they protect rows, and the contract protects persons"
        elif isinstance(contract, Contract) and in_batches(contract):
            why = "they need all rows at once, and these are read in batches"
        return f"Baselines of {self.title} on {contract.name} are left out: {why}." if why else None

    def fits_baselines(self, contract: Declared) -> bool:
        """Whether there are baselines to fit, which read nothing unpaid, and public rows to test
        them on.
        """
        return (
            self.baselines_read != "none"
            and contract.evaluation == "public"
            and self.without_baselines(contract) is None
        )


def check_stated(method: type[Method]) -> None:
    """Whether a class states what privacy hangs on.
    Raises PrivacyError: it does not; the message names what it lacks and what is expected.
    """
    where = f"method {getattr(method, 'name', method.__name__)!r}"
    for name, allowed, expected in (*_FACTS, *method.stated):
        value = getattr(method, name, None)
        if value not in allowed if isinstance(allowed, tuple) else type(value) is not allowed:
            raise PrivacyError(f"{where}: {name}: is not stated; expected {expected}")
    options = getattr(method, "options", None)
    if not (isinstance(options, type) and issubclass(options, Frozen)):
        raise PrivacyError(
            f"{where}: options: is not stated; expected a type of options, all with defaults"
        )
    # `__abstractmethods__` is set only after a class is defined
    names = sorted({name for base in method.__mro__ for name in vars(base)})
    for name in names:
        if getattr(getattr(method, name, None), "__isabstractmethod__", False):
            raise PrivacyError(f"{where}: {name}: is missing; expected a function")
    for name, is_meant, other in method.together():
        if (getattr(method, name).__qualname__.split(".")[0] == method.kind) == is_meant:
            raise PrivacyError(f"{where}: {name}: does not fit {other}; expected both or neither")


FIELDS = ("Trust", "Unit", "Neighbours", "Guarantee", "Paper", "Symbols", "Not covered")
"""In the order in which a head states them; equations stand before the symbols."""


def head_of(docstring: str) -> tuple[str, dict[str, str]]:
    """A docstring's first sentence, and the fields of its head, each on one line: a field ends
    before the next one, or before an empty line.
    """
    found, field = dict[str, list[str]](), ""
    for line in inspect.cleandoc(docstring).splitlines():
        start = re.match(rf"({'|'.join(FIELDS)})\s+(\S.*)", line)
        if start:
            field = start[1]
            found[field] = [start[2]]
        elif line.strip() and field:
            found[field].append(line)
        else:
            field = ""
    sentence = " ".join(docstring.partition("\n\n")[0].split())
    return sentence, {name: " ".join(" ".join(lines).split()) for name, lines in found.items()}


def head_of_method(method: object) -> dict[str, str]:
    """The fields of the head of a method's module; none of one without a head."""
    return head_of(sys.modules[type(method).__module__].__doc__ or "")[1]


ZERO_SHOT = Cell("zero-shot", shots=0)
MAJORITY = Cell("majority")
MOST_COLUMNS = 500
"""Of methods that look at every pair of columns again for each column that joins: minutes at so
many, hours at 2,000.
"""


@dataclass(frozen=True)
class CellCost:
    """What one cell's release costs: as drawn, and after amplification by subsampling."""

    nominal: Guarantee
    amplified: Guarantee | None = None

    @property
    def charged(self) -> Guarantee:
        """What an account is charged: the cost of everything that was done, subsampling
        included.
        """
        return self.amplified or self.nominal


def epsilon_of(cell: Cell) -> float:
    """Of a cell that releases."""
    assert cell.epsilon is not None
    return cell.epsilon


def shots_of(asked: Cell | Point[Any]) -> int:
    """Of a cell that has demonstrations, or of a release of one number of them."""
    assert asked.shots is not None
    return asked.shots


def check_width(contract: Contract, method: str) -> None:
    """Raises ParameterError: there are more than MOST_COLUMNS."""
    if len(contract.columns) > MOST_COLUMNS:
        expected = (
            f"at most {MOST_COLUMNS:,} of {method}, which takes hours for more, or a method such "
            f"as aim_tabicl, gdp_tabicl or tab_pe"
        )
        raise ParameterError("columns", len(contract.columns), expected)


def draws_for(contract: Declared, seed: int) -> Draws:
    """Seeded streams on benchmarks, the operating system's randomness otherwise."""
    return Draws(seed, contract.name, simulated=contract.is_benchmark)


def times_of_row(contract: Contract) -> int:
    """How many rows, added or removed, a release is charged for."""
    replaced = Neighbours(contract.privacy.neighbours) is Neighbours.REPLACE_ONE
    return contract.rows_of_unit * (2 if replaced else 1)


def row_epsilon(epsilon: float, contract: Contract) -> float:
    """Of one row that is added or removed, where all that is charged is this."""
    return each_of(epsilon, times_of_row(contract))


def spent_identity(contract: Contract) -> dict[str, object]:
    """What is in the name of a release whose epsilon is divided among rows: without it the name
    would be that of one that cost each row all of it.
    """
    return {"spent": "in-all"} if times_of_row(contract) > 1 else {}


def for_unit(guarantee: Guarantee, contract: Contract) -> Guarantee:
    """A guarantee for added or removed rows, stated for the contract's unit and neighbours."""
    if contract.person:
        guarantee = to_person(guarantee, contract.person.max_rows)
    return for_neighbours(guarantee, contract)


def for_neighbours(guarantee: Guarantee, contract: Contract) -> Guarantee:
    """A guarantee for an added or removed row or person, stated for the contract's neighbours."""
    replaced = Neighbours(contract.privacy.neighbours) is Neighbours.REPLACE_ONE
    return to_replace_one(guarantee) if replaced else guarantee
