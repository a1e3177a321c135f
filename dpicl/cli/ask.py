"""`dpicl ask`: private ensembles answer queries, each with its cost; released demonstrations answer
rows at no cost.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpicl.cli.budget import warn_of_caps
from dpicl.cli.terminal import errors, note, say
from dpicl.contract.derive import Target
from dpicl.contract.load import contract_digest
from dpicl.engine.asked import settled_model
from dpicl.engine.ensemble_release import EnsembleRequest
from dpicl.engine.payers import accounts_of
from dpicl.engine.pipelines import model_named
from dpicl.engine.query_session import QuerySession
from dpicl.engine.readers import public_corpus
from dpicl.engine.settings import Settings
from dpicl.errors import DataError, ParameterError
from dpicl.files.bounded import read_bytes
from dpicl.lm.asking import AskedBy
from dpicl.lm.egress import prompts_of, score_prompts
from dpicl.lm.models import open_scorer
from dpicl.lm.requests import Tallying, prompt
from dpicl.lm.spec import ModelSpec
from dpicl.methods import tabular_answers
from dpicl.methods.dp_icl import DpIcl
from dpicl.methods.ldp_tabicl import LdpTabicl
from dpicl.pipeline import Cell
from dpicl.randomness import Draws
from dpicl.report.labelled import constant, constant_sentence, has_mass, masses
from dpicl.tabular.prompts.serialize import central_queries, local_queries
from dpicl.tabular.reading.encode import encode_queries
from dpicl.tabular.reading.queries import read_unlabelled
from dpicl.text.parse import plain_text

ROWS_AT_ONCE = 256
"""Rows that the model answers before their answers are printed."""


def read_queries(query: str | None, file: str | None) -> list[str]:
    """The query given, or every line of a file, `-` for standard input.

    Raises:
        ParameterError: there is none, or the file cannot be read.
    """
    if (query is None) == (file is None):
        expected = "a query, or --queries FILE with one query a line, `-` for standard input"
        raise ParameterError("query", "both" if query else "none", expected)
    try:
        text = query or (sys.stdin.read() if file == "-" else Path(str(file)).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(
            "queries", str(file), f"a text file that can be read ({type(error).__name__})"
        ) from None
    queries = [plain_text(line) for line in text.splitlines() if line.strip()]
    if not queries:
        raise ParameterError("query", "nothing", "at least one query that is not empty")
    return queries


def answer_queries(
    request: EnsembleRequest, queries: Sequence[str], settings: Settings, *, again: bool
) -> None:
    """Print answers one a line, and the cost of each on standard error."""
    warn_of_caps(accounts_of([(request.contract.name, DpIcl.name)], settings), settings, errors)
    note_asked(request.model, request.asked)
    given: Counter[str] = Counter()
    for answered in QuerySession(request, settings, again=again).answer(queries):
        say(answered.answer)
        given[answered.answer] += 1
        alone, whole, count = answered.per_query, answered.whole, answered.queries
        cost = "answered before, nothing charged"
        if not answered.repeated:
            cost = (
                f"({alone.epsilon:.3g}, {alone.delta:.2g})-DP alone; all {count} together "
                f"({whole.epsilon:.4g}, {whole.delta:.2g})-DP, "
                f"charged {'now' if answered.charged else 'before'}"
            )
        note(f"query {answered.number} of {count}: {cost}", to=errors)
    if request.contract.is_classification:
        note_constant(given)


def note_asked(spec: ModelSpec, asked: AskedBy | None) -> None:
    """Say how a model is asked, where that was decided on public questions."""
    if asked is not None:
        note(f"{spec.name} is {asked.sentence}", to=errors)


def note_constant(given: Counter[str]) -> None:
    """Say that answers are constant; which of them are right nobody knows here."""
    if (label := constant(given)) is not None:
        note(f"warning: {constant_sentence(given, label)}", to=errors)


@dataclass(frozen=True)
class Demonstrations:
    """A file of `dpicl protect`: the contract, the method, the cell of its epsilon, and the texts
    with their answers.
    """

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
        lines = [
            json.loads(line.decode("utf-8"))
            for line in read_bytes(path).split(b"\n")
            if line.strip()
        ]
        origins = {
            (line["contract"], line["contract_sha256"], line["method"], float(line["epsilon"]))
            for line in lines
        }
        texts = tuple(f"{line['text']} {line['answer']}" for line in lines)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError(path.name, "is no file of `dpicl protect --as jsonl`") from None
    if len(origins) != 1:
        raise DataError(
            path.name,
            "holds demonstrations of several contracts or methods, or none; expected one",
            count=len(origins),
        )
    ((contract, digest, method, epsilon),) = origins
    return Demonstrations(
        str(contract), str(digest), str(method), Cell("icl", epsilon, len(texts)), texts
    )


def drawn(shown: Demonstrations, shots: int | None, draws: int) -> list[tuple[str, ...]]:
    """So many draws of so many demonstrations, each the same for all queries, or all of them once
    where no number is given.

    Raises:
        ParameterError: there are not as many, or all draws would be the same.
    """
    held = len(shown.texts)
    if shots is None and draws == 1:
        return [shown.texts]
    if shots is None or (draws > 1 and shots >= held) or shots > held:
        raise ParameterError(
            "shots",
            shots,
            f"a number {'under' if draws > 1 else 'up to'} {held}, as many demonstrations as the "
            f"file holds",
        )
    streams = Draws(0, shown.contract, simulated=False)
    chances = (
        streams.public("ask", replace(shown.cell, shots=shots, draw=number).key).generator()
        for number in range(1, draws + 1)
    )
    return [
        tuple(shown.texts[place] for place in chance.choice(held, shots, replace=False))
        for chance in chances
    ]


def answer_rows(
    demos: Path,
    queries: str,
    model: str,
    settings: Settings,
    *,
    shots: int | None = None,
    draws: int = 1,
) -> None:
    """Print an answer for every row as it comes, one JSON object a line; warnings and token counts
    go to standard error.

    Args:
        queries: a file of rows, CSV or `.jsonl`, with the contract's features; `-` is CSV on
            standard input.
        shots, draws: of the file's demonstrations; of several draws the mean probabilities answer.

    Raises:
        DpiclError: a file, name or row breaks a rule, or the model cannot answer.
    """
    shown = read_demonstrations(demos)
    contract = settings.contract(shown.contract)
    if contract_digest(contract) != shown.contract_sha256:
        raise DataError(
            demos.name,
            f"is of another version of contract {contract.name}; expected demonstrations of the "
            f"present one",
        )
    if contract.label is None:
        raise DataError(
            demos.name,
            f"is of contract {contract.name}, which has no label; expected one that says what to "
            f"answer",
        )
    spec, asked = settled_model(model_named(model, settings), settings)
    rows, name = (
        (sys.stdin.buffer.read(), "standard input")
        if queries == "-"
        else (read_bytes(Path(queries)), Path(queries).name)
    )
    table = read_unlabelled(rows, contract, name)
    is_local = shown.method == LdpTabicl.name
    texts = (
        local_queries(encode_queries(table, contract), contract)
        if is_local
        else central_queries(table, contract)
    )
    chosen = drawn(shown, shots, draws)
    if spec.trust != "local":
        note(
            f"the queried rows are sent to {spec.name} as they are: queries are not protected",
            to=errors,
        )
    scorer = open_scorer(spec, models_folder=settings.models, corpus=public_corpus())
    note_asked(spec, asked)
    choices = tabular_answers.continuations_of(contract)
    given, outcomes, mass = Counter[str](), Counter[str](), 0.0
    for start in range(0, len(texts), ROWS_AT_ONCE):
        batches = [
            [prompt(some, text) for text in texts[start : start + ROWS_AT_ONCE]] for some in chosen
        ]
        scores = [
            score_prompts(scorer, prompts_of(batch, contract, shown.cell), choices)
            for batch in batches
        ]
        batch = [text for some in batches for text in some]
        answered = scores[0] if len(scores) == 1 else tabular_answers.mean_of_draws(scores)
        shown_answers = answers_of(answered, contract.target)
        say(*map(json.dumps, shown_answers))
        given.update(one["answer"] for one in shown_answers if one["answer"] is not None)
        mass += sum(masses(table).sum() / len(scores) for table in scores)
        if isinstance(scorer, Tallying):
            tally = scorer.tally(batch, choices)
            outcomes.update(tally)
            note(json.dumps(tally), to=errors)
    if has_mass(spec.kind, outcomes):
        note(
            f"of its probability the model gave {mass / len(texts):.2f} to the labels, on average "
            f"over queries",
            to=errors,
        )
    note_constant(given)


def answers_of(scores: np.ndarray, target: Target) -> list[dict[str, Any]]:
    """The likeliest answer and its share, of No and Yes that of Yes; a tie, as for a prompt that a
    server declined, has no answer.

    Args:
        scores: log-probabilities of all answers, shape (rows, answers).
    """
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares = odds / odds.sum(axis=1, keepdims=True)
    shown = []
    for row in shares:
        best = np.flatnonzero(row == row.max())
        share = (
            {"yes": round(float(row[1]), 4)}
            if target.kind == "binary"
            else {"share": round(float(row.max()), 4)}
        )
        shown.append({"answer": target.answers[best[0]] if len(best) == 1 else None, **share})
    return shown
