"""How a unit's releases come about in a run: charged and published by the process that holds the
ledger, drafted between by workers, which open none.

    charge   every release of a unit, durable before a row is read
    draft    into a private file: of a table its rows are marked and releases drawn (`prepare`,
             `count`, `draw`), texts written by a local model (`generate`), queries answered by an
             ensemble whose clean votes are stored encrypted (`consult`)
    release  the drafts go to the ledger, the first ones stand, journals are deleted
    derive   rows of what was published
    advance  in the place of all these, where a series goes on
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from time import monotonic
from typing import Any

from dpicl.contract.models import window_places
from dpicl.contract.periods import clock
from dpicl.contract.pipeline import Point
from dpicl.ground.errors import RunError
from dpicl.ground.files import (
    PRIVATE_MODE,
    read_arrays,
    read_json,
    sha256_of,
    write_arrays,
    write_json,
)
from dpicl.ground.nouns import many
from dpicl.ground.types import PrivateTable
from dpicl.home.accounts import open_ledger
from dpicl.ledger import Ledger, ReleaseCharge
from dpicl.ledger.keys import canonical
from dpicl.methods import dp_icl, few_shot_generation, on_texts, tabular
from dpicl.methods.dp_icl import AnsweringJob
from dpicl.methods.ensemble_plan import plan_release as plan_answers
from dpicl.methods.ensemble_voting import Public, write_candidates
from dpicl.methods.few_shot_plan import plan_release as plan_texts
from dpicl.methods.few_shot_voting import shares
from dpicl.methods.grid import check, points
from dpicl.models.embedding import embedder_fingerprint, open_embedder
from dpicl.models.requests import Tallying
from dpicl.release.horizon import Horizon
from dpicl.release.journal import FileJournal, KeptVotes, forget, sweep_votes, votes_folder
from dpicl.release.names import QUERIES, ReleaseFacts, public_facts
from dpicl.release.readers import fingerprint, reader_of, writer_of
from dpicl.release.releases import NamedRelease, named_releases, paying_account
from dpicl.release.rows import counted, counted_batches, drafted, marked, note_state
from dpicl.runs.artefacts import (
    DRAFTS,
    DRAFTS_APART,
    MADE,
    PUBLIC_TEXTS,
    ROWS,
    WRITING,
    gather,
    read_drafts,
    read_draws,
    write_drafts,
    write_text_drafts,
)
from dpicl.runs.run_folder import SPENDING, UnitFolder, note_spending, open_unit, read_plan
from dpicl.runs.stage import Stage, stage, timed, unit_stage

CHARGED = "to_write.json"


def facts_of(folder: UnitFolder) -> ReleaseFacts:
    """What a run adds to the names of a unit's releases: the period, the model that reads rows, the
    public queries that are answered.
    """
    plan = read_plan(folder.run)
    method = folder.method
    extra: dict[str, Any] = {}
    if method.answers_queries:
        texts = folder.rows.queries().data.column("text").to_pylist()
        fewer = plan.fewer_queries(folder.unit, folder.settings.declared(folder.unit.dataset))
        extra = {**fewer, QUERIES: sha256_of(json.dumps(texts))}
    reads = method.model_reads_rows
    return ReleaseFacts(
        plan.period_of(folder.unit.dataset),
        fingerprint(plan.writing_model) if reads else "",
        embedder_fingerprint(plan.embedder) if reads else "",
        extra,
    )


def asked_of(folder: UnitFolder) -> list[Point[Any]]:
    """What the releases of a unit are asked for."""
    return [*points(folder.method, folder.unit).values()]


def releases_of(ledger: Ledger, folder: UnitFolder) -> dict[str, NamedRelease]:
    """The releases of a unit of a run, named and priced, by what they are asked for."""
    contract = folder.declared
    method = folder.unit.method
    account = paying_account(ledger, contract, method, folder.settings)
    return named_releases(
        account, contract, method, asked_of(folder), folder.settings, facts_of(folder)
    )


@unit_stage("charge", lambda folder: folder.method.artefact, "owner", reads_rows=False)
def charge(folder: UnitFolder) -> str:
    """Charge every release of the unit; which ones are to be drafted, and under which names."""
    method = folder.method
    check(method, folder.declared, folder.unit)
    method.refuse_run(folder.declared)
    path = folder.private / CHARGED
    digests = _facts_digests(folder)
    if path.exists():
        _check_facts(folder, read_json(path), digests)
    with open_ledger(folder.settings) as ledger:
        releases = releases_of(ledger, folder)
        reserved = {key: named.reserve(ledger) for key, named in releases.items()}
        paying = [named.paying for named in releases.values()]
        note_spending(folder, paying, sum(its.is_new for its in reserved.values()))
        missing = [key for key, its in reserved.items() if its.is_missing]
        if method.model_reads_rows:
            for key in missing:
                ledger.begin_drawing(releases[key].charge.release_id)
    charges = {
        key: {"release": named.charge.release_id, "facts": digests[key], "missing": key in missing}
        for key, named in releases.items()
    }
    write_json(path, charges, mode=PRIVATE_MODE, replace=True)
    return f"{many(len(missing), 'release')} to write"


def charged(folder: UnitFolder) -> dict[str, str]:
    """The releases that were charged and are to be drafted, by what they are asked for; nothing of
    a unit that is released. Raises RunError: none was, or what would be written here is not what
    was charged: then no row may be read.
    """
    if (folder.path / folder.method.artefact).exists():
        return {}
    return {
        key: str(written["release"])
        for key, written in _charges(folder).items()
        if written.get("missing", True)
    }


def _charged_points(folder: UnitFolder) -> list[Point[Any]]:
    """What the releases are asked for that were charged and are to be drafted, as `charged`."""
    to_draft = charged(folder)
    return [point for point in asked_of(folder) if point.key in to_draft]


def _charges(folder: UnitFolder) -> dict[str, dict[str, Any]]:
    path = folder.private / CHARGED
    digests = _facts_digests(folder)
    if not path.exists():
        raise RunError(
            f"{folder.unit.key}: its releases are not charged; nothing is written before they are"
        )
    stored = read_json(path)
    _check_facts(folder, stored, digests)
    return {key: stored[key] for key in digests if key in stored}


def _check_facts(
    folder: UnitFolder, stored: Mapping[str, Mapping[str, Any]], digests: Mapping[str, str]
) -> None:
    """A run has one charge: a draft that was made under it may stand, and must not be published as
    another release.
    """
    if any(digests.get(key) != stored_charge["facts"] for key, stored_charge in stored.items()):
        raise RunError(
            f"{folder.unit.key}: its releases were charged under another contract, model or "
            f"queries; "
            f"expected those of the charge (on a worker: the same DPICL_CONTRACTS), or a new run"
        )


def _facts_digests(folder: UnitFolder) -> dict[str, str]:
    """A digest of the public facts of each of a unit's releases: computed without the ledger, equal
    where the release is the same.
    """
    contract = folder.declared
    unit = folder.unit
    facts = facts_of(folder)
    described = {
        point.key: canonical(vars(public_facts(contract, unit.method, point, facts)))
        for point in asked_of(folder)
    }
    return {key: sha256_of(text) for key, text in described.items()}


def publish_drafts(folder: UnitFolder, drafts: Mapping[str, bytes]) -> dict[str, bytes]:
    """Publish drafts of what is charged and not published (RunError: some are not drafted), and
    read all releases of a unit back.
    """
    with open_ledger(folder.settings) as ledger:
        releases = releases_of(ledger, folder)
        missing = [
            key
            for key, named in releases.items()
            if ledger.published(named.charge.release_id) is None
        ]
        if lacking := sum(key not in drafts for key in missing):
            raise RunError(
                f"{folder.unit.key}: {lacking} releases are charged and not written; resume the run"
            )
        for key in missing:
            releases[key].publish(ledger, drafts[key])
        published = {key: named.read(ledger) for key, named in releases.items()}
    if not folder.declared.is_benchmark:
        names = {key: named.charge.release_id for key, named in releases.items()}
        note_state(folder.rows, names.values(), {names[key] for key in missing})
    return published


@unit_stage("release", lambda folder: folder.method.artefact, "owner")
def release(folder: UnitFolder) -> str:
    """Publish what was drafted, unless something is published already, and gather what stands."""
    charges = _charges(folder)
    drafts = read_drafts(folder)
    published = publish_drafts(folder, {key: drafts[key] for key in charges if key in drafts})
    # of all that stand: a killed try may have left one behind
    for written in charges.values() if folder.method.model_reads_rows else ():
        forget(folder.settings, written["release"])
    gather(folder, published)
    return many(len(published), "release")


def progress_writer(
    folders: Sequence[UnitFolder], what: str, part: str = ""
) -> Callable[[int, int], None]:
    """Write, once a second, how much of what there is of these units, or of this part of them, is
    done: for people who wait.
    """
    written = 0.0

    def write(done: int, most: int) -> None:
        nonlocal written
        if monotonic() - written > 1 or done == most:
            written = monotonic()
            for folder in folders:
                write_json(
                    folder.run / WRITING / f"{folder.unit.key}{part}.json",
                    {"what": what, "done": done, "of": most},
                    replace=True,
                )

    return write


_PUBLISHED = "published_before"
"""Of a unit's spending: by cell, how many periods stood when the run first went on."""


@unit_stage("advance", lambda folder: folder.method.artefact, "owner")
def advance(folder: UnitFolder) -> str:
    """Make the periods of a unit's horizons that are missing, and what the method releases of the
    plan's window of them.
    """
    method = tabular(folder.unit.method)
    contract = folder.contract
    unit = folder.unit
    plan = read_plan(folder.run)
    check(method, contract, unit)
    first, last = window_places(
        contract, until=plan.period_of(unit.dataset), window=plan.pipeline.window, now=clock()
    )
    rows = cache(folder.rows.train)

    @contextmanager
    def table() -> Iterator[PrivateTable]:
        yield rows()

    with open_ledger(folder.settings) as ledger:
        horizons = Horizon.all_of(ledger, contract, unit.method, asked_of(folder), folder.settings)
        releases = [horizon.release for horizon in horizons]
        progress = [
            horizon.until(last, last, table, partial(_begun, folder, releases, horizon.point.key))
            for horizon in horizons
        ]
        note_spending(folder, releases, 0)
    before = read_json(folder.path / SPENDING).get(_PUBLISHED, {})
    progress = [
        replace(its, made=len(its.published) - before.get(horizon.point.key, len(its.published)))
        for horizon, its in zip(horizons, progress, strict=True)
    ]
    more = [_of(horizon.point) if len(horizons) > 1 else "" for horizon in horizons]
    made = [
        its.sentence(horizon, first, last, name)
        for horizon, its, name in zip(horizons, progress, more, strict=True)
    ]
    write_json(folder.path / MADE, made)
    windows = {
        horizon.point.key: horizon.series.window(its.published[:last], first, last)
        for horizon, its in zip(horizons, progress, strict=True)
    }
    gather(folder, {key: method.encode(released) for key, released in windows.items()})
    return (
        f"{many(sum(its.made for its in progress), 'period')} released now, until "
        f"{plan.period_of(unit.dataset)}"
    )


def _of(point: Point[Any]) -> str:
    """What tells one horizon of a unit from the others."""
    return f", epsilon {point.epsilon:g}" + (f", {point.shots} shots" if point.shots else "")


def _begun(
    folder: UnitFolder, releases: Sequence[ReleaseCharge], key: str, is_new: bool, published: int
) -> None:
    """Add to what a run was charged, at once: a try that fails later was charged all the same, and
    made what the next one finds made.
    """
    note_spending(folder, releases, 0)
    noted = read_json(folder.path / SPENDING)
    known = {key: published} | noted.get(_PUBLISHED, {})
    write_json(
        folder.path / SPENDING,
        {**noted, "charged_now": noted["charged_now"] + is_new, _PUBLISHED: known},
        replace=True,
    )


MARKS = "private_marks.npz"


@cache
def prepare_stage(name: str) -> Stage:
    """Mark the rows of a unit whose releases are charged."""

    def prepare(folder: UnitFolder) -> str:
        asked = _charged_points(folder)
        marks = marked(folder.rows, folder.unit.method, asked)
        write_arrays(folder.private / MARKS, marks, mode=PRIVATE_MODE)
        return f"{many(len(asked), 'cell')} to draw"

    return unit_stage(name, MARKS, private=True)(prepare)


@stage("count")
def count(run: str, unit_key: str, part: int, parts: int) -> str:
    """Count the batches of one piece of work for every charged release of a unit."""
    folder = open_unit(run, unit_key)
    rows = folder.rows
    asked = _charged_points(folder)
    batches = counted_batches(rows, folder.unit.method)
    assert batches is not None
    with timed(folder.run, unit_key, "count", f"-{part}"):
        for number in batches.numbers(part, parts) if asked else ():
            counted(rows, folder.unit.method, batches, number, asked)
    return f"part {part + 1} of {parts}, {many(len(asked), 'release')}"


@cache
def draw_stage(name: str) -> Stage:
    """Draft every release of a unit that is charged."""

    def draw(folder: UnitFolder) -> str:
        check(folder.method, folder.contract, folder.unit)
        asked = _charged_points(folder)
        stored = folder.private / MARKS
        marks = read_arrays(stored) if stored.exists() else {}
        drafts = drafted(folder.rows, folder.unit.method, asked, marks) if asked else {}
        write_drafts(folder, drafts)
        return many(len(asked), "release")

    return unit_stage(name, DRAFTS, private=True)(draw)


@cache
def derive_stage(name: str) -> Stage:
    """Make rows of every release of a unit."""

    def derive(folder: UnitFolder) -> str:
        method = tabular(folder.unit.method)
        asked = points(folder.method, folder.unit)
        rows = {
            cell.key: method.rows(drawn, folder.contract, asked[cell], folder.draws).codes
            for cell, drawn in read_draws(folder).items()
        }
        write_arrays(folder.path / ROWS, rows)
        return many(len(rows), "set of rows", "sets of rows")

    return unit_stage(name, ROWS, reads_rows=False)(derive)


@stage("generate", "model worker", together=True)
def generate(run: str, unit_keys: Sequence[str], part: int = 0, parts: int = 1) -> str:
    """Write what is charged and missing, of units on one data set: of each unit's cells this
    part.
    """
    folders = [open_unit(run, key) for key in unit_keys]
    wanted = [_missing(folder, part, parts) for folder in folders]
    begun = [pair for pair in zip(folders, wanted, strict=True) if pair[1]]
    if begun:
        first = begun[0][0]
        with timed(first.run, first.unit.key, "generate", part=str(part)):
            _write(begun, shows=part == 0)
    # what the model writes from the instruction alone, where queries are asked
    for folder in folders if part == 0 else ():
        path = folder.path / PUBLIC_TEXTS
        if not path.exists():
            writer = writer_of(read_plan(folder.run).writing_model, folder.settings)
            public = few_shot_generation.write_public(folder.texts, folder.unit, writer)
            encode = on_texts(folder.unit.method).encode
            write_json(path, {cell.key: encode(texts) for cell, texts in public.items()})
    return f"{many(sum(map(len, wanted)), 'release')} of {many(len(begun), 'unit')} now"


def _missing(folder: UnitFolder, part: int, parts: int) -> dict[str, str]:
    """Releases by the key of their point that this part has to write: what is in which part
    follows from the plan, whatever is missing.
    """
    missing = charged(folder)
    if not missing:
        return {}
    drafted = read_drafts(folder)
    plans = {point.key: plan_texts(folder.texts, point) for point in asked_of(folder)}
    return {
        key: missing[key]
        for key in shares(plans, parts)[part]
        if key in missing and key not in drafted
    }


def _write(begun: Sequence[tuple[UnitFolder, dict[str, str]]], *, shows: bool) -> None:
    """Texts of some releases of some units; the first part of a unit shows how far they are."""
    folders = [folder for folder, _ in begun]
    first = folders[0]
    jobs = []
    for folder, missing in begun:
        journal = FileJournal(folder.settings, missing, folder.draws, folder.rows.state)
        chosen = [point for point in asked_of(folder) if point.key in missing]
        jobs.append(few_shot_generation.job_of(folder.texts, chosen, journal))
    progress = progress_writer(folders, "writing demonstrations, token") if shows else None
    written = few_shot_generation.write(
        first.rows.train(),
        first.texts,
        writer_of(read_plan(first.run).writing_model, first.settings),
        jobs,
        progress=progress,
    )
    for folder, texts in zip(folders, written, strict=True):
        for number, point in enumerate(asked_of(folder)):
            if point.key in texts:
                write_text_drafts(
                    folder, {point.key: texts[point.key]}, DRAFTS_APART.format(number=number)
                )


@unit_stage("consult", DRAFTS, "model worker", private=True)
def consult(folder: UnitFolder) -> str:
    """Answer what is charged and missing."""
    missing = charged(folder)
    contract = folder.texts
    settings = folder.settings
    if not missing:
        write_text_drafts(folder, {})
        return f"0 times {many(contract.query_count, 'answer')}"
    train = folder.rows.train()
    draws = folder.draws
    plan = read_plan(folder.run)
    queries = folder.rows.queries().data.column("text").to_pylist()
    model = reader_of(plan.writing_model, settings, folder.method.answers.wanted_of(contract))
    sweep_votes(settings)
    chosen = {point.key: plan_answers(contract, point) for point in _charged_points(folder)}
    names = missing
    rows = folder.rows.state
    if contract.is_benchmark:  # in one place for all epsilons of a run
        places = dict.fromkeys(names, settings.private("votes", folder.run.name))
    else:  # beside the journals
        places = {key: votes_folder(settings, name, rows) for key, name in names.items()}
    embeds = any(release.shape.embeds for release in chosen.values())
    embedder = open_embedder(plan.embedder) if embeds else None
    job = AnsweringJob(
        contract,
        chosen,
        draws,
        FileJournal(settings, names, draws, rows),
        KeptVotes.of(settings, places),
        embedder,
    )
    numbered = list(enumerate(queries))
    try:
        votes = dp_icl.consult(
            train, numbered, model, job, progress_writer([folder], "asking ensembles, query")
        )
    finally:
        if isinstance(model, Tallying) and not contract.is_benchmark:
            # a server's count of private prompts: else the next public tally would hold it
            model.tally((), ())
    path = folder.path / "public_candidates.json"
    if not path.exists():
        write_json(path, write_candidates(queries, contract, folder.unit.seed, model))
    drafts = dp_icl.answer(job, votes, numbered, Public(read_json(path), embedder))
    write_text_drafts(folder, drafts)
    return f"{len(drafts)} times {many(contract.query_count, 'answer')}"
