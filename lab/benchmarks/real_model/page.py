"""docs/real-model.md and the table of README.md, from kept results and nothing else: no number is
written by hand, and none picked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path

from dpicl.report import words
from dpicl.report.decision import Gain
from lab.benchmarks.real_model.conditions import (
    REVERSED,
    SHOWS,
    TRUE,
    WITHOUT,
    Condition,
    Direction,
    conditions,
    directions,
    other_models,
)
from lab.benchmarks.real_model.results import (
    BUNDLED,
    GEMMA,
    MODEL,
    About,
    Answered,
    read_results,
)

Results = tuple[Sequence[Answered], Sequence[About]]
ROOT = Path(__file__).parents[3]
PAGE, README, BEGIN, END = (
    ROOT / "docs" / "real-model.md",
    ROOT / "README.md",
    "<!-- real model -->",
    "<!-- end -->",
)
NAMES = {MODEL: "SmolLM2-135M-Instruct", GEMMA: "Gemma 3 270M", BUNDLED: "bundled"}
NONE_YET = (
    "No results with a large language model exist yet; the bundled one has 3.5 million parameters "
    "and compares rows."
)
RUN = """```sh
dpicl run real-tables --model smollm2 --run-id real-tables
dpicl run real-texts --model smollm2 --run-id real-texts
```

Each begins nothing new after three hours on two idle cores, and goes on with `--resume`; writing texts as long as those of agnews takes hours more. From a clone,
`python -m lab.benchmarks.real_model collect .dpicl/runs/real-tables smollm2` keeps what a run answered, and `python -m lab.benchmarks.real_model write`
writes this page."""  # noqa: E501
HEAD = """# With a real language model

Written by `python -m lab.benchmarks.real_model write` from lab/benchmarks/real_model/results; change it there.
"""  # noqa: E501
_RULE = """A model's number is its share of right answers, mean of all seeds and draws, with a 95 % interval over queries and draws; *averaged*: the
draws' probabilities averaged for each query. **Bold** is better than both the same model without demonstrations (zero-shot) and always giving the
most frequent label, and † is worse than zero-shot, by intervals, paired by query, that exclude 0; of {count} conditions one in twenty would do so by
chance. Of one draw (× 1) an interval is over queries alone: another release may lie outside it. Beside it, on the same queries: zero-shot, the most frequent label (majority), and {others} on the same prompts. Logistic regression (LR) and
boosted trees (GB) are fitted on what was released and asked all held-out rows; of GDP-TabICL LR is diffprivlib's on the true rows at the same ε. On
texts nothing is fitted: four are too few, and of votes nothing is released but answers. The bundled model was trained on tables alone. ‡: nine answers
of ten or more are the same one. At ε = ∞ nothing is protected."""  # noqa: E501
_BESIDE = """## {name} beside it

A base model, without a chat template, its weights rounded to about four bits: only to see whether what the first shows is that model's own. It
answered in runs of its own, with `--model` and its GGUF file in place of `smollm2`, and fewer queries; what is not in the tables was not run. The
rest is as above."""  # noqa: E501
_CONSTANT = 0.9
"""Share of answers from which on they are called the same."""


def write_pages() -> tuple[Path, Path]:
    """Write both from what is kept."""
    PAGE.write_text(page(*read_results(), read_results(model=GEMMA)), encoding="utf-8")
    README.write_text(with_table(README.read_text("utf-8"), *read_results()), encoding="utf-8")
    return PAGE, README


def with_table(readme: str, lines: Sequence[Answered], abouts: Sequence[About]) -> str:
    """README.md with the part between its marks made anew."""
    before, _, rest = readme.partition(BEGIN)
    return f"{before}{BEGIN}\n{table_in_short(lines, abouts)}\n{END}{rest.partition(END)[2]}"


def page(lines: Sequence[Answered], abouts: Sequence[About], beside: Results = ((), ())) -> str:
    """The whole page; `beside`: what is kept of the second model."""
    found = conditions(lines, MODEL)
    if not found:
        return f"{HEAD}\n{NONE_YET}\n\n{RUN}\n"
    said, others, most = directions(found), other_models(lines, MODEL), _most(abouts)
    parts = [
        HEAD,
        *first_sentences(found, MODEL),
        _papers(said),
        _RULE.format(count=len(found), others=words.listing([_name(other) for other in others])),
    ]
    parts += [
        part
        for dataset, some in groupby(found, lambda one: one.place.dataset)
        for part in _of_set(f"## {dataset}", list(some), others, most, MODEL)
    ]
    if second := conditions(beside[0], GEMMA):
        parts += [_BESIDE.format(name=NAMES[GEMMA]), *first_sentences(second, GEMMA)]
        parts += [
            part
            for dataset, some in groupby(second, lambda one: one.place.dataset)
            for part in _of_set(f"### {dataset}", list(some), others, _most(beside[1]), GEMMA)
        ]
    parts += [
        "## What the papers find",
        *_directions(said),
        "## How it was made",
        _made([*abouts, *beside[1]]),
        RUN,
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _most(abouts: Sequence[About]) -> int:
    """Queries that were asked of a set, at most."""
    return max(about.queries or 0 for about in abouts)


def first_sentences(found: Sequence[Condition], model: str) -> Iterator[str]:
    """What a reader wants to know first, whatever it is."""
    private = [one for one in found if one.place.is_private]
    better, worse = ([one for one in private if one.gain.sign == sign] for sign in (1, -1))
    of_set = {one.place.dataset: one for one in private}
    count = sum(one.is_better for one in private) or "none"
    yield (
        f"**In {count} of {len(private)} private conditions on {words.listing(list(of_set))} "
        f"(a way to release, k and ε) {NAMES[model]} had more right "
        f"answers than both without any data and always giving the most frequent label. It had "
        f"more than without data in {len(better)}, fewer in {len(worse)}, and as many, within "
        f"noise, in {len(private) - len(better) - len(worse)}.**"
    )
    alike = sum(one.constant >= _CONSTANT for one in private)
    behind = [one for one in of_set.values() if one.zero.mean() < one.majority]
    if alike:
        yield (
            f"In {alike} of {len(private)} at least nine of ten answers are the same label: the "
            f"data change which label it gives to every query, and little else."
        )
    if behind:
        against = ", ".join(
            f"{_number(one.zero.mean())} against {_number(one.majority)} on {one.place.dataset}"
            for one in behind
        )
        yield (
            f"Without data it is right less often than the most frequent label ({against}): there "
            f"more right answers than without may be another label that it gives to all."
        )
    if worse:
        yield f"This model does better without your data: {_listed(worse)}."
    fitted = [one for one in private if not math.isnan(one.beside["gb"])]  # which are released rows
    if fitted:
        ahead = sum(one.beside["lr"] > _ends(one.accuracy)[1] for one in fitted)
        yield (
            f"Logistic regression fitted on the same released rows lies above the model's interval "
            f"in {ahead} of {len(fitted)} conditions."
        )


def _papers(said: Sequence[Direction]) -> str:
    parts = []
    for is_true, some, reverse in (
        (
            True,
            "more right answers with true data than without and than the most frequent label",
            "fewer than with the better of both",
        ),
        (False, "more with the largest ε than with the least", "the reverse"),
    ):
        of_kind = [one for one in said if (one.what == WITHOUT) is is_true]
        counted = [sum(one.verdict == verdict for one in of_kind) for verdict in (SHOWS, REVERSED)]
        parts.append(f"{some} {counted[0]} of {len(of_kind)} times ({reverse} {counted[1]} times)")
    return (
        f"What the papers find of large models shows with this small one so often: "
        f"{'; '.join(parts)}."
    )


def _listed(some: Sequence[Condition]) -> str:
    return "; ".join(
        f"{dataset} ({', '.join(_short(one) for one in of_set)})"
        for dataset, of_set in groupby(some, lambda one: one.place.dataset)
    )


def _short(one: Condition) -> str:
    place = one.place
    way = "" if place.system == "icl" else f", {_way(one)}"
    return (
        f"{words.method_name(place.method)}{way}, k = {place.shots:g}, ε = {place.epsilon:g}: "
        f"{_signed(one.gain)}"
    )


def _way(one: Condition) -> str:
    place = one.place
    if place.is_true:
        return (
            "true texts"
            if place.method in TRUE
            else {"gdp_tabicl": "true averages", "aim_tabicl": "counts without noise"}.get(
                place.method, "true rows"
            )
        )
    if place.epsilon == 0:
        return "texts written without private ones"
    names = {"icl-invisible-ink": "invisible ink", "raw-rows": "reports as they are"}
    own = {"few_shot_generation": "Gaussian", "dp_icl": "votes"}
    return names.get(place.system) or own.get(place.method, "")


def _of_set(
    heading: str, found: Sequence[Condition], others: Sequence[str], most: int, model: str
) -> Iterator[str]:
    count = found[0].right.shape[2]
    yield f"{heading}\n"
    yield f"{count} queries{', all that the set holds out to ask' if count < most else ''}."
    head = [
        "shown",
        "k",
        "ε",
        "n × draws",
        NAMES[model],
        "averaged",
        "AUC",
        "zero-shot",
        "majority",
        *map(_name, others),
        "LR",
        "GB",
    ]
    rows = [
        [
            f"{words.method_name(one.place.method)}{', ' * bool(_way(one))}{_way(one)}",
            f"{one.place.shots:g}",
            words.epsilon(one.place.epsilon),
            f"{one.right.shape[2]} × {one.right.shape[0] * one.right.shape[1]}",
            _marked(one),
            *map(_number, (one.averaged, one.auc, one.zero.mean(), one.majority)),
            *(_number(one.beside.get(name, math.nan)) for name in (*others, "lr", "gb")),
        ]
        for one in found
    ]
    yield _table(head, rows)


def _directions(said: Sequence[Direction]) -> Iterator[str]:
    yield (
        "A direction shows where the 95 % interval of the mean difference lies above 0, is "
        "reversed where it lies below, and is not seen where it holds 0."
    )
    rows = [
        [
            one.place.dataset,
            words.method_name(one.place.method),
            _of_system(one),
            f"{one.place.shots:g}",
            one.what,
            _signed(one.gain),
            one.verdict,
        ]
        for one in said
    ]
    yield _table(
        ["data set", "method", "way", "k", "comparison", "difference", "the papers' direction"],
        rows,
    )


def _of_system(one: Direction) -> str:
    return {"icl-invisible-ink": "invisible ink", "raw-rows": "reports as they are"}.get(
        one.place.system, ""
    )


def _made(abouts: Sequence[About]) -> str:
    return "\n".join(
        f"- {about.pipeline}, {_name(about.model)} (digest {about.digest[:12]}), dpicl "
        f"{about.version}, commit {about.commit}: {about.hours:g} h of processor time. "
        f"{' '.join(about.left_out)}".rstrip()
        for about in abouts
    )


def table_in_short(lines: Sequence[Answered], abouts: Sequence[About]) -> str:
    """For README.md: a line a data set, of the first method for it, at the fewest shots."""
    found = conditions(lines, MODEL)
    if not found:
        return NONE_YET
    head = [
        "accuracy",
        "n",
        "majority",
        "zero-shot",
        "true data",
        "private, least ε",
        "private, largest ε",
        "LR on the release, least ε",
    ]
    rows: list[list[str]] = []
    shown_sets: set[str] = set()
    for (dataset, method), some in groupby(
        found, lambda one: (one.place.dataset, one.place.method)
    ):
        of_way = list(some)
        shots = min(one.place.shots for one in of_way)
        private = [
            one
            for one in of_way
            if one.place.system == "icl" and one.place.shots == shots and one.place.is_private
        ]
        if method not in ("aim_tabicl", *TRUE) or not private or dataset in shown_sets:
            continue
        shown_sets.add(dataset)
        true = [
            one
            for one in found
            if (one.place.dataset, one.place.shots) == (dataset, shots) and one.place.is_true
        ]
        shown = next((one for one in true if one.place.method in (method, "ldp_tabicl")), None)
        first, last = private[0], private[-1]
        rows.append(
            [
                f"{dataset}, {words.method_name(method)}, k = {shots:g}",
                str(first.right.shape[2]),
                _number(first.majority),
                _number(first.zero.mean()),
                "–" if shown is None else _marked(shown),
                *(f"{_marked(one)} (ε = {one.place.epsilon:g})" for one in (first, last)),
                _number(first.beside["lr"]),
            ]
        )
    private = [one for one in found if one.place.is_private]
    once = list(
        dict.fromkeys(one.place.dataset for one in private if one.right.shape[:2] == (1, 1))
    )
    of_once = f"Of {words.listing(once)} one release was drawn for each. " if once else ""
    ways = [
        *(sentence.strip("*") for sentence in islice(first_sentences(found, MODEL), 2)),
        (
            f"{of_once}**Bold** is better than both, † worse than without data, ‡ one answer to "
            f"nine of ten queries. [All {len(private)}, with intervals](docs/real-model.md), at "
            f"{words.listing([about.commit for about in abouts])}:"
        ),
    ]
    return f"{' '.join(ways)}\n\n{_table(head, rows)}"


def _name(model: str) -> str:
    return NAMES.get(model, model)


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}".removeprefix("0" if value < 1 else "")


def _ends(share: Gain) -> tuple[float, float]:
    """Of an interval of a share, which is no less than 0 and no more than 1."""
    return max(0.0, share.mean - share.half), min(1.0, share.mean + share.half)


def _signed(gain: Gain) -> str:
    low, high = max(-1.0, gain.mean - gain.half), min(1.0, gain.mean + gain.half)
    return f"{_difference(gain.mean)} ({_difference(low)} to {_difference(high)})"


def _difference(value: float) -> str:
    return f"{'−' if value < 0 else '+'}{_number(abs(value))}"


def _marked(one: Condition) -> str:
    number = "{} ({} to {})".format(*map(_number, (one.accuracy.mean, *_ends(one.accuracy))))
    marked = f"**{number}**" if one.is_better else number + " †" * (one.gain.sign < 0)
    return marked + " ‡" * (one.constant >= _CONSTANT)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
