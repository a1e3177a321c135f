"""TabPATE: teachers on disjoint parts of the rows vote on the labels of rows that nobody's data
made.

Trust       Central: a curator holds the rows; only noisy counts of the labels and noisy numbers of
            votes leave (and noisy counts of columns, where queries are `released`).
Unit        One row; or one person, all of whose rows, at most m, teach one teacher.
Neighbours  ADD_OR_REMOVE_ONE: one row or person changes one vote on each query, and one row one
            count of a label; under REPLACE_ONE two of them, each of which costs half as much.
Guarantee   epsilon-DP, delta = 0. Rows made of queries, votes and counts, and which of them
            demonstrate, are post-processing. A person changes votes as one row does, and released
            counts of labels and columns by m rows, each of which has an m-th of their parts.
Paper       Wahdany, Jagielski, Cresswell, Dziedzic and Boenisch 2026 (arXiv 2606.31474), of which
            the abstract was at hand; the votes are PATE's (arXiv 1610.05755). Ours: teachers by a
            keyed hash, naive Bayes in the place of foundation models, noise for every query alike,
            counts of the labels, and no epsilon that depends on the votes.

    0  D        <- at most m rows of every person (where persons are protected)
       c(y)     <- how many rows of D have label y, with noise, for an eighth of epsilon
    1  x_1 ...  <- Q queries: every bin as likely as any other, or by noisy counts of each column,
       for an eighth of epsilon
    2  D_1 ...  <- D in M parts, each row by a keyed hash; every part teaches a teacher
       `teachers`
    3  v_q(y)   <- how many teachers say y of x_q, with noise for all Q queries
    4  z        <- rows x_q, each with label y as often as a_y v_q(y) is of their sum over y, the
       factors a_y such that the rows have the labels as often as c says; k of them for each query
    5  E        <- serialise(z);  ask the model with (E, query)

Symbols     k shots, m the contract's most rows per person. M and Q follow from options, epsilon and
            the contract's `population`.
Not covered how frequent a value is among the rows, where queries are `public`; less memory than all
            rows take: equal rows are numbered all at once; queries of the user, which are sent as
            they are; every epsilon is a release of its own.

Votes of naive Bayes teachers on disjoint parts of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np

from dpicl.accounting.guarantee import Guarantee, compose_sequential, each_of
from dpicl.contract.models import Contract
from dpicl.contract.pipeline import Point
from dpicl.data.central.adaptive import EVEN
from dpicl.data.central.chosen_bins import Bins, share
from dpicl.data.central.exact_counts import row_bins, row_encoding, variation_of_noise
from dpicl.data.reading.split import contributing_rows
from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Draws, Stream
from dpicl.ground.types import MADE_ROWS, PrivateCodes, PrivateTable, ReleasedRows
from dpicl.mechanisms.keyed_subsets import identities, keyed_subsets, record_marks
from dpicl.mechanisms.noisy_count import exact_epsilon, noisy_counts
from dpicl.mechanisms.noisy_steps import PureBudget, StepBudget
from dpicl.methods.base import (
    CellCost,
    for_neighbours,
    for_unit,
    row_epsilon,
    spent_identity,
    times_of_row,
)
from dpicl.methods.options import PateOptions
from dpicl.methods.row_method import CentralRows
from dpicl.methods.tabular_method import Alternatives

COLUMNS_SHARE = Fraction(1, 8)
"""Of epsilon, for counts of columns."""
LABELS_SHARE = Fraction(1, 8)
"""Of epsilon, for counts of the labels: noise on them makes a predictor answer the rarer label."""
USUAL_ROWS = 2000
"""Of a contract that states no `population`."""


@dataclass(frozen=True)
class Sizes:
    """Public numbers of one release; epsilons are None where there is no noise."""

    teachers: int
    queries: int
    counts_columns: bool
    columns_epsilon: Fraction | None
    labels_epsilon: Fraction | None
    votes_epsilon: Fraction | None
    bins_epsilon: Fraction | None = Fraction(0)

    @staticmethod
    def of(
        chosen: PateOptions,
        epsilon: float,
        units: int,
        of_bins: Fraction = Fraction(0),
        rows: int = 1,
    ) -> Sizes:
        """For about so many rows, or persons of at most so many rows, where bins are chosen by a
        part of epsilon.
        """
        whole = exact_epsilon(epsilon)
        total = whole and whole * (1 - of_bins)
        counts_columns = chosen.queries == "released"
        columns = None if total is None else total * COLUMNS_SHARE * counts_columns
        labels = None if total is None else total * LABELS_SHARE
        left = None
        if total is not None and columns is not None and labels is not None:
            left = Fraction(float(total - columns - labels))
        teachers = chosen.teachers or usual_teachers(units)
        return Sizes(
            teachers,
            chosen.labelled or usual_queries(teachers, epsilon),
            counts_columns,
            columns and columns / rows,
            labels and labels / rows,
            left,
            whole and whole * of_bins / rows,
        )


@dataclass(frozen=True)
class Labelled:
    """One release: queries, codes of shape (queries, columns but the label), and noisy numbers of
    votes, shape (queries, labels); noisy counts of the labels, shape (labels,), which a release of
    draw version 1 has not; and edges of bins that were chosen, by column.
    """

    queries: np.ndarray
    votes: np.ndarray
    label_counts: np.ndarray | None = None
    bins: Bins = field(default_factory=dict)


class TabPate(CentralRows[Labelled]):
    """Steps 0 to 5: one release per epsilon, whatever the shots."""

    name = "tab_pate"
    title = "TabPATE"
    options = PateOptions
    draw_version = 2
    post_version = 2
    artefact = "released_votes.json"
    source = "votes"
    draw_stage, derive_stage = "vote", "label"

    def refuse(self, contract: Contract, point: Point[PateOptions]) -> None:
        """Where nothing is predicted there is nothing to vote on."""
        if contract.target.count == 1:
            raise ParameterError(
                "label",
                "none",
                f"one to vote on: {contract.name} predicts nothing; mst_tabicl takes it",
            )

    def sizes(self, contract: Contract, point: Point[PateOptions]) -> Sizes:
        """By options, epsilon and what the contract says of its rows."""
        rows = contract.rows_of_unit
        units = (contract.population or USUAL_ROWS) // rows
        epsilon = each_of(point.epsilon, times_of_row(contract) // rows)
        return Sizes.of(point.options, epsilon, units, share(contract), rows)

    def alternatives(self, contract: Contract) -> Alternatives:
        """None: on no table that was measured is it the most accurate, and `dpicl plan` takes
        longer for each.
        """
        return ()

    def cost(self, contract: Contract, point: Point[PateOptions]) -> CellCost:
        """Of votes and of counts."""
        return CellCost(cost(contract, self.sizes(contract, point)))

    def budget(self, contract: Contract, point: Point[PateOptions]) -> StepBudget:
        """See `CentralRows`."""
        return PureBudget.of(row_epsilon(point.epsilon, contract))

    def identity(self, contract: Contract, point: Point[PateOptions]) -> dict[str, object]:
        """Options, with the numbers that they lead to."""
        sizes = self.sizes(contract, point)
        return point.options.model_dump(mode="json") | {
            "teachers": sizes.teachers,
            "labelled": sizes.queries,
            **self.bins_identity(contract),
            **spent_identity(contract),
        }

    def statement(self, contract: Contract, point: Point[PateOptions], cost: CellCost) -> str:
        """See `Method`."""
        sizes = self.sizes(contract, point)
        return (
            f"Counts of the labels and the votes of {sizes.teachers} teachers on {sizes.queries} "
            f"queries{self.bins_statement(contract)} have differential privacy with epsilon "
            f"{cost.nominal.epsilon:.4g}; rows with labels by them, and demonstrations and answers "
            "made of these, cost nothing more."
        )

    def column_errors(
        self, contract: Contract, point: Point[PateOptions], rows: int
    ) -> Mapping[str, float]:
        """See `TabularMethod`: of counted columns' bins."""
        sizes = self.sizes(contract, point)
        bins = row_encoding(contract).sizes
        if not sizes.counts_columns:
            return {}
        each = PureBudget(sizes.columns_epsilon).times(Fraction(1, len(contract.features)))
        return dict(
            zip(
                contract.features,
                variation_of_noise((*bins[:-1], 1), each.deviation, rows),
                strict=True,
            )
        )

    def label_deviation(
        self, contract: Contract, point: Point[PateOptions], rows: int
    ) -> float | None:
        """See `TabularMethod`."""
        of_count = PureBudget(self.sizes(contract, point).labels_epsilon).deviation
        return of_count * sqrt(1 - 1 / contract.target.count) / rows

    def draw(
        self,
        train: PrivateTable,
        contract: Contract,
        point: Point[PateOptions],
        draws: Draws,
        marks: np.ndarray | None = None,
    ) -> Labelled:
        """Steps 0 to 3."""

        def entering() -> tuple[np.ndarray, np.ndarray | None]:
            rows = contributing_rows(train, contract, draws)
            person = contract.person
            persons = None if person is None else train.numbers(person.id_column)[rows]
            return row_bins(train, binned)[rows], persons

        bins = self.choose_bins(train, contract, point, draws)
        binned = contract.with_bins(bins)
        codes, persons = train.once(("rows", *bins.items()), entering)
        counts = row_encoding(binned).sizes
        found = labelled(codes, persons, counts, self.sizes(contract, point), draws, point.key)
        return replace(found, bins=bins)

    def encode(self, drawn: Labelled) -> bytes:
        """See `TabularMethod`."""
        released = {"queries": drawn.queries.tolist(), "votes": drawn.votes.tolist()}
        if drawn.label_counts is not None:
            released["labels"] = drawn.label_counts.tolist()
        return self.with_bins(released, drawn.bins)

    def decode(self, content: bytes, contract: Contract, point: Point[PateOptions]) -> Labelled:
        """See `TabularMethod`."""
        stored, bins = self.without_bins(content)
        queries, votes = (np.array(stored[name], dtype=np.int64) for name in ("queries", "votes"))
        labels = np.array(stored["labels"], dtype=np.int64) if "labels" in stored else None
        return Labelled(queries, votes, labels, bins)

    def rows(
        self,
        drawn: Labelled,
        contract: Contract,
        point: Point[PateOptions],
        draws: Draws,
        count: int | None = None,
    ) -> ReleasedRows:
        """Step 4's rows to draw from."""
        chance = draws.public("rows", point.key).generator()
        shares = vote_shares(drawn.votes, drawn.label_counts)
        return ReleasedRows(
            labelled_rows(drawn.queries, shares, count or MADE_ROWS, chance).astype(np.uint8)
        )

    def row_count(self, drawn: Labelled) -> float:
        """As many as were counted; of a release without counts as have that many teachers by
        themselves (`usual_teachers`).
        """
        if drawn.label_counts is not None:
            return max(1.0, float(drawn.label_counts.sum()))
        teachers = max(2.0, float(drawn.votes.sum(axis=1).mean()))
        return max(3 * teachers, (teachers / _TEACHERS) ** 2)

    def least_errors(self, drawn: Labelled, point: Point[Any]) -> Mapping[int, float]:
        """Of public queries' columns, which are even whatever the rows are."""
        if point.options.queries == "released":
            return {}
        return dict.fromkeys(range(drawn.queries.shape[1]), EVEN)

    def replicate(
        self,
        truth: PrivateCodes,
        row_count: int,
        drawn: Labelled,
        contract: Contract,
        point: Point[PateOptions],
        draws: Draws,
    ) -> Labelled:
        """Steps 0 to 3, each row a person; counts of the labels where the release has some."""
        chance = draws.public("again", point.key).generator()
        codes = truth.codes[chance.integers(len(truth.codes), size=row_count)]
        counts = row_encoding(contract.with_bins(drawn.bins)).sizes
        found = labelled(codes, None, counts, self.sizes(contract, point), draws, point.key)
        of_labels = None if drawn.label_counts is None else found.label_counts
        return replace(found, label_counts=of_labels, bins=drawn.bins)


def cost(contract: Contract, sizes: Sizes) -> Guarantee:
    """Of the votes and of the counts of labels, and of the counts of columns and of the choice of
    bins where there are some: in all but the votes a person has m rows.
    """
    of_votes = replace(PureBudget(sizes.votes_epsilon).guarantee(), unit=contract.privacy.unit)
    of_rows = [sizes.labels_epsilon]
    if sizes.counts_columns:
        of_rows.append(sizes.columns_epsilon)
    if share(contract):
        of_rows.append(sizes.bins_epsilon)
    of_counts = [for_unit(PureBudget(part).guarantee(), contract) for part in of_rows]
    return compose_sequential([for_neighbours(of_votes, contract), *of_counts])


def labelled(
    codes: np.ndarray,
    persons: np.ndarray | None,
    bins: Sequence[int],
    sizes: Sizes,
    draws: Draws,
    replicate: str,
) -> Labelled:
    """Steps 0 to 3 on codes of all rows, shape (rows, columns), and ids of their persons: the only
    draw of noise.
    """
    of_labels = label_counts(
        np.bincount(codes[:, -1], minlength=bins[-1]).tolist(),
        epsilon=sizes.labels_epsilon,
        stream=draws.secret("labels", replicate),
    )
    chance = draws.public("queries", replicate).generator()
    if sizes.counts_columns:
        share = sizes.columns_epsilon and sizes.columns_epsilon / (len(bins) - 1)
        stream = draws.secret("columns", replicate)
        exact = [
            np.bincount(codes[:, column], minlength=size).tolist()
            for column, size in enumerate(bins[:-1])
        ]
        queries = drawn_queries(
            [
                np.array(noisy_counts(exact_counts, epsilon=share, stream=stream))
                for exact_counts in exact
            ],
            sizes.queries,
            chance,
        )
    else:
        queries = public_queries(bins, sizes.queries, chance)
    taught = teachers_of(
        codes, persons, teachers=sizes.teachers, key=draws.secret("teachers", replicate).bytes(32)
    )
    voted = votes(codes, taught, queries, bins, teachers=sizes.teachers)
    return Labelled(
        queries,
        noisy_votes(voted, epsilon=sizes.votes_epsilon, stream=draws.secret("votes", replicate)),
        np.array(of_labels, dtype=np.int64),
    )


def label_counts(exact: list[int], *, epsilon: Fraction | None, stream: Stream) -> list[int]:
    """How many rows have each label, of which one row moves one by 1."""
    return noisy_counts(exact, epsilon=epsilon, stream=stream)


MOST_TEACHERS = 10_000
_TEACHERS, _QUERIES, _FEWEST, _USUAL_MOST = 12, 4, 8, 512
_AT_ONCE = 1 << 22
"""Odds of labels in memory."""
_MOST_STEPS, _CLOSE = 1000, 1e-4
"""To the factors of step 4, and how near the labels' shares come."""


def usual_teachers(units: int) -> int:
    """For so many rows, or persons: twelve times their root, of three each at least."""
    return int(min(max(2, min(units / 3, _TEACHERS * sqrt(units))), MOST_TEACHERS))


def usual_queries(teachers: int, epsilon: float) -> int:
    """Few where noise is large beside the votes: it grows with every query."""
    return int(min(max(_FEWEST, _QUERIES * sqrt(min(epsilon, 1e6) * teachers)), _USUAL_MOST))


"""Votes of naive Bayes teachers on disjoint parts of the rows.

Trust       Central: the curator reads every row; only numbers of votes with noise leave.
Unit        One row; or one person, all of whose rows teach one teacher.
Neighbours  ADD_OR_REMOVE_ONE: one row (or person) more or less changes one teacher, and so at most
            one vote on each query.
Guarantee   epsilon-DP, delta = 0, for the votes on all queries together; as often as a person's
            teacher changes, not as the person has rows.
Paper       [PAEGT17] Papernot, Abadi, Erlingsson, Goodfellow and Talwar, PATE (arXiv 1610.05755),
            with noise for every query alike: no bound that depends on the votes.

    (1)  teacher of a row    by a keyed hash of its content and ordinal among equal rows, or of the
         person's id          `keyed_subsets`
    (2)  P_m(y | x)          proportional to  (n_y + 1 / K) prod_i (n_y(x_i) + 1 / s_i) / (n_y + 1),
         counts n of the rows of teacher m
    (3)  v_q(y)              #{m: y is the first of the largest P_m(. | x_q)}
    (4)  released            v_q(y) + Z,   Z discrete Laplace of scale Q s / epsilon;   of two
         labels v_q of the second, and the rest of M

Every teacher votes on every query, one without rows too, so that M is the sum of the votes on each:
of two labels one row moves one number by 1 (s = 1), of more it moves two of them (s = 2).

Symbols     M teachers, Q queries, K labels, s_i bins of column i.
Not covered running time.
"""


def teachers_of(
    codes: np.ndarray, persons: np.ndarray | None, *, teachers: int, key: bytes
) -> np.ndarray:
    """Equation (1): the teacher of each row of codes of shape (rows, columns), or of each person by
    a 64-bit id: shape (rows,), int64.
    """
    names = (
        identities([row.tobytes() for row in codes])
        if persons is None
        else [person.tobytes() for person in persons]
    )
    return keyed_subsets(
        record_marks(names, key=key),
        key=key,
        query=0,
        sampling_rate=Fraction(1),
        subset_count=teachers,
    )


def votes(
    codes: np.ndarray,
    taught: np.ndarray,
    queries: np.ndarray,
    sizes: Sequence[int],
    *,
    teachers: int,
) -> np.ndarray:
    """Equations (2) and (3): private numbers of votes by label, shape (queries, labels).

    Args:
        codes: of rows, shape (rows, columns), the label last; `taught` is each row's teacher.
        queries: codes of shape (queries, columns but the label).
        sizes: bins of every column, the label last.
    """
    labels = sizes[-1]
    counted = np.zeros((len(queries), sizes[-1]), dtype=np.int64)
    size = max(1, _AT_ONCE // (len(queries) * sizes[-1]))
    having = np.bincount(taught, minlength=teachers) > 0
    taught, present = (np.cumsum(having) - 1)[taught], int(having.sum())
    # to one without rows all labels are as likely, and the first is said
    counted[:, 0] = teachers - present
    order = np.argsort(taught, kind="stable")
    for first in range(0, present, size):
        some = min(size, present - first)
        mine = order[slice(*np.searchsorted(taught, (first, first + some), sorter=order))]
        cells = (taught[mine] - first) * labels + codes[mine, -1]
        of_label = np.bincount(cells, minlength=some * labels).reshape(some, 1, labels)
        odds = np.repeat(np.log(of_label + 1 / labels), len(queries), axis=1)
        for column, bins in enumerate(sizes[:-1]):
            counts = np.bincount(
                codes[mine, column] * np.int64(some * labels) + cells,
                minlength=bins * some * labels,
            )
            shares = np.log(counts.reshape(bins, some, labels) + 1 / bins) - np.log(
                of_label[:, 0] + 1
            )
            odds += shares[queries[:, column]].transpose(1, 0, 2)
        said = odds.argmax(axis=2)
        counted += np.stack([(said == label).sum(axis=0) for label in range(labels)], axis=1)
    return counted


def moved_by_one(labels: int) -> int:
    """By how much one changed vote changes the numbers that are released of one query, added up."""
    return 1 if labels == 2 else 2


def noisy_votes(exact: np.ndarray, *, epsilon: Fraction | None, stream: Stream) -> np.ndarray:
    """Equation (4) of votes of shape (queries, labels), int64: of the same shape."""
    queries, labels = exact.shape
    released = exact[:, 1:] if labels == 2 else exact
    noisy = np.array(
        noisy_counts(
            released.ravel().tolist(),
            epsilon=epsilon,
            stream=stream,
            sensitivity=queries * moved_by_one(labels),
        ),
        dtype=np.int64,
    ).reshape(released.shape)
    return noisy if labels > 2 else np.hstack([int(exact[0].sum()) - noisy, noisy])


def vote_shares(noisy: np.ndarray, counts: np.ndarray | None = None) -> np.ndarray:
    """Step 4: how often each query has each label, shape (queries, labels), by noisy votes of this
    shape and noisy counts of the labels, shape (labels,); by the votes alone where there are none.
    """
    shares = _positive_shares(noisy)
    if counts is None:
        return shares
    wanted = _positive_shares(counts)
    factors = np.ones(len(counts))
    for _ in range(_MOST_STEPS):
        tilted = factors * shares
        tilted /= tilted.sum(axis=1, keepdims=True)
        found = tilted.mean(axis=0)
        if np.abs(found - wanted).max() < _CLOSE:
            break
        factors *= wanted / found
        factors /= factors.max()
    return tilted


def _positive_shares(noisy: np.ndarray) -> np.ndarray:
    """Of noisy numbers, along the last axis; none is 0."""
    positive = np.maximum(noisy, 0) + 1e-9
    return np.asarray(positive / positive.sum(axis=-1, keepdims=True))


def labelled_rows(
    queries: np.ndarray, shares: np.ndarray, count: int, chance: np.random.Generator
) -> np.ndarray:
    """So many rows of the queries in turn, each with labels as often as by its shares: shape
    (count, columns), int64.
    """
    cumulative = np.cumsum(shares, axis=1)
    which = np.resize(chance.permutation(len(queries)), count)
    even = (np.arange(count) // len(queries) + chance.random(count)) / -(-count // len(queries))
    labels = (even[:, np.newaxis] >= cumulative[which, :-1]).sum(axis=1)
    return chance.permutation(np.column_stack([queries[which], labels]).astype(np.int64))


def public_queries(sizes: Sequence[int], count: int, chance: np.random.Generator) -> np.ndarray:
    """Every bin as often as any other: shape (count, columns but the label), int64."""
    return np.column_stack([chance.integers(size, size=count) for size in sizes[:-1]])


def drawn_queries(
    counts: Sequence[np.ndarray], count: int, chance: np.random.Generator
) -> np.ndarray:
    """Every column by its noisy counts, apart from the others: shape (count, columns), int64."""
    positive = [np.maximum(count, 0) + 1e-9 for count in counts]
    return np.column_stack(
        [chance.choice(len(weights), size=count, p=weights / weights.sum()) for weights in positive]
    )
