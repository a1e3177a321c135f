"""Which systems are compared, and by what: fixed before the runs.

Metric      AUC on held-out rows, of several classes the mean of each against the rest; mean over
            seeds by table, then mean, worst and mean rank over tables, by epsilon. A system that
            does not install, does not take a table or runs out of time is missing there, and the
            others are ranked among themselves.
Rows        Systems that release rows release `ROWS` of them, and gradient boosting on these is what
            counts (`THE`): it reads what rows say of several columns together. Logistic regression
            on the same rows is shown beside it.
Goal        AIM-TabICL, chosen as our method before the runs, has the lowest mean rank at every
            epsilon: ranked with the peers alone, as is MST-TabICL. GDP-TabICL releases averages of
            a few groups, which teach no classifier: not compared.
Guarantee   The same epsilon for all. Gaussian ones have delta = `DELTA` beside it, which is an
            advantage to them; the others have none. Neighbours are as each tool states them: one
            row more or less, of diffprivlib one row replaced.
Public      Bounds, categories, bins and the number of classes are in the contract or in
            `list_of_tables`, for all alike. Options are the tools' own defaults, except for what
            these do not know: AIM's workload is its paper's TARGET, all triples with the label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lab.benchmarks.figures import sized

EPSILONS, SEEDS = sized((0.1, 0.5, 1.0, 5.0, 10.0), (1.0,)), sized(5, 1)
DELTA, ROWS = 1e-6, 10_000
THE: Literal["gb", "lr"] = "gb"
OURS = "aim_tabicl"
LIMIT_SECONDS = sized(120, 10)
"""Of processor time for one fit and its score."""
MODEL_MEGABYTES = 1.0
"""AIM's `max_model_size`; with its default, 80, a fit takes hours."""


@dataclass(frozen=True)
class System:
    """One that is compared.

    Attributes:
        module: what of `lab.benchmarks.peers` has `run_NAME`.
        peers: whether it runs in the environment of the peers' packages.
        ours: whether it is dpicl's.
        local: whether rows never leave their owner: a table of its own.
        delta: whether its guarantee has `DELTA`.
        slow: whether a fit takes many seconds.
        absent: why it is missing everywhere.
    """

    name: str
    title: str
    module: str
    peers: bool = False
    ours: bool = False
    local: bool = False
    delta: bool = False
    slow: bool = False
    absent: str = ""


SYSTEMS = (
    System("aim_tabicl", "AIM-TabICL", "ours", ours=True),
    System("mst_tabicl", "MST-TabICL", "ours", ours=True),
    System("dplib_lr", "diffprivlib LR", "models", peers=True),
    System("dplib_gnb", "diffprivlib GNB", "models", peers=True),
    System("dplib_forest", "diffprivlib forest", "models", peers=True),
    System("mst", "MST", "published", delta=True),
    System("dp_ebm", "DP-EBM", "models", peers=True, delta=True),
    System("dp_xgboost", "DP-XGBoost", "", absent="its package is source alone: not built here"),
    System("smartnoise", "SmartNoise Synth", "", absent="its MST and AIM are those of private-pgm"),
    System("aim", "AIM", "published", delta=True, slow=True),
    System("ldp_tabicl", "LDP-TabICL", "ours", ours=True, local=True),
    System("multi_freq", "multi-freq-ldpy", "models", peers=True, local=True),
)
"""Quick ones first: where a run is cut short, most is there."""
