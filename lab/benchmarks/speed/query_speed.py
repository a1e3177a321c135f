"""A contract's query on PostgreSQL, a row at a time: a bare `COPY` of the same rows beside it, and
rows that become Python's objects first.
"""

from __future__ import annotations

import os
import time
from typing import Any

import psycopg
import pyarrow as pa

from dpicl.contract import Contract, parse_contract
from dpicl.data.reading.database import query_batches
from lab.benchmarks.figures import Figures, best_of, sized
from tests.ledger.postgres import programs, running_postgres

ROWS, ROUNDS, BATCH_ROWS = sized(500_000, 5_000), sized(3, 1), 1 << 17
ADDRESS = "DPICL_BENCH_DATABASE"
QUERY = "SELECT * FROM measured"
TABLE = f"""CREATE TABLE measured AS SELECT (n % 90)::smallint AS age, n AS visits, n::bigint * 1000003 AS number,
(n % 10007 / 100.0)::numeric(8, 2) AS paid, n % 1000003 / 7.0 AS share, sqrt(n) AS weight, ln(n) AS height, (n % 1000 / 8.0)::real AS dose,
(ARRAY['red', 'green', 'blue'])[1 + n % 3] AS colour, 'city ' || n % 50 AS city, n % 2 = 0 AS member, date '2020-01-01' + n % 1000 AS joined,
timestamptz '2020-01-01 00:00:00+00' + n * interval '1.5 s' AS seen FROM generate_series(1, {ROWS}) n"""  # noqa: E501
WHOLE = {"type": "integer", "bounds": [0, 100]}
REAL = {"type": "real", "bounds": [0, 100]}
COLUMNS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("age", "visits", "number"), WHOLE),
    **dict.fromkeys(("paid", "share", "weight", "height", "dose"), REAL),
    "colour": {"type": "category", "categories": ["red", "green", "blue"]},
    "city": {"type": "category", "categories": [f"city {number}" for number in range(50)]},
    "member": {"type": "category", "categories": ["true", "false"]},
    "joined": {"type": "date", "bounds": ["2020-01-01", "2030-01-01"]},
    "seen": {"type": "datetime", "bounds": ["2020-01-01T00:00:00", "2030-01-01T00:00:00"]},
}
CONTRACT = {
    "version": 1,
    "name": "measured",
    "description": "Made-up rows, thirteen columns of as many types as a table has.",
    "source": {
        "title": "t",
        "licence": "l",
        "citation": "c",
        "query": {"url_env": ADDRESS, "sql": QUERY},
    },
    "privacy": {"budget": {"benchmark": True}},
    "split": {"test_fraction": 0.5},
    "columns": COLUMNS,
    "label": {"column": "member", "parts": [["false"], ["true"]], "question": "Member?"},
    "groups": {2: ["label"]},
    "local": [{"name": "band", "column": "age", "cuts": [40], "texts": ["young", "old"]}],
    "prompts": {"local": {"text": "{band}"}, "central": {"text": "{age} {colour}"}},
}


def measure(figures: Figures) -> None:
    """Seconds of this process alone: the server's are its own. Nothing where no server can be
    started.
    """
    if programs() is None:
        print("no PostgreSQL server programs here: not measured")
        return
    contract = parse_contract(CONTRACT, "measured.yaml")
    assert isinstance(contract, Contract)
    query = contract.source.query
    assert query is not None
    with running_postgres(durable=False) as server:
        server.execute(TABLE)
        os.environ[ADDRESS] = server.url()

        def asked() -> int:
            return sum(batch.num_rows for batch in query_batches(contract, query, BATCH_ROWS))

        def copied() -> int:
            with (
                psycopg.connect(server.url()) as connection,
                connection.cursor().copy(f"COPY ({QUERY}) TO STDOUT") as rows,
            ):
                return sum(1 for _ in rows)

        def as_objects() -> int:
            count = 0
            with (
                psycopg.connect(server.url()) as connection,
                connection.cursor(name="objects") as cursor,
            ):
                cursor.execute(QUERY)
                while rows := cursor.fetchmany(BATCH_ROWS):
                    count += pa.table(
                        dict(zip(COLUMNS, map(pa.array, zip(*rows, strict=True)), strict=True))
                    ).num_rows
            return count

        own, bare, objects = best_of((asked, copied, as_objects), ROUNDS, time.process_time)
    print(
        f"microseconds of the processor a row: copied {1e6 * bare / ROWS:.3f}, as Python's "
        f"objects {1e6 * objects / ROWS:.3f}"
    )
    figures.at_most("query-to-rows-a-row", 1e6 * own / ROWS, 4, " us")
    figures.at_most("query-to-rows-over-a-bare-copy", own / bare, 5, "x")
    figures.at_least("query-to-rows-against-python-objects", objects / own, 2, "x")


if __name__ == "__main__":
    measured = Figures()
    measure(measured)
    measured.finish()
