"""A method is one object: what it states, what it draws from private rows, and what is made of the draw for nothing.

Guarantee   none spent: this is about programs, not about rows.

    state     facts without defaults, `cost` and `identity`: known before a row is read
    draw      the only step that sees rows; charged before
    derive    rows, prompts, baselines: post-processing of what was drawn

A class that leaves out a fact on which privacy hangs is refused when it is defined.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args

import numpy as np

from dpicl.contract.base import Frozen
from dpicl.contract.declared import Declared
from dpicl.contract.models import Contract
from dpicl.contract.text import TextContract
from dpicl.errors import PrivacyError
from dpicl.evaluation import Metrics
from dpicl.lm.embedding import Embedder
from dpicl.methods import tabular_answers, text_answers
from dpicl.methods.common import Cost
from dpicl.pipeline import Cell, Unit
from dpicl.randomness import Draws
from dpicl.types import PrivateTable, QueryTable, ReleasedRows

Data = Literal["table", "texts"]
Trust = Literal["central", "local"]
Reads = Literal["none", "released", "private"]
Arrays = Mapping[str, np.ndarray]
Drawn = TypeVar("Drawn")
"""What one release of a method is."""
_WORDS = {"data": get_args(Data), "trust": get_args(Trust), "baselines_read": get_args(Reads)}
_FLAGS = ("model_reads_rows", "answers_queries")
_NUMBERS = ("draw_version", "post_version")
_TEXTS = ("name", "title", "artefact")


class Method(ABC):
    """One way from private rows to demonstrations or answers."""

    name: ClassVar[str]
    """As pipelines.yaml, ledgers and folders call it: small letters, digits and underscores."""
    title: ClassVar[str]
    """As people call it."""
    data: ClassVar[Data]
    """What it reads."""
    trust: ClassVar[Trust]
    """Who sees true rows: a curator, whose account pays, or the client alone, whose report is published."""
    model_reads_rows: ClassVar[bool]
    """Whether a language model is shown private rows, so that it must be one that may see them."""
    answers_queries: ClassVar[bool]
    """Whether a release answers one set of queries only, which is then part of its name."""
    baselines_read: ClassVar[Reads]
    """What its baselines are fitted on: there are none; what is released already; or private rows again, which nobody charges."""
    options: ClassVar[type[Frozen]]
    """Its choices, as pipelines.yaml writes them; all of them have defaults."""
    draw_version: ClassVar[int]
    """Raised when the same parameters would draw something else: part of a release's name."""
    post_version: ClassVar[int]
    """Raised when something else is derived from the same draw: stands in the manifest, and charges nobody again."""
    artefact: ClassVar[str]
    """The file of a run that gathers its releases: `released_*.json`, or `.npz` where a release is one array."""
    first_versions: ClassVar[tuple[int, ...]] = ()
    """Versions of runs whose plans name none, without and with a generator model of their own: only of methods that are older than that."""

    def __init_subclass__(cls, *, abstract: bool = False, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not abstract:
            check_stated(cls)

    @abstractmethod
    def systems(self, unit: Unit) -> tuple[str, ...]:
        """Ways in which the model is asked beside `icl`."""

    @abstractmethod
    def releases(self, contract: Any, unit: Unit) -> dict[Cell, Cost]:
        """What a unit spends, release by release; known before any row is read.

        Raises:
            PrivacyError: something has no price.
        """

    @abstractmethod
    def costs(self, contract: Any, unit: Unit) -> dict[Cell, Cost]:
        """What every cell of the results costs."""

    @abstractmethod
    def identity(self, contract: Any, unit: Unit, cell: Cell) -> dict[str, object]:
        """The public facts that make a release another one besides epsilon, shots and seed."""

    @abstractmethod
    def statement(self, contract: Any, unit: Unit, cell: Cell, cost: Cost) -> str:
        """The guarantee of one cell as a sentence."""

    @property
    @abstractmethod
    def answers(self) -> Any:
        """The module that asks a model and measures its answers."""

    def refuse(self, contract: Any, unit: Unit) -> None:  # noqa: B027 - most refuse nothing of their own
        """What this method refuses beyond what all do, before any private row is read.

        Raises:
            DpiclError: names the contract and the rule.
        """

    def refuse_run(self, contract: Any) -> None:  # noqa: B027 - most refuse nothing of their own
        """What a run refuses beyond a query session, before any private row is read.

        Raises:
            DpiclError: names the contract and the rule.
        """

    def asked(self, unit: Unit) -> Iterator[Cell]:
        """Every cell in which the model is asked with demonstrations."""
        for system in ("icl", *self.systems(unit)):
            yield from unit.cells(system)

    def check(self, contract: Declared, unit: Unit) -> None:
        """Refuse what cannot be guaranteed, before any private row is read.

        Raises:
            PrivacyError: the contract is a draft; no noise, or baselines that read private rows, on a table that is not a benchmark; such
                baselines where persons are protected; or what the method itself refuses.
        """
        if contract.draft:
            raise PrivacyError(
                f"{contract.name}: is a draft, and its lines marked LOOKED hold what rows say; write what is publicly known there, then "
                "take `draft: true` out"
            )
        reads_again = self.baselines_read == "private" and unit.baselines
        if contract.privacy.person and reads_again:
            raise PrivacyError(f"{contract.name}: central baselines protect rows, not persons; run with baselines off")
        if not contract.privacy.budget.benchmark:
            if any(math.isinf(epsilon) for epsilon in unit.epsilons):
                raise PrivacyError(
                    f"{contract.name}: epsilon=inf releases rows without noise; only a contract with `benchmark: true` allows it"
                )
            if reads_again:
                raise PrivacyError(
                    f"{contract.name}: central baselines read the rows again and are charged to no budget; run with baselines off"
                )
        self.refuse(contract, unit)


@dataclass(frozen=True)
class Released(Generic[Drawn]):
    """What stands of a unit: its releases by cell, and rows that were derived from them."""

    draws: Mapping[Cell, Drawn]
    rows: Mapping[Cell, ReleasedRows] = field(default_factory=dict)


class TabularMethod(Method, Generic[Drawn], abstract=True):
    """A method on the rows of a table: no model sees them."""

    data: ClassVar[Data] = "table"
    model_reads_rows: ClassVar[bool] = False
    answers_queries: ClassVar[bool] = False
    prepare_stage: ClassVar[str | None] = None
    """What the stage is called in which `prepare` marks rows; None of methods that have none."""
    draw_stage: ClassVar[str]
    """What the stage is called that draws: the task's name on the orchestrator's pages."""
    derive_stage: ClassVar[str | None] = None
    """What the stage is called in which `derive` makes rows; None of methods whose draws demonstrate as they are."""

    def prepare(self, train: PrivateTable, contract: Contract, unit: Unit, draws: Draws, cells: Sequence[Cell]) -> dict[Cell, np.ndarray]:
        """Private marks of rows, shape (rows,), that `draw` gets again; charged before."""
        raise NotImplementedError

    @abstractmethod
    def draw(
        self,
        train: PrivateTable,
        contract: Contract,
        unit: Unit,
        draws: Draws,
        cells: Sequence[Cell],
        prepared: Mapping[Cell, np.ndarray],
    ) -> dict[Cell, Drawn]:
        """These releases: the only step that sees rows, charged before.

        Args:
            train: the rows, in memory.
            draws: randomness by purpose and cell.
            prepared: what `prepare` gave.
        """

    def count(self, batch: PrivateTable, contract: Contract, unit: Unit, draws: Draws, cells: Sequence[Cell]) -> dict[Cell, Arrays]:
        """What `merge` needs of one batch of a table; private."""
        raise NotImplementedError

    def merge(
        self, batches: Sequence[Mapping[Cell, Arrays]], contract: Contract, unit: Unit, draws: Draws, cells: Sequence[Cell]
    ) -> dict[Cell, Drawn]:
        """These releases from all batches of a table, in order; draws the noise."""
        raise NotImplementedError

    @property
    def takes_batches(self) -> bool:
        """Whether tables that do not fit into memory are counted batch by batch."""
        return type(self).merge is not TabularMethod.merge

    @abstractmethod
    def encode(self, drawn: Drawn) -> bytes:
        """One release as it is published: JSON, or an array as `numpy.save` writes it."""

    @abstractmethod
    def decode(self, content: bytes, contract: Contract, unit: Unit, cell: Cell) -> Drawn:
        """A release from its published bytes."""

    def derive(self, drawn: Mapping[Cell, Drawn], contract: Contract, unit: Unit, draws: Draws) -> dict[Cell, ReleasedRows]:
        """Rows like the population's, from releases."""
        raise NotImplementedError

    @abstractmethod
    def examples(self, released: Released[Drawn], contract: Contract, unit: Unit, draws: Draws) -> dict[Cell, list[str]]:
        """Demonstrations of every in-context cell, as they stand in a prompt; looks at no query."""

    @abstractmethod
    def prompts(
        self, released: Released[Drawn], queries: QueryTable, contract: Contract, unit: Unit, draws: Draws
    ) -> dict[Cell, list[str]]:
        """One prompt per query and cell, and the zero-shot ones."""

    def baselines(
        self, released: Released[Drawn], train: PrivateTable | None, test: QueryTable, contract: Contract, unit: Unit, draws: Draws
    ) -> dict[Cell, Metrics]:
        """Classifiers beside the model; `train` is given where `baselines_read` is `private`."""
        raise NotImplementedError

    def shown(self, released: Released[Drawn], contract: Contract, unit: Unit) -> list[dict[str, Any]]:
        """What was released, as a table for people; its keys are columns."""
        return []

    @property
    def answers(self) -> Any:
        """Yes or No by score."""
        return tabular_answers


class TextMethod(Method, abstract=True):
    """A method on private texts, which a language model reads."""

    data: ClassVar[Data] = "texts"
    model_reads_rows: ClassVar[bool] = True
    votes_on_tokens: ClassVar[bool]
    """Whether rows vote on tokens of the model's own process, several units together; else whole prompts are answered, one unit at a time."""

    @abstractmethod
    def sizes(self, contract: TextContract) -> object | None:
        """What the contract states for this method; None where it is not meant for it."""

    @abstractmethod
    def read(self, stored: Mapping[str, Any], unit: Unit) -> dict[Cell, Any]:
        """Releases from their JSON by cell, as far as they are there."""

    @abstractmethod
    def examples(
        self, released: Mapping[Cell, Any], public: Mapping[Cell, Any], queries: QueryTable, contract: TextContract
    ) -> dict[Cell, list[str]]:
        """What people see of a release, by cell.

        Args:
            public: the same, written without private rows.
        """

    @abstractmethod
    def in_memory(
        self, train: PrivateTable, queries: QueryTable, contract: TextContract, unit: Unit, model: Any, embedder: Embedder | None
    ) -> tuple[Mapping[Cell, Any], Mapping[Cell, Any]]:
        """All releases, and the same written without private rows; nothing outlives this process."""

    @abstractmethod
    def prompts(
        self,
        released: Mapping[Cell, Any],
        public: Mapping[Cell, Any],
        train: PrivateTable,
        queries: QueryTable,
        contract: TextContract,
        unit: Unit,
    ) -> dict[Cell, list[str]]:
        """One prompt per query and cell that is still to be asked; rows of `train` on benchmarks only, without noise."""

    def said(self, released: Mapping[Cell, Any], contract: TextContract) -> dict[Cell, np.ndarray]:
        """Released answers that need no further question: shape (queries,)."""
        return {}

    @abstractmethod
    def shown(self, released: Mapping[Cell, Any], contract: TextContract) -> list[dict[str, Any]]:
        """What was released, as a table for people; its keys are columns."""

    @property
    def answers(self) -> Any:
        """Labels by score, or texts."""
        return text_answers


def check_stated(method: type[Method]) -> None:
    """Whether a class states what privacy hangs on.

    Raises:
        PrivacyError: it does not; the message names what it lacks and what is expected.
    """
    where = f"method {getattr(method, 'name', method.__name__)!r}"
    for name, allowed in _WORDS.items():
        if getattr(method, name, None) not in allowed:
            raise PrivacyError(f"{where}: {name}: is not stated; expected one of {', '.join(map(repr, allowed))}")
    for name, kind, expected in (
        *((name, bool, "True or False") for name in _FLAGS),
        *((name, int, "an integer") for name in _NUMBERS),
        *((name, str, "a text") for name in _TEXTS),
    ):
        if type(getattr(method, name, None)) is not kind:
            raise PrivacyError(f"{where}: {name}: is not stated; expected {expected}")
    options = getattr(method, "options", None)
    if not (isinstance(options, type) and issubclass(options, Frozen)):
        raise PrivacyError(f"{where}: options: is not stated; expected a type of options, all with defaults")
    own, kind, expected = ("draw_stage", str, "a text") if issubclass(method, TabularMethod) else ("votes_on_tokens", bool, "True or False")
    if type(getattr(method, own, None)) is not kind:
        raise PrivacyError(f"{where}: {own}: is not stated; expected {expected}")
    if missing := sorted(getattr(method, "__abstractmethods__", ()) or _abstract(method)):
        raise PrivacyError(f"{where}: {missing[0]}: is missing; expected a function")
    if issubclass(method, TabularMethod):
        _check_pairs(method, where)


def _abstract(method: type[Method]) -> list[str]:
    """Names that are still abstract: `__abstractmethods__` is set only after a class is defined."""
    names = {name for one in method.__mro__ for name in vars(one)}
    return [name for name in names if getattr(getattr(method, name, None), "__isabstractmethod__", False)]


def _check_pairs(method: type[TabularMethod[Any]], where: str) -> None:
    """What is there only together with something else."""
    pairs = (
        ("prepare", method.prepare_stage is not None, "prepare_stage"),
        ("derive", method.derive_stage is not None, "derive_stage"),
        ("baselines", method.baselines_read != "none", "baselines_read"),
        ("count", method.merge is not TabularMethod.merge, "merge"),
    )
    for name, is_meant, other in pairs:
        if (getattr(method, name) is not getattr(TabularMethod, name)) != is_meant:
            raise PrivacyError(f"{where}: {name}: does not fit {other}; expected both or neither")
