"""How good a release of texts is, as one page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dpicl.quality.texts import N_GRAMS, TextQuality
from dpicl.report.blocks import Cell, Pairs, Report, Section, Table, Text

_ACCURACY = (
    "Logistic regression on hashed words and pairs of words, fitted on texts and their labels, "
    "asked the public texts."
)
_DISTANCE = (
    "Energy distance of the texts as points of hashed n-grams: 0 for equal laws. Halves of the "
    "public texts differ by chance alone, which is "
    "the least to be expected."
)


def text_report(quality: TextQuality) -> Report:
    """The page as blocks."""
    about = (
        f"{quality.method}, ε = {quality.epsilon:g}. {quality.released:,d} released texts beside "
        f"{quality.public:,d} public ones; no private "
        f"text is read for it, so that it costs nothing."
    )
    tiles = [("Texts", f"{quality.released:,d}"), ("Stand once", f"{quality.distinct:.1%}")]
    tiles += [] if quality.accuracy is None else [("Accuracy", f"{quality.accuracy:.3f}")]
    return Report(
        f"Quality of {quality.dataset}",
        about,
        (Pairs(tuple(tiles), are_tiles=True),),
        tuple(_sections(quality)),
    )


def _sections(quality: TextQuality) -> Iterator[Section]:
    if quality.accuracy is not None:
        fitted = (
            ("released texts", quality.accuracy),
            ("as many real texts", quality.real),
            ("the most frequent label", quality.chance),
        )
        yield _section(
            "A classifier",
            _ACCURACY,
            ("fitted on", "accuracy"),
            [(name, value) for name, value in fitted if value is not None],
        )
    grams = [
        (f"{n}", known, covered)
        for n, known, covered in zip(N_GRAMS, quality.known, quality.covered, strict=True)
    ]
    words = "Of all distinct n-grams of words in a set, the share that the other set has too."
    yield _section("N-grams", words, ("n", "of released texts", "of public texts"), grams)
    if quality.distance is not None and quality.floor is not None:
        between = [
            ("released and public texts", quality.distance),
            ("halves of the public texts", quality.floor),
        ]
        yield _section("Distance", _DISTANCE, ("between", "distance"), between)
    rows = [
        (name, one.lower, one.median, one.upper, one.mean)
        for name, one in (("released", quality.lengths), ("public", quality.public_lengths))
    ]
    yield _section(
        "Lengths",
        "Words of a text.",
        ("texts", "lower quartile", "median", "upper quartile", "mean"),
        rows,
    )


def _section(
    title: str, text: str, head: tuple[str, ...], rows: Iterable[tuple[str | float, ...]]
) -> Section:
    shown = tuple(
        tuple(Cell(value if isinstance(value, str) else f"{value:.3f}") for value in row)
        for row in rows
    )
    table = Table(title, (*Cell.of_text(head[0]), *map(Cell, head[1:])), shown)
    return Section(title.lower().replace(" ", "-"), title, (Text(text), table))
