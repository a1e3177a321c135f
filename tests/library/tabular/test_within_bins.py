"""A predictor is asked for a value, not for its bin."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tests.truth.no_noise import Plain

COLUMNS = {
    "x": {"type": "real", "bounds": [0, 800]},
    "still": {"type": "real", "bounds": [0, 800]},
    "y": {"type": "category", "categories": ["no", "yes"]},
}


def rows(count: int) -> pd.DataFrame:
    """Eight bins of `x`, of which the label follows; all rows in one bin of `still`."""
    rng = np.random.default_rng(0)
    x = rng.random(count) * 800
    yes = x + rng.normal(size=count) * 150 > 400
    return pd.DataFrame({"x": x, "still": rng.random(count), "y": np.where(yes, "yes", "no")})


def test_chances_rise_inside_a_bin() -> None:
    model = Plain.of(rows(1000), COLUMNS).predictor()
    asked = pd.DataFrame({"x": np.linspace(301, 399, 9), "still": 0.5})
    assert (np.diff(model.predict_proba(asked)[:, 1]) > 0.005).all()


def test_a_column_that_never_varies_says_nothing_of_a_value_far_from_all_others() -> None:
    model = Plain.of(rows(1000), COLUMNS).predictor()
    near, far = (
        model.predict_proba(pd.DataFrame({"x": [350.0], "still": [value]})) for value in (0.5, 800)
    )
    assert np.abs(near - far).max() < 0.05
