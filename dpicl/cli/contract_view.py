"""`dpicl contract show` and `data list`: contracts and data sets, of tables and of texts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from dpicl.cli.answers import CheckedContract, DraftLine
from dpicl.cli.terminal import console, new_table, note, refuse_all, say, say_json
from dpicl.contract import Contract, TextContract, load_contract
from dpicl.contract.base import IN_FULL
from dpicl.contract.draft import unreplaced
from dpicl.contract.load import accepted
from dpicl.contract.odcs import odcs_text
from dpicl.contract.persons import most_rows
from dpicl.contract.rules import advice, may_ask_clients
from dpicl.contract.text import PUBLISHED
from dpicl.data.central.exact_counts import bin_count
from dpicl.data.reading.source import locate
from dpicl.data.text_files import FORM_WORDS, find_texts
from dpicl.ground.errors import DeclarationError, DpiclError
from dpicl.ground.nouns import many
from dpicl.ground.objects import SCHEME
from dpicl.ground.yaml_file import line_of, read_declaration
from dpicl.home.settings import Settings

_KINDS = {
    "binary": "yes or no",
    "classes": "classes",
    "number": "a number, in bins",
    "none": "nothing is predicted",
}
_LETTERS = 160
_REFUSED = ("–", "–", "its contract is refused; `dpicl contract check` says why")
"""Of a prompt, as many as are printed."""


def print_contract(contract: Contract | TextContract, *, replaces_shipped: bool = False) -> None:
    """Origin, privacy, and the parts of the contract's kind."""
    privacy = contract.privacy
    person = contract.privacy.person
    console.print(f"{contract.name}: {contract.description}", style="bold", soft_wrap=True)
    most = (
        f" (column {person.id_column}, rows of each: at most {most_rows(contract)})"
        if person
        else ""
    )
    # a horizon counts all rows
    sampled = isinstance(contract, Contract) and contract.releases.horizon is None
    rate = f"; subsample rate {privacy.sampling_rate}" if sampled else ""
    cap = f"epsilon {privacy.budget.epsilon}, delta {privacy.budget.delta}"
    if replaces_shipped:
        say("contract   your own, in the place of the shipped one")
    say(f"source     {contract.source.title}, {contract.source.licence}")
    say(f"unit       one {privacy.unit}{most}, neighbours {privacy.neighbours}{rate}")
    say(f"budget     {'benchmark (public data, no cap)' if privacy.budget.benchmark else cap}")
    if isinstance(contract, TextContract):
        _print_texts(contract)
        return
    say(f"question   {contract.target.question or 'none: nothing is predicted'}")
    table = new_table("column", "type", "public bounds or categories")
    for name, column in contract.columns.items():
        table.add_row(name, column.type, column.described)
    console.print(table)
    _print_derived(contract)


def print_odcs(contract: Contract) -> None:
    """A data contract on standard output, whatever else is printed."""
    sys.stdout.write(odcs_text(contract))


def print_checked(named: str, settings: Settings, *, as_json: bool) -> None:
    """One contract: whether it holds, lines to be replaced, what is derived from its columns, and
    warnings.

    Args:
        named: a data set's name, or a file.

    Raises:
        DeclarationError: it breaks a rule.
    """
    if (path := settings.contract_files().get(named)) is None:
        path = Path(named)
        if not (path.suffix or path.exists()):
            settings.declared(named)  # says which names there are
    content = read_declaration(path)
    try:
        contract = load_contract(path)
    except DeclarationError as error:
        refuse_all(list(_in_lines(error, content)))
    if as_json:
        marked = [
            DraftLine(number, line) for number, line in unreplaced(content.decode(errors="replace"))
        ]
        warned = list(advice(contract)) if isinstance(contract, Contract) else []
        stated = contract.model_dump(mode="json", context=IN_FULL)
        say_json(CheckedContract(path.name, contract.name, marked, warned, stated))
        return
    if isinstance(contract, TextContract):
        labels = f"{many(len(contract.demonstrated), 'label')}, " if contract.demonstrated else ""
        what = (
            f"texts of at most {contract.max_characters} characters, "
            f"{labels}{many(contract.query_count, 'query', 'queries')}"
        )
        say(f"{path.name}: ok: {what}", *_unreplaced(content))
        return
    what = f"{many(len(contract.columns), 'column')}, shots {', '.join(map(str, contract.shots))}"
    draft = "a draft, which releases nothing until `draft: true` and all marks are gone"
    say(f"{path.name}: {draft if contract.draft else 'ok'}: {what}", *_unreplaced(content))
    _print_derived(contract)
    say(*(f"warning: {sentence}" for sentence in advice(contract)))


def _in_lines(error: DeclarationError, content: bytes) -> Iterator[DeclarationError]:
    """Every problem with its line; the last also says which lines a draft left open."""
    *before, last = error.problems or (error,)
    for problem in (*before, last):
        line = line_of(content, problem.key)
        key = problem.key if line is None else f"line {line}: {problem.key}"
        left = _unreplaced(content) if problem is last else []
        expected = "; ".join(filter(None, [problem.expected, *left]))
        yield DeclarationError(problem.file, key, problem.rule, expected)


def _unreplaced(content: bytes) -> list[str]:
    """How many lines still have a mark of a draft, and which is the first; nothing if none has."""
    lines = unreplaced(content.decode(errors="replace"))
    if not lines:
        return []
    count = (
        "1 line still has its mark"
        if len(lines) == 1
        else f"{len(lines)} lines still have their marks"
    )
    return [f"{count}, LOOKED or FILL IN; the first is line {lines[0][0]}: {lines[0][1]}"]


def _print_derived(contract: Contract) -> None:
    """Bins, answers, attributes, groups and prompts, and whether they are stated."""
    table = new_table("", "", "as stated, or made from the columns")
    target = contract.target
    cut = {attribute.column for attribute in contract.local}
    stated = sum(
        name in contract.features and (column.bins is not None or name in cut)
        for name, column in contract.numbers.items()
    )
    table.add_row(
        "bins",
        _origin(stated, len(contract.features)),
        _few([f"{name} {bin_count(contract, name)}" for name in contract.features]),
    )
    answers = (
        f"{contract.label_column} {target.count} ({_KINDS[target.kind]}): {_few(target.answers)}"
        if contract.label
        else _KINDS[target.kind]
    )
    table.add_row("label", "stated" if contract.label else "none", answers)
    if may_ask_clients(contract):
        parts = [f"{attribute.name} {attribute.part_count}" for attribute in contract.attributes]
        table.add_row(
            "for clients",
            _origin(bool(contract.local), 1),
            _few(parts) + (f", label {target.count}" if contract.label else ""),
        )
    if contract.relations:
        table.add_row("relations", "stated", _few([*map(str, contract.relations)], "; ", 3))
    if contract.groups or contract.is_benchmark:
        groups = [
            f"{k} by " + " and ".join(key if key == "label" else key.column for key in keys)
            for k, keys in sorted(contract.group_keys.items())
        ]
        table.add_row(
            "groups", _origin(bool(contract.groups), 1), _few(groups, "; ", 3) if groups else "none"
        )
    text = contract.wording[1].text
    table.add_row(
        "prompts",
        _origin(bool(contract.prompts), 1),
        text if len(text) <= _LETTERS else f"{text[:_LETTERS]}…",
    )
    console.print(table)


def _few(values: Sequence[str], between: str = ", ", most: int = 12) -> str:
    """The first values, and how many there are if these are not all."""
    return between.join([*values[:most], *([f"… ({len(values)})"] if len(values) > most else [])])


def _origin(stated: int, total: int) -> str:
    return "from columns" if not stated else "stated" if stated == total else "some stated"


def _print_texts(contract: TextContract) -> None:
    asking = contract.prompts.answering
    words = contract.prompts.generation
    sizes = contract.generation
    if contract.edition_of is not None:
        say(
            f"edition    {contract.edition_of.name}; accepted: "
            f"{accepted(contract.edition_of.stated)}"
        )
    say(f"text       {contract.text}, cut to {contract.max_characters} characters")
    answers = (
        f"{contract.task.kind}, {contract.query_count} "
        f"queries{', calibrated' if contract.calibrate else ''}"
    )
    if contract.form is not None:
        say(f"form       {FORM_WORDS[contract.form]}")
    say(f"task       {answers}; {asking.text}: ... {asking.answer}: ...")
    if contract.is_classification:
        table = new_table("label", "in prompts", "at least this many rows")
        for label, rows in contract.row_bounds.items():
            table.add_row(label, contract.label_text(label), str(rows))
        console.print(table)
    else:
        say(f"rows       at least {contract.row_bounds['']} with an answer")
    if sizes is not None and words is not None:
        if not contract.is_classification:
            say(f"written    {', '.join(contract.demonstrated)}")
        say(f"prompt     {words.instruction}")
        candidates = (
            "the whole vocabulary" if sizes.candidates is None else f"{sizes.candidates} candidates"
        )
        subsets = (
            f"{sizes.subsets} subsets x {sizes.examples} "
            f"{'example' if sizes.examples == 1 else 'examples'}"
        )
        say(
            f"sizes      {subsets}, {candidates}, at most {sizes.max_tokens} tokens, delta "
            f"{sizes.delta}"
        )
    if contract.ensemble is not None:
        say(
            f"ensembles  {contract.ensemble.subsets} disjoint prompts for each query, delta "
            f"{contract.ensemble.delta}"
        )


def print_data_sets(settings: Settings) -> None:
    """All data sets and where their rows come from."""
    table = new_table("data set", "rows from", "available", "licence")
    replaced = [name for name in settings.contract_files() if settings.replaces_shipped(name)]
    for name in settings.contract_names():
        try:
            source = settings.contract(name).source
        except DpiclError:  # a first contract, perhaps, which is not filled in
            table.add_row(name, *_REFUSED)
            continue
        ways = {
            way.lower(): way
            for way in ("bundled", "file", "folder", "deliveries", "query", "OpenML", "UCI")
        }
        rows_from = ", ".join(way for field, way in ways.items() if getattr(source, field))
        local = source.file or source.folder or source.deliveries
        if (local and local.startswith(SCHEME)) or (
            source.query and os.environ.get(source.query.url_env)
        ):
            available = "remote"  # a store or a database, of which only the address is known
        else:
            is_here = bool(source.bundled) or bool(
                settings.data and local and (settings.data / local).exists()
            )
            found = is_here or locate(settings.contract(name), **settings.folders)
            available = "yes" if found else "no"
        table.add_row(name, rows_from, available, source.licence)
    for name in settings.text_names():
        try:
            contract = settings.texts(name)
        except DpiclError:
            table.add_row(name, *_REFUSED)
            continue
        try:
            find_texts(contract, **settings.folders)
            available = "yes"
        except DpiclError:
            available = "no"
        edition_of = contract.edition_of
        if edition_of is not None and available == "yes" and edition_of.name != PUBLISHED:
            available = f"slice {edition_of.name}"
        way = (
            "bundled (texts)"
            if contract.source.bundled
            else "file (texts)"
            if edition_of is None
            else "published, file (texts)"
        )
        table.add_row(name, way, available, contract.source.licence)
    console.print(table)
    say(
        *(
            f"{name}: your own contract stands in the place of the shipped one"
            for name in sorted(replaced)
        )
    )
    note(
        "files are looked up below DPICL_DATA; `dpicl data fetch NAME` downloads tables and "
        "published texts; remote sources were not contacted"
    )
