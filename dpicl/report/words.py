"""Numbers, methods and systems as a report writes them."""

from __future__ import annotations

import math

from dpicl.contract.pipeline import asked_by
from dpicl.ground.nouns import many
from dpicl.methods import METHODS

DASH = "–"
SYSTEMS = {
    "icl": "in-context",
    "averaged": "in-context, draws averaged",
    "icl-nested": "in-context, nested shots",
    "icl-shared": "in-context, shared shots",
    "icl-prototype": "in-context, prototypes as shots",
    "icl-diverse": "in-context, diverse shots",
    "icl-near": "in-context, shots near the query",
    "icl-calibrated": "in-context, calibrated",
    "raw-rows": "raw randomised rows",
    "random-rows": "real rows at random",
    "few-shot": "real rows in one prompt",
    "zero-shot": "zero-shot",
    "majority": "majority",
    "lr": "logistic regression",
    "gb": "gradient boosting",
    "gnb": "Gaussian naive Bayes",
    "lr-naive": "logistic regression, the paper's setting",
    "gnb-naive": "Gaussian naive Bayes, the paper's setting",
}
"""Systems in the order of a table's rows."""
MEASURES = {
    "accuracy": "accuracy",
    "rouge1": "ROUGE-1",
    "absolute_error": "mean absolute error",
    "gain": "gain",
}
"""What figures and headlines show: of labels, and of whole texts; headlines alone, of numbers."""


def method_name(slug: str) -> str:
    """A method's name in its paper; work that belongs to no method is `shared`."""
    return METHODS[slug].title if slug in METHODS else slug or "shared"


def system_name(slug: str) -> str:
    """A system in words; a pipeline's own variants carry their name behind the system's, and so
    does a model that is asked beside the run's.
    """
    asked, model = asked_by(slug)
    system, _, variant = asked.partition("-")
    name = SYSTEMS.get(asked) or (
        f"{SYSTEMS[system]}, {variant}" if variant and system in SYSTEMS else asked
    )
    return f"{name}, {model}" if model else name


def reads_rows(method: str) -> bool:
    """Whether a method's baselines are classifiers with noise of their own, fitted on the private
    rows and not on what the method releases.
    """
    return method in METHODS and METHODS[method].baselines_read == "private"


def averaged(draws: int) -> str:
    """Of the answers with several draws of shots from one release."""
    return f"averaged over {many(draws, 'draw')}"


def fitted_name(method: str, system: str) -> str:
    """What a baseline was fitted on."""
    variant = system.partition("-")[2]
    on = "the rows, diffprivlib's noise" if reads_rows(method) else f"rows of {method_name(method)}"
    return f"{on}, {variant}" if variant else on


def number(value: float | None, decimals: int = 3) -> str:
    """A fixed number of decimals; a dash for what is not defined, ∞ for no bound."""
    if value is None or math.isnan(value):
        return DASH
    return "∞" if math.isinf(value) else f"{value:.{decimals}f}"


def epsilon(value: float | None) -> str:
    """Nominal epsilon as in a column head: 1, 0.5, ∞."""
    if value is None or math.isnan(value):
        return DASH
    return "∞" if math.isinf(value) else f"{value:g}"


def signed(value: float) -> str:
    """A difference, with a true minus; a plus would make a formula of it where a table is
    pasted.
    """
    return DASH if math.isnan(value) else f"{value:.3f}".replace("-", "−")


def duration(seconds: float) -> str:
    """Seconds up to two minutes, then minutes, then hours; a dash for none."""
    if math.isnan(seconds):
        return DASH
    if seconds < 120:
        return f"{seconds:.2f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.2f} h"


def mass(kilograms: float) -> str:
    """Grams below one kilogram."""
    return f"{kilograms:.3f} kg" if kilograms >= 1 else f"{1000 * kilograms:.3f} g"


def listing(items: list[str]) -> str:
    """`a, b and c`."""
    if len(items) == 1:
        return items[0]
    return ", ".join(items[:-1]) + " and " + items[-1] if items else DASH
