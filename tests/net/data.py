"""Made-up rows and texts, the same on every machine, in every form that rows come in."""

from __future__ import annotations

import csv
import gzip
import json
import random
import shutil
import sqlite3
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

import pandas as pd

SHOP = ("age", "spent", "city", "member", "bought")
NIGHT = ("age", "city", "member", "bought")
PLACES = ("north", "south", "west")
WAYS = ("post", "courier", "pickup", "locker", "freight")
WORDS = {
    "billing": ("invoice", "refund", "charged twice", "payment"),
    "technical": ("crash", "error", "cannot log in", "slow"),
}


def write_data(folder: Path) -> None:
    """All files below the data folder."""
    folder.mkdir()
    shop = _shop(400, 4)
    for name in ("shop", "local", "held", "monthly", "narrow", "public"):
        _csv(folder / f"{name}.csv", SHOP, shop)
    (folder / "shop.csv.gz").write_bytes(gzip.compress((folder / "shop.csv").read_bytes(), mtime=0))
    frame = pd.DataFrame(shop, columns=list(SHOP))
    frame.to_parquet(folder / "shop.parquet")
    for name in ("parts", "many"):
        (folder / name).mkdir()
        frame[:150].to_parquet(folder / name / "1.parquet")
        frame[150:].to_parquet(folder / name / "2.parquet")
    with sqlite3.connect(folder / "shop.db") as base:
        frame.to_sql("customers", base, index_label="id")
    base.close()
    _csv(folder / "panel.csv", SHOP, _shop(12, 5))
    _csv(folder / "new.csv", SHOP, _shop(3, 6))
    _csv(folder / "broken.csv", SHOP, [*shop[:-1], (-5, "x", "moon", "no", "yes")])
    _csv(folder / "short.csv", SHOP[:-1], [row[:-1] for row in shop])
    for name in ("persons", "rented"):
        _persons(folder / f"{name}.csv")
    _orders(folder / "orders.csv")
    _nights(folder)
    _texts(folder / "texts")
    for site in ("east", "west"):
        rows = [(*row, f"{site} {number}") for number, row in enumerate(_shop(300, site))]
        _csv(folder / f"{site}.csv", (*SHOP, "client"), rows)


def write_more_nights(folder: Path) -> None:
    """What arrives later: the third night's file, and a first night's that is too late."""
    chance = random.Random(12)
    for number in (1, 3):
        night = _visits(date(2025, 3, number), 80, chance)
        rows = [(row[0], *row[2:]) for row in night]
        _csv(folder / "delivered" / f"2025-03-0{number}.csv", ("customer", *NIGHT), rows)
    with (folder / "nights.csv").open("a", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(_visits(date(2025, 3, 1), 5, chance))


def move_shop(folder: Path) -> None:
    """The same rows at another place."""
    (folder / "deep").mkdir()
    (folder / "shop.csv").rename(folder / "deep" / "shop.csv")


def _csv(file: Path, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    with file.open("w", newline="", encoding="utf-8") as opened:
        written = csv.writer(opened, lineterminator="\n")
        written.writerow(head)
        written.writerows(rows)


def _shop(count: int, seed: int | str) -> list[tuple[object, ...]]:
    chance = random.Random(seed)
    rows = []
    for _ in range(count):
        age, spent = chance.randint(18, 80), min(round(chance.uniform(5, 140), 1), 500)
        member = chance.random() < 0.4
        bought = (spent > 60) + (age < 40) + member + chance.random() > 1.6
        said = ("yes" if true else "no" for true in (member, bought))
        rows.append((age, spent, chance.choice(PLACES), *said))
    return rows


def _persons(file: Path) -> None:
    chance = random.Random(7)
    rows = [(f"p{chance.randrange(120)}", *row) for row in _shop(500, 8)]
    _csv(file, ("customer", *SHOP), rows)


def _orders(file: Path) -> None:
    """With gaps, dates, classes, a column to ignore and one whose name is no identifier."""
    chance = random.Random(9)
    rows: list[tuple[object, ...]] = []
    for number in range(600):
        size = chance.randint(5, 190)
        way = WAYS[min(size // 40, 4)] if chance.random() < 0.8 else chance.choice(WAYS)
        age = "" if chance.random() < 0.1 else f"{chance.randint(18, 90)}.0"
        day = date(2024, 1, 1) + timedelta(days=chance.randint(0, 700))
        gift = chance.choice(("yes", "no", "no", ""))
        note = f"please call {number}"
        rows.append((day, size, age, gift, 1 + size // 30 + chance.randint(0, 3), way, note))
    _csv(file, ("ordered", "Größe (cm)", "age", "gift", "days", "way", "note"), rows)


def _visits(day: date, count: int, chance: random.Random) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for _ in range(count):
        age, member = chance.randint(18, 80), chance.random() < 0.4
        bought = (age < 40) + member + chance.random() > 1.2
        said = ("yes" if true else "no" for true in (member, bought))
        rows.append((chance.randrange(80), day.isoformat(), age, chance.choice(PLACES), *said))
    return rows


def _nights(folder: Path) -> None:
    """Three nights in one file that says the day; of files for each night two are there yet."""
    chance = random.Random(11)
    nights = [_visits(date(2025, 3, day), 80, chance) for day in (1, 2, 3)]
    for name in ("nights", "nights-of-rows"):
        rows = [row for night in nights for row in night]
        _csv(folder / f"{name}.csv", ("customer", "day", *NIGHT), rows)
    (folder / "delivered").mkdir()
    for number, night in enumerate(nights[:2], 1):
        rows = [(row[0], *row[2:]) for row in night]
        _csv(folder / "delivered" / f"2025-03-0{number}.csv", ("customer", *NIGHT), rows)


def _texts(folder: Path) -> None:
    chance = random.Random(10)
    folder.mkdir()
    for name, count in {"private": 120, "panel": 8, "free": 60}.items():
        lines = []
        for number in range(count):
            topic = ("billing", "technical")[number % 2]
            text = f"My {chance.choice(WORDS[topic])} since day {number}, please help."
            record = {"topic": topic, "text": text, "title": f"{topic} of day {number}"}
            lines.append(json.dumps({**record, "word": text.split()[1]}) + "\n")
        (folder / f"{name}.jsonl").write_text("".join(lines), "utf-8")
        shutil.copy(folder / f"{name}.jsonl", folder / f"{name}-2.jsonl")
    (folder / "months").mkdir()
    lines = (folder / "private.jsonl").read_text("utf-8").splitlines(keepends=True)
    for number, month in enumerate(("2026-01", "2026-02")):
        file = folder / "months" / f"{month}.jsonl"
        file.write_text("".join(lines[60 * number : 60 * (number + 1)]), "utf-8")
    (folder / "questions.txt").write_text("I was charged twice.\nIt is slow.\n", "utf-8")
