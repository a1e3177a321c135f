"""Answers about rows of a user's own, by released demonstrations and any model."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from dpicl.contract import Contract
from dpicl.contract.load import contract_digest
from dpicl.engine.corpus import public_corpus
from dpicl.engine.pipelines import load_pipelines
from dpicl.engine.plan import registry
from dpicl.engine.settings import Settings
from dpicl.errors import DataError
from dpicl.files.bounded import read_bytes
from dpicl.lm.egress import ask, prompts_of
from dpicl.lm.models import open_scorer
from dpicl.lm.requests import CONTINUATIONS, Tallying, prompt
from dpicl.lm.spec import resolve_model
from dpicl.methods.ldp_tabicl import LdpTabicl
from dpicl.pipeline import Cell
from dpicl.tabular.prompts.serialize import ANSWERS, central_queries, local_queries
from dpicl.tabular.reading.encode import encode_queries
from dpicl.tabular.reading.queries import read_asked

AT_ONCE = 256
"""Rows that are asked about before their answers are printed."""


@dataclass(frozen=True)
class Demonstrations:
    """What `dpicl protect` wrote: whose contract, by which method, at which cell's epsilon, and the texts with their answers."""

    contract: str
    contract_sha256: str
    method: str
    cell: Cell
    texts: tuple[str, ...]


def read_demonstrations(path: Path) -> Demonstrations:
    """Read a file of `dpicl protect`.

    Raises:
        DataError: it is not one; names the file and the count of lines, never a text.
    """
    try:
        lines = [json.loads(line.decode("utf-8")) for line in read_bytes(path).split(b"\n") if line.strip()]
        found = {(line["contract"], line["contract_sha256"], line["method"], float(line["epsilon"])) for line in lines}
        texts = tuple(f"{line['text']} {line['answer']}" for line in lines)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError(path.name, "is no file of `dpicl protect --as jsonl`") from None
    if len(found) != 1:
        raise DataError(path.name, "holds demonstrations of several contracts or methods, or none; expected one", count=len(found))
    ((contract, digest, method, epsilon),) = found
    return Demonstrations(str(contract), str(digest), str(method), Cell("icl", epsilon, len(texts)), texts)


def answer_rows(demos: Path, queries: str, model: str, settings: Settings, *, answers: Console, told: Console) -> None:
    """Print an answer for every row, one JSON object a line, as they come; elsewhere what to keep in mind.

    Args:
        queries: a file of rows, CSV or `.jsonl`, with the contract's features; `-` is CSV on standard input.

    Raises:
        DpiclError: a file, name or row breaks a rule, or the model cannot answer.
    """
    shown = read_demonstrations(demos)
    contract = settings.contract(shown.contract)
    if contract_digest(contract) != shown.contract_sha256:
        raise DataError(demos.name, f"is of another version of contract {contract.name}; expected demonstrations of the present one")
    spec = resolve_model(model, registry(load_pipelines(settings.pipelines), settings.pipelines.name))
    prompts = [prompt(shown.texts, query) for query in _asked(queries, contract, shown.method)]
    if spec.trust != "local":
        told.print(f"the rows asked about go to {spec.name} as they are: queries are not protected", highlight=False, soft_wrap=True)
    scorer = open_scorer(spec, models_folder=settings.models, corpus=public_corpus())
    for start in range(0, len(prompts), AT_ONCE):
        part = prompts[start : start + AT_ONCE]
        for row in _rows(ask(scorer, prompts_of(part, contract, shown.cell), CONTINUATIONS)):
            answers.print(json.dumps(row), highlight=False, soft_wrap=True)
        if isinstance(scorer, Tallying):
            told.print(json.dumps(scorer.tally(part, CONTINUATIONS)), highlight=False, soft_wrap=True)


def _asked(queries: str, contract: Contract, method: str) -> list[str]:
    """How the rows read, in the words of the method's demonstrations."""
    data, name = (sys.stdin.buffer.read(), "standard input") if queries == "-" else (read_bytes(Path(queries)), Path(queries).name)
    table = read_asked(data, contract, name)
    return local_queries(encode_queries(table, contract), contract) if method == LdpTabicl.name else central_queries(table, contract)


def _rows(scores: np.ndarray) -> list[dict[str, Any]]:
    """The likelier answer and the share of Yes; where both are equal, as for a prompt that a server declined, there is no answer."""
    shares = 1 / (1 + np.exp(scores[:, 0] - scores[:, 1]))
    return [{"answer": None if share == 0.5 else ANSWERS[int(share > 0.5)], "yes": round(float(share), 4)} for share in shares]
