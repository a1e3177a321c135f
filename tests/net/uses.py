"""The library as programs use it: each function prints a line for each thing that it was given.

A driver runs them in a fork, in the folder and environment of an installation.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

import dpicl
from tests.net.contracts import COLUMNS

SCHEMA = {"columns": COLUMNS, "label": "bought"}
FRAME: dict[str, Any] = {"schema": SCHEMA, "epsilon": 1, "account": "frames", "budget": 40}
NAMED = ("schema", "epsilon", "account", "method", "trust", "shots", "budget", "period")
NAMED += ("generator", "window")
Options = Mapping[str, Any]
GDP, MST, AIM = {"method": "gdp_tabicl"}, {"method": "mst_tabicl"}, {"method": "aim_tabicl"}
PATE, PE, LDP = {"method": "tab_pate"}, {"method": "tab_pe"}, {"method": "ldp_tabicl"}
GAUSSIAN = {"noise": "gaussian"}
METHODS: Sequence[Options] = (
    GDP,
    {**GDP, "allocation": "shared-count"},
    {**GDP, "allocation": "all-columns"},
    {**GDP, "sum_origin": "lower"},
    {**GDP, "shots": 2},
    MST,
    {**MST, **GAUSSIAN},
    AIM,
    {**AIM, **GAUSSIAN, "delta": 1e-7},
    PATE,
    {**PATE, "queries": "released"},
    {**PATE, "teachers": 20, "labelled": 10},
    PE,
    {**AIM, "epsilon": 2},
)
LOCAL: Sequence[Options] = (
    {"trust": "local"},
    {**LDP, "design": "all-columns"},
    {**LDP, "encoding": "one-hot"},
    {**LDP, "design": "pairs"},
    {**LDP, "design": "subset", "columns": 2},
    {**LDP, "design": "agreement"},
    {**LDP, "design": "subset", "estimator": "tree"},
    MST,
    GDP,
)
PERSONS: Sequence[Options] = (AIM, MST, {**MST, **GAUSSIAN}, PATE, PE, GDP)
PLACES = ("shop", "shop_packed", "shop_parquet", "shop_parts", "shop_query", "shop_many")


def methods() -> None:
    """Every method on a file, and some of it again."""
    _all(("shop", how) for how in (*METHODS, *METHODS[5:10]))


def local() -> None:
    """What clients randomise, and central methods where a row is replaced."""
    _all(("local", how) for how in LOCAL)


def persons() -> None:
    """Persons with several rows."""
    _all(("persons", how) for how in PERSONS)
    _all((("rented", MST), ("rented", GDP)))


def places() -> None:
    """Every kind of place that rows lie in."""
    _all((name, MST) for name in PLACES)
    _all((("shop_many", GDP), ("shop_query", AIM)))


def kinds() -> None:
    """Gaps, dates, classes, a number to predict, nothing to predict."""
    several = {**GDP, "shots": 5}
    cells = (("orders", AIM), ("orders", several), ("delivery", MST), ("orders", PE))
    _all((*cells, ("unlabelled", MST), ("shop_again", AIM)))


def series() -> None:
    """A series night by night, and windows of it."""
    nights = ("2025-03-01", "2025-03-02", "2025-03-03")
    for method in (MST, {**GDP, "shots": 2}):
        usual = {"epsilon": 2, **method}
        _all(("nights", {**usual, "period": night}) for night in nights)
        _all((("nights", {**usual, "period": nights[2], "window": 2}),))


def texts(generator: str = "fake") -> None:
    """Demonstrations that a model of hashes, or of random weights, writes by every mechanism."""
    fixed = {"batches": "fixed", "voters": 8}
    ink, clipped = {"mechanism": "invisible-ink"}, {"mechanism": "clipped-logits"}
    ways: Sequence[Options] = (
        {},
        {"mechanism": "exponential"},
        {"temperature": 1, "top_k": 5},
        {**ink, **fixed},
        {**clipped, **fixed},
        {**clipped, **fixed, "private_tokens": 2},
    )
    usual = {"epsilon": 50, "shots": 2, "generator": generator}
    _all(("tickets", {**usual, **how}) for how in (*ways, *ways[:2]))
    _all((("words", usual), ("months", {**usual, "period": "2026-01"})))
    _all((("months", {**usual, "period": "2026-02"}),))


def texts_of_a_model() -> None:
    """The same by a model of random weights."""
    texts("tiny")


def answers(model: str = "fake") -> None:
    """Queries answered from private texts, by every aggregation."""
    usual = {"epsilon": 50, "count": 4, "shots": 2, "model": model}
    ways: Sequence[tuple[str, Options]] = (
        ("tickets", {}),
        ("tickets", {"aggregation": "soft-votes"}),
        ("tickets", {"noise": "exponential"}),
        ("tickets", {"similarity": 0.2, "participations": 2}),
        ("titles", {}),
        ("titles", {"aggregation": "keywords-ptr"}),
        ("titles", {"aggregation": "keywords-joint"}),
    )
    for contract, how in (*ways, *ways[:1]):
        for query in ("I was charged twice.", "It is slow.", "Invoice 7?", "Crash again!"):
            (answered,) = dpicl.Session().ask(contract, [query], **usual, options=how)
            _say(contract, {**how, "query": query}, answered.answer)


def answers_of_a_model() -> None:
    """The same of a model of random weights."""
    answers("tiny")


def frames() -> None:
    """The same rows as pandas and Arrow have them, in two orders: one release."""
    frame = _shop()
    for rows in (frame, pa.Table.from_pandas(frame, preserve_index=False), frame[::-1]):
        _show("frame", {}, dpicl.protect(rows, **_arguments(FRAME)))


def more_on_frames() -> None:
    """Other methods at other epsilons, and rows that clients randomise."""
    for number, how in enumerate((GDP, PE), 2):
        _show("frame", how, dpicl.protect(_shop(), **_arguments(FRAME, how, {"epsilon": number})))
    local = {"trust": "local", "account": "clients"}
    _show("frame", local, dpicl.protect(_shop(), **_arguments(FRAME, local)))


def paths() -> None:
    """A path, a folder and a query, without a contract."""
    data = Path(os.environ["DPICL_DATA"])
    query = dpicl.Query(url_env="SHOP_DATABASE", sql=f"SELECT {', '.join(COLUMNS)} FROM customers")
    for name, rows in (("path", f"{data}/shop.csv"), ("folder", f"{data}/parts"), ("query", query)):
        _show(name, {}, dpicl.protect(rows, SCHEMA, epsilon=1, budget=5, method="mst_tabicl"))


def forms() -> None:
    """All that a release can be asked for."""
    release = dpicl.protect(_shop(), **_arguments(FRAME))
    shown = release.demonstrations(3)
    for form in ("text", "chat", "alpaca", "sharegpt"):
        _say(form, {}, str(getattr(shown, form)()))
    _say("predictor", {}, str(release.predictor().predict(_shop()[:40]).tolist()))
    print(release.method, release.epsilon, release.dataset)
    release.table(50).to_csv("rows.csv", index=False)
    _say("rows.csv", {}, Path("rows.csv").read_text("utf-8"))


def session() -> None:
    """A price before, the release, a budget after."""
    session = dpicl.Session()
    for _ in range(2):
        for quote in session.quote("shop", epsilon=1):
            print(quote.account, quote.releases, quote.charged_before)
        session.protect("shop", epsilon=1)
    for budget in _charged():
        spent = f"{budget.epsilon_spent:.9g} of {budget.epsilon_cap}, {budget.delta_spent:.9g}"
        print(budget.account, spent, budget.delta_cap, budget.releases)


def _charged() -> list[Any]:
    return [budget for budget in dpicl.Session().budget() if budget.releases]


def collected() -> None:
    """Rows of reports that clients sent."""
    _show("sites", {}, dpicl.Session().collect("sites", "reports", epsilon=2))


def refused() -> None:
    """What is refused in a program, and costs nothing."""
    wrong: Sequence[Options] = (
        {"epsilon": 0},
        {"epsilon": float("nan")},
        {"epsilon": float("inf")},
        {"epsilon": 1000},
        {"account": None},
        {"account": "No Name"},
        {"method": "unknown"},
        {"trust": "nobody"},
        {"budget": 0.5, "account": "small"},
        {"colour": "red"},
        {"schema": {"columns": {}}},
        {"schema": {**SCHEMA, "label": "absent"}},
    )
    for changes in wrong:
        try:
            dpicl.protect(_shop(), **_arguments(FRAME, changes))
        except Exception as error:
            ours = type(error).__module__.partition(".")[0] == "dpicl"
            print(*changes, "a mistake" if ours else type(error).__name__)
        else:
            print(*changes, "released")
    print([budget.releases for budget in _charged()])


def _shop() -> pd.DataFrame:
    return pd.read_csv(Path(os.environ["DPICL_DATA"]) / "shop.csv")


def _all(cells: Iterable[tuple[str, Options]]) -> None:
    """Releases by contract and options, each by a session of its own."""
    for contract, how in cells:
        arguments = _arguments({"epsilon": 1}, how)
        _show(contract, how, dpicl.Session().protect(contract, **arguments))


def _arguments(*parts: Options) -> dict[str, Any]:
    """What `protect` takes by name, and in `options` what the method takes; the last part wins."""
    every = {key: value for part in parts for key, value in part.items()}
    options = {key: value for key, value in every.items() if key not in NAMED}
    return {**{key: every[key] for key in NAMED if key in every}, "options": options}


def _show(name: str, how: Options, release: Any) -> None:
    """Rows with their types where a release has rows, and demonstrations."""
    count = how.get("shots", 4)
    found = release.demonstrations(count).text()
    if how.get("method") != "gdp_tabicl" and "generator" not in how:
        table = release.table(60)
        types = ",".join(str(kind) for kind in table.dtypes)
        found += types + table.to_csv(index=False)
    _say(name, how, found)


def _say(name: str, how: Options, found: str) -> None:
    label = ",".join(f"{key}={value}" for key, value in how.items())
    print(f"{name} {label}".strip() + ":", hashlib.sha256(found.encode()).hexdigest()[:20])
