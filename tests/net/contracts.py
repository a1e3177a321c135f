"""Contracts on the made-up rows, one for each place that rows lie in and each unit, and pipelines.

Budgets are wide: what is refused for want of one has its own.
"""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

YES = {"type": "category", "categories": ["no", "yes"]}
COLUMNS: dict[str, Any] = {
    "age": {"type": "integer", "bounds": [18, 100], "bins": [30, 45, 60]},
    "spent": {"type": "real", "bounds": [0, 500], "bins": [20, 50, 100]},
    "city": {"type": "category", "categories": ["north", "south", "west"]},
    "member": YES,
    "bought": YES,
}
LABEL = {"column": "bought", "parts": ["rest", ["yes"]], "question": "Will this customer buy?"}
BUDGET = {"epsilon": 90, "delta": 1e-6}
QUERY = {"url_env": "SHOP_DATABASE", "sql": f"SELECT {', '.join(COLUMNS)} FROM customers"}
PERSON = {"unit": "person", "person": {"id_column": "customer", "max_rows": 2}}
ORDERS = {
    "ordered": {"type": "date", "bounds": ["2024-01-01", "2025-12-31"]},
    "Größe (cm)": {"type": "integer", "bounds": [1, 200]},
    "age": {"type": "integer", "bounds": [18, 100], "nullable": True},
    "gift": {**YES, "nullable": True},
    "days": {"type": "integer", "bounds": [1, 14]},
    "way": {
        "type": "category",
        "categories": ["courier", "freight", "locker", "pickup", "post"],
    },
}
TEXT: dict[str, Any] = {
    "kind": "text",
    "description": "Which team should answer a customer's message?",
    "privacy": {"budget": {"epsilon": 900, "delta": 0.01}},
    "text": "{text}",
    "max_characters": 80,
    "query_count": 5,
    "task": {
        "kind": "classification",
        "field": "topic",
        "labels": {
            "billing": {"text": "Billing", "min_rows": 50},
            "technical": {"text": "Technical", "min_rows": 50},
        },
    },
    "prompts": {
        "generation": {
            "instruction": "Given a topic, write a customer's message on it.",
            "label": "Topic",
            "text": "Message",
        },
        "answering": {
            "instruction": "Sort the message into a topic, Billing or Technical.",
            "text": "Message",
            "answer": "Topic",
        },
    },
    "generation": {
        "subsets": 6,
        "examples": 2,
        "candidates": 30,
        "max_tokens": 4,
        "delta": "1/10000",
    },
    "ensemble": {"subsets": 6, "delta": "1/10000"},
}


def _table(source: dict[str, Any], **keys: Any) -> dict[str, Any]:
    privacy = {"sampling_rate": "1/2", "budget": BUDGET, **keys.pop("privacy", {})}
    table = {"columns": COLUMNS, "label": LABEL, **keys}
    return deepcopy({"version": 2, "source": source, "privacy": privacy, **table})


def _night(source: dict[str, Any], **privacy: Any) -> dict[str, Any]:
    """Of a series: all rows enter, whatever a rate says."""
    columns = {name: COLUMNS[name] for name in ("age", "city", "member", "bought")}
    releases = {"every": "day", "horizon": "8 days", "first": "2025-03-01"}
    table = _table(source, columns=columns, label="bought", releases=releases, privacy=privacy)
    del table["privacy"]["sampling_rate"]
    return table


def _texts(file: str, **keys: Any) -> dict[str, Any]:
    source = {"train": {"file": f"texts/{file}.jsonl"}, "queries": {"file": "texts/panel.jsonl"}}
    return deepcopy({"version": 2, "source": source, **TEXT, **keys})


def _answers(task: dict[str, Any]) -> dict[str, Any]:
    """Texts whose answers are no labels, and are made by ensembles alone."""
    answering = {"text": "Message", "answer": "Title", "keywords": "Use these words"}
    ensemble = {"subsets": 3, "delta": "1/10000", "candidates": 4, "keywords": 3}
    contract = _texts("free", task=task, prompts={"answering": answering}, ensemble=ensemble)
    del contract["generation"]
    return contract


HORIZON = {"max_rows": 1, "max_rows_in_horizon": 3}
TABLES = {
    "shop": _table({"file": "shop.csv"}, queries={"file": "panel.csv"}),
    "shop_again": _table({"file": "shop.csv"}, label="city"),
    "shop_packed": _table({"file": "shop.csv.gz"}, account="shop"),
    "shop_parquet": _table({"file": "shop.parquet"}, account="shop"),
    "shop_parts": _table({"folder": "parts"}, account="shop"),
    "shop_query": _table({"query": QUERY}, account="shop"),
    "shop_many": _table({"folder": "many"}, population=600_000, account="shop"),
    "local": _table({"file": "local.csv"}, privacy={"neighbours": "replace-one"}),
    "persons": _table({"file": "persons.csv"}, privacy=PERSON),
    "rented": _table({"file": "rented.csv"}, privacy={**PERSON, "neighbours": "replace-one"}),
    "held": _table({"file": "held.csv"}, split={"test_fraction": 0.2, "evaluation_epsilon": 0.2}),
    "monthly": _table({"file": "monthly.csv"}, releases={"every": "month"}),
    "public": _table(
        {"file": "public.csv"},
        privacy={"budget": {"benchmark": True}},
        split={"test_fraction": 0.1},
    ),
    "orders": _table(
        {"file": "orders.csv", "ignore": ["note"]}, columns=ORDERS, label="way", population=600
    ),
    "delivery": _table(
        {"file": "orders.csv", "ignore": ["note"]}, columns=ORDERS, label="days", population=600
    ),
    "unlabelled": _table({"file": "orders.csv", "ignore": ["note"]}, columns=ORDERS, label=None),
    "nights": _night(
        {"file": "nights.csv", "arrived": "day"},
        unit="person",
        person={"id_column": "customer", **HORIZON},
    ),
    "nights_of_rows": _night(
        {"file": "nights-of-rows.csv", "arrived": "day", "ignore": ["customer"]}
    ),
    "delivered": _night(
        {"deliveries": "delivered"}, unit="person", person={"id_column": "customer", **HORIZON}
    ),
    "narrow": _table({"file": "narrow.csv"}, account="narrow", privacy={"budget": {"epsilon": 1}}),
    "broken": _table({"file": "broken.csv"}, account="broken"),
    "short": _table({"file": "short.csv"}, account="short"),
    "absent": _table({"file": "absent.csv"}, account="absent"),
    "draft": _table({"file": "shop.csv"}, account="draft", draft=True),
    "wrong": _table({"file": "shop.csv"}, account="wrong", colour="red"),
    "sites": _table({"file": "sites.csv"}, privacy={"neighbours": "replace-one"}),
}
TEXTS = {
    "tickets": _texts("private"),
    "titles": _answers(
        {"kind": "generation", "field": "title", "min_rows": 50, "answer_tokens": 4}
    ),
    "words": _texts(
        "private-2",
        task={
            "kind": "extraction",
            "field": "word",
            "min_rows": 50,
            "labels": ["invoice", "crash"],
            "answer_tokens": 3,
        },
    ),
    "months": {
        **_texts("private"),
        "source": {"deliveries": "texts/months", "queries": {"file": "texts/panel.jsonl"}},
        "releases": {"every": "month", "horizon": 3, "first": "2026-01-01"},
    },
}
del TEXTS["months"]["ensemble"]
for _name in ("titles", "words", "months"):
    TEXTS[_name]["account"] = "tickets"
for _label in TEXTS["months"]["task"]["labels"].values():
    _label["min_rows"] = 20


def _pipeline(methods: list[str], dataset: str, **keys: Any) -> dict[str, Any]:
    usual = {"title": "Of the net", "epsilons": [1, 4], "shots": [2], "seeds": [0], "draws": 1}
    return {**usual, "model": "fake", "methods": methods, "datasets": [dataset], **keys}


ROWS = ["ldp_tabicl", "gdp_tabicl", "mst_tabicl", "aim_tabicl", "tab_pate", "tab_pe"]
PIPELINES = {
    "version": 1,
    "models": {
        "fake": {"kind": "fake", "trust": "local"},
        "bundled": {"kind": "bundled", "trust": "local"},
        "tiny": {"kind": "tiny", "trust": "local"},
    },
    "pipelines": {
        "private": _pipeline(["gdp_tabicl", "mst_tabicl"], "shop", baselines=False),
        "held-out": _pipeline(["mst_tabicl"], "held", baselines=False),
        "benchmark": _pipeline(ROWS, "public", epsilons=[1, "inf"], seeds=[0, 1]),
        "nightly": _pipeline(
            ["mst_tabicl", "gdp_tabicl"],
            "nights",
            epsilons=[2],
            baselines=False,
            options={
                "mst_tabicl": {"noise": "gaussian"},
                "gdp_tabicl": {"allocation": "shared-count"},
            },
        ),
        "texts": _pipeline(["few_shot_generation"], "tickets", epsilons=[4], model="tiny"),
        "answers": _pipeline(["dp_icl"], "tickets", epsilons=[4], model="tiny"),
        "reports": _pipeline(["ldp_tabicl"], "sites", epsilons=[2]),
        "amplification": {
            "title": "Of the net",
            "kind": "amplification",
            "datasets": ["shop"],
            "epsilons": [1, 5],
        },
    },
}


def write_contracts(folder: Path) -> None:
    """Contracts below `folder`/contracts, and pipelines.yaml beside it."""
    for kind, contracts in {"contracts": TABLES, "contracts/texts": TEXTS}.items():
        (folder / kind).mkdir(parents=True)
        for name, contract in contracts.items():
            _write(folder / kind / f"{name}.yaml", {"name": name, **contract})
    _write(folder / "pipelines.yaml", PIPELINES)


def state_moved(folder: Path) -> None:
    """The shop's contract, once its rows were moved."""
    source = {"file": "deep/shop.csv", "moved_from": "shop.csv"}
    contract = {"name": "shop", **TABLES["shop"], "source": source}
    _write(folder / "contracts" / "shop.yaml", contract)


def _write(file: Path, content: dict[str, Any]) -> None:
    """Without the aliases that YAML has for what stands twice, which contracts may not have."""
    unshared = json.loads(json.dumps(content))
    file.write_text(yaml.safe_dump(unshared, allow_unicode=True, sort_keys=False), "utf-8")
