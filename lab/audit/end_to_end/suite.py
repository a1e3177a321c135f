"""Every exact claim on the machine, by name: `make test` checks them, and mutants must break
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from dpicl.methods import METHODS
from dpicl.methods.gdp_tabicl import GdpTabicl
from dpicl.methods.ldp_tabicl import LdpTabicl
from dpicl.methods.mst_tabicl import MstTabicl
from dpicl.methods.tab_pate import TabPate
from dpicl.methods.tab_pe import TabPe
from lab.audit.end_to_end import series, text_series
from lab.audit.end_to_end.borders import (
    border,
    few,
    labels,
    numbers,
    of_frame,
    of_nights,
    of_table,
    persons,
    values,
)
from lab.audit.end_to_end.claims import (
    COVERED,
    Broken,
    accounts,
    covered,
    equality,
    histories,
    refusals,
    stability,
    wallet_cap,
)
from lab.audit.end_to_end.commands import ask, given, protect, read_frame, run, synth
from lab.audit.end_to_end.spellings import SPELLINGS
from lab.audit.end_to_end.world import KINDS, Declaration, Measured, SourceKind

_PERSONS, _HELD_OUT = Declaration(person=True), Declaration(measured="held-out rows")
TABULAR, WRITING = (
    [name for name, method in METHODS.items() if method.data == data] for data in ("table", "texts")
)
QUERY = "who is there?"


def _of(method: str, measured: Measured = "not at all") -> Declaration:
    """The neighbours that a method has a price for: the number of clients is public."""
    if method in WRITING:
        return Declaration("texts")
    return Declaration(
        measured=measured,
        neighbours="replace-one" if METHODS[method].trust == "local" else "add-or-remove-one",
    )


def declared(kind: SourceKind) -> list[Declaration]:
    """Every contract whose rows a source of this kind may hold; texts are held out by their
    files.
    """
    declarations = [Declaration(kind), Declaration(kind, neighbours="replace-one")]
    if kind != "texts":
        declarations.append(Declaration(kind, measured="held-out rows"))
    if kind in ("csv", "folder", "query"):
        declarations.append(Declaration(kind, measured="held-out rows", person=True))
    return declarations


def stable(kind: SourceKind) -> Broken:
    """`stability` of a kind of source, whatever its contract protects."""
    return [sentence for declaration in declared(kind) for sentence in stability(declaration)]


_RUN = _of(GdpTabicl.name, "public queries")
BORDERS: Mapping[str, Callable[[], Broken]] = {
    **{
        f"borders of a table: {kind}": partial(of_table, Declaration(kind), protect(GdpTabicl.name))
        for kind in KINDS
        if kind != "texts"
    },
    **{
        f"borders of a method: {method}": partial(border, of, protect(method), few(of), labels(of))
        for method in TABULAR
        if method not in (GdpTabicl.name, LdpTabicl.name)
        for of in [_of(method)]
    },
    **{
        f"borders of a folder: {method}": partial(border, of, protect(method), numbers(of))
        for method in (TabPate.name, TabPe.name)  # which put batches together
        for of in [Declaration("folder")]
    },
    f"borders of a method: {LdpTabicl.name}": partial(
        of_table, _of(LdpTabicl.name), protect(LdpTabicl.name)
    ),
    "borders of a method: synth": partial(of_table, Declaration(), synth(MstTabicl.name)),
    "borders of persons": partial(border, _PERSONS, protect(MstTabicl.name), persons(_PERSONS)),
    "borders of rows held out": partial(border, _HELD_OUT, run(GdpTabicl.name), few(_HELD_OUT)),
    "borders of a run": partial(of_table, _RUN, run(GdpTabicl.name)),
    "borders of a run: a value": partial(border, _RUN, run(GdpTabicl.name), values(_RUN)),
    "borders of a frame": partial(of_frame, given(MstTabicl.name, read_frame)),
    **{
        f"borders of texts: {method}": partial(of_table, Declaration("texts"), run(method))
        for method in WRITING
    },
    "borders of an answer": partial(of_table, Declaration("texts"), ask(QUERY)),
    "borders of a horizon's nights": of_nights,
    "borders of a horizon's nights: many": partial(of_nights, whole=True),
    "borders of a horizon's averages": partial(of_nights, whole=True, groups=True),
    "borders of a horizon's deliveries": partial(of_nights, whole=True, deliveries=True),
    "borders of a horizon's texts": partial(text_series.equal, (0, 0, 0)),
    "borders of a horizon's texts: an empty first period": partial(text_series.equal, (0, 8, 1)),
}
"""Of worlds at the borders of what rules, thresholds and types would tell apart."""
CLAIMS: Mapping[str, Callable[[], Broken]] = {
    **{f"rows stay where they are: {kind}": partial(stable, kind) for kind in KINDS},
    **{
        f"bytes of protect: {method}": partial(equality, _of(method), protect(method))
        for method in TABULAR
    },
    "bytes of protect: persons": partial(
        equality, Declaration(person=True), protect(MstTabicl.name)
    ),
    "bytes of protect: rows held out": partial(
        equality, Declaration(measured="held-out rows"), protect(GdpTabicl.name)
    ),
    "bytes of protect: rows in memory": partial(equality, Declaration(), given(MstTabicl.name)),
    "bytes of a run: rows held out": partial(
        equality, Declaration(measured="held-out rows"), run(GdpTabicl.name), most=1
    ),
    "bytes of protect: batches": partial(equality, Declaration("batches"), protect(GdpTabicl.name)),
    **{
        f"bytes of a run: {method}": partial(
            equality, _of(method, "public queries"), run(method), most=1
        )
        for method in (*TABULAR, *WRITING)
    },
    "bytes of an answer": partial(equality, Declaration("texts"), ask(QUERY)),
    "words of a refusal": partial(refusals, Declaration(), protect(GdpTabicl.name)),
    "a period's history: protect": partial(
        histories, Declaration(), partial(protect, MstTabicl.name), across=False
    ),
    "a period's history: ask": partial(
        histories, Declaration("texts"), partial(ask, QUERY), across=False
    ),
    "the next period's history: protect": partial(
        histories, Declaration(), partial(protect, MstTabicl.name), across=True
    ),
    "the next period's history: ask": partial(
        histories, Declaration("texts"), partial(ask, QUERY), across=True
    ),
    "bytes of a horizon's nights": series.equal,
    "bytes of a horizon's deliveries": partial(series.equal, deliveries=True),
    "bytes of a horizon's texts": text_series.equal,
    "a text is read in one period": text_series.alone,
    "noise covers a person's history": series.covered,
    "noise covers a person's deliveries": partial(series.covered, deliveries=True),
    "noise covers a person's corrections": series.corrected,
    "bytes of a horizon's averages": partial(series.equal, groups=True),
    "noise covers a person's history of averages": partial(series.covered, groups=True),
    "noise covers a person's deliveries of averages": partial(
        series.covered, deliveries=True, groups=True
    ),
    "noise covers another person's averages": series.exchanged,
    "noise covers a person's corrections of averages": partial(series.corrected, groups=True),
    **BORDERS,
    **SPELLINGS,
    **{f"noise covers one row: {method}": partial(covered, method) for method in COVERED},
    "one cap for one file": partial(accounts, Declaration(), (GdpTabicl.name, LdpTabicl.name)),
    "a wallet keeps its cap": wallet_cap,
}
