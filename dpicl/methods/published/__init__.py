"""What the papers printed: their tables as data, with their slips mended where that can be shown."""

from dpicl.methods.published.dp_icl import ensemble_number
from dpicl.methods.published.dp_tabicl import ACCURACY_TABLES, AmplifiedEpsilon, Erratum, PaperModel, errata, paper_accuracy, table_v
from dpicl.methods.published.few_shot import NoiseCell, few_shot_accuracy, table_nine
from dpicl.methods.published.files import read_table

__all__ = [
    "ACCURACY_TABLES",
    "AmplifiedEpsilon",
    "Erratum",
    "NoiseCell",
    "PaperModel",
    "ensemble_number",
    "errata",
    "few_shot_accuracy",
    "paper_accuracy",
    "read_table",
    "table_nine",
    "table_v",
]
