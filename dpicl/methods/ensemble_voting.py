"""DP-ICL's voters: from private rows to prompts, and from prompts to clean votes.

Trust       Central; everything here is private until an answer is released.
Guarantee   none spent. One row changes one prompt of a query, or is one, whatever the order of the
            rows: its place follows from its own content under a secret key. A calibrated vote
            follows from its own prompt's rows and from public texts: nothing is pooled over
            prompts, where one row would move every vote. A prompt that the model fails on, for
            whatever reason, or scores with numbers that are not finite or all the same, casts no
            vote, and nor does an answer that is no text: no other prompt is touched, and nothing
            stops.

From `RetrievalSpending` on: who takes part in a query by being near to it: a public embedder places
texts, and every record, or person, has uses of its own.

Trust       Central: who takes part, and how often it did, is private, and told nobody. Queries and
            the embedder are public.
Guarantee   that of `mechanisms.record_filter`, of which this is the wiring. A text that the
            embedder fails on takes no part, and no other text is touched: each is placed on its
            own, in a call of its own.

From `decide` on: step 3 of DP-ICL for one query: from clean votes to the one answer that leaves,
and what is written without private rows for it.

Trust       Central; votes are private, candidates and keywords of a query are public.
Guarantee   that of the plan's noise; everything after it is post-processing.
"""

from __future__ import annotations

import hashlib
import math
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from itertools import count
from typing import Protocol, cast

import numpy as np
import pyarrow as pa

from dpicl.contract.text import Classification, TextContract
from dpicl.data.prompts import (
    CONTENT_FREE,
    PUBLIC_TEXT,
    asking_demonstration,
    asking_prompt,
    asking_query,
    continuations,
)
from dpicl.data.text_records import PERSON, plain_text
from dpicl.ground.errors import ModelError
from dpicl.ground.randomness import Stream
from dpicl.ground.types import PrivatePrompts, PrivateTable, ReleasedPrompts
from dpicl.mechanisms.disjoint_subsets import LEFT_OUT
from dpicl.mechanisms.joint_exponential import joint_top
from dpicl.mechanisms.keyed_subsets import identities, keyed_subsets, record_marks
from dpicl.mechanisms.noisy_embedding import EmbeddingNoise, nearest, whole_vectors
from dpicl.mechanisms.private_token import UNITS, TokenNoise
from dpicl.mechanisms.record_filter import near, takes_part, whole_points
from dpicl.methods.ensemble_plan import (
    CHANGED_ANSWER,
    EnsemblePlan,
    EnsembleShape,
    JointNoise,
    sizes_of,
)
from dpicl.methods.text_answers import calibrated
from dpicl.methods.text_method import StoredVotes
from dpicl.models.asking import isolated_answers, public_answer
from dpicl.models.embedding import Embedder
from dpicl.models.requests import Sampling, Scorer, TextGenerator
from dpicl.models.spec import generate_texts, score_prompts

FULLEST = 2
"""A prompt holds at most so many times the rows that it holds on average."""
STOP = ("\n",)
"""An answer is one line."""
Votes = list[int] | list[str]
"""To one query: whole votes by label, or one text per prompt."""
_numbers = count()
"""Of public questions: each is another one, since a model may keep what it answered."""


@dataclass(frozen=True)
class Placement:
    """How the rows fall into the prompts of every query of a release: by hashes of their content
    under its own secret key.
    """

    train: PrivateTable
    key: bytes
    rate: Fraction
    shape: EnsembleShape
    most_rows: int | None = None
    """Of one person; None where rows are protected."""
    taking: Mapping[int, np.ndarray] | None = None
    """Which rows take part in each query, shape (rows,), where that is not left to a sample."""

    @property
    def name(self) -> str:
        """What votes are stored under: the same for releases that see the same prompts and are
        asked alike.
        """
        shape = self.shape
        sizes: tuple[object, ...] = (
            self.rate,
            shape.subsets,
            shape.rows,
            shape.alone,
            shape.clip if shape.alone else None,
        )
        if shape.similarity is not None:
            sizes += (shape.similarity, shape.participations)
        if shape.calibrated:
            sizes += ("calibrated",)
        return hashlib.sha256(self.key + repr(sizes).encode()).hexdigest()

    @cached_property
    def _own_marks(self) -> np.ndarray:
        """Equal rows are numbered; those of a person among that person's rows only, so that no
        person's count moves another's.
        """
        names = ("label", "text") if self.most_rows is None else (PERSON, "label", "text")
        columns = [self.train.data.column(name).to_pylist() for name in names]
        return record_marks(
            identities(["\0".join(row).encode() for row in zip(*columns, strict=True)]),
            key=self.key,
        )

    @cached_property
    def units(self) -> np.ndarray:
        """Marks that a row's place follows from, shape (rows, bytes): of persons the same for all
        their rows, which fall into one prompt.
        """
        if self.most_rows is None:
            return self._own_marks
        return record_marks(
            [person.encode() for person in self.train.data.column(PERSON).to_pylist()], key=self.key
        )

    @cached_property
    def _order(self) -> np.ndarray:
        """Rows by their marks, of a person no more than `most_rows`: it does not depend on where
        they stand in the table.
        """
        order = np.lexsort((*self._own_marks.T, *self.units.T[::-1]))
        if self.most_rows is None:
            return order
        _, starts, counts = np.unique(
            self.units[order], axis=0, return_index=True, return_counts=True
        )
        return order[np.arange(len(order)) - np.repeat(starts, counts) < self.most_rows]

    @cached_property
    def entering(self) -> np.ndarray:
        """Which rows may take part at all, shape (rows,): of a person no more than `most_rows`."""
        rows = np.zeros(self.train.row_count, dtype=bool)
        rows[self._order] = True
        return rows

    def groups(self, query: int) -> list[np.ndarray]:
        """Numbers of the rows in every prompt of a query; the first prompt of rows that are asked
        with alone has none.
        """
        subsets = keyed_subsets(
            self.units,
            key=self.key,
            query=query,
            sampling_rate=self.rate,
            subset_count=1 if self.shape.alone else self.shape.subsets,
        )
        if self.taking is not None:
            subsets[~self.taking[query]] = LEFT_OUT
        subsets = subsets[self._order]
        if self.shape.alone:
            return [self._order[:0], *self._order[subsets != LEFT_OUT].reshape(-1, 1)]
        most = FULLEST * self.shape.rows
        return [self._order[subsets == number][:most] for number in range(self.shape.subsets)]


@dataclass(frozen=True)
class Voters:
    """A model that is asked with private rows, on one contract."""

    contract: TextContract
    model: Scorer

    def prompts(self, placement: Placement, number: int, query: str) -> list[str]:
        """Every prompt of one query; each is followed by those without content behind the same
        rows, where answers are calibrated.
        """
        labels, texts = (placement.train.data.column(name) for name in ("label", "text"))

        def shown(row: int) -> str:
            return asking_demonstration(
                self.contract, texts[row].as_py(), self.contract.label_text(labels[row].as_py())
            )

        asked = [
            asking_query(self.contract, text)
            for text in (query, *(CONTENT_FREE if placement.shape.calibrated else ()))
        ]
        demonstrated = ([shown(int(row)) for row in rows] for rows in placement.groups(number))
        return [
            asking_prompt(self.contract, demonstrations, question)
            for demonstrations in demonstrated
            for question in asked
        ]

    def votes(self, placement: Placement, queries: Sequence[tuple[int, str]]) -> list[Votes]:
        """Clean votes on some numbered queries, whose prompts are all asked together.
        Raises DpiclError: the model fails on a public question too (`check`).
        """
        check = partial(self.check, placement.shape.calibrated)
        prompts = [self.prompts(placement, number, query) for number, query in queries]
        together = [prompt for of_query in prompts for prompt in of_query]
        ends = np.cumsum([len(of_query) for of_query in prompts])[:-1]
        if not isinstance(self.contract.task, Classification):
            texts = np.array(list(isolated_answers(self._texts, together, "", check)), dtype=object)
            return [[str(text) for text in part] for part in np.split(texts, ends)]
        labels = len(continuations(self.contract))
        scores = np.array(
            list(isolated_answers(self._scores, together, np.full(labels, math.nan), check))
        ).reshape(-1, labels)
        return [counted(part, placement.shape) for part in np.split(scores, ends)]

    def check(self, calibrated: bool) -> None:
        """Ask public questions in the way private ones are asked: one alone, and two together, and
        those without content with them. Raises DpiclError: the model does not answer, so that the
        failure is no row's.
        """
        for size in (1, 2):
            public_answer(
                self.model.description.name,
                lambda size=size: self._answered(size, calibrated),  # type: ignore[misc]
            )

    def _answered(self, size: int, calibrated: bool) -> None:
        label = self.contract.label_text(next(iter(self.contract.demonstrated), ""))
        shown = asking_demonstration(self.contract, PUBLIC_TEXT, label)
        texts = [
            *(f"Question {next(_numbers)}: {PUBLIC_TEXT}" for _ in range(size)),
            *(CONTENT_FREE if calibrated else ()),
        ]
        prompts = [
            asking_prompt(self.contract, [shown], asking_query(self.contract, text))
            for text in texts
        ]
        if not isinstance(self.contract.task, Classification):
            self._texts(prompts)
        elif not np.isfinite(self._scores(prompts)).all():
            raise ModelError(
                f"model {self.model.description.name!r} answers with numbers that are not finite; "
                f"expected log-probabilities"
            )

    def _scores(self, prompts: Sequence[str]) -> list[np.ndarray]:
        """Log-probabilities of the labels after every prompt."""
        labels = continuations(self.contract)
        scores = np.asarray(
            score_prompts(self.model, PrivatePrompts(tuple(prompts)), labels), dtype=np.float64
        )
        if scores.shape != (len(prompts), len(labels)):
            raise ModelError(
                f"model {self.model.description.name!r} does not score every label of every "
                f"prompt; expected one number for each"
            )
        return list(scores)

    def _texts(self, prompts: Sequence[str]) -> list[str]:
        """What is written after every prompt, on one line."""
        model, task = self.model, self.contract.task
        if not isinstance(model, TextGenerator) or isinstance(task, Classification):
            raise ModelError(
                f"model {self.model.description.name!r} writes no text; expected one that does, "
                f"for {self.contract.name}"
            )
        texts = generate_texts(
            model,
            PrivatePrompts(tuple(prompts)),
            Sampling(new_tokens=task.answer_tokens, stop=STOP),
        )
        if len(texts) != len(prompts):
            raise ModelError(
                f"model {model.description.name!r} does not write after every prompt; expected "
                f"one text for each"
            )
        return [plain_text(text) for text in texts]


def asked_of_each(shape: EnsembleShape) -> int:
    """How many questions each voter is asked for one query."""
    return 1 + len(CONTENT_FREE) * shape.calibrated


def counted(scores: np.ndarray, shape: EnsembleShape) -> list[int]:
    """Votes on one query by the scores of all its prompts in their order, shape (prompts, labels);
    a calibrated one by those of its own rows.
    """
    each = scores.reshape(-1, asked_of_each(shape), scores.shape[1])
    mine = each[:, 0]
    if shape.calibrated:
        usable = _informative(mine) & np.isfinite(each).all(axis=(1, 2))
        with np.errstate(all="ignore"):  # numbers of any size; what becomes none casts no vote
            mine = np.where(usable[:, np.newaxis], calibrated(mine, each[:, 1:]), math.nan)
    return soft_votes(mine, shape.clip) if shape.alone else hard_votes(mine, shape.clip)


def hard_votes(scores: np.ndarray, _clip: float) -> list[int]:
    """One whole vote per prompt, for the likeliest label: one prompt more adds `UNITS` to one label
    or nothing. `scores` are any numbers, of shape (prompts, labels).
    """
    counted = scores[_informative(scores)]
    return [
        int(count) * UNITS
        for count in np.bincount(counted.argmax(axis=1), minlength=scores.shape[1])
    ]


def soft_votes(scores: np.ndarray, clip: float) -> list[int]:
    """Sums of clipped log-probabilities over the labels, each prompt's made whole on its own: one
    more adds 0..`UNITS` to every label. A label `clip` nats below the likeliest gets nothing;
    `scores` are as of `hard_votes`.
    """
    likely = scores[_informative(scores)]
    with np.errstate(over="ignore"):  # a gap may be larger than any number; it is clipped
        below = np.maximum(likely - likely.max(axis=1, keepdims=True), -clip)
    return [
        int(total) for total in np.floor((1 + below / clip) * UNITS).astype(np.int64).sum(axis=0)
    ]


def _informative(scores: np.ndarray) -> np.ndarray:
    """Which prompts have a number for every label, and not the same for all."""
    return np.asarray(np.isfinite(scores).all(axis=1) & (scores.min(axis=1) < scores.max(axis=1)))


class Spending(Protocol):
    """How often each unit took part in the queries of one release: private, and durable before an
    answer is drawn.
    """

    @property
    def key(self) -> bytes:
        """The secret by which units are marked and placed: the same for the whole release, whatever
        becomes of the rows.
        """
        ...

    def admit(self, number: int, units: np.ndarray, is_near: np.ndarray) -> np.ndarray:
        """Which rows take part in a query, by `record_filter` (2): shape (rows,), bool. Asked again
        for a query, those that took part.

        Args:
            units: marks of the rows' units, shape (rows, bytes).
            is_near: shape (rows,), bool; a unit is near where any of its rows is.
        """
        ...


class RetrievalSpending:
    """Spending of a release whose queries are all known and admitted in their order: it follows
    from them, and need not be stored.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._uses = Counter[bytes]()

    def admit(self, _number: int, units: np.ndarray, is_near: np.ndarray) -> np.ndarray:
        """As `Spending.admit`, of the next query."""
        names = [unit.tobytes() for unit in units]
        uses = np.array([self._uses[name] for name in names], dtype=np.int64)
        rows = takes_part(is_near, uses, most=self._most)
        self._uses.update({names[row] for row in np.flatnonzero(rows)})
        return rows


def admitted(
    placement: Placement,
    queries: Sequence[tuple[int, str]],
    embedder: Embedder,
    spending: Spending | None,
    stored: StoredVotes,
    key: str,
) -> dict[int, np.ndarray]:
    """For each numbered query which rows take part, shape (rows,); without `spending` these are all
    queries of a release, in their order. Raises DpiclError: the embedder fails on public texts too.
    """
    shape = placement.shape
    assert shape.similarity is not None and shape.participations is not None
    records = row_points(placement.train.data.column("text"), embedder, stored, key)
    admit = (spending or RetrievalSpending(shape.participations)).admit
    taking: dict[int, np.ndarray] = {}
    for number, query in queries:
        (asked,) = whole_points(
            public_answer("embedder", lambda query=query: embedder.embed([query]))  # type: ignore[misc]
        )
        is_near = near(records, asked, similarity=shape.similarity) & placement.entering
        taking[number] = admit(number, placement.units, is_near)
    return taking


def row_points(
    texts: pa.ChunkedArray, embedder: Embedder, stored: StoredVotes, key: str
) -> np.ndarray:
    """Whole points of all rows, shape (rows, dimensions); stored, as a worker may be lost and a
    session asks again and again.
    """
    rows = texts.to_pylist()
    name = "points " + hashlib.sha256("\0".join(rows).encode("utf-8", "surrogatepass")).hexdigest()
    content = stored.read(key, name)
    if content is None:
        points = _placed(rows, embedder)
        stored.write(key, name, zlib.compress(points.tobytes(), 1))
        return points
    return np.frombuffer(zlib.decompress(content), dtype=np.int32).reshape(len(rows), -1)


def _placed(rows: Sequence[str], embedder: Embedder) -> np.ndarray:
    def embed(texts: Sequence[str]) -> list[np.ndarray]:
        return list(whole_points(embedder.embed(texts)))

    def public() -> list[np.ndarray]:
        return public_answer("embedder", lambda: embed([PUBLIC_TEXT]))

    (somewhere,) = public()
    points = np.zeros((len(rows), len(somewhere)), dtype=np.int32)
    for row, text in enumerate(rows):
        (point,) = isolated_answers(embed, [text], somewhere * 0, public)
        points[row] = point if len(point) == len(somewhere) else 0
    return points


RADIUS = 1.0
"""Embeddings of answers lie within this distance of the candidates' mean, or are drawn to it."""
LAST = 16
"""Embedded at last and still at hand: cells that are asked alike decide on the same texts one after
another.
"""
Answer = str | list[str]
"""To one query: a label's name, a text, or keywords."""


@dataclass(frozen=True)
class Candidates:
    """Answers to one query that were written without private rows."""

    texts: tuple[str, ...]
    embeddings: np.ndarray

    @cached_property
    def centre(self) -> np.ndarray:
        """Their mean: public, shape (d,)."""
        return np.asarray(self.embeddings.mean(axis=0))


class Public:
    """What is known of the queries without private rows: candidates, and what embeds texts."""

    def __init__(self, written: Mapping[str, Sequence[str]], embedder: Embedder | None) -> None:
        def embed(texts: tuple[str, ...]) -> np.ndarray:
            assert embedder is not None
            return embedder.embed(texts)

        def candidates(query: str) -> Candidates:
            texts = tuple(written[query])
            return Candidates(texts, embed(texts))

        self._embed = lru_cache(LAST)(embed)
        self.candidates = lru_cache(LAST)(candidates)

    def points(self, texts: Sequence[str]) -> np.ndarray:
        """Embeddings of norm 1, shape (texts, d), of texts that a query's candidates were embedded
        before.

        NaN where there is no text, or one that cannot be embedded: no answer is no point, not one
        opposite to the centre.
        """
        try:
            points = self._embed(tuple(texts))
        except Exception:  # noqa: BLE001 - whatever it is, it may follow from one text, and public ones were embedded
            alone: list[np.ndarray | None] = []
            for text in texts:
                try:
                    alone.append(np.asarray(self._embed((text,))[0]))
                except Exception:  # noqa: BLE001 - whatever it is, it may follow from one text, and public ones were embedded
                    alone.append(None)
            nowhere = np.full(
                max((len(point) for point in alone if point is not None), default=1), np.nan
            )
            points = np.stack([nowhere if point is None else point for point in alone])
        return np.where([[bool(text)] for text in texts], points, np.nan)


def decide(
    plan: EnsemblePlan,
    votes: Votes,
    query: str,
    contract: TextContract,
    stream: Stream,
    public: Public,
) -> Answer:
    """Step 3 for one query: all that leaves."""
    noise = plan.noise
    if isinstance(noise, TokenNoise):
        return contract.demonstrated[noise.select(cast(list[int], votes), stream)]
    texts = cast(list[str], votes)
    if isinstance(noise, EmbeddingNoise):
        candidates = public.candidates(query)
        vectors = whole_vectors(public.points(texts), centre=candidates.centre, radius=RADIUS)
        return candidates.texts[
            nearest(candidates.embeddings, noise.release(vectors, stream), candidates.centre)
        ]
    counts = Counter(word for text in texts for word in set(words_of(text)))
    if not isinstance(noise, JointNoise):
        return list(noise.choose(counts, stream, stream) or ())
    words = words_of(query)
    if not words:
        return []
    length = min(plan.shape.keywords, len(words))
    of_words = [counts[word] for word in words]
    places = joint_top(
        of_words, length=length, epsilon=noise.epsilon, sensitivity=CHANGED_ANSWER, stream=stream
    )
    return [words[place] for place in places]


def words_of(text: str) -> list[str]:
    """Words in small letters, each once, in their order; common ones are left out."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS  # a second to import

    return [
        word
        for word in dict.fromkeys(re.findall(r"\w+", text.lower()))
        if word not in ENGLISH_STOP_WORDS
    ]


def write_candidates(
    queries: Sequence[str], contract: TextContract, seed: int, model: Scorer
) -> dict[str, list[str]]:
    """Sampled answers to every query from the model alone; reads no row and costs nothing. Nothing
    for labels.
    """
    task = contract.task
    if isinstance(task, Classification) or not isinstance(model, TextGenerator):
        return {}
    count = sizes_of(contract).candidates
    distinct = list(dict.fromkeys(queries))
    prompts = [
        asking_prompt(contract, [], asking_query(contract, query))
        for query in distinct
        for _ in range(count)
    ]
    texts = generate_texts(
        model,
        ReleasedPrompts(tuple(prompts)),
        Sampling(new_tokens=task.answer_tokens, stop=STOP, temperature=1.0, seed=seed),
    )
    return {
        query: [text.strip() for text in texts[place * count : (place + 1) * count]]
        for place, query in enumerate(distinct)
    }
