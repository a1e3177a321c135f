"""`dpicl ask --demos`: rows of one's own, answered by released demonstrations."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpicl.cli.ask import answers_of, drawn, mass_told, read_demonstrations
from dpicl.contract import parse_contract
from dpicl.contract.load import contract_digest
from dpicl.contract.parts import Target
from dpicl.data.prompts import central_queries
from dpicl.data.reading.queries import read_unlabelled
from dpicl.models.kinds.fake import HashScorer
from dpicl.models.requests import CONTINUATIONS, prompt
from tests.cli.conftest import Cli
from tests.harness import Place, install, shop, shop_rows
from tests.library.kinds import kind_contract, kind_rows, kind_tree

SECRET = "zq7secret"


@pytest.fixture
def demos(place: Place, cli: Cli) -> Path:
    """Eight demonstrations of a private table."""
    install(place, shop(private=True), shop_rows(300))
    cli(f"protect shop --epsilon 5 --shots 8 --out {place.root}/demos.jsonl")
    return place.root / "demos.jsonl"


def unlabelled(count: int) -> list[dict[str, str]]:
    """Rows without the label, and with a column that the contract does not know."""
    rows = list(csv.DictReader(io.StringIO(shop_rows(count, seed=7))))
    return [
        {**{name: value for name, value in row.items() if name != "bought"}, "note": SECRET}
        for row in rows
    ]


def csv_of(rows: list[dict[str, str]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def scores_of(scorer: Any, file: Path, shown: Sequence[Any]) -> np.ndarray:
    """What a model gives to the answers to rows of a file, after these demonstrations."""
    contract = parse_contract(shop(private=True), "shop.yaml")
    rows = read_unlabelled(file.read_bytes(), contract, file.name)  # type: ignore[arg-type]
    prompts = [prompt(shown, query) for query in central_queries(rows, contract)]  # type: ignore[arg-type]
    return np.asarray(scorer.score(prompts, CONTINUATIONS))


def test_rows_are_answered_by_the_prompt_of_their_values(
    place: Place, cli: Cli, demos: Path
) -> None:
    rows = unlabelled(5)
    as_csv, as_json = place.root / "rows.csv", place.root / "rows.jsonl"
    as_csv.write_text(csv_of(rows))
    as_json.write_text("".join(json.dumps({**row, "age": int(row["age"])}) + "\n" for row in rows))
    told = [cli(f"ask --demos {demos} --queries {file} --model fake") for file in (as_csv, as_json)]
    assert told[0] == told[1] and SECRET not in told[0]
    scores = scores_of(HashScorer("fake"), as_csv, read_demonstrations(demos).texts)
    answers = [json.loads(line) for line in told[0].splitlines()]
    assert [one["answer"] for one in answers] == [
        "Yes" if yes >= no else "No" for no, yes in scores
    ]
    assert [one["yes"] for one in answers] == pytest.approx(
        [1 / (1 + np.exp(no - yes)) for no, yes in scores], abs=1e-4
    )


@pytest.mark.quick("age,spent,colour,member\\n1,2,zq7secret,no\\n-rows.csv-colour")
@pytest.mark.parametrize(
    ("content", "name", "phrase"),
    [
        (
            f"age,spent,colour\n1,2,{SECRET}\n",
            "rows.csv",
            "column 'member': is not among the columns; expected all 4 features",
        ),
        (f"age,spent,colour,member\n1,2,{SECRET},no\n", "rows.csv", "colour"),
        (f"age,spent,colour,member\n{SECRET},2,red,no\n", "rows.csv", "age"),
        ("age,spent,colour,member\n", "rows.csv", "rows.csv"),
        (f'{{"age": 1, "note": "{SECRET}"}}\n', "rows.jsonl", "spent"),
        (f'["{SECRET}"]\n', "rows.jsonl", "one object in each line"),
        (f"{SECRET}\n", "rows.jsonl", "no JSON object in UTF-8"),
    ],
)
def test_rows_that_do_not_fit_are_refused_without_a_value(
    place: Place, cli: Cli, demos: Path, content: str, name: str, phrase: str
) -> None:
    (place.root / name).write_text(content)
    refused = cli.refused(f"ask --demos {demos} --queries {place.root / name} --model fake")
    assert phrase in refused and SECRET not in refused


def test_a_model_s_file_that_is_none_is_refused_by_its_first_bytes(
    place: Place, cli: Cli, demos: Path
) -> None:
    (place.root / "bad.gguf").write_text("A letter to a ward.\n")
    told = cli.refused(f"ask --demos {demos} --queries rows.csv --model {place.root}/bad.gguf")
    assert told.startswith("model 'bad.gguf' does not begin as a GGUF file does; expected")


def test_draws_are_averaged_and_a_row_is_answered_as_it_would_be_alone(
    place: Place, cli: Cli, demos: Path
) -> None:
    rows, file = unlabelled(4), place.root / "rows.csv"
    asked = f"ask --demos {demos} --model fake --shots 3 --queries {place.root}"
    file.write_text(csv_of(rows))
    (place.root / "last.csv").write_text(csv_of(rows[3:]))
    together = cli(f"{asked}/rows.csv --draws 4").splitlines()
    assert cli(f"{asked}/last.csv --draws 4").splitlines() == together[3:]
    read = read_demonstrations(demos)
    shown = drawn(read, 3, 4)
    assert len(set(shown)) == 4
    assert all(len(set(some)) <= 3 and set(some) <= set(read.texts) for some in shown)
    odds = np.exp([scores_of(HashScorer("fake"), file, some) for some in shown])
    expected = (odds / odds.sum(axis=2, keepdims=True)).mean(axis=0)[:, 1]
    assert [json.loads(one)["yes"] for one in together] == pytest.approx(expected, abs=1e-4)
    assert cli(f"{asked}/rows.csv").splitlines() != together


def test_draws_that_would_all_be_the_same_are_refused(place: Place, cli: Cli, demos: Path) -> None:
    (place.root / "rows.csv").write_text(csv_of(unlabelled(1)))
    asked = f"ask --demos {demos} --queries {place.root / 'rows.csv'} --model fake"
    for options, limit in {"--draws 2": "under", "--shots 9": "up to"}.items():
        assert f"expected a number {limit} 8" in cli.refused(f"{asked} {options}")


def test_private_texts_are_not_drawn_from_again(cli: Cli) -> None:
    assert "another draw of private rows would be charged" in cli.refused("ask 'a query' --draws 2")


def test_odd_letters_in_columns_that_are_no_features_do_no_harm(
    place: Place, cli: Cli, demos: Path
) -> None:
    (row,) = unlabelled(1)
    file = place.root / "odd.jsonl"
    file.write_bytes(
        "\ufeff".encode()
        + json.dumps({**row, "note": "a\u2028b\u0085c"}, ensure_ascii=False).encode()
        + b"\n"
    )
    assert len(cli(f"ask --demos {demos} --queries {file} --model fake").splitlines()) == 1
    file.write_text(json.dumps({**row, "colour": "\ud800"}))
    assert "colour" in cli.refused(f"ask --demos {demos} --queries {file} --model fake")


def test_demonstrations_of_another_version_of_the_contract_are_refused(
    place: Place, cli: Cli, demos: Path
) -> None:
    install(place, shop(private=True, description="Other words."))
    refused = cli.refused(f"ask --demos {demos} --queries rows.csv --model fake")
    assert "another version of contract shop" in refused


def test_where_nothing_is_predicted_nothing_can_be_asked(place: Place, cli: Cli) -> None:
    install(place, kind_tree("none", private=True), kind_rows(5))
    contract = kind_contract("none", private=True)
    line = {
        "contract": "customers",
        "contract_sha256": contract_digest(contract),
        "method": "mst_tabicl",
        "epsilon": 1,
    }
    demos = place.root / "rows of customers.jsonl"
    demos.write_text(json.dumps({**line, "text": "The age is 20.", "answer": ""}))
    refused = cli.refused(f"ask --demos '{demos}' --queries rows.csv --model fake")
    assert (
        "is of contract customers, which has no label; expected one that says what to answer"
        in refused
    )


def test_a_prompt_that_was_declined_has_no_answer() -> None:
    assert answers_of(
        np.log([[0.5, 0.5], [0.2, 0.8], [0.9, 0.1]]), Target("binary", ("No", "Yes"))
    ) == [{"answer": None, "yes": 0.5}, {"answer": "Yes", "yes": 0.8}, {"answer": "No", "yes": 0.1}]
    assert answers_of(
        np.log([[0.4, 0.4, 0.2], [0.2, 0.1, 0.7]]), Target("classes", ("a", "b", "c"))
    ) == [{"answer": None, "share": 0.4}, {"answer": "c", "share": 0.7}]


def test_a_file_that_is_none_of_ours_is_refused(place: Place, cli: Cli) -> None:
    other = place.root / "other.jsonl"
    line = '{"contract": "a", "contract_sha256": "d", "epsilon": 1, "method": "b", "text": "t"'
    line += ', "answer": "Yes"}'
    of_two = line + "\n" + line.replace('"a"', '"c"')
    for content in ("{}", SECRET, "", of_two):
        other.write_text(content)
        refused = cli.refused(f"ask --demos {other} --queries rows.csv --model fake")
        assert refused.startswith("other.jsonl") and SECRET not in refused
    answers = "--demos answers rows of a file by a model"
    queries, typed = "--queries (`-` for standard input)", ", and a typed query is no row"
    for words, told in (
        ("", f"{answers}; expected {queries} and --model"),
        ("--model fake", f"{answers}; expected {queries}"),
        ("--queries rows.csv", f"{answers}; expected --model"),
        ("q --model fake", f"{answers}{typed}; expected {queries}"),
        ("q --queries rows.csv --model fake", f"{answers}{typed}; expected no typed query"),
    ):
        assert cli.refused(f"ask --demos {other} {words}").endswith(told)


@pytest.mark.parametrize(
    "typed", ["--contract nowhere", "--epsilon 2", "--again", "--count 3", "--period 2026-12"]
)
def test_options_of_private_texts_are_refused(
    place: Place, cli: Cli, demos: Path, typed: str
) -> None:
    asked = f"ask --demos {demos} --queries rows.csv --model fake {typed}"
    assert f"{typed.split()[0]}: only for private texts" in cli.refused(asked)


@pytest.mark.parametrize(("mass", "usable"), [(0.0, False), (0.004, False), (0.5, True), (1, True)])
def test_what_the_labels_mass_means_is_said(mass: float, usable: bool) -> None:
    sentence = mass_told(mass)
    assert f"{mass:.2f} of its probability" in sentence
    assert ("do not use the answers" in sentence) != usable
