"""Small run folders to report on, and a reader of what the report says."""

import json
import math
from html.parser import HTMLParser

import pandas as pd

from dpicl.methods.evaluation import results_frame_columns
from dpicl.report import build_report

COLUMNS = results_frame_columns()
ACCURACIES = {1.0: (0.70, 0.74, 0.78), 5.0: (0.80, 0.72, 0.79), math.inf: (0.90, 0.90, 0.90)}
LR = {1.0: (0.61, 0.66, 0.72), 5.0: (0.85, 0.81, 0.80)}
MAJORITY = (0.75, 0.74, 0.76)


def manifest(**changes):
    content = {
        "run_id": "r1",
        "pipeline": "demo",
        "title": "A title",
        "created_utc": "2026-01-01T00:00:00Z",
        "dpicl_version": "0.1.0",
        "simulated": False,
        "model": {"name": "some-model", "kind": "transformers", "trained": True},
        "grid": {
            "methods": ["gdp_tabicl"],
            "datasets": ["adult"],
            "epsilons": [1, 5, "inf"],
            "shots": [1],
            "seeds": [0, 1, 2],
        },
    }
    return content | changes


def line(system, epsilon="", accuracy="", **cells):
    """A row of results: of GDP-TabICL on adult and the first seed, where nothing else is said."""
    own = {"method": "gdp_tabicl", "dataset": "adult", "seed": 0}
    return own | {"system": system, "epsilon": epsilon, "accuracy": accuracy} | cells


def rows(dataset="adult"):
    """Three seeds of in-context answers, logistic regression and majority, on the paper's first
    data set.
    """
    for seed in range(3):
        own = {"dataset": dataset, "seed": seed, "query_count": 100}
        yield line("majority", "", MAJORITY[seed], balanced_accuracy=0.5, **own)
        for epsilon, values in ACCURACIES.items():
            asked = {"shots": 1, "sampling_rate": 0.1, "amplified_epsilon": epsilon / 2}
            accuracy = values[seed]
            yield line("icl", epsilon, accuracy, balanced_accuracy=accuracy - 0.2, **own, **asked)
        own["query_count"] = 500
        for epsilon, values in LR.items():
            yield line("lr", epsilon, values[seed], balanced_accuracy=0.6, auc=0.65, **own)


def many_rows():
    """Two methods on two data sets, at six epsilons: as wide as tables and figures get."""
    cells = [
        line(system, epsilon, 0.6 + 0.01 * epsilon % 0.3, auc=0.6, shots=shots, query_count=50)
        for epsilon in (1.0, 5.0, 10.0, 25.0, 50.0)
        for system, shots in (("icl", 2), ("icl", 8), ("averaged", 8), ("lr", ""), ("gb", ""))
    ]
    for dataset in ("breast_cancer", "adult"):
        for method in ("ldp_tabicl", "gdp_tabicl"):
            for row in (line("majority", "", 0.6, query_count=50), *cells):
                yield row | {"dataset": dataset, "method": method}


def write_run(folder, *, results=None, timings=(), demonstrations=None, **changes):
    (folder / "manifest.json").write_text(json.dumps(manifest(**changes)), encoding="utf-8")
    results = pd.DataFrame(rows() if results is None else results, columns=COLUMNS, dtype=object)
    timings = pd.DataFrame(timings, columns=["method", "dataset", "seed", "stage", "seconds"])
    for name, table in (("results", results), ("timings", timings)):
        table.to_csv(folder / f"{name}.csv", index=False)
    if demonstrations:
        (unit := folder / "units" / "gdp_tabicl__adult__seed0").mkdir(parents=True)
        (unit / "demonstrations.json").write_text(json.dumps(demonstrations), encoding="utf-8")
    return folder


def built(folder):
    html, markdown = build_report(folder)
    return html.read_text(encoding="utf-8"), markdown.read_text(encoding="utf-8")


class Page(HTMLParser):
    """Tags with attributes, and the text of every table cell by row."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.rows, self._cell = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self._cell = True
        if tag == "small" and self._cell:
            self.rows[-1][-1] = self.rows[-1][-1].rstrip() + " | "

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data):
        if self._cell:
            self.rows[-1][-1] += data.strip("\n")

    def row(self, label):
        """The first row with this label."""
        return next(row for row in self.rows if row and row[0] == label)


def markdown_row(markdown, label):
    line = next(line for line in markdown.splitlines() if line.startswith(f"| {label} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]
