"""What is typed, by scenario: each begins with no budgets spent, and its lines follow one another.

A line is as in a terminal. What it hands out (`--out FILE`, `> FILE`, JSON, answers) is digested;
what accounts have spent is noted at the end, release by release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_DEMOS = "--epsilon 1 --shots 4 --out demos.jsonl"
_ROWS = "--epsilon 1 --rows 100 --out rows.csv"


def _twice(*lines: str) -> tuple[str, ...]:
    """Lines, and all of them again: the same bytes, at no cost."""
    return (*lines, *(f"{line} --quiet" for line in lines))


METHODS = _twice(
    f"dpicl protect shop --method gdp_tabicl {_DEMOS}",
    f"dpicl protect shop --method gdp_tabicl --option allocation=shared-count {_DEMOS}",
    f"dpicl protect shop --method gdp_tabicl --option allocation=all-columns {_DEMOS}",
    f"dpicl protect shop --method gdp_tabicl --option sum_origin=lower {_DEMOS}",
    f"dpicl synth shop --method mst_tabicl {_ROWS}",
    f"dpicl synth shop --method mst_tabicl --option noise=gaussian {_ROWS}",
    f"dpicl synth shop {_ROWS}",
    f"dpicl synth shop --method aim_tabicl --option noise=gaussian {_ROWS}",
    f"dpicl synth shop --method tab_pate {_ROWS}",
    f"dpicl synth shop --method tab_pate --option queries=released {_ROWS}",
    f"dpicl synth shop --method tab_pe {_ROWS}",
)
LOCAL = _twice(
    f"dpicl synth local --trust local {_ROWS}",
    f"dpicl synth local --method ldp_tabicl --option design=all-columns {_ROWS}",
    f"dpicl synth local --method ldp_tabicl --option encoding=one-hot {_ROWS}",
    f"dpicl synth local --method ldp_tabicl --option design=pairs {_ROWS}",
    f"dpicl synth local --method ldp_tabicl --option design=subset {_ROWS}",
    f"dpicl synth local --method ldp_tabicl --option estimator=tree {_ROWS}",
    f"dpicl synth local --method mst_tabicl {_ROWS}",
    f"dpicl protect local --method gdp_tabicl {_DEMOS}",
)
FORMS = (
    f"dpicl protect shop {_DEMOS}",
    *(
        f"dpicl protect shop --epsilon 1 --shots 3 --as {form} --out demos.{form}"
        for form in ("text", "chat", "alpaca", "sharegpt", "csv", "parquet")
    ),
    "dpicl synth shop --epsilon 1 --rows 50 --out rows.parquet",
    "dpicl synth shop --epsilon 1 --rows 7 --out rows.csv",
    "dpicl verify rows.csv",
    "dpicl verify rows.parquet",
    "dpicl verify absent.csv",
    "dpicl ask --demos demos.jsonl --queries DATA/new.csv --model bundled",
    "dpicl ask --demos demos.jsonl --queries DATA/new.csv --model fake --shots 2 --draws 3",
)
SOURCES = (
    *(
        f"dpicl synth {name} --method mst_tabicl {_ROWS}"
        for name in (
            "shop",
            "shop_packed",
            "shop_parquet",
            "shop_parts",
            "shop_query",
            "shop_many",
        )
    ),
    f"dpicl protect shop_many --method gdp_tabicl {_DEMOS}",
    f"dpicl synth shop_query {_ROWS}",
    f"dpicl synth shop_again {_ROWS}",
    f"dpicl synth shop_query {_ROWS} --quiet",
)
PERSONS = (
    f"dpicl synth persons {_ROWS}",
    f"dpicl synth persons --method mst_tabicl {_ROWS}",
    f"dpicl synth persons --method mst_tabicl --option noise=gaussian {_ROWS}",
    f"dpicl synth persons --method tab_pate {_ROWS}",
    f"dpicl protect persons --method gdp_tabicl {_DEMOS}",
    f"dpicl synth rented --method mst_tabicl {_ROWS}",
    f"dpicl synth persons {_ROWS} --quiet",
)
KINDS = (
    f"dpicl synth orders {_ROWS}",
    "dpicl protect orders --epsilon 1 --shots 5 --out demos.jsonl",
    f"dpicl synth delivery {_ROWS}",
    "dpicl protect delivery --method gdp_tabicl --epsilon 1 --shots 14 --out demos.jsonl",
    f"dpicl synth unlabelled --method mst_tabicl {_ROWS}",
)
PERIODS = (
    f"dpicl synth monthly --period 2026-01 --method mst_tabicl {_ROWS}",
    f"dpicl synth monthly --period 2026-02 --method mst_tabicl {_ROWS}",
    f"dpicl synth monthly --period 2026-01 --method mst_tabicl {_ROWS} --quiet",
    f"dpicl synth shop --period 2026-01 --method mst_tabicl {_ROWS}",
    f"dpicl synth shop --period once --method mst_tabicl {_ROWS}",
    f"dpicl synth shop --method mst_tabicl {_ROWS}",
    "dpicl synth shop --method mst_tabicl --dry-run --json --epsilon 1",
    "dpicl synth shop --method mst_tabicl --dry-run --json --epsilon 2",
    "dpicl protect shop --method gdp_tabicl --dry-run --json --epsilon 2 --shots 2",
)


def _nights(name: str) -> tuple[str, ...]:
    mst = f"dpicl synth {name} --epsilon 2 --rows 80 --out rows.csv"
    gdp = f"dpicl protect {name} --method gdp_tabicl --epsilon 2 --shots 2 --out demos.jsonl"
    return (
        f"{mst} --period 2025-03-01",
        f"{mst} --period 2025-03-02",
        "later",
        f"{mst} --period 2025-03-03",
        f"{mst} --period 2025-03-03 --window 2",
        f"{mst} --period 2025-03-01",
        f"{gdp} --period 2025-03-03",
        f"{gdp} --period 2025-03-02 --window 1",
        f"dpicl synth {name} --epsilon 2 --dry-run --json --period 2025-03-03",
        f"{mst}",
    )


SERIES = _nights("delivered")
MORE_SERIES = (*_nights("nights"), *_nights("nights_of_rows"))
_CLIENT = "python -m dpicl.client CONTRACTS/sites.yaml --epsilon 2 --cap 5 --id client"
_SENDING = "--sending-epsilon 1 --period 2026-12-01"
REPORTS = (
    f"{_CLIENT} --memory east.jsonl < east.csv > reports/east.jsonl",
    f"{_CLIENT} --memory west.jsonl < west.csv > reports/west.jsonl",
    f"{_CLIENT} --memory east.jsonl < east.csv > reports/again.jsonl",
    "dpicl collect sites reports --epsilon 2 --json",
    "dpicl collect sites reports --epsilon 2 --rows 100 --out rows.csv",
    "dpicl collect sites reports --epsilon 2 --shots 4 --out demos.jsonl",
    "dpicl collect sites reports --epsilon 2 --estimator tree --rows 50 --out rows.parquet",
    "dpicl collect sites reports --epsilon 3 --json",
    "dpicl collect sites absent --epsilon 2 --json",
    f"{_CLIENT} {_SENDING} --memory east.jsonl < east.csv > sent/1.jsonl",
    f"dpicl collect sites sent --epsilon 2 {_SENDING} --rows 30 --close closed --out rows.csv",
    "use collected",
)
# At so large an epsilon what is written, and answered, is decided by texts rather than by noise.
_WRITE = "dpicl protect tickets --epsilon 50 --texts 2 --generator tiny --out texts.jsonl"
_FIXED = "--option batches=fixed --option voters=8"
TEXTS = (
    *_twice(
        _WRITE,
        f"{_WRITE} --option mechanism=exponential",
        f"{_WRITE} --option mechanism=invisible-ink {_FIXED}",
        f"{_WRITE} --option mechanism=clipped-logits {_FIXED}",
    ),
    f"{_WRITE} --option temperature=1 --option top_k=5",
    f"{_WRITE} --option mechanism=clipped-logits {_FIXED} --option private_tokens=2",
    "dpicl protect tickets --epsilon 50 --texts 2 --as chat --out texts.json",
    _WRITE.replace("tickets", "words"),
    f"{_WRITE.replace('tickets', 'months')} --period 2026-01",
    f"{_WRITE.replace('tickets', 'months')} --period 2026-02",
)
_ASK = "dpicl ask --queries DATA/texts/questions.txt --epsilon 50 --count 4 --model tiny --contract"
ANSWERS = (
    *_twice(
        f"{_ASK} tickets",
        f"{_ASK} tickets --aggregation soft-votes",
        f"{_ASK} tickets --similarity 0.2 --participations 2",
    ),
    "dpicl ask Invoice! --epsilon 50 --count 4 --model tiny --contract tickets",
    "dpicl ask Refund! --epsilon 50 --count 4 --model tiny --contract tickets",
    "dpicl ask Crash! --epsilon 50 --count 4 --model tiny --contract tickets",
    "dpicl ask Crash! --epsilon 50 --count 4 --model tiny --contract tickets --again",
    f"{_ASK} titles",
    f"{_ASK} titles --aggregation keywords-ptr",
    f"{_ASK} titles --aggregation keywords-joint",
)
_RUN = "--executor pool --workers 1 --quiet"
RUNS = (
    f"dpicl run private --run-id one {_RUN}",
    "dpicl protect shop --method gdp_tabicl --epsilon 1 --shots 2 --out demos.jsonl",
    "dpicl synth shop --method mst_tabicl --epsilon 4 --rows 50 --out rows.csv",
    "dpicl run private --run-id two --executor pool --workers 2 --quiet",
    "dpicl compare one two --json",
    "dpicl run private --dry-run --json --epsilons 1,2",
    f"dpicl run held-out --run-id held {_RUN}",
    f"dpicl run held-out --run-id again {_RUN}",
    "dpicl compare held again --json",
)
PREFECT = tuple(line.replace("--executor pool", "--executor prefect") for line in RUNS)


def _measured(name: str, words: str) -> tuple[str, ...]:
    """A run, another that asks for the same and pays nothing, and what both measured."""
    runs = tuple(f"dpicl run {words} --run-id {run} {_RUN}" for run in (name, f"{name}-2"))
    return (*runs, f"dpicl compare {name} {name}-2 --json")


MORE_RUNS = (
    "dpicl data publish public --yes",
    *_measured("all", "benchmark"),
    *_measured("texts", "texts"),
    "dpicl protect tickets --epsilon 4 --texts 2 --out texts.jsonl",
    *_measured("answers", "answers"),
    f"dpicl run nightly --period 2025-03-03 --run-id nights {_RUN}",
    f"dpicl run nightly --period 2025-03-03 --run-id nights-2 {_RUN}",
    "dpicl synth nights --epsilon 2 --rows 80 --out rows.csv --period 2025-03-03",
    f"{_CLIENT} --memory east.jsonl < east.csv > reports/east.jsonl",
    f"dpicl run reports --reports reports --run-id sites {_RUN}",
    f"dpicl run amplification --run-id five {_RUN}",
)
SHIPPED = (
    "dpicl synth breast_cancer --epsilon 1 --rows 50 --out rows.csv",
    "dpicl synth breast_cancer --epsilon 1 --rows 50 --out rows.csv --method mst_tabicl",
    "dpicl synth breast_cancer --epsilon 1 --rows 50 --out rows.csv --trust local",
    "dpicl protect breast_cancer --epsilon 1 --shots 2 --out demos.jsonl --method gdp_tabicl",
    "dpicl protect docstrings --epsilon 4 --texts 2 --generator tiny --out texts.jsonl",
    "dpicl ask What? --epsilon 2 --count 4 --model tiny --contract docstrings",
)
_MORE = "dpicl synth shop --method mst_tabicl --epsilon 2 --rows 10 --out more.csv"
_RESTORED = "DPICL_HOME=ROOT/restored dpicl"
KEPT = (
    f"dpicl synth shop --method mst_tabicl {_ROWS}",
    "dpicl budget shop --cap 2",
    _MORE,
    "dpicl budget shop --cap 3",
    _MORE,
    "moved",
    f"dpicl synth shop --method mst_tabicl {_ROWS}",
    "dpicl state check",
    "dpicl state backup saved --key saved.key",
    f"{_RESTORED} state restore saved --key saved.key",
    f"{_RESTORED} synth shop --method mst_tabicl {_ROWS}",
    f"{_RESTORED} synth shop --method mst_tabicl --epsilon 3 --rows 9 --out other.csv",
    f"{_RESTORED} budget shop --cap 7",
    f"{_RESTORED} synth shop --method mst_tabicl --epsilon 3 --rows 9 --out other.csv",
    f"{_RESTORED} budget shop --json",
    "dpicl ledger upgrade",
)
COMMANDS = (
    f"dpicl synth shop --method mst_tabicl {_ROWS}",
    f"dpicl synth shop --method mst_tabicl {_ROWS}",
    "dpicl synth shop --method mst_tabicl --epsilon 1 --rows 9 --out rows.parquet",
    f"dpicl protect shop --method gdp_tabicl {_DEMOS}",
    "dpicl synth shop --method mst_tabicl --dry-run --json --epsilon 1",
    "dpicl synth shop --method mst_tabicl --dry-run --json --epsilon 2",
    "dpicl synth narrow --method mst_tabicl --dry-run --json --epsilon 2",
    "dpicl verify rows.csv",
    "edited",
    "dpicl verify rows.csv",
    "dpicl ask --demos demos.jsonl --queries DATA/new.csv --model fake",
    "dpicl synth monthly --period 2026-02 --method mst_tabicl --epsilon 1 --rows 9 --out rows.csv",
    "dpicl budget monthly --cap 3",
    "dpicl protect tickets --epsilon 50 --texts 2 --generator fake --out texts.jsonl",
    "dpicl ask Hi. --contract tickets --epsilon 50 --count 1 --model fake",
    "dpicl ask He. --contract tickets --epsilon 50 --count 1 --model fake",
    f"{_CLIENT} --memory east.jsonl < east.csv > reports/east.jsonl",
    "dpicl collect sites reports --epsilon 2 --json",
    "dpicl collect sites reports --epsilon 2 --rows 50 --out rows.csv",
    "dpicl run private --run-id one --executor pool --workers 1 --quiet",
    "dpicl protect shop --method gdp_tabicl --epsilon 1 --shots 2 --out demos.jsonl",
)
LIBRARY = tuple(
    f"use {name}"
    for name in (
        "methods",
        "local",
        "persons",
        "places",
        "kinds",
        "series",
        "frames",
        "more_on_frames",
        "forms",
        "session",
        "texts",
        "answers",
        "refused",
    )
)
LIBRARY_OF_TEXTS = ("use texts_of_a_model", "use answers_of_a_model")


def _refused(*typed: str) -> tuple[str, ...]:
    """Each of these after a release, which they leave as it is."""
    made = f"dpicl synth shop --method mst_tabicl {_ROWS}"
    return (made, *(f"dpicl {words}".strip() for words in typed))


REFUSED = _refused(
    "synth shop --epsilon 0 --out no.csv",
    "synth shop --epsilon inf --out no.csv",
    "synth shop --epsilon 200 --out no.csv",
    "synth shop --epsilon 1",
    "synth shop --epsilon 3 --rows 0 --out no.csv",
    "synth shop --epsilon 3 --out no.xlsx",
    "synth shop --epsilon 3 --method unknown --out no.csv",
    "synth shop --epsilon 3 --method gdp_tabicl --out no.csv",
    "synth shop --epsilon 3 --method ldp_tabicl --out no.csv",
    "synth shop --epsilon 3 --option colour=red --out no.csv",
    "synth shop --epsilon 3 --option noise=loud --method mst_tabicl --out no.csv",
    "synth shop --epsilon 3 --period tomorrow --out no.csv",
    "synth unknown --epsilon 3 --out no.csv",
    "synth narrow --epsilon 3 --out no.csv",
    "synth broken --epsilon 1 --out no.csv",
    "synth short --epsilon 1 --out no.csv",
    "synth absent --epsilon 1 --out no.csv",
    "synth draft --epsilon 1 --out no.csv",
    "synth wrong --epsilon 1 --out no.csv",
    "synth nights --epsilon 2 --out no.csv --period 2030-01-01",
    "synth delivered --epsilon 2 --out no.csv",
    "protect shop --epsilon 3 --as verse --out no.jsonl",
    "protect shop --epsilon 3 --method gdp_tabicl --shots 3 --out no.jsonl",
    "protect tickets --epsilon 3 --out no.jsonl",
    "protect tickets --epsilon 3 --texts 20000 --generator fake --out no.jsonl",
    "ask What? --contract tickets --epsilon 1",
    "ask --demos absent.jsonl --queries DATA/new.csv --model bundled",
    "ask What? --contract tickets --epsilon 1 --model tiny --aggregation loud",
    "run private --epsilons inf --run-id no --executor pool",
    "run private --datasets narrow --epsilons 9 --methods mst_tabicl --run-id no --executor pool",
    "run --resume absent --executor pool",
    "budget unknown",
    "data publish shop --yes",
    "unknown",
    "",
)
MORE_REFUSED = _refused(
    "synth shop --epsilon -1 --out no.csv",
    "synth shop --epsilon much --out no.csv",
    "synth shop --epsilon 3 --out absent/no.csv",
    "synth shop --epsilon 3 --method dp_icl --out no.csv",
    "synth shop --epsilon 3 --option noise --method mst_tabicl --out no.csv",
    "synth shop --epsilon 3 --trust nobody --out no.csv",
    "protect shop --epsilon 3 --shots 0 --out no.jsonl",
    "protect tickets --epsilon 3 --generator unknown --out no.jsonl",
    "ask What? --contract shop --epsilon 1 --model tiny",
    "ask What? --contract tickets --epsilon 0 --model tiny",
    "ask --contract tickets --epsilon 1 --model tiny",
    "ask What? --contract tickets --epsilon 1 --model tiny --count 0",
    "run unknown --executor pool",
    "run private --shots 3 --run-id no --executor pool",
    "budget shop --cap -1",
    "contract check wrong",
    "contract check shop",
    "compare one two",
    "data fetch shop",
    "state restore absent --key absent",
    "model check unknown",
    "synth --colour red",
    "--help",
    "--version",
    "synth shop --epsilon 3 --window 2 --out no.csv",
    "synth shop --epsilon 3 --option delta=0.1 --option noise=gaussian --out no.csv",
    "synth shop --epsilon nan --out no.csv",
    "collect sites absent --epsilon 2",
)
ON_POSTGRES = "rows and ledger on PostgreSQL"
POSTGRES = (
    f"dpicl synth shop_query --method mst_tabicl {_ROWS}",
    f"dpicl protect shop_query --method gdp_tabicl {_DEMOS}",
    f"dpicl synth shop_query {_ROWS}",
    f"dpicl synth shop_query {_ROWS} --quiet",
    "dpicl synth shop_query --epsilon 90 --rows 5 --out no.csv",
    f"dpicl synth shop --method mst_tabicl {_ROWS}",
)
QUICK: Mapping[str, Sequence[str]] = {
    "library": LIBRARY,
    "paths": ("use paths",),
    "commands": COMMANDS,
    "series": SERIES,
    "refused": REFUSED,
}
EXHAUSTIVE: Mapping[str, Sequence[str]] = {
    "library of texts": LIBRARY_OF_TEXTS,
    "methods": METHODS,
    "local": LOCAL,
    "forms": FORMS,
    "sources": SOURCES,
    "persons": PERSONS,
    "kinds": KINDS,
    "periods": PERIODS,
    "more series": MORE_SERIES,
    "reports": REPORTS,
    "texts": TEXTS,
    "answers": ANSWERS,
    "runs": RUNS,
    "runs on Prefect": PREFECT,
    "more runs": MORE_RUNS,
    "shipped": SHIPPED,
    "kept": KEPT,
    ON_POSTGRES: POSTGRES,
    "more refused": MORE_REFUSED,
}
SCENARIOS: Mapping[str, Sequence[str]] = {**QUICK, **EXHAUSTIVE}
