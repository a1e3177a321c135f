"""A million reports of clients, counted: processor seconds from files to counts, in one process,
and none lost.

Rows of `adult`, drawn again and again, or made-up codes where its file is not at hand, are
randomised as clients randomise them. Beside each hundred reports are two that came twice, and one
each that answers no question, is to another collection, or is cut off.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dpicl.contract import Contract
from dpicl.data.local.questions import Question
from dpicl.data.reading.encode import LocalEncoding, encode_clients
from dpicl.data.report_counts import count_open
from dpicl.data.reports import Checker, Sender
from dpicl.ground.randomness import Stream, stream
from dpicl.home.settings import Settings
from dpicl.mechanisms.randomised_response import Response, randomise
from dpicl.mechanisms.unary_encoding import report
from dpicl.methods.collection import Collection
from lab.benchmarks.figures import Figures, sized
from lab.benchmarks.real_tables import at_hand, real_table

TABLE, REPORTS, FILES, GOAL = "adult", sized(1_000_000, 2_000), sized(20, 2), 30.0
DESIGNS = {"subset": 3.0, "pairs": 0.5}
"""Each with an epsilon: answers of one cell; and bits, which are longer to read."""
_PER_HUNDRED = {"duplicate": 2, "forged": 1, "foreign": 1, "malformed": 1}


def measure(figures: Figures) -> None:
    """Both kinds of answers."""
    contract = Settings.from_environment().contract(TABLE)
    for design, epsilon in DESIGNS.items():
        collection = Collection.of(contract, design=design, epsilon=epsilon)
        laws = {type(question.law).__name__ for question in collection.questions.questions}
        with tempfile.TemporaryDirectory() as folder:
            valid, wrong = _write(Path(folder), collection)
            megabytes = sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e6
            started, wall = time.process_time(), time.perf_counter()
            received = count_open(folder, Checker(collection.name, collection.questions)).received
            seconds, wall = time.process_time() - started, time.perf_counter() - wall
        print(
            f"{design}, {' and '.join(sorted(laws))}: {megabytes:,.0f} MB, {wall:.1f} s on the "
            f"wall: {received}",
            flush=True,
        )
        figures.at_most(f"processor-seconds-for-a-million-reports-{design}", seconds, GOAL, " s")
        figures.exactly(f"reports-lost-{design}", valid - received.counted, 0)
        figures.exactly(
            f"wrong-reports-by-kind-{design}",
            {kind: getattr(received, kind) for kind in wrong},
            wrong,
        )


def _write(folder: Path, collection: Collection) -> tuple[int, dict[str, int]]:
    """A million lines in files; how many clients there are, and how many lines of each kind are to
    be found.
    """
    hundreds = REPORTS // 100
    wrong = {kind: many * hundreds for kind, many in _PER_HUNDRED.items()}
    clients = REPORTS - sum(wrong.values())
    lines = list(_lines(clients, collection))
    lines += lines[: wrong["duplicate"]]
    lines += [line.replace('"question": ', '"question": 9999') for line in lines[: wrong["forged"]]]
    lines += [line.replace(collection.name, "0" * 64) for line in lines[: wrong["foreign"]]]
    lines += [line[: len(line) // 2] for line in lines[: wrong["malformed"]]]
    order = np.random.default_rng(0).permutation(len(lines))
    for number in range(FILES):
        (folder / f"{number}.jsonl").write_text(
            "".join(f"{lines[place]}\n" for place in order[number::FILES].tolist())
        )
    return clients, wrong


def _lines(clients: int, collection: Collection) -> Iterator[str]:
    codes, secret = _codes(clients, collection.contract), stream(0, "bench", TABLE, "reports")
    numbers = collection.questions.choose(clients, stream(0, "bench", TABLE, "questions"))
    client = 0
    for number, question in enumerate(collection.questions.questions):
        for answer in _answers(codes[numbers == number], question, secret):
            client += 1
            yield json.dumps(
                Sender(collection.name, f"{client:032x}").report({"question": number, **answer})
            )


def _answers(codes: np.ndarray, question: Question, secret: Stream) -> Iterator[dict[str, object]]:
    cells = question.cells_of(codes)
    if isinstance(question.law, Response):
        yield from ({"answer": cell} for cell in randomise(cells, question.law, secret).tolist())
    else:
        for start in range(0, len(cells), 10_000):
            bits = report(cells[start : start + 10_000], question.law, secret)
            for bit in bits:
                yield {"bits": np.flatnonzero(bit).tolist()}


def _codes(clients: int, contract: Contract) -> np.ndarray:
    """Of so many clients, shape (clients, columns)."""
    encoding, chance = LocalEncoding.of(contract, "k-ary"), np.random.default_rng(0)
    if not at_hand():
        return np.stack([chance.integers(size, size=clients) for size in encoding.sizes], axis=1)
    contract, split = real_table(TABLE)
    return encode_clients(split.train, contract, encoding).codes[
        chance.integers(split.train.row_count, size=clients)
    ]
