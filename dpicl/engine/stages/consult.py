"""Ensembles of DP-ICL: a worker queries the model with private rows, stores the clean votes
encrypted, and draws the answers.

Everything is charged before (`charge`). A lost worker repeats only model calls whose votes are not
stored, and never the noise: all draws of a release come from its own seed.
"""

from __future__ import annotations

from dpicl.engine.artefacts import DRAFTS, write_text_drafts
from dpicl.engine.files import read_json, write_json
from dpicl.engine.journal import FileJournal, KeptVotes, sweep_votes, votes_folder
from dpicl.engine.readers import reader_of
from dpicl.engine.run_folder import UnitFolder, read_plan
from dpicl.engine.stage import unit_stage
from dpicl.engine.stages.charge import charged, progress_writer
from dpicl.lm.embedding import open_embedder
from dpicl.lm.requests import Tallying
from dpicl.methods import dp_icl
from dpicl.methods.dp_icl import Job
from dpicl.methods.ensemble.answers import Public, write_candidates
from dpicl.methods.ensemble.plan import plans


@unit_stage("consult", DRAFTS, "model worker", private=True)
def consult(folder: UnitFolder) -> str:
    """Answer what is charged and missing."""
    missing, contract, settings = charged(folder), folder.texts, folder.settings
    if not missing:
        write_text_drafts(folder, {})
        return f"0 times {contract.query_count} answers"
    train, draws, plan = folder.rows.train(), folder.draws, read_plan(folder.run)
    queries = folder.rows.queries().data.column("text").to_pylist()
    model = reader_of(plan.writing_model, settings, folder.method.answers.wanted_of(contract))
    sweep_votes(settings)
    chosen = {cell: one for cell, one in plans(contract, folder.unit).items() if cell in missing}
    rows = folder.rows.state
    if contract.privacy.budget.benchmark:  # in one place for all epsilons of a run
        places = dict.fromkeys(missing, settings.private("votes", folder.run.name))
    else:  # beside the journals
        places = {cell: votes_folder(settings, name, rows) for cell, name in missing.items()}
    embeds = any(one.shape.embeds for one in chosen.values())
    embedder = open_embedder(plan.embedder) if embeds else None
    job = Job(
        contract,
        chosen,
        draws,
        FileJournal(settings, missing, draws, rows),
        KeptVotes.of(settings, places),
        embedder,
    )
    numbered = list(enumerate(queries))
    try:
        votes = dp_icl.consult(
            train, numbered, model, job, progress_writer([folder], "asking ensembles, query")
        )
    finally:
        if isinstance(model, Tallying) and not contract.privacy.budget.benchmark:
            # a server's count of private prompts: else the next public tally would hold it
            model.tally((), ())
    path = folder.path / "public_candidates.json"
    if not path.exists():
        write_json(path, write_candidates(queries, contract, folder.unit.seed, model))
    drafts = dp_icl.answer(job, votes, numbered, Public(read_json(path), embedder))
    write_text_drafts(folder, drafts)
    return f"{len(drafts)} times {contract.query_count} answers"
