"""What a report begins with: the answer in a few sentences, a picture, what models read and said,
and what it cost; and a run in a few lines for a terminal, and on one page.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import pandas as pd

from dpicl.contract.payment import NOBODY_PAYS
from dpicl.quality.worth import EXACT, LESS
from dpicl.report import words
from dpicl.report.answer import answer, answerers, signs, suits
from dpicl.report.answers import constant_answers, constants_in_short, one_answer
from dpicl.report.blocks import (
    Banner,
    Block,
    Bullets,
    Code,
    Figure,
    FoldedBlock,
    Heading,
    Paragraph,
    Report,
    TableBlock,
    TableCell,
)
from dpicl.report.cells import FirstAnswers
from dpicl.report.decision import (
    BESIDE,
    IN_CONTEXT,
    MOST,
    better_from,
    decision,
    fitted,
    found,
    gains_of,
    intervals,
    leading,
    on_rows,
    promised,
)
from dpicl.report.figures import Figures
from dpicl.report.load import Manifest, Run, demonstration_files
from dpicl.report.sentences import asked, formed, sentences_of, smaller, titled
from dpicl.report.tables import WITHOUT_PRIVATE, main_metrics, of_part, parts
from dpicl.report.truth import truth_blocks, truth_sentence


def lead(run: Run, gains: pd.DataFrame) -> str:
    """The answer: what a release achieves beside the truth, who does better with it; else how good
    what was released is.
    """
    if achieved := truth_sentence(run):
        alike = one_answer(run.labelled, run.manifest.model_name)
        return " ".join(filter(None, (achieved, answer(run, gains), alike)))
    if sentence := answer(run, gains) or next(iter(found(run, gains)), ""):
        return sentence
    for unit in run.worth:
        for released in unit.cells.values():
            told = next(iter(released.told), "")
            what = f"hat {words.method_name(unit.method)} releases of {unit.dataset}"
            if told.startswith(EXACT):
                return f"W{what} is {told}; no model was queried."
            if told.startswith(LESS):
                return f"In w{what} {told}; no model was queried."
    left = "it states what privacy costs, not what accuracy it leaves"
    if run.worth:
        left = "what was released, and what it is worth, stands below"
    elif files := demonstration_files(run.demonstrations):
        left = f"it released demonstrations, {files}, and did not measure how good they are"
    return "" if len(run.results) else f"No model was queried in this run: {left}."


def first_screen(run: Run, gains: pd.DataFrame, figures: Figures) -> Iterator[Block]:
    """The first blocks of a report: what its answer may not be read as, then what it is seen by."""
    model = run.manifest.model if run.is_model_used else None
    if model and not model.trained:
        yield Banner(
            "Random weights.",
            "The accuracies of in-context answers mean nothing; they show that the pipeline works.",
        )
    if truth := list(truth_blocks(run)):
        yield from truth
        yield Heading("What models make of it")
    constants = [*constant_answers(run.labelled)]
    if constants:
        told = constants_in_short(constants, run.manifest.model_name)
        only = "Their accuracy says how frequent that answer is among the queries, and no more."
        yield Banner("One answer to everything.", f"{told}. {only}")
    if len(constants) > 1:
        yield FoldedBlock(
            "Which answer, and how often", (Bullets(tuple(each.sentence for each in constants)),)
        )
    if figures.gain.svg:
        if figures.is_side_by_side:
            below = (
                "A stroke is what does best without private data, of the majority label and the "
                "model without demonstrations. A bar, drawn at the point, is "
                f"{intervals(run, ' of the difference to the stroke')}."
            )
        else:
            below = (
                "The line is what does best without private data: the majority label, or the "
                "model without demonstrations. Below the line, using no private data does better. "
                f"A bar is {intervals(run)}."
            )
        yield Figure(
            "What the private data add",
            figures.gain.svg,
            below,
            figures.gain.narrow,
        )
    if model and model.trained and model.note:
        yield Banner("Not a general model.", f"{model.name} is {model.note}.")
    if run.first:
        yield from _read_and_said(run.first, run.manifest.model_name)
    if len(run.results):
        yield Bullets(tuple(f"{line.rstrip('.')}." for line in cost(run)))


def _read_and_said(first: FirstAnswers, main: str) -> Iterator[Block]:
    yield Paragraph(
        f"The first query of each true answer, with {first.shots} demonstrations that "
        f"{words.method_name(first.method)} released at ε = "
        f"{words.epsilon(first.epsilon)} and without any, as models read them:"
    )
    if first.demonstrations:
        yield FoldedBlock(
            f"The {first.shots} released demonstrations before every query",
            (Code(first.demonstrations),),
        )
    for query in first.queries:
        yield Code(query.text)
        heads = TableCell.of_text("asked", "alone", "with them", "truth")
        rows = (
            (model or main, bare, shown, query.truth)
            for model, (bare, shown) in query.answers.items()
        )
        yield TableBlock.of("Answers", heads, rows)


def cost(run: Run) -> Iterator[str]:
    """What a run promised, was charged and took, as sentences without an end."""
    yield from promised(run.manifest)
    yield from paid(run.manifest)
    if len(run.timings):
        yield f"took {time_of(run, float(run.timings['seconds'].sum()))}"


def time_of(run: Run, seconds: float) -> str:
    """So long, and which stages that is: how long private rows take would tell how many there
    are.
    """
    if run.manifest.simulated:
        return f"{words.duration(seconds)} (work of all stages)"
    untimed = "the stages that read private rows, which are not timed"
    return f"{words.duration(seconds)} beside {untimed}"


def paid(manifest: Manifest) -> list[str]:
    """What a run was charged, and what is spent in all."""
    return [NOBODY_PAYS] if manifest.simulated else manifest.budget


def first_lines(run: Run, gains: pd.DataFrame) -> Iterator[str]:
    """The same, but for what it cost, as lines of a terminal."""
    yield from filter(None, (truth_sentence(run), answer(run, gains)))
    yield from _constants(run)
    few = answerers(run, gains)
    if suits(few, run.manifest.grid.epsilons):
        yield from signs(few)
    if run.first:
        for query in run.first.queries:
            said = (
                f"{model or run.manifest.model_name} {shown}, without demonstrations {bare}"
                for model, (bare, shown) in query.answers.items()
            )
            yield f"“{query.text}” {'; '.join(said)}; the truth is {query.truth}"


def _constants(run: Run) -> list[str]:
    """That models answer alike whatever they are asked, in one sentence, if they do."""
    told = constants_in_short([*constant_answers(run.labelled)], run.manifest.model_name)
    return [told] * bool(told)


def story(run: Run) -> list[str]:
    """Sentences, in the order in which somebody asks; of released and public facts only."""
    metrics = main_metrics(run.results)
    every = gains_of(run)
    gains = leading(every)
    came = [
        _came(part, metrics[part.index[0]], of_part(gains, part), run.manifest.grid.draws)
        for part in parts(run.results)
    ]
    more = [f"and {len(came) - MOST} more in the report"] if len(came) > MOST else []
    before, after = _facts(run)
    return [
        *first_lines(run, every),
        *before,
        *came[:MOST],
        *more,
        *formed(run.forms),
        *after,
        *asked(run.manifest),
        *cost(run),
    ]


def overview(run: Run, about: str) -> Report:
    """The same on one page, with what private data add in a table; `about` says which run it is."""
    before, after = _facts(run)
    facts = (
        *_constants(run),
        *before,
        *promised(run.manifest),
        *paid(run.manifest),
        *after,
    )
    blocks = (Bullets(facts), *decision(run, gains_of(run)))
    return Report(titled(run.manifest.grid.datasets, run.manifest.title), about, blocks, ())


def _facts(run: Run) -> tuple[list[str], list[str]]:
    """What must be known before any number is read, and what after it."""
    has_answers = len(run.results) > 0
    model = run.manifest.model
    is_random = has_answers and model is not None and not model.trained
    return (
        [*smaller(run.manifest), *sentences_of(run.manifest.reports, with_answers=has_answers)],
        ["the model has random weights: what it answers means nothing"] * is_random,
    )


def _came(part: pd.DataFrame, metric: str, gains: pd.DataFrame, draws: int) -> str:
    """One method on one data set: means over seeds by epsilon at the most shots, with all draws
    averaged where there are several, beside classifiers and what needs no private data.
    """
    single, averaged = (_with_most_shots(part, system) for system in IN_CONTEXT)
    is_averaged = bool(_by_epsilon(averaged, metric))
    system, most = (IN_CONTEXT[1], averaged) if is_averaged else (IN_CONTEXT[0], single)
    means = most[most["epsilon"].notna()].groupby("epsilon")[metric].mean()
    private = ", ".join(_by_epsilon(most, metric)) or "not measured"
    asked_rows = on_rows(float(most["query_count"].mean()))
    beside = {
        "without privacy": means.get(math.inf, math.nan),
        **{
            f"by {without}": part.loc[part["system"] == system, metric].mean()
            for system, without in WITHOUT_PRIVATE.items()
        },
    }
    shown = [
        f"{words.number(mean)} {name}" for name, mean in beside.items() if not math.isnan(mean)
    ]
    if shown:
        least = better_from(gains[gains["system"] == system])
        shown.append(
            "at no ε better than that by more than noise"
            if math.isnan(least)
            else f"better by more than noise from ε = {words.epsilon(least)} on"
        )
    about = f"{words.method_name(part['method'].iloc[0])} on {part['dataset'].iloc[0]}"
    if is_averaged:
        private = f"{words.averaged(draws)} {private}"
        shown.append(f"of the first draw alone {', '.join(_by_epsilon(single, metric))}")
    return (
        f"{about}: {words.MEASURES[metric]}{asked_rows} "
        f"{'; '.join([private, *shown, *_beside(part, metric)])}"
    )


def _beside(part: pd.DataFrame, metric: str) -> Iterator[str]:
    """Classifiers, on all released rows or on what the method's baselines read."""
    for system in BESIDE:
        own = part[part["system"] == system]
        if private := _by_epsilon(own, metric):
            asked_rows = on_rows(float(own["query_count"].mean()))
            yield f"{fitted(part['method'].iloc[0], system)}{asked_rows} {', '.join(private)}"


def _with_most_shots(part: pd.DataFrame, system: str) -> pd.DataFrame:
    own = part[part["system"] == system]
    return own[own["shots"] == own["shots"].max()] if own["shots"].notna().any() else own


def _by_epsilon(rows: pd.DataFrame, metric: str) -> list[str]:
    """Means over seeds; nothing without privacy."""
    means = rows[rows["epsilon"] < math.inf].groupby("epsilon")[metric].mean().dropna()
    return [
        f"{words.number(mean)} at ε = {words.epsilon(epsilon)}"
        for epsilon, mean in zip(map(float, means.index), means, strict=True)
    ]
