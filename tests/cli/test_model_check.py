"""`dpicl model check`: one table of what a run needs of a model, and one sentence for a model that
cannot be used.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from tests.cli.conftest import Cli
from tests.harness import Place
from tests.library.endpoint_server import Habits, serving
from tests.library.lm.gguf_models import write_gguf
from tests.library.tabular_models import every_package, random_weights
from tools.reference import COMMANDS

CHECKS = [
    "fits the memory",
    "loads",
    "scores labels one by one as in a batch",
    "scores labels of which one begins another",
    "votes on a text",
    "votes on a text that is read once",
    "writes",
]


def test_a_local_model_is_checked_in_all_that_a_run_asks_of_it(place: Place, cli: Cli) -> None:
    with place.entered():
        text = cli("model check tiny --json")
    found = TypeAdapter(COMMANDS["dpicl model check MODEL"]).validate_json(text, strict=True)
    assert found.usable and [one.check for one in found.checks] == CHECKS
    assert "float32 on cpu" in found.checks[1].detail and "random weights" in found.checks[1].detail
    assert (
        "shared beginnings" in found.checks[2].detail and found.checks[5].detail == "the same votes"
    )


def test_a_served_model_says_how_it_is_queried(place: Place, cli: Cli) -> None:
    with place.entered(), serving(Habits()) as server:
        found = json.loads(cli(f"model check {server.url}#m --json"))
    assert found["usable"]
    assert [one["check"] for one in found["checks"]] == ["answers", *CHECKS[2:4], "writes"]
    assert "completions" in found["checks"][0]["detail"]
    assert "repeats agree" in found["checks"][0]["detail"]
    assert "requests a prompt" in found["checks"][1]["detail"]


def test_a_fetched_file_is_checked_by_its_name_and_says_what_is_done(
    place: Place, cli: Cli, tmp_path: Path
) -> None:
    write_gguf(tmp_path / "mine.gguf", tmp_path / "models")
    with place.entered():
        folder = cli(f"model fetch {tmp_path / 'mine.gguf'} --quiet").strip()
        code, err = cli.ended(f"model check {tmp_path / 'mine.gguf'}")
        assert code == 0
        assert [
            next(
                phrase
                for phrase in ("opening it", "how it may be read, once", "how it writes, once")
                if phrase in line
            )
            for line in err.splitlines()
        ] == ["opening it", "how it may be read, once", "how it writes, once"]
        assert cli.ended(f"model check {tmp_path / 'mine.gguf'} --quiet") == (0, "")
        assert "smollm2" in cli("list")
        assert "of which nothing is fetched" in cli.ended("model fetch tiny")[1]
    assert (Path(folder) / "model.safetensors").is_file()
    assert not Path(folder).is_relative_to(place.root)


@pytest.mark.quick("tabicl")
@every_package
def test_a_model_of_tables_is_asked_about_rows(
    place: Place, cli: Cli, tmp_path: Path, package: str
) -> None:
    with place.entered():
        found = json.loads(
            cli(f"model check {random_weights(package, tmp_path / 'a.ckpt')} --json")
        )
    assert found["usable"]
    assert [one["check"] for one in found["checks"]] == [
        "loads",
        "answers rows one by one as in a batch",
    ]
    assert "random weights" in found["checks"][0]["detail"]


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        ("nothing-of-the-kind", "is unknown; expected"),
        ("/nowhere/at/all", "no such file or folder; expected"),
        ("tiny --api chat", "has no chat template"),
        ("tiny --dtype int4", "model 'tiny': dtype"),
        (
            "http://127.0.0.1:9/v1#far",
            (
                "model 'far': nothing answers at http://127.0.0.1:9/v1: one call failed 2 times "
                "(no connection); expected a server that answers: start it and try again"
            ),
        ),
    ],
)
def test_a_model_that_cannot_be_used_is_one_sentence(
    place: Place, cli: Cli, arguments: str, phrase: str
) -> None:
    with place.entered():
        assert phrase in cli.refused(f"model check {arguments}")


@pytest.mark.parametrize("command", ["model check {}", "model fetch {}", "run demo --model {}"])
def test_a_file_that_only_has_a_model_s_name_is_refused_by_every_command(
    place: Place, cli: Cli, tmp_path: Path, command: str
) -> None:
    (tmp_path / "bad.gguf").write_text("A letter to a ward.\n")
    with place.entered():
        told = cli.refused(command.format(tmp_path / "bad.gguf"))
    assert "model 'bad.gguf' does not begin as a GGUF file does; expected" in told
    assert "writing its weights" not in told


def test_a_model_that_is_too_large_is_refused_by_its_files_headers(
    place: Place, cli: Cli, tmp_path: Path
) -> None:
    header = json.dumps(
        {"w": {"dtype": "BF16", "shape": [1 << 20, 1 << 24], "data_offsets": [0, 1 << 45]}}
    ).encode()
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "dtype": "bfloat16"}))
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    started = time.monotonic()
    with place.entered():
        told = cli.refused(f"model check {tmp_path}")
    assert "needs 35184.4 GB for its weights in bfloat16" in told
    assert "are free on cpu; expected a smaller model" in told
    assert time.monotonic() - started < 30  # torch is imported
