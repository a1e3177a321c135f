"""Commands that show contracts and data sets know texts too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.harness import REPOSITORY, Place, edited, install_texts, letters

TEXTS = sorted(path.stem for path in (REPOSITORY / "data_contracts" / "texts").glob("*.yaml"))


@pytest.mark.quick("docstrings", "docvqa")
@pytest.mark.parametrize("name", TEXTS)
def test_check_and_show_know_every_contract(place: Place, cli: Cli, name: str) -> None:
    checked = cli(f"contract check {place.root / 'contracts' / 'texts' / f'{name}.yaml'}")
    assert checked.startswith(f"{name}.yaml: ok: texts of at most ") and "queries" in checked
    shown = cli(f"contract show {name}")
    assert shown.startswith(f"{name}: ")
    assert all(word in shown for word in ("benchmark", "ensembles", "delta", "prompt"))
    assert "0 labels" not in checked
    assert ("labels" in checked) == (name not in ("docvqa", "samsum", "sroie"))


def test_data_list_tells_which_texts_are_at_hand(
    place: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPICL_DATA", str(place.root / "nowhere"))
    lines = {line.split()[0]: line for line in cli("data list").splitlines() if line.split()}
    assert " yes " in lines["docstrings"]
    assert all(" no " in lines[name] for name in TEXTS if name != "docstrings")


def test_texts_whose_publication_is_not_stated_cannot_be_fetched(place: Place, cli: Cli) -> None:
    assert cli.refused("data fetch sroie").startswith(
        "sroie: no published set is named; the training receipts of https://"
    )


def test_a_broken_contract_of_texts_is_one_sentence(place: Place, cli: Cli) -> None:
    path = place.root / "contracts" / "texts" / "trec.yaml"
    path.write_text(path.read_text().replace("min_rows: 80}", "min_rows: 79}"))
    told = cli.refused(f"contract check {path}")
    assert (
        "trec.yaml: line 43: task.labels.ABBR.min_rows: is 79, fewer than subsets x examples"
        in told
    )


RUN = "run few-shot-demo --datasets letters --model fake"
SMALL = "--epsilons 4 --seeds 0 --shots 2"


@pytest.mark.quick(
    "demo --datasets docstrings-methods=ldp_tabicl: expected one of few_shot_generation, dp_icl",
    "few-shot-demo --shots 0-expected greater than or equal to 1",
    "few-shot-demo --model http://127.0.0.1:9/v1#far-raw rows stay local; expected a local model",
    "few-shot-demo --generator nobody-model 'nobody' is unknown",
)
@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        (
            "demo --datasets docstrings",
            "methods=ldp_tabicl: expected one of few_shot_generation, dp_icl",
        ),
        (
            "few-shot-demo --datasets heart",
            (
                "methods=few_shot_generation: expected one of aim_tabicl, gdp_tabicl, ldp_tabicl, "
                "mst_tabicl, tab_pate, tab_pe: heart holds a table"
            ),
        ),
        (
            "few-shot-demo --model http://127.0.0.1:9/v1#far",
            "raw rows stay local; expected a local model",
        ),
        (
            "few-shot-demo --model fake --generator http://127.0.0.1:9/v1#far",
            "model 'far' is a server, and raw rows stay local",
        ),
        ("few-shot-demo --generator nobody", "model 'nobody' is unknown"),
        ("few-shot-demo --shots 0", "expected greater than or equal to 1"),
        (
            "few-shot-table-1 --datasets trec",
            (
                "trec: no texts at hand; expected the published set, which `dpicl data fetch trec` "
                "downloads, or a slice below DPICL_DATA: json-lines"
            ),
        ),
    ],
)
def test_what_a_run_on_texts_cannot_be_is_one_sentence(
    place: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: str, phrase: str
) -> None:
    monkeypatch.setenv("DPICL_DATA", str(place.root / "nowhere"))
    assert phrase in cli.refused(f"run {arguments}")
    # nothing was begun
    assert not (place.home / "runs").exists()


def _with(place: Place, **options: object) -> None:
    with edited(place.root / "pipelines.yaml") as pipelines:
        pipelines["pipelines"]["few-shot-demo"]["options"] = {"few_shot_generation": options}


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        (
            {"voters": 501},
            (
                "a label of at least 500 rows is smaller than the 501 that are drawn from it; "
                "expected fewer voters"
            ),
        ),
        ({"batches": "stale"}, "expected 'fresh' or 'fixed'"),
        ({"variants": {"one": {"mechanism": "laplace"}}}, "variants.one.mechanism: got 'laplace'"),
        ({"max_tokens": 0}, "max_tokens: got '0'"),
    ],
)
def test_sizes_out_of_range_are_one_sentence_before_a_text_is_read(
    place: Place, cli: Cli, options: dict[str, object], phrase: str
) -> None:
    _with(place, **options)
    assert phrase in cli.refused(f"run few-shot-demo --model fake {SMALL}")


def test_gaussian_noise_on_a_budget_without_delta_is_refused(place: Place, cli: Cli) -> None:
    content = letters(private=True)
    content["privacy"]["budget"] = {"epsilon": 8}
    install_texts(place, content)
    told = cli.refused(f"{RUN} {SMALL}")
    assert (
        "letters: its budget has no delta, which gaussian noise needs; expected budget.delta, or "
        "mechanism exponential" in told
    )


def test_a_checkpoints_own_sixteen_bits_are_refused_there_too_and_float32_is_not(
    place: Place, cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama", "dtype": "bfloat16"}')
    install_texts(place, letters(private=True))
    run = f"{RUN} {SMALL} --dry-run --generator"
    told = cli.refused(f"{run} {tmp_path}")
    assert "has dtype bfloat16, in which one private text moves the votes of others" in told
    assert "has dtype tf32" in cli.refused(f"{run} {tmp_path}?dtype=tf32")
    assert "dtype" not in cli.ended(f"{run} {tmp_path}?dtype=float32")[1]


def test_a_dry_run_prices_texts_and_a_cap_refuses_them(place: Place, cli: Cli) -> None:
    content = letters(private=True)
    content["privacy"]["budget"] = {"epsilon": 6, "delta": 0.01}
    install_texts(place, content)
    _with(place)
    asked = f"{RUN} {SMALL}"
    (line,) = [
        row.split()
        for row in cli(f"{asked} --dry-run").splitlines()
        if row.strip().startswith("letters")
    ]
    assert line[1:3] == ["1", "0"] and 3.9 < float(line[3]) <= 4 and float(line[5]) == 6
    told = cli.refused(f"{asked.removesuffix('2')}1,2")
    assert "account 'letters': 2 new releases cost epsilon=" in told and "of cap 6" in told
