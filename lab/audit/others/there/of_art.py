"""The Adversarial Robustness Toolbox: its learned black-box attack on membership, on what a
predictor answers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from art.attacks.inference.membership_inference import MembershipInferenceBlackBox
from art.estimators.classification import BlackBoxClassifier


def predictor(given: dict[str, Any]) -> dict[str, Any]:
    """True and false positives on the halves of rows and of control rows that it was not fitted
    on.
    """
    with np.load(given["path"]) as arrays:
        rows, control = arrays["rows"], arrays["control"]
        labels = arrays["row_labels"], arrays["control_labels"]
    classes = rows.shape[1]
    attack = MembershipInferenceBlackBox(
        BlackBoxClassifier(lambda answers: answers, (classes,), classes), attack_model_type="rf"
    )
    half = len(rows) // 2
    np.random.seed(given["seed"])
    attack.fit(
        pred=rows[:half], y=labels[0][:half], test_pred=control[:half], test_y=labels[1][:half]
    )
    said = [
        int(attack.infer(answers[half:], known[half:], pred=answers[half:]).sum())
        for answers, known in ((rows, labels[0]), (control, labels[1]))
    ]
    return {"said": said, "of": len(rows) - half}


FOUND = {"predictor": predictor}
