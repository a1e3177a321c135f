"""A table with a column of codes is released by their groups."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tests.cli.conftest import Cli
from tests.harness import Place

CONTRACT = """
version: 2
name: stays
source: {file: stays.csv}
privacy: {budget: {epsilon: 100}}
columns:
  code: {type: category, groups: {I21: heart, I*: vessels, "*": other}}
  job: {type: category, groups: {15*: computing, 29*: health}}
  died: {type: boolean}
label: died
"""


def test_released_rows_hold_groups_in_the_shares_of_their_codes(place: Place, cli: Cli) -> None:
    chance = np.random.default_rng(0)
    codes = [f"I{chance.integers(1000)}" if one % 4 else f"J{one}" for one in range(3000)]
    jobs = [f"{15 if one % 3 else 29}-{chance.integers(1000, 9999)}" for one in range(3000)]
    rows = pd.DataFrame({"code": codes, "job": jobs, "died": chance.random(3000) < 0.5})
    rows.to_csv(place.root / "data" / "stays.csv", index=False)
    (place.root / "contracts" / "stays.yaml").write_text(CONTRACT)
    out = place.root / "released.csv"
    cli(f"synth stays --epsilon 20 --rows 2000 --out {out}")
    released = pd.read_csv(out)
    assert set(released["code"]) <= {"heart", "vessels", "other"}
    assert abs((released["code"] == "other").mean() - 0.25) < 0.05
    assert abs((released["job"] == "computing").mean() - 2 / 3) < 0.05
