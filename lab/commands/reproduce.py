"""`dpicl reproduce`: the tables of a paper, run one after another, and a page with a verdict on
each printed number.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpicl.cli import options
from dpicl.cli.options import MANY
from dpicl.cli.terminal import console, new_table, note, say, split_values, stoppable, typed_values
from dpicl.ground.errors import DpiclError, ParameterError
from dpicl.home.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpicl.release.pipelines import Pipeline
    from dpicl.runs.run_folder import Plan
    from lab.published.cells import Paper

LEFT_OUT = "the data set was not chosen"
WORDS_A_ROW, TIMED = 30, 8
"""For an estimate of time: words of one demonstration, and prompts that are timed."""


@dataclass(frozen=True)
class Part:
    """One run of a campaign: its pipeline and model, its name, and what changes the pipeline."""

    pipeline: str
    model: str
    run_id: str
    changes: dict[str, Any]


@stoppable
def reproduce(
    paper: Annotated[
        str, typer.Argument(metavar="dp-tabicl|dp-few-shot|dp-icl", help="Whose tables.")
    ],
    tables: Annotated[
        str | None, typer.Argument(help=f"Tables as the paper numbers them, {MANY}. Default: all.")
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            help=f"Models, {MANY}; two are compared as in Table IV of DP-TabICL. `tiny` has random "
            "weights: what it answers means nothing. Some tables ask no model.",
            autocompletion=options.models,
        ),
    ] = "tiny",
    datasets: Annotated[
        str | None,
        typer.Option(help=f"Data sets, {MANY}. Default: the paper's, as far as they are here."),
    ] = None,
    epsilons: Annotated[
        str | None, typer.Option(help=f"Privacy parameters, {MANY}. Default: the paper's.")
    ] = None,
    shots: Annotated[
        str | None, typer.Option(help=f"Numbers of demonstrations, {MANY}. Default: the paper's.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help=f"Seeds, {MANY}. Default: the pipeline's.")
    ] = None,
    queries: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of queries in each cell.")
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Maximum number of tokens of each text that a model writes; the paper's are "
            "longer.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the campaign, which its runs begin with. Default: the paper's."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of worker processes on this machine. Default: one per core."
        ),
    ] = None,
    executor: Annotated[
        str,
        typer.Option(
            help="`pool`: worker processes alone; `prefect`: on the server and the Dask cluster "
            "that are named."
        ),
    ] = "pool",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only check what is here, and estimate the time.")
    ] = False,
) -> None:
    """Run a paper's tables, and put each printed number beside ours. The same command again goes on
    where it was stopped.
    """
    from lab.published.cells import papers

    known = papers()
    if paper not in known:
        raise ParameterError("paper", paper, f"one of {', '.join(known)}")
    chosen = _chosen(known[paper], tables)
    lists = {"datasets": datasets, "epsilons": epsilons, "shots": shots, "seeds": seeds}
    changes: dict[str, Any] = {
        key: typed_values(text) for key, text in lists.items() if text is not None
    }
    changes |= {} if queries is None else {"queries": queries}
    with Settings.from_environment().entered():
        campaign = Campaign(
            known[paper], chosen, name or paper, split_values(model), changes, tokens
        )
        campaign.look()
        if not dry_run:
            page = campaign.run(workers, executor)
            say(f"page: {page}")


def _chosen(paper: Paper, tables: str | None) -> list[str]:
    there = [table.name for table in paper.tables]
    chosen = there if tables is None else split_values(tables)
    if not chosen or any(one not in there for one in chosen):
        raise ParameterError(
            "tables",
            next((one for one in chosen if one not in there), ""),
            f"tables of {paper.name}: {', '.join(there)}",
        )
    return chosen


class Campaign:
    """The runs that some tables of a paper need."""

    def __init__(
        self,
        paper: Paper,
        tables: list[str],
        name: str,
        models: list[str],
        changes: dict[str, Any],
        tokens: int | None = None,
    ) -> None:
        from lab.published.cells import ALL_SETS

        if not models:
            raise ParameterError("model", "", "the name of a model, or several")
        self.paper, self.tables, self.name, self.models = (
            paper,
            tables,
            name,
            list(dict.fromkeys(models)),
        )
        self._tokens = tokens
        self.missing: dict[str, str] = {}
        self.stand_ins: dict[str, str] = {}
        wanted = [table for table in paper.tables if table.name in tables]
        pipelines = dict.fromkeys(table.pipeline for table in wanted if table.pipeline)
        if "IV" in tables:  # which compares the runs of two others
            pipelines |= dict.fromkeys(
                table.pipeline
                for table in paper.tables
                if table.pipeline and table.name in ("II", "III")
            )
        known = {*Settings.current().contract_names(), *Settings.current().text_names()}
        self._printed = {cell.dataset for table in wanted for cell in table.cells}
        of_paper = {cell.dataset for table in paper.tables for cell in table.cells} - {ALL_SETS}
        if unknown := [one for one in changes.get("datasets", ()) if one not in of_paper]:
            raise ParameterError(
                "datasets", unknown[0], f"data sets of {paper.name}: {', '.join(sorted(of_paper))}"
            )
        self.missing |= dict.fromkeys(
            self._printed - known - {ALL_SETS}, "there is no contract of this name"
        )
        self.parts = [
            part
            for model in self.models
            for pipeline in pipelines
            if (part := self._part(str(pipeline), model, changes)) is not None
        ]

    def _part(self, pipeline: str, model: str, changes: dict[str, Any]) -> Part | None:
        """A run on the data sets that the tables print and that are here; None where none is. One
        that has begun stays as it was planned.
        """
        from dpicl.release.pipelines import declared_pipelines, find_pipeline
        from dpicl.runs.run_folder import read_plan, run_folder
        from lab.published.cells import ALL_SETS, STAND_INS

        settings = Settings.current()
        slug = "".join(letter if letter.isalnum() else "-" for letter in model)[-30:].strip("-")
        mark = "" if slug == model else "-" + hashlib.sha256(model.encode()).hexdigest()[:6]
        run_id = f"{self.name}-{pipeline}-{slug}{mark}"
        folder = run_folder(settings, run_id)
        usual = find_pipeline(declared_pipelines(settings), pipeline)
        sets = (
            *usual.datasets,
            *(name for name, stand_in in STAND_INS.items() if stand_in in usual.datasets),
        )
        printed = [name for name in sets if name in self._printed or ALL_SETS in self._printed]
        begun = read_plan(folder).pipeline.datasets if (folder / "plan.json").exists() else None
        here = [
            name
            for dataset in printed
            if (name := self._run_as(dataset, changes.get("datasets", printed), begun, run_id))
        ]
        if not here:
            self.missing[pipeline] = "none of its data sets is here"
            return None
        shorter = {} if self._tokens is None else {"options": _shorter(usual, here, self._tokens)}
        return Part(
            pipeline, model, run_id, {**changes, **shorter, "datasets": here, "model": model}
        )

    def _run_as(
        self, dataset: str, chosen: Sequence[str], begun: Sequence[str] | None, run_id: str
    ) -> str:
        """The data set itself, or what stands in where it is not here; empty where neither can be
        run.
        """
        from lab.published.cells import STAND_INS

        if dataset not in chosen:
            self.missing[dataset] = LEFT_OUT
            return ""
        why, stand_in = _not_here(dataset, begun, run_id), STAND_INS.get(dataset)
        if why and stand_in is not None and not _not_here(stand_in, begun, run_id):
            note(f"{dataset}: {stand_in} stands in, because {why}")
            self.stand_ins[dataset] = stand_in
            return stand_in
        if why:
            self.missing[dataset] = why
        return "" if why else dataset

    def look(self) -> None:
        """Say what will be run, what is missing, and about how long it takes."""
        for what, why in sorted(self.missing.items()):
            if why != LEFT_OUT:
                note(f"{what}: not run, because {why}")
        table = new_table("run", "data sets", "prompts", "about")
        rates: dict[str, float] = {}
        from dpicl.report.words import duration
        from dpicl.runs.run_folder import run_folder

        for part in self.parts:
            plan = _plan(part)
            if (run_folder(Settings.current(), part.run_id) / "manifest.json").exists():
                table.add_row(part.run_id, ", ".join(plan.pipeline.datasets), "0", "done")
                continue
            if part.model not in rates:
                rates[part.model] = _seconds_of_a_prompt(plan)
            prompts = _prompts(plan)
            table.add_row(
                part.run_id,
                ", ".join(plan.pipeline.datasets),
                f"{prompts:,}",
                duration(prompts * rates[part.model]),
            )
        if self.parts:
            console.print(table)
            note(
                "times are of asking the answering model, by prompts of this length that were "
                "just timed; generating texts comes on top"
            )
        if self.parts and "tiny" in self.models:
            note("tiny has random weights: what it answers means nothing; other models take longer")

    def run(self, workers: int | None, executor: str) -> Path:
        """Do what is not done yet, and write the page."""
        from dpicl.cli.executors import executor_named
        from dpicl.cli.planned_run import do_run
        from dpicl.runs.run_folder import check_stored, run_folder

        execute, settings = executor_named(executor), Settings.current()
        for part in self.parts:
            folder = run_folder(settings, part.run_id)
            try:
                check_stored(folder, _plan(part))
                if (folder / "manifest.json").exists():
                    continue
                do_run(
                    part.pipeline,
                    part.changes,
                    part.run_id,
                    execute,
                    resume=(folder / "plan.json").exists(),
                    workers=workers,
                    period=None,
                )
            except DpiclError as error:  # the other tables go on
                self.missing[f"{part.pipeline} {part.model}"] = str(error)
                note(f"{part.run_id}: {error.details()}")
        return self._write()

    def _write(self) -> Path:
        from dpicl.ground.files import write_text
        from dpicl.report.blocks import to_html, to_markdown
        from dpicl.runs.run_folder import run_folder
        from lab.compare import side_of
        from lab.reproduce import Made
        from lab.reproduce.page import page_of, summary, verdicts_of

        settings = Settings.current()
        folders = {
            (part.pipeline, part.model): run_folder(settings, part.run_id) for part in self.parts
        }
        runs = {
            which: side_of(folder)
            for which, folder in folders.items()
            if (folder / "plan.json").exists()
        }
        contracts = {
            name: settings.declared(name)
            for side in runs.values()
            for name in side.plan.pipeline.datasets
        }
        made = Made(runs, tuple(self.models), self.missing, contracts, self.stand_ins)
        found = verdicts_of(self.paper, self.tables, made)
        page = page_of(self.paper, found, made)
        settings.make_runs()
        pages = {
            self._page(ending): render(page)
            for ending, render in (("md", to_markdown), ("html", to_html))
        }
        for path, text in pages.items():
            if path.exists() and path.read_text(encoding="utf-8") != text:
                note(f"{path.name} of an earlier command is replaced; another --name keeps both")
            write_text(path, text, replace=True)
        say(summary(found))
        return self._page("html")

    def _page(self, ending: str) -> Path:
        """Named for the tables that are on it; a whole paper's has the campaign's name alone."""
        chosen = [table.name for table in self.paper.tables if table.name in self.tables]
        parts = chosen if len(chosen) < len(self.paper.tables) else []
        return Settings.current().runs / f"{'-'.join([self.name, *parts])}.{ending}"


def _shorter(pipeline: Pipeline, datasets: Sequence[str], tokens: int) -> dict[str, Any]:
    """A pipeline's options with texts of at most so many tokens, of every variant. Raises
    ParameterError: it writes none, or none so long.
    """
    from dpicl.contract import TextContract
    from dpicl.methods.few_shot_generation import FewShotGeneration

    writes = FewShotGeneration.name
    contracts = [
        contract
        for name in datasets
        if isinstance(contract := Settings.current().declared(name), TextContract)
    ]
    lengths = {
        contract.name: contract.generation.max_tokens
        for contract in contracts
        if contract.generation
    }
    if writes not in pipeline.methods or not lengths:
        raise ParameterError("tokens", tokens, "none: a model writes no texts in these tables")
    shortest = min(lengths, key=lambda name: lengths[name])
    if tokens > lengths[shortest]:
        raise ParameterError(
            "tokens", tokens, f"at most {lengths[shortest]}, the length of texts of {shortest}"
        )
    chosen, length = getattr(pipeline.options, writes), {"max_tokens": tokens}
    variants = {
        name: variant.model_copy(update=length) for name, variant in chosen.variants.items()
    }
    shorter = chosen.model_copy(update={**length, "variants": variants})
    options: dict[str, Any] = pipeline.options.model_copy(update={writes: shorter}).model_dump()
    return options


def _not_here(dataset: str, begun: Sequence[str] | None, run_id: str) -> str:
    """Why a run lacks a data set; empty where it has it, or can."""
    if begun is not None and dataset not in begun:
        return f"run {run_id} began without it; choose another --name to run it"
    return _absent(dataset, Settings.current())


def _absent(dataset: str, settings: Settings) -> str:
    """Why a data set cannot be read here; empty where it can."""
    from dpicl.contract import Contract
    from dpicl.data.reading.source import find_rows
    from dpicl.data.text_files import find_texts

    contract = settings.declared(dataset)
    if not contract.privacy.budget.benchmark:
        return (
            "its contract here is your own, with a budget, and a paper's tables are for public data"
        )
    try:
        if isinstance(contract, Contract):
            find_rows(contract, data_folder=settings.data, cache_folder=settings.cache)
        else:
            find_texts(contract, data_folder=settings.data, cache_folder=settings.cache)
    except DpiclError as error:
        return str(error)
    return ""


def _plan(part: Part) -> Plan:
    from dpicl.runs.plan import plan_for

    return plan_for(part.pipeline, part.changes, Settings.current(), part.run_id)


def _prompts(plan: Plan) -> int:
    """How many times the answering model is asked."""
    from dpicl.contract import TextContract

    count = 0
    for unit in plan.units.values():
        contract = Settings.current().declared(unit.dataset)
        asked = (
            contract.query_count
            if isinstance(contract, TextContract)
            else plan.pipeline.queries or 1000
        )
        count += (1 + len(unit.evaluated_cells)) * min(asked, plan.pipeline.queries or asked)
    return count


def _seconds_of_a_prompt(plan: Plan) -> float:
    """Timed on made-up prompts of about the length that demonstrations have."""
    from dpicl.models.opening import open_scorer
    from dpicl.release.readers import public_corpus

    scorer = open_scorer(
        plan.model, models_folder=Settings.current().models, corpus=public_corpus()
    )
    shots = sum(plan.pipeline.shots) / len(plan.pipeline.shots)
    words = " word" * int(WORDS_A_ROW * (1 + shots))
    scorer.score([f"0{words}"], [" Yes", " No"])
    began = time.perf_counter()
    scorer.score([f"{number}{words}" for number in range(1, TIMED + 1)], [" Yes", " No"])
    return (time.perf_counter() - began) / TIMED
