"""`dpicl contract show` and `data list`: contracts and data sets, of tables and of texts."""

from __future__ import annotations

import os

from dpicl.cli.terminal import console, new_table, say
from dpicl.contract import Contract, TextContract
from dpicl.contract.models import CategoryColumn
from dpicl.engine.settings import Settings
from dpicl.errors import DpiclError
from dpicl.files.objects import SCHEME
from dpicl.text.read import find_texts


def contract_line(contract: Contract | TextContract) -> str:
    """A checked contract in a few words."""
    if isinstance(contract, Contract):
        return f"{len(contract.columns)} columns, shots {', '.join(map(str, contract.shots))}"
    labels = f"{len(contract.demonstrated)} labels, " if contract.demonstrated else ""
    return f"texts of at most {contract.max_characters} characters, {labels}{contract.query_count} queries"


def print_contract(contract: Contract | TextContract) -> None:
    """Origin, privacy, and the parts of the contract's kind."""
    privacy, person = contract.privacy, contract.privacy.person
    console.print(f"{contract.name}: {contract.description}", style="bold", soft_wrap=True)
    most = f" (column {person.id_column}, at most {person.max_rows} rows each)" if person else ""
    rate = f"; subsample rate {privacy.sampling_rate}" if isinstance(contract, Contract) else ""
    cap = f"epsilon {privacy.budget.epsilon}, delta {privacy.budget.delta}"
    say(f"source     {contract.source.title}, {contract.source.licence}")
    say(f"unit       one {privacy.unit}{most}, neighbours {privacy.neighbours}{rate}")
    say(f"budget     {'benchmark (public data, no cap)' if privacy.budget.benchmark else cap}")
    if isinstance(contract, TextContract):
        _print_texts(contract)
        return
    say(f"question   {contract.target.question or 'none: nothing is predicted'}")
    table = new_table("column", "type", "public bounds or categories")
    for name, column in contract.columns.items():
        values = ", ".join(column.categories) if isinstance(column, CategoryColumn) else f"{column.bounds[0]:g} to {column.bounds[1]:g}"
        table.add_row(name, column.type, values)
    console.print(table)
    say(
        f"local      {', '.join(f'{attribute.name} ({attribute.part_count})' for attribute in contract.attributes)}, label ({contract.target.count})"
    )
    for shots, keys in sorted(contract.group_keys.items()):
        say(f"{shots} shots    " + " x ".join(key if key == "label" else key.column for key in keys))


def _print_texts(contract: TextContract) -> None:
    asking, words, sizes = contract.prompts.answering, contract.prompts.generation, contract.generation
    say(f"text       {contract.text}, cut to {contract.max_characters} characters")
    answers = f"{contract.task.kind}, {contract.query_count} queries{', calibrated' if contract.calibrate else ''}"
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
        candidates = "the whole vocabulary" if sizes.candidates is None else f"{sizes.candidates} candidates"
        subsets = f"{sizes.subsets} subsets x {sizes.examples} {'example' if sizes.examples == 1 else 'examples'}"
        say(f"sizes      {subsets}, {candidates}, at most {sizes.max_tokens} tokens, delta {sizes.delta}")
    if contract.ensemble is not None:
        say(f"ensembles  {contract.ensemble.subsets} disjoint prompts for each query, delta {contract.ensemble.delta}")


def print_data_sets(settings: Settings) -> None:
    """All data sets and where their rows come from."""
    table = new_table("data set", "rows from", "available", "licence")
    for name in settings.contract_names():
        try:
            source = settings.contract(name).source
        except DpiclError:  # a first contract, perhaps, which is not filled in
            table.add_row(name, "–", "–", "its contract is refused; `dpicl contract check` says why")
            continue
        ways = {way.lower(): way for way in ("bundled", "file", "folder", "query", "OpenML", "UCI")}
        rows_from = ", ".join(way for field, way in ways.items() if getattr(source, field))
        local = source.file or source.folder
        if (local and local.startswith(SCHEME)) or (source.query and os.environ.get(source.query.url_env)):
            available = "remote"  # a store or a database, of which only the address is known
        else:
            is_here = bool(source.bundled) or bool(settings.data and local and (settings.data / local).exists())
            available = "yes" if is_here or any(settings.cache.glob(f"{name}*")) else "no"
        table.add_row(name, rows_from, available, source.licence)
    for name in settings.text_names():
        contract = settings.texts(name)
        try:
            find_texts(contract, data_folder=settings.data)
            available = "yes"
        except DpiclError:
            available = "no"
        table.add_row(name, "bundled (texts)" if contract.source.bundled else "file (texts)", available, contract.source.licence)
    console.print(table)
    say("files are looked up below DPICL_DATA; `dpicl data fetch NAME` downloads tables; remote sources were not contacted")
