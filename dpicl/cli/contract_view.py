"""What the command line shows of contracts and data sets, of tables and of texts."""

from __future__ import annotations

import os

from rich.console import Console
from rich.table import Table

from dpicl.contract import Contract, Declared, TextContract
from dpicl.contract.models import CategoryColumn
from dpicl.contract.sources import Source
from dpicl.contract.text import Generation, GenerationPrompt
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


def contract_table(contract: Contract | TextContract, console: Console) -> None:
    """What a contract says: origin, privacy, and the parts of its kind."""
    _print_declared(contract, console)
    if isinstance(contract, Contract):
        _print_table(contract, console)
    else:
        _print_texts(contract, console)


def data_table(settings: Settings, console: Console) -> None:
    """All data sets and where their rows would come from."""
    table = Table("data set", "rows from", "at hand", "licence", box=None, header_style="bold")
    for name in settings.contract_names():
        try:
            source = settings.contract(name).source
        except DpiclError:  # a first contract, perhaps, which is not filled in
            table.add_row(name, "–", "–", "its contract is refused; `dpicl contract check` says why")
            continue
        ways = {
            "bundled": source.bundled,
            "file": source.file,
            "folder": source.folder,
            "query": source.query,
            "OpenML": source.openml,
            "UCI": source.uci,
        }
        table.add_row(name, ", ".join(way for way, value in ways.items() if value), _rows_at_hand(name, source, settings), source.licence)
    for name in settings.text_names():
        contract = settings.texts(name)
        way = "bundled (texts)" if contract.source.bundled else "file (texts)"
        table.add_row(name, way, "yes" if _at_hand(contract, settings) else "no", contract.source.licence)
    console.print(table)
    told = "files are looked up below DPICL_DATA; `dpicl data fetch NAME` downloads tables; what is remote was not asked for"
    console.print(told, highlight=False)


def _rows_at_hand(name: str, source: Source, settings: Settings) -> str:
    """Whether a table's rows are on this machine; `remote` of a store or a database, of which only the address is known."""
    local = source.file or source.folder
    if local and local.startswith(SCHEME):
        return "remote"
    if source.query and os.environ.get(source.query.url_env):
        return "remote"
    found = bool(source.bundled) or bool(settings.data and local and (settings.data / local).exists())
    return "yes" if found or any(settings.cache.glob(f"{name}*")) else "no"


def _at_hand(contract: TextContract, settings: Settings) -> bool:
    try:
        find_texts(contract, data_folder=settings.data)
    except DpiclError:
        return False
    return True


def _print_declared(contract: Declared, console: Console) -> None:
    privacy = contract.privacy
    budget = (
        "benchmark (public data, nothing at stake)"
        if privacy.budget.benchmark
        else f"epsilon {privacy.budget.epsilon}, delta {privacy.budget.delta}"
    )
    console.print(f"{contract.name}: {contract.description}", style="bold", highlight=False)
    console.print(f"source     {contract.source.title}, {contract.source.licence}", highlight=False)
    most = f" (column {privacy.person.id_column}, at most {privacy.person.max_rows} rows each)" if privacy.person else ""
    rate = f"; subsample rate {privacy.sampling_rate}" if isinstance(contract, Contract) else ""
    console.print(f"unit       one {privacy.unit}{most}, neighbours {privacy.neighbours}{rate}", highlight=False)
    console.print(f"budget     {budget}", highlight=False)


def _print_table(contract: Contract, console: Console) -> None:
    console.print(f"question   {contract.label.question}", highlight=False)
    table = Table("column", "type", "public bounds or categories", box=None, header_style="bold")
    for name, column in contract.columns.items():
        values = ", ".join(column.categories) if isinstance(column, CategoryColumn) else f"{column.bounds[0]:g} to {column.bounds[1]:g}"
        table.add_row(name, column.type, values)
    console.print(table)
    local = ", ".join(f"{attribute.name} ({attribute.part_count})" for attribute in contract.local)
    console.print(f"local      {local}, label (2)", highlight=False)
    for shots, keys in sorted(contract.groups.items()):
        console.print(f"{shots} shots    " + " x ".join(key if key == "label" else key.column for key in keys), highlight=False)


def _print_texts(contract: TextContract, console: Console) -> None:
    words = contract.prompts.answering
    console.print(f"text       {contract.text}, cut to {contract.max_characters} characters", highlight=False)
    answers = f"{contract.task.kind}, {contract.query_count} queries{', calibrated' if contract.calibrate else ''}"
    console.print(f"task       {answers}; {words.text}: ... {words.answer}: ...", highlight=False)
    if contract.is_classification:
        table = Table("label", "in prompts", "at least this many rows", box=None, header_style="bold")
        for label, rows in contract.row_bounds.items():
            table.add_row(label, contract.label_text(label), str(rows))
        console.print(table)
    else:
        console.print(f"rows       at least {contract.row_bounds['']} with an answer", highlight=False)
    if contract.generation is not None and contract.prompts.generation is not None:
        _print_generation(contract, contract.generation, contract.prompts.generation, console)
    if contract.ensemble is not None:
        sizes = contract.ensemble
        console.print(f"ensembles  {sizes.subsets} disjoint prompts for each query, delta {sizes.delta}", highlight=False)


def _print_generation(contract: TextContract, sizes: Generation, words: GenerationPrompt, console: Console) -> None:
    if not contract.is_classification:
        console.print(f"written    {', '.join(contract.demonstrated)}", highlight=False)
    console.print(f"prompt     {words.instruction}", highlight=False, soft_wrap=True)
    candidates = "the whole vocabulary" if sizes.candidates is None else f"{sizes.candidates} candidates"
    drawn = f"{sizes.subsets} subsets x {sizes.examples} {'example' if sizes.examples == 1 else 'examples'}"
    console.print(f"sizes      {drawn}, {candidates}, at most {sizes.max_tokens} tokens, delta {sizes.delta}", highlight=False)
