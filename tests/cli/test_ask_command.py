"""`dpicl ask`: answers on standard output, what they cost beside it, and refusals before any row is
read.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.harness import Place, edited, install_texts, letters

ASK = "ask --contract letters --model fake --shots 1 --count 2 --epsilon 2"
WHO = "'who is there?'"


@pytest.fixture(autouse=True)
def private_letters(place: Place) -> None:
    install_texts(place, letters(privacy={"budget": {"epsilon": 5, "delta": 0.01}}))


def asked(cli: Cli, line: str) -> tuple[int, list[str], list[str]]:
    """Exit code, answers, and what is told beside them."""
    code, out, err = cli.whole(f"{ASK} {line}")
    return code, out.splitlines(), err.splitlines()


def test_an_answer_and_its_cost_then_the_same_for_nothing(place: Place, cli: Cli) -> None:
    code, (answer,), (told,) = asked(cli, WHO)
    assert code == 0 and answer in ("Wanted", "Unwanted")
    assert told.startswith("query 1 of 2: (")
    assert told.endswith("-DP, charged now")
    assert "all 2 together (1.9" in told
    assert asked(cli, WHO) == (0, [answer], ["query 1 of 2: answered before, nothing charged"])


def test_a_file_is_answered_until_the_queries_are_used_up(
    place: Place, cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "queries.txt").write_text("one\n\ntwo\nthree\n")
    code, answers, told = asked(cli, f"--queries {tmp_path / 'queries.txt'}")
    assert (code, len(answers), len(told)) == (2, 2, 3)
    assert "all 2 queries that were charged for are answered" in told[-1] and "--again" in told[-1]


@pytest.mark.quick(
    "'  '-expected at least one query that is not empty",
    "--queries nowhere.txt-queries=nowhere.txt: expected a text file that can be read",
    "q --queries nowhere.txt-a query, or --queries FILE",
    "q --epsilon much-epsilon=much",
)
@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        ("", "a query, or --queries FILE"),
        ("'  '", "expected at least one query that is not empty"),
        ("q --queries nowhere.txt", "a query, or --queries FILE"),
        ("--queries nowhere.txt", "queries=nowhere.txt: expected a text file that can be read"),
        ("q --epsilon much", "epsilon=much"),
        ("q --epsilon inf", "letters: epsilon=inf"),
        ("q --epsilon 6", "of cap 5"),
        ("q --contract heart", "expected one of"),
        (
            "q --model http://127.0.0.1:9/v1#far",
            (
                "model 'far' is a server, and raw rows stay local; expected a model on this "
                "machine, or an entry of pipelines.yaml with `trust: local`"
            ),
        ),
        ("q --model coarse", "has dtype bfloat16"),
        ("q --aggregation embedding", "does not fit answers of its kind"),
        ("q --aggregation guess", "aggregation"),
        ("q --subsets 100", "expected fewer subsets or shots"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(
    place: Place, cli: Cli, arguments: str, phrase: str
) -> None:
    with edited(place.root / "pipelines.yaml") as content:
        content["models"]["coarse"] = {
            "kind": "transformers",
            "id": "someone/model",
            "revision": "0" * 40,
            "dtype": "bfloat16",
        }
    assert phrase in cli.refused(f"{ASK} {arguments}")
    assert not list((place.home / "private").rglob("opened.json"))


def test_an_unforeseen_failure_quotes_nothing(
    place: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise ValueError("a private row")

    monkeypatch.setattr("dpicl.release.query_session.dp_icl.consult", fail)
    code, answers, (told,) = asked(cli, WHO)
    assert (code, answers) == (1, []) and told.startswith("dpicl: ask: ValueError at fail:")
