"""Where texts come from: files at hand, a set as it was published and stated slices of it, or texts
that come with a package.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from dpicl.contract.base import Category, Frozen, Rate
from dpicl.contract.sources import FilePath, Origin, Sha256

FIELD = r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*"
FieldPath = Annotated[str, StringConstraints(pattern=f"^{FIELD}$", max_length=200)]
"""A field of a record; `a.b` is field b inside field a."""
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
Template = Annotated[str, StringConstraints(min_length=1, max_length=2000)]


def _delta(value: Fraction) -> Fraction:
    if not 0 < value < 1:
        raise ValueError(f"got {value}; expected a delta in (0, 1)")
    return value


Delta = Annotated[Rate, AfterValidator(_delta)]


class TextFile(Frozen):
    """JSON (lines, or one list) or CSV, gzipped or not, or Parquet."""

    file: FilePath
    """Path relative to the data folder; texts are read from disk only."""
    sha256: Sha256 | None = None
    """Public texts only: SHA-256 of the file. Of sets whose contracts come with dpicl the same rows
    in another order or form are accepted too.
    """


class PublishedFile(Frozen):
    """A file of a published set, as its publisher offers it."""

    file: FilePath
    """Path in the hub's repository, or below `url`."""
    sha256: Sha256 | None = None
    """SHA-256 of the file; of a hub's file whose digest nobody has stated it may be left out: it is
    pinned by the first download.
    """
    rows: Count | None = None
    """Number of records, which a download must have."""


class Published(Frozen):
    """A public set of texts, where anyone can download it. It is read as it was published; labels
    are replaced while it is read.
    """

    unsaid: ClassVar[tuple[str, ...]] = ("form",)

    hub: (
        Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.-]*/[\w.-]+$", max_length=200)]
        | None
    ) = None
    """Data set on the Hugging Face hub, `org/name`."""
    revision: Annotated[str, StringConstraints(pattern="^[0-9a-f]{40}$")] | None = None
    """With `hub`: the commit."""
    url: (
        Annotated[str, StringConstraints(pattern=r"^https://[^\s?#]+[^\s?#/]$", max_length=300)]
        | None
    ) = None
    """In place of `hub`: the address that the files lie below; each then needs its `sha256`."""
    train: PublishedFile
    """Texts to protect."""
    test: PublishedFile
    """Held-out texts, the queries."""
    text: Template | None = None
    """The text of a record, where the published fields differ from the contract's."""
    field: FieldPath | None = None
    """The field of the answer, where it differs."""
    labels: dict[Category, Category] = {}
    """{label in the published files: label in the contract}; all others stay as they are."""
    form: Literal["tagged"] | None = None
    """`tagged`: lines of words with their slots, such as `a:O comedy:B-Genre film:O`; if left out,
    what a file's name ends in says its form.
    """

    @model_validator(mode="after")
    def _one_place(self) -> Published:
        if (self.hub is None) == (self.url is None) or (self.hub is None) != (
            self.revision is None
        ):
            raise ValueError("the place is unclear; expected `hub` with `revision`, or `url`")
        if self.url is not None and None in (self.train.sha256, self.test.sha256):
            raise ValueError(
                "an address may serve another file tomorrow; expected the `sha256` of `train` and "
                "of `test`"
            )
        return self

    @property
    def version(self) -> str:
        """What names this state of the set in the cache."""
        return (
            self.revision[:12]
            if self.revision
            else hashlib.sha256(str(self.url).encode()).hexdigest()[:12]
        )


class Deltas(Frozen):
    """Deltas for fewer texts than were published, in place of the contract's."""

    budget: Annotated[float, Field(ge=0, lt=1)] | None = None
    """In place of `privacy.budget.delta`."""
    generation: Delta | None = None
    """In place of `generation.delta`."""
    ensemble: Delta | None = None
    """In place of `ensemble.delta`."""


class Slice(Frozen):
    """A stated part of a published set that may stand for it, with bounds of its own: fewer texts
    need more noise.
    """

    train: TextFile
    """Texts to protect; `sha256` is required."""
    test: TextFile
    """Held-out texts, the queries; `sha256` is required."""
    bounds: Count | dict[Category, Count]
    """Lower bound on the texts with each label, or with an answer, in place of `min_rows`; one
    number holds for every label.
    """
    deltas: Deltas = Deltas()
    """Deltas for this many texts."""

    @model_validator(mode="after")
    def _pinned(self) -> Slice:
        if None in (self.train.sha256, self.test.sha256):
            raise ValueError(
                "a slice is known by its digest; expected the `sha256` of `train` and of `test`"
            )
        return self


PUBLISHED = "published"
"""In the place of a slice's name: the whole set."""
SliceName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,39}$")]


class TextSource(Origin):
    """Files of private texts and of queries, a published set with its slices, or texts that are
    shipped with a package.
    """

    unsaid: ClassVar[tuple[str, ...]] = (
        *Origin.unsaid,
        "queries",
        "published",
        "slices",
        "labels",
        "deliveries",
        "undelivered",
    )

    train: TextFile | None = None
    """Private texts."""
    deliveries: FilePath | None = None
    """Private texts with a horizon (`releases.horizon`), in place of `train`: a folder, relative to
    the data folder, with a file for each period, named by it, such as 2027-01.jsonl. Each is read
    for the demonstrations of its period alone. A period without texts has an empty file.
    """
    undelivered: Literal["refused", "empty"] = "refused"
    """With `deliveries`: what a period that is over and has no file means: that its texts are yet
    to come, so that nothing is released; or, with `empty`, that nothing arrived in it.
    """
    test: TextFile | None = None
    """Held-out texts: a benchmark's queries. In any other contract they are private, and not
    used.
    """
    queries: TextFile | None = None
    """For private texts: public, labelled texts that serve as queries."""
    bundled: Literal["docstrings"] | None = None
    """Texts that are shipped with an installed package, in place of files."""
    published: Published | None = None
    """Benchmarks only: the whole set as it was published, in place of files; the contract's bounds
    are its own.
    """
    slices: dict[SliceName, Slice] = {}
    """Parts of the published set that may be used in its place, by name. The first that is at hand
    is used, the published set before them.
    """
    labels: dict[Category, Category] = {}
    """{label in the files: label in the contract}; all others stay as they are."""

    @model_validator(mode="after")
    def _one_way(self) -> TextSource:
        files = (self.train, self.test, self.queries)
        ways = [
            bool(self.train),
            self.deliveries is not None,
            self.bundled is not None,
            self.published is not None,
        ]
        if sum(ways) != 1 or (any(files) != bool(self.train) and self.deliveries is None):
            raise ValueError(
                "the source is unclear; expected `train` with `test` or `queries`, `deliveries`, "
                "`published`, or `bundled`"
            )
        if self.slices and self.published is None:
            raise ValueError("slices of no published set; expected `published` beside them")
        places = [one.train.file for one in self.slices.values()]
        if len(set(places)) != len(places) or PUBLISHED in self.slices:
            raise ValueError(
                "slices share a file or are named like the whole; expected a file and a name of "
                "its own for every slice"
            )
        return self
