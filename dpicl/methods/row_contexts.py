"""From released rows to what a tabular in-context learner reads beside public queries: all rows of
a release, no words.

    row        all that are released, or so many of them as the model reads at most: drawn at random
               by a public stream, without replacement. These are the shots of its cells, whatever
               the pipeline's are, and rules that select shots change nothing
    number     the place of its bin; missing, nan
    category   its code, in no order; missing is a category of its own
    zero-shot  there is none: without rows such a model knows neither columns nor answers

Guarantee   none spent: post-processing of released rows, and public queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from dpicl.contract.declared import Declared
from dpicl.contract.models import Contract
from dpicl.errors import ModelRefusedError
from dpicl.lm.isolation import public_answer
from dpicl.lm.tables import LabelledRows, TabularModel
from dpicl.methods.base import Method
from dpicl.methods.common import shots_of
from dpicl.methods.options import Sampling
from dpicl.methods.public_questions import check_scores
from dpicl.methods.row_method import Pool, RowMethod
from dpicl.methods.tabular_method import Released
from dpicl.pipeline import Cell, Unit
from dpicl.randomness import Draws
from dpicl.tabular.reading.encode import UNKNOWN
from dpicl.tabular.values import Meaning
from dpicl.types import QueryTable

SHOWN = 4
"""Rows of each context that a report gives as examples, in words."""
_PROBED, _ROWS_OF_EACH_ANSWER = 3, 4
_SAME_ROWS = {f"icl-{rule}" for rule in get_args(Sampling)}
"""Systems that show rows of another one's releases in another way."""


def in_context_unit(unit: Unit, rows: int) -> Unit:
    """The unit as a tabular model answers it that reads so many rows at most: one cell of each
    release.
    """
    own = replace(unit, shots=(rows,), draws=1)
    systems = [system for system in unit.systems if system not in _SAME_ROWS]
    return replace(
        own, evaluated_cells=tuple(cell for system in systems for cell in own.cells(system))
    )


def check_rows(method: Method, contract: Declared, unit: Unit, model: str) -> None:
    """Refuse what a tabular model cannot answer, before any row is read.

    Raises:
        ModelRefusedError: the method releases no rows, or what is asked for needs words, or queries
            that are answered one by one.
    """
    why, expected = None, "a language model"
    if not isinstance(method, RowMethod):
        why, expected = (
            f"{method.title} releases none",
            "a method that releases rows, or a language model",
        )
    elif contract.evaluation == "charged":
        why, expected = (
            "`split.evaluation_epsilon` asks it private rows one by one",
            "public rows to ask, `queries`, or a language model",
        )
    if why:
        raise ModelRefusedError(
            f"{contract.name}: model {model!r} is of kind tabular, which reads released rows, and "
            f"{why}; expected {expected}"
        )


def row_method(method: Method) -> RowMethod[Any]:
    """A method that `check_rows` has let pass."""
    assert isinstance(method, RowMethod)
    return method


def contexts(
    method: RowMethod[Any], released: Released[Any], contract: Contract, unit: Unit, draws: Draws
) -> dict[Cell, Pool]:
    """Rows in context of every cell."""
    chosen = {}
    for cell, pool in method.pools(released, contract, unit).items():
        count, most, chance = (
            len(pool.codes),
            shots_of(cell),
            draws.public("context", cell.key).generator(),
        )
        places = (
            np.sort(chance.choice(count, most, replace=False)) if count > most else np.arange(count)
        )
        chosen[cell] = Pool(pool.codes[places], pool.encoding)
    return chosen


def answered_rows(
    model: TabularModel,
    method: RowMethod[Any],
    released: Released[Any],
    queries: QueryTable,
    contract: Contract,
    unit: Unit,
    draws: Draws,
) -> Iterator[tuple[Cell, np.ndarray]]:
    """By cell the log-probability of every answer to every query: shape (queries, answers)."""
    asked = method.bins(queries, contract, unit, Cell(method.source))
    for cell, pool in contexts(method, released, contract, unit, draws).items():
        features = method.form(
            contract, unit, method.released_by(cell, released.draws or released.rows)
        ).features
        yield cell, _ask(model, pool.encoding.decode(pool.codes), asked, features, contract)


def in_words(
    method: RowMethod[Any],
    released: Released[Any],
    queries: QueryTable | None,
    contract: Contract,
    unit: Unit,
    draws: Draws,
) -> tuple[dict[Cell, list[str]], dict[Cell, list[str]]]:
    """For people, who read words: a few rows of each context, and what every query asks, by cell;
    no model is shown either.
    """
    shown = contexts(method, released, contract, unit, draws)
    examples = {
        cell: method.texts(cell, pool, np.arange(len(pool.codes))[:SHOWN], contract, draws)
        for cell, pool in shown.items()
    }
    return examples, {} if queries is None else dict.fromkeys(
        shown, method.query_texts(queries, contract)
    )


def check_model(
    model: TabularModel, method: RowMethod[Any], contract: Contract, unit: Unit, *, tolerance: float
) -> None:
    """Ask about made-up rows of the contract's bins and all of its answers.

    Raises:
        ModelError: the model does not answer, or lets one query move the answer to another.
    """
    form = method.form(contract, unit, next(iter(method.releases(contract, unit))))
    counts = np.array([*(one.count for one in form.features), contract.target.count])
    rows = np.arange(_ROWS_OF_EACH_ANSWER * counts[-1])[:, np.newaxis]
    bins = (rows + rows // counts[-1] * np.arange(len(counts))[::-1]) % counts

    def ask(asked: np.ndarray) -> np.ndarray:
        return public_answer(
            model.description.name, lambda: _ask(model, bins, asked, form.features, contract)
        )

    asked = bins[:_PROBED]
    check_scores(
        model.description,
        np.concatenate([ask(asked[[place]]) for place in range(len(asked))]),
        ask(asked),
        tolerance=tolerance,
    )


def _ask(
    model: TabularModel,
    rows: np.ndarray,
    asked: np.ndarray,
    features: Sequence[Meaning],
    contract: Contract,
) -> np.ndarray:
    """Of bins, shape (rows, columns), label last; that of the queries is not looked at."""
    categorical = [place for place, one in enumerate(features) if one.categories]
    context = LabelledRows(_values(rows, features), rows[:, -1].astype(np.int64), categorical)
    return model.log_probabilities(context, _values(asked, features), contract.target.count)


def _values(bins: np.ndarray, features: Sequence[Meaning]) -> np.ndarray:
    missing = np.array(
        [one.count - 1 if one.nullable and not one.categories else UNKNOWN for one in features]
    )
    codes = bins[:, :-1].astype(np.int64)
    return np.where((codes == missing) | (codes == UNKNOWN), np.nan, codes)
