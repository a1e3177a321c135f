"""From prompts of a text task to answers, and from answers to accuracy: labels by score, open
answers by text.

Guarantee   none spent: works on released texts, queries and the model's answers to them.
Paper       [Z21] Zhao et al. 2021 (arXiv 2102.09690), contextual calibration: (1).

    (1)  answer = argmax_y p(y | query) / mean_f p(y | f),  f without content: "N/A", "", "[MASK]"

Symbols     p over the labels alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dpicl.contract.pipeline import Cell
from dpicl.contract.text import Classification, FreeText, TextContract
from dpicl.data.prompts import (
    CONTENT_FREE,
    PUBLIC_TEXT,
    asking_demonstration,
    asking_prompt,
    asking_query,
    continuations,
)
from dpicl.ground.errors import ModelError
from dpicl.ground.types import Demonstration, QueryTable
from dpicl.methods.base import MAJORITY, CellTexts
from dpicl.methods.evaluation import (
    Metrics,
    majority,
    measure,
    measure_texts,
    most_frequent,
    rouge1,
    values,
)
from dpicl.models.requests import Progress, Sampling, Scorer, TextGenerator
from dpicl.models.spec import Wanted, generate_texts, prompts_of, score_prompts


def shown(demonstrations: Sequence[Demonstration], contract: TextContract) -> list[str]:
    """Demonstrations as a prompt puts them."""
    return [
        asking_demonstration(contract, demonstration.text, contract.label_text(demonstration.label))
        for demonstration in demonstrations
    ]


def prompts_for(
    cells: Mapping[Cell, Sequence[Demonstration]], queries: QueryTable, contract: TextContract
) -> CellTexts:
    """One prompt per query, all of a cell with the same demonstrations; those without content come
    last, where the contract calibrates.
    """
    texts = [
        *queries.data.column("text").to_pylist(),
        *(CONTENT_FREE if contract.calibrate else ()),
    ]
    return {
        cell: [
            asking_prompt(contract, shown(demonstrations, contract), asking_query(contract, text))
            for text in texts
        ]
        for cell, demonstrations in cells.items()
    }


def ask_cell(
    model: Scorer,
    texts: Sequence[str],
    contract: TextContract,
    cell: Cell,
    progress: Progress | None = None,
) -> np.ndarray:
    """The model's answer to every prompt: scores of shape (prompts, labels), or texts of shape
    (prompts,). Raises PrivacyError: the prompts hold private rows and the model is not local;
    ModelError: the answers are texts, and the model only scores.
    """
    prompts = prompts_of(texts, contract, cell)
    if isinstance(contract.task, Classification):
        return score_prompts(model, prompts, continuations(contract), progress=progress)
    if not isinstance(model, TextGenerator):
        raise ModelError(
            f"model {model.description.name!r} writes no text; expected one that does, for the "
            f"open answers of {contract.name}"
        )
    return np.array(
        generate_texts(
            model, prompts, Sampling(new_tokens=contract.task.answer_tokens, stop=("\n",))
        ),
        dtype=np.str_,
    )


def wanted_of(contract: TextContract) -> Wanted:
    """What the model must be able to do."""
    return "scores" if contract.is_classification else "text"


def continuations_of(contract: TextContract) -> tuple[str, ...]:
    """What is scored after every prompt; nothing where answers are texts."""
    return continuations(contract) if contract.is_classification else ()


def public_prompts(contract: TextContract) -> list[str]:
    """Prompts of several lengths that hold nothing of anybody's."""
    texts = ("N/A", PUBLIC_TEXT, " ".join([PUBLIC_TEXT] * 3)[: contract.max_characters])
    return [asking_prompt(contract, [], asking_query(contract, text)) for text in texts]


def truth_of(queries: QueryTable, contract: TextContract) -> np.ndarray:
    """The right answers, as `answers_of` gives them: shape (queries,)."""
    labels = queries.data.column("label").to_pylist()
    if not contract.is_classification:
        return np.array([label.strip() for label in labels], dtype=np.str_)
    names = list(contract.demonstrated)
    return np.array([names.index(label) for label in labels], dtype=np.int64)


def answers_of(outputs: np.ndarray, contract: TextContract) -> np.ndarray:
    """Answers to the queries: numbers of labels, by equation (1) where they are not given, or
    trimmed texts; shape (queries,).
    """
    if not contract.is_classification:
        return np.char.strip(outputs)
    if outputs.ndim == 1:
        return outputs
    if contract.calibrate:
        outputs = calibrated(outputs[: -len(CONTENT_FREE)], outputs[-len(CONTENT_FREE) :])
    return np.asarray(outputs.argmax(axis=1))


def calibrated(scores: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Equation (1) up to the argmax, in logarithms: of the shape of `scores`, (..., labels).
    `free`: scores of the queries without content behind the same demonstrations, shape (...,
    queries, labels).
    """
    # a third of a second to import: only where it is called
    from scipy.special import (
        log_softmax,
        logsumexp,
    )

    return np.asarray(log_softmax(scores, axis=-1) - logsumexp(log_softmax(free, axis=-1), axis=-2))


def metrics_of(
    outputs: Mapping[Cell, np.ndarray], queries: QueryTable, contract: TextContract
) -> dict[Cell, Metrics]:
    """Accuracy of every cell, exact match for open answers, and of always giving the most frequent
    answer. Answers that are texts of their own are measured by how near they come; no answer is
    frequent among them.
    """
    truth = truth_of(queries, contract)
    answered = {cell: answers_of(texts, contract) for cell, texts in outputs.items()}
    if isinstance(contract.task, FreeText):
        return {cell: measure_texts(truth, answers) for cell, answers in answered.items()}
    balanced = contract.is_classification
    metrics = {
        cell: measure(truth, answers, balanced=balanced) for cell, answers in answered.items()
    }
    return {**metrics, MAJORITY: majority(truth, balanced=balanced)}


def values_of(
    outputs: Mapping[Cell, np.ndarray], queries: QueryTable, contract: TextContract
) -> dict[Cell, np.ndarray]:
    """By cell, and of always giving the most frequent answer, for every query: 1 or 0, right or
    wrong; of texts of their own ROUGE-1.
    """
    truth = truth_of(queries, contract)
    answered = {cell: answers_of(texts, contract) for cell, texts in outputs.items()}
    if isinstance(contract.task, FreeText):
        return {cell: rouge1(truth, answers) for cell, answers in answered.items()}
    return {
        cell: values(truth, answers)
        for cell, answers in {**answered, MAJORITY: most_frequent(truth)}.items()
    }
