"""What `make check` reads, and nobody runs: a step that hands on private rows, where released ones
or queries are wanted, is a type error.

Every `ignore` stands for an error that mypy must find: it tells of one that is for nothing.
"""

from __future__ import annotations

from dpicl.contract import Contract
from dpicl.data.prompts import (
    central_demonstrations,
    central_queries,
    local_demonstrations,
    local_queries,
)
from dpicl.ground.types import (
    PrivateCodes,
    PrivateTable,
    QueryTable,
    ReleasedGroups,
    ReleasedPrompts,
    ReleasedRows,
)
from dpicl.models.kinds.fake import HashScorer
from dpicl.models.requests import Sampling
from dpicl.models.spec import generate_texts, score_prompts


def right(
    contract: Contract, queries: QueryTable, groups: ReleasedGroups, rows: ReleasedRows
) -> None:
    """As the stages do."""
    central_queries(queries, contract)
    central_demonstrations(groups, contract)
    local_demonstrations(rows, lambda codes: codes, contract)
    score_prompts(HashScorer(), ReleasedPrompts(("a",)), [" No"])
    generate_texts(HashScorer(), ReleasedPrompts(("a",)), Sampling(new_tokens=1, stop=()))


def wrong(contract: Contract, table: PrivateTable, codes: PrivateCodes) -> None:
    """A step before noise was added."""
    central_queries(table, contract)  # type: ignore[arg-type]
    central_demonstrations(table, contract)  # type: ignore[arg-type]
    local_demonstrations(codes, lambda codes: codes, contract)  # type: ignore[arg-type]
    local_queries(codes, contract)  # type: ignore[arg-type]
    score_prompts(HashScorer(), ["a"], [" No"])  # type: ignore[arg-type]
    generate_texts(HashScorer(), ["a"], Sampling(new_tokens=1, stop=()))  # type: ignore[arg-type]
