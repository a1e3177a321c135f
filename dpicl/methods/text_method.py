"""What methods on private texts have in common: a language model reads them; and secrets, tokens
and votes that last as long as their process.

Guarantee   none spent: this is about programs, not about rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import numpy as np

from dpicl.contract.pipeline import Cell, Point, Unit
from dpicl.contract.text import TextContract
from dpicl.ground.randomness import Draws, Stream, system_stream
from dpicl.ground.types import PrivateTable, QueryTable
from dpicl.methods.base import CellTexts, Method, ShownRows

Releases = Mapping[Cell, Any]
"""Releases of a method by cell."""


class TextMethod(Method, abstract=True):
    """A method on private texts, which a language model reads."""

    data = "texts"
    model_reads_rows = True
    votes_on_tokens: ClassVar[bool]
    """Whether rows vote on tokens of the model's own process, several units together; else whole
    prompts are answered, one unit at a time.
    """

    @property
    def answers(self) -> Any:
        """Labels by score, or texts."""
        from dpicl.methods import text_answers  # of a table they are not needed

        return text_answers

    stated = (("votes_on_tokens", bool, "True or False"),)
    kind = "TextMethod"

    @abstractmethod
    def sizes(self, contract: TextContract) -> object | None:
        """What the contract states for this method; None where it is not meant for it."""

    def embeds(self, contract: TextContract, point: Point[Any]) -> bool:
        """Whether an embedder places what rows led to, so that another one makes another
        release.
        """
        return False

    def calibrates(self, contract: TextContract, point: Point[Any]) -> bool:
        """Whether the model that reads rows is asked about texts without content too."""
        return False

    @abstractmethod
    def noise(self, contract: TextContract, point: Point[Any]) -> str:
        """The noise of a release in a few words, for people: the mechanism's amount."""

    @abstractmethod
    def encode(self, drawn: Any) -> Any:
        """One release as it is published, in plain JSON values."""

    @abstractmethod
    def decode(self, content: Any) -> Any:
        """A release from what `encode` made of it."""

    def read(self, stored: Mapping[str, Any], unit: Unit) -> dict[Cell, Any]:
        """Encoded releases by cell, as far as they are there; of what is written without private
        rows too.
        """
        return {
            cell: self.decode(stored[cell.key])
            for cell in unit.evaluated_cells
            if cell.key in stored
        }

    @abstractmethod
    def examples(
        self, released: Releases, public: Releases, queries: QueryTable, contract: TextContract
    ) -> CellTexts:
        """What people see of a release, by cell; `public` is the same, written without private
        rows.
        """

    def written(self, released: Releases) -> CellTexts:
        """Texts of the contract's kind that a release holds, by cell: what its `form` is said of.
        None where answers are released.
        """
        return {}

    @abstractmethod
    def prompts(
        self,
        released: Releases,
        public: Releases,
        train: PrivateTable,
        queries: QueryTable,
        contract: TextContract,
        unit: Unit,
    ) -> CellTexts:
        """One prompt per query and cell that is still to be asked; rows of `train` on benchmarks
        only, without noise.
        """

    def final_answers(self, released: Releases, contract: TextContract) -> dict[Cell, np.ndarray]:
        """Released answers that need no further question: shape (queries,)."""
        return {}

    @abstractmethod
    def shown(self, released: Releases, contract: TextContract) -> ShownRows:
        """What was released, as a table for people; its keys are columns."""


class Secrets(Protocol):
    """Secret randomness of a release."""

    def stream(self, key: str, name: str) -> Stream:
        """For one purpose of one release, by the key of its point: the same whenever it is taken up
        again, so that nothing is drawn twice.
        """
        ...


class StoredVotes(Protocol):
    """Clean votes, and where texts lie, that survive a lost worker: of two that store the same the
    first stands.
    """

    def read(self, key: str, name: str) -> bytes | None:
        """What is stored for a release under this name."""
        ...

    def write(self, key: str, name: str, content: bytes) -> None:
        """Store it, unless there is something already."""
        ...


class Memory:
    """A `Journal`, `Secrets` and `StoredVotes` that last as long as their process."""

    def __init__(self, draws: Draws) -> None:
        self._draws = draws
        self._kept: dict[tuple[str, int | str], Any] = {}
        self._keys: dict[tuple[str, str], bytes] = {}

    def read(self, key: str, place: int | str) -> Any:
        """What was kept of a step, or under a name."""
        return self._kept.get((key, place))

    def keep(self, key: str, place: int | str, content: Any) -> Any:
        """Of two that keep the same the first stands, and is given."""
        return self._kept.setdefault((key, place), content)

    write = keep

    def stream(self, key: str, name: str) -> Stream:
        """See `Secrets`."""
        if self._draws.simulated:
            return self._draws.public("journal", f"{key},{name}")
        return Stream(
            self._keys.setdefault((key, name), system_stream().bytes(32)), simulated=False
        )
