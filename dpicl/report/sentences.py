"""Sentences of a report: what was run, how its answers came about, and how to read its metrics; on
clients' reports how many of each kind there were, what clients are promised, and what randomised
response leaves; and how many released texts have the form that their contract states.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import pandas as pd

from dpicl.contract.periods import ONCE
from dpicl.data.text_files import FORM_WORDS, Formed
from dpicl.ground.nouns import many
from dpicl.methods import METHODS
from dpicl.models.kinds import kind_named
from dpicl.report import words
from dpicl.report.blocks import Block, Heading, Paragraph, TableBlock
from dpicl.report.cells import is_released, place_of
from dpicl.report.load import Energy, Forms, Manifest, Model
from dpicl.report.tables import of_numbers, of_texts
from dpicl.runs.client_reports import Counted

ANSWERS = {
    "scored": "by the log-probability of every label",
    "one-label": "by that of one label, the other at its upper bound",
    "parsed": "by the text",
    "generated": "as the text that the model wrote",
    "empty": "empty because the model wrote nothing",
    "no-label": "fixed because no label was listed",
    "unparsed": "fixed because the text starts with no label",
    "filtered": "fixed because of a content filter",
    "refused": "fixed because the model refused",
    "rejected": "fixed because the server rejected the prompt",
}
"""How a served model's answers come about; a fixed answer is that of a tie, or an empty text."""


def answers(counts: Mapping[str, float]) -> str:
    """`980 answers by …, 20 fixed because …; 1,010 calls, 10 repeated, …`; empty without counts."""
    if not counts:
        return ""
    ways = [f"{counts[name]:,.0f} {how}" for name, how in ANSWERS.items() if counts.get(name)]
    calls, repeated, lost = (
        counts.get(name, 0) for name in ("calls", "repeated_calls", "lost_answers")
    )
    tokens = counts.get("prompt_tokens", 0) + counts.get("completion_tokens", 0)
    spent = (
        f"{calls:,.0f} calls, {repeated:,.0f} repeated, {lost:,.0f} answers lost on the way, "
        f"{tokens:,.0f} tokens"
    )
    return f"Answers: {', '.join(ways) or 'none'}; {spent}" + (
        f", cost {counts['cost']:,.2f}" if "cost" in counts else ""
    )


_MOST_NAMES = 2


def titled(datasets: Sequence[str], title: str) -> str:
    """The data sets, unless there are many, and what their pipeline is for."""
    if not datasets or len(datasets) > _MOST_NAMES:
        return title
    begins = title[:1] if title[1:2].isupper() else title[:1].lower()  # LDP-TabICL stays so
    return f"{words.listing([*datasets])}: {begins}{title[1:]}"


def asked(manifest: Manifest) -> list[str]:
    """How models were asked where public questions decided, and by what means."""
    return [f"{name} is {found.sentence}" for name, found in manifest.asked.items()]


def measured(manifest: Manifest) -> list[str]:
    """How data sets were measured that are no benchmark, or have no label; nothing of public
    queries.
    """
    reasons = {
        "none": "no public queries are named, and no evaluation of held-out rows is charged for",
        "no label": "no label is declared, so that there is nothing to predict",
    }
    unmeasured = {
        reason: [name for name, on in manifest.evaluation.items() if on == value]
        for value, reason in reasons.items()
    }
    nothing = [
        f"Nothing was measured on {words.listing(names)}: {reason}."
        for reason, names in unmeasured.items()
        if names
    ]
    noisy = (
        "Accuracies of {} on {} are noisy: right answers and held-out rows are counted with noise "
        "of standard deviation {:.3g} rows each, charged epsilon {:.4g} for every seed."
    )
    charged = [
        noisy.format(words.method_name(noise.method), noise.dataset, noise.deviation, noise.epsilon)
        for noise in manifest.evaluation_noise
    ]
    return [*nothing, *charged]


def smaller(manifest: Manifest) -> list[str]:
    """Of which data sets fewer texts are at hand than were published, and what more noise that
    takes.
    """
    said = []
    for less in manifest.smaller_than_published:
        noise = (
            f"{words.method_name(each.method)} at ε = {words.epsilon(each.epsilon)}: {each.here}, "
            f"on the published set {each.published}"
            for each in less.noise
        )
        said.append(
            f"{less.dataset} is the slice {less.slice}, with at least {less.here:,} "
            f"texts{' of a label' if less.of_label else ''} where {less.published:,} were "
            f"published; the same ε "
            f"takes more noise. {'; '.join(noise)}. A paper's numbers are for the published set."
        )
    return said


def what_was_run(
    manifest: Manifest, methods: list[str], datasets: list[str], *, has_answers: bool
) -> str:
    """Methods, data sets and grid, and which models wrote and answered, if any did."""
    grid = manifest.grid
    model = manifest.model
    parts = [f"{words.listing(list(map(words.method_name, methods)))} on {words.listing(datasets)}"]
    if grid.epsilons:
        parts.append(f"ε = {words.listing(list(map(words.epsilon, grid.epsilons)))}")
    if grid.shots and model and kind_named(model.kind).most_rows:
        parts.append(f"k = {max(grid.shots):,} released rows in context at most")
    elif grid.shots:
        parts.append(
            f"k = {words.listing(list(map(str, grid.shots)))} "
            f"{'shot' if grid.shots == [1] else 'shots'}"
        )
    if grid.seeds:
        parts.append(f"{many(len(grid.seeds), 'seed')}")
    if grid.queries:
        parts.append(f"at most {many(grid.queries, 'query', 'queries')} of each")
    if grid.draws > 1:
        parts.append(
            f"each query asked {grid.draws} times, with shots drawn anew from the same release: "
            f"{grid.draws} times the prompts, at no ε"
        )
    models = [f"written by {manifest.writer}"] if manifest.writer and has_answers else []
    if model and has_answers:
        models.append(
            f"answered by {model.name}"
            + (f" ({model.kind})" if model.kind not in ("", model.name) else "")
        )
    return "; ".join([", ".join(parts), *models]) + "."


def bold_is(results: pd.DataFrame) -> str:
    """What is bold in a table of a metric, and of whole texts and numbers what the metrics are."""
    metrics = [
        (
            "Bold: better than the majority label and than zero-shot, where these are known, by "
            "more than chance explains."
        )
    ]
    if of_texts(results).any():
        metrics.append(
            "Of whole texts, accuracy is the share of exact matches, ROUGE an F-measure of "
            "stemmed words, BLEU the mean over answers, and "
            "Levenshtein similarity one minus edits over letters."
        )
    if of_numbers(results).any():
        metrics.append(
            "Of a number, accuracy is the share of answers in the right bin, and the error the "
            "distance of the bin's middle from the true number; days or seconds of dates."
        )
    return " ".join(metrics)


def beside(manifest: Manifest) -> Iterator[str]:
    """Whose answers rows are that name a model, and the others."""
    if manifest.beside and manifest.model:
        others = words.listing([model.name for model in manifest.beside])
        yield (
            f"Rows that name {others} are answers to the same prompts, the others are those of "
            f"{manifest.model.name}."
        )


def caption(measure: str, part: pd.DataFrame, by_rate: bool) -> str:
    """The caption of a method's figure: of what is in it."""
    axis = "share of rows sampled" if by_rate else "nominal ε on a logarithmic axis"
    said = [f"Mean {measure} by {axis}."]
    if not by_rate and math.inf in set(part["epsilon"]):
        said.append("Right of the dotted rule there is no privacy.")
    if part["seed"].nunique() > 1:
        said.append("Bars are one standard deviation over seeds.")
        if not by_rate and part["system"].nunique() > 1:
            said.append("Points at the same ε are shifted slightly so that they do not overlap.")
    if not by_rate and {"lr", "gnb", "gb"} & {*part["system"]}:
        said.append(
            "Baselines are fitted on all training rows and tested on the whole test split, the "
            "others on the query subset."
        )
    return " ".join(said)


def facts(manifest: Manifest, counts: Mapping[str, float]) -> dict[str, str]:
    """What reproducing the run takes; empty where it was not recorded."""
    methods = {*manifest.grid.methods, *(stated.method for stated in manifest.guarantees)}
    used = {
        method: _options(chosen)
        for method, chosen in manifest.options.items()
        if method in methods or method not in METHODS
    }
    options = (f"{method}: {stated}" for method, stated in used.items() if stated)
    model = None
    if (answering := manifest.model) is not None:
        model = ". ".join(filter(None, (named(answering), answering.note, answers(counts))))
    texts = {
        "Seeds": ", ".join(map(str, manifest.grid.seeds)),
        "Model": model,
        "Options": "; ".join(options) if manifest.options else None,
        "Machine": ", ".join(f"{name}: {value}" for name, value in manifest.machine.items()),
        "Versions": ", ".join(
            f"{name} {version}" for name, version in manifest.versions.items() if version
        ),
    }
    return {name: text for name, text in texts.items() if text is not None}


def _options(chosen: Mapping[str, Any]) -> str:
    """Those that are stated, with their values; the method decides the others."""
    return ", ".join(
        f"{name} {_value(value)}" for name, value in chosen.items() if value not in (None, [], {})
    )


def _value(value: object) -> str:
    match value:
        case dict():
            return words.listing([f"{name} ({_options(own)})" for name, own in value.items()])
        case list():
            return words.listing([_value(each) for each in value])
        case bool():
            return "yes" if value else "no"
        case _:
            return str(value)


def named(model: Model) -> str:
    """Which model it is: its name, kind and weights, and how it was queried."""
    known = {
        "trust: ": model.trust,
        "revision ": model.revision,
        "digest ": model.digest,
        "queried by ": model.mode,
    }
    kind = [model.kind] if model.kind not in ("", model.name) else []
    return ", ".join(
        [model.name, *kind, *(f"{what}{value}" for what, value in known.items() if value)]
    )


def energy_sentence(seconds: float, energy: Energy) -> str:
    """Energy and CO2 of this time.

    (2)  kWh = watts x hours / 1000,  kg CO2 = kWh x kg per kWh
    """
    kwh = energy.power_watts * seconds / 3600 / 1000
    return (
        f"At {energy.power_watts:g} W for that time and {energy.kg_co2_per_kwh:g} kg CO₂ per kWh, "
        f"this is {words.number(kwh, 4)} kWh and {words.mass(kwh * energy.kg_co2_per_kwh)} CO₂eq "
        "by the paper's equation (2): power × hours / 1000 × kg per kWh. The watts and the kg per "
        "kWh are assumptions, not measurements."
    )


_SHOWN = 12
"""Digits of a name."""
WHAT_ERRORS_ARE = (
    "Total variation between shares of a column as the reports alone give them and those of the "
    "same clients' true answers: the share of clients "
    "that would have to move, on average over what randomised response draws."
)


def sentences_of(counted: Sequence[Counted], *, with_answers: bool) -> Iterator[str]:
    """Of each collection: its reports by kind, its name and promise, and its noise, in sentences
    for the first screen; and what intervals of accuracies do not hold, in a run with answers.
    """
    stated = set()
    for collection in counted:
        period = "" if collection.period == ONCE else f", period {collection.period}"
        epsilon = words.epsilon(collection.epsilon)
        yield f"Clients' reports, ε = {epsilon}{period}: {collection.received}"
        if collection.statement not in stated:
            yield collection.statement
        stated.add(collection.statement)
        yield (
            f"The release is {collection.release[:_SHOWN]}, named by what was counted: further "
            f"reports make another one, and the same ones the same bytes."
        )
        if collection.errors:
            name, worst = max(collection.errors.items(), key=itemgetter(1))
            best = min(collection.errors.values())
            least = "" if best == worst else f"{100 * best:.2g} % to "
            yield (
                f"Error bars of randomised response: shares of a column are off by "
                f"{least}{100 * worst:.2g} % ({name}) on average."
            )
    if with_answers and any(collection.errors for collection in counted):
        yield (
            "Intervals of accuracies are over queries, and do not hold the noise of randomised "
            "response."
        )


def section(counted: Sequence[Counted]) -> list[Block]:
    """The same as tables."""
    blocks: list[Block] = []
    for collection in counted:
        about = (
            f"collection {collection.collection[:_SHOWN]}, {collection.design}, "
            f"ε = {words.epsilon(collection.epsilon)}"
        )
        if collection.sending_epsilon is not None:
            about += f", of one sending {words.epsilon(collection.sending_epsilon)}"
        label = f"Reports by kind: {about}"
        kinds = ((kind, f"{number:,}") for kind, number in collection.received.kinds.items())
        blocks += [Heading(label), TableBlock.of(label, ("kind", "reports"), kinds)]
        if collection.errors:
            errors = ((name, words.number(error)) for name, error in collection.errors.items())
            label = "Errors of columns by randomised response"
            blocks += [
                Heading(label),
                Paragraph(WHAT_ERRORS_ARE, "small"),
                TableBlock.of(label, ("column", "error"), errors),
            ]
    return blocks


def formed(units: Iterable[Forms]) -> Iterator[str]:
    """A sentence for each method on a data set: over seeds and shots, by system and epsilon; none
    on what is not released.
    """
    found: dict[tuple[str, str], dict[str, Formed]] = {}
    for unit in units:
        of_set = found.setdefault((unit.method, unit.dataset), {})
        for key, forms in unit.cells.items():
            if is_released(key):
                system, epsilon, *_ = place_of(key)
                variant = "" if system == "icl" else f"{words.system_name(system)}, "
                name = f"{variant}ε = {words.epsilon(epsilon)}"
                before = of_set.get(name, Formed(forms.form, 0, 0))
                of_set[name] = Formed(
                    forms.form, before.having + forms.having, before.texts + forms.texts
                )
    for (method, dataset), by_name in found.items():
        if by_name:
            form = FORM_WORDS[next(iter(by_name.values())).form]
            shares = "; ".join(
                f"{forms.having} of {forms.texts} at {name}" for name, forms in by_name.items()
            )
            yield (
                f"{words.method_name(method)} on {dataset}: released texts that are {form}, as "
                f"all texts of the contract are: {shares}"
            )
