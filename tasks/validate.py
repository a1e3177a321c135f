"""Stages `validate` and `prepare` with Great Expectations: our rules decide, it must not say
otherwise; a user's own expectations hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from dpicl.contract import Contract, TextContract
from dpicl.engine.batches import Batches, check_open
from dpicl.engine.files import PRIVATE_MODE, read_json, write_json, write_text
from dpicl.engine.run_folder import rows_of
from dpicl.engine.settings import Settings
from dpicl.engine.stage import stage
from dpicl.engine.stages import ingest
from dpicl.engine.stages import validate as stages
from dpicl.engine.verdicts import Verdicts
from dpicl.errors import DataError, DeclarationError, RunError
from dpicl.holder import tell_holder
from tasks.evaluation import Verdict, evaluate, implementation, is_row_by_row, page
from tasks.expectations import FOLDER, Expectation, checked_suite, own_expectations


@stage("validate")
def check_and_evaluate(run: str, dataset: str) -> str:
    """Check the rules, then evaluate them by Great Expectations."""
    counts = stages.write_verdicts(run, dataset)
    check_expectations(Path(run), dataset)
    return counts


def check_expectations(run: Path, dataset: str) -> None:
    """Evaluate the contract's suite and the user's own; write what holds, as Data Docs and as JSON,
    among the run's verdicts.

    Of a table in batches every batch is evaluated alone: expectations about single rows, others are
    left to our own rules.

    Raises:
        DeclarationError: a suite is out of date, or one of the user's expectations is none that
            could be evaluated.
        DataError: one of the user's expectations that are critical does not hold; names it and the
            column.
        RunError: Great Expectations says of a rule what our own check does not.
    """
    settings = Settings.current()
    private = rows_of(str(run), dataset)
    contract, batches = settings.declared(dataset), private.batches
    rules, own = _suites(contract, settings, in_batches=batches is not None)
    written = Verdicts.of(run, contract, settings)
    ours = [row["holds"] for row in written.rules(dataset) or ()]
    if batches is None:
        verdicts = evaluate(private.whole(), (*rules, *own), contract)
    else:
        ours = [held for held, one in zip(ours, rules, strict=True) if is_row_by_row(one)]
        rules = tuple(one for one in rules if is_row_by_row(one))
        verdicts = _all_hold(
            batch_verdicts(batches, number, (*rules, *own)) for number in range(batches.count)
        )
    evaluated = (*rules, *own)
    shown = [
        {**one.model_dump(by_alias=True), "own": number >= len(rules), "holds": verdicts[number]}
        for number, one in enumerate(evaluated)
    ]
    written.write(f"{FOLDER}/{dataset}.json", shown)
    write_text(
        written.folder / FOLDER / f"{dataset}.html",
        page(dataset, run.name, evaluated, verdicts),
        mode=written.mode,
        replace=True,
    )
    for one, held, verdict in zip(rules, ours, verdicts, strict=False):
        # of a batch, rows that are held out from all may be gone
        if verdict != held and (batches is None or held):
            raise RunError(
                f"validate {dataset}: Great Expectations and our own check disagree on "
                f"{one.type}, column {one.column!r}"
            )
    for one, verdict in zip(own, verdicts[len(rules) :], strict=True):
        if not verdict and one.severity == "critical":
            rule = "breaks" if verdict is False else "cannot be evaluated by"
            raise DataError(dataset, f"{rule} your own {one.type}", column=one.column)
        if not verdict:
            tell_holder(
                f"{dataset}: your own {one.type}{f' of {one.column}' * bool(one.column)} does not "
                f"hold, and only warns"
            )


def _suites(
    contract: Contract | TextContract, settings: Settings, *, in_batches: bool
) -> tuple[tuple[Expectation, ...], ...]:
    """The contract's and the user's own, which are checked."""
    rules, own = checked_suite(contract, settings), own_expectations(contract.name, settings)
    for number, one in enumerate(own):
        file, key = f"{FOLDER}/{contract.name}.own.json", f"expectations.{number}"
        if implementation(one) is None:
            raise DeclarationError(
                file,
                key,
                f"Great Expectations has no {one.type} with such kwargs",
                "one of its gallery",
            )
        if in_batches and not is_row_by_row(one):
            raise DeclarationError(
                file,
                key,
                f"{one.type} needs all rows at once",
                "one about single rows: the table is read in batches",
            )
    return rules, own


@stage("prepare")
def prepare_and_evaluate(run: str, dataset: str, part: int, parts: int) -> str:
    """Prepare a piece of work, and evaluate its batches by Great Expectations."""
    counts = ingest.prepare_part(run, dataset, part, parts)
    settings = Settings.current()
    batches = rows_of(run, dataset).batches
    assert batches is not None
    rules, own = _suites(batches.contract, settings, in_batches=True)
    wanted = (*filter(is_row_by_row, rules), *own)
    for number in batches.numbers(part, parts):
        batch_verdicts(batches, number, wanted)
    return counts


def _all_hold(parts: Iterable[list[Verdict]]) -> list[Verdict]:
    return [None if None in one else all(one) for one in zip(*parts, strict=True)]


def batch_verdicts(
    batches: Batches, number: int, expectations: Sequence[Expectation]
) -> list[Verdict]:
    """Of one batch and expectations about single rows; evaluated once, and kept among its private
    files.
    """
    file, wanted = (
        batches.place / f"expectations-{number:05}.json",
        [one.model_dump(by_alias=True) for one in expectations],
    )
    stored = read_json(file) if file.exists() else {}
    if stored.get("expectations") != wanted:
        tables = [
            table for table in (batches.train(number).data, batches.test(number)) if table.num_rows
        ]
        stored = {
            "expectations": wanted,
            "holds": _all_hold(evaluate(table, expectations, batches.contract) for table in tables),
        }
        check_open(batches.place)
        write_json(file, stored, mode=PRIVATE_MODE, replace=True)
    verdicts: list[Verdict] = stored["holds"]
    return verdicts
