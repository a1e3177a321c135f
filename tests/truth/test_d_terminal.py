"""Nothing that a file, a model or a library says moves a terminal: control and direction marks are
shown.
"""

from __future__ import annotations

import io
import json
import logging
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from dpicl.cli import terminal
from dpicl.ground import printable
from tests.truth.small import typed_in

MARKS = {
    "a colour": "\x1b[31m",
    "a cleared screen": "\x1b[2J",
    "a title": "\x1b]0;pwned\x07",
    "a link": "\x1b]8;;http://evil.example\x1b\\x\x1b]8;;\x1b\\",
    "a clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "an answer asked of the terminal": "\x1b[6n\x05",
    "eight bits": "\x9b31m\x90q\x9c",
    "a carriage return": "safe\rEVIL",
    "backspaces": "safe\b\b\b\bEVIL",
    "a bell and NUL": "\x07\x00",
    "a form feed": "\x0c\x0b",
    "delete": "\x7f",
    "right to left": "\u202eEVIL\u202c",
    "isolates": "\u2066\u2069\u200f\u061c",
    "a line of its own": "a\u2028b\u2029c",
    "tags": "\U000e0041\U000e007f",
}
ODD = [
    *MARKS.values(),
    *map(chr, (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x202E, 0xFEFF, 0xE0041)),
]


def moves(text: str) -> list[str]:
    """What in a text a terminal obeys."""
    return [
        letter
        for letter in text
        if letter not in "\n\t" and unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    ]


@pytest.mark.parametrize("text", MARKS.values(), ids=MARKS)
def test_a_mark_is_shown_as_json_writes_it(text: str) -> None:
    shown = printable.printable(text)
    assert moves(shown) == [] and json.loads(f'"{shown}"' if "\\" not in text else '""') in (
        text,
        "",
    )


def test_what_people_write_stays() -> None:
    for text in (
        "plain",
        "tab\tand\nline",
        "ä漢字🙂",
        "می\u200cخواهم",
        "👩\u200d👩\u200d👧",
        "a\u00a0b\u3000c",
        r"C:\u001b",
    ):
        assert printable.printable(text) == text


@contextmanager
def streams() -> Iterator[tuple[io.StringIO, io.StringIO]]:
    """Standard output and standard error behind the filter; a log that was set up before goes there
    too.
    """
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        logger, handler = logging.getLogger("a_library"), logging.StreamHandler()
        logger.addHandler(handler)
        printable.filter_streams()
        printable.filter_streams()
        yield out, err
        logger.removeHandler(handler)


def write_everywhere(text: str) -> None:
    """By each way in which something comes to a terminal."""
    print(text)
    print(text, file=sys.stderr)
    sys.stdout.writelines([text, "\n"])
    logging.getLogger("a_library").warning("%s", text)
    terminal.say(text)
    terminal.say(text, to=terminal.errors)
    table = terminal.new_table(text, "b")
    table.add_row("a", text)
    terminal.console.print(table)
    terminal.say_json({text: [text]})


@pytest.mark.parametrize("text", ODD, ids=lambda text: ascii(text)[:20])
def test_every_way_to_the_terminal_is_filtered(text: str) -> None:
    with streams() as written:
        write_everywhere(text.replace("\t", "").replace("\n", "") or "x")
    assert [moves(stream.getvalue()) for stream in written] == [[], []]
    assert [stream.getvalue().count("\n") for stream in written] == [10, 3]


def test_json_stays_json() -> None:
    with streams() as (out, _):
        terminal.say_json(MARKS)
    assert json.loads(out.getvalue()) == MARKS


def test_our_own_colours_and_bars_pass() -> None:
    stream = io.StringIO()
    console = terminal._Terminal(
        file=stream, force_terminal=True, color_system="standard", highlight=False
    )
    console.print("\x1b[2Jtext", style="bold red")
    assert stream.getvalue() == "\x1b[1;31m\\u001b[2Jtext\x1b[0m\n"


def test_a_filtered_stream_is_the_stream_else(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w", encoding="utf-8") as file:
        filtered: Any = printable._Filtered(file)
        assert (
            filtered.write("a\x1b") == 2
            and filtered.fileno() == file.fileno()
            and not filtered.isatty()
        )
        with pytest.raises(Exception, match="bytes"):  # by which typer tells streams of text
            filtered.write(b"")
    assert (tmp_path / "out").read_text() == "a\\u001b"


def contract(folder: Path, name: str) -> None:
    """A contract of texts that move a terminal."""
    texts = list(MARKS.values())
    columns = {
        "age": {"type": "integer", "bounds": [0, 9]},
        "word": {"type": "category", "categories": texts, "texts": {texts[0]: texts[1]}},
        "y": {"type": "category", "categories": ["no\x1b[2J", "yes\x9b31m"]},
    }
    content = {
        "name": name,
        "description": "d\x1b[31m" + texts[2],
        "source": {
            "file": f"{name}.csv",
            "title": texts[3],
            "licence": "l\x1b[2J",
            "citation": texts[5],
        },
        "privacy": {"budget": {"epsilon": 5}},
        "columns": columns,
        "label": {"column": "y", "question": "q\x1b[2J?"},
    }
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")


COMMANDS = (
    ("contract", "show", "evil"),
    ("contract", "check", "evil"),
    ("contract", "check", "contracts/evil.yaml"),
    ("data", "list"),
    ("protect", "evil", "--epsilon", "1", "--as", "text\x1b[2J"),
    ("protect", "evil", "--epsilon", "1", "--dry-run"),
    ("budget", "no\x1b[2J"),
    ("report", "no\x9b31m"),
    ("plan\x1b[2J",),
)


@pytest.mark.parametrize("typed", COMMANDS, ids=lambda typed: ascii(" ".join(typed)))
def test_a_command_on_a_contract_that_moves_the_terminal(
    tmp_path: Path, typed: tuple[str, ...]
) -> None:
    contract(tmp_path / "contracts", "evil")
    (tmp_path / "evil.csv").write_text("age,word,y\n1,\x1b[31m,no\x1b[2J\n", encoding="utf-8")
    done = typed_in(tmp_path, *typed)
    shown = done.stdout + done.stderr
    assert shown and moves(shown) == [] and "Traceback" not in shown


@pytest.mark.quick("config0")
@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "\x1b[2Jx", "architectures": ["LlamaForCausalLM"]},
        {"model_type": "llama\x1b]0;pwned\x07"},
        {"\x1b[2J": 1},
    ],
)
def test_a_model_that_moves_the_terminal(tmp_path: Path, config: dict[str, Any]) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    done = typed_in(tmp_path, "model", "check", str(tmp_path / "model"))
    shown = done.stdout + done.stderr
    assert shown and moves(shown) == []


def test_mutants_of_the_filter_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams that are left as they are, and a console of rich alone."""
    with monkeypatch.context() as mutant:
        mutant.setattr(printable._Filtered, "write", lambda self, text: self.unfiltered.write(text))
        with streams() as written:
            write_everywhere(MARKS["a colour"])
        assert all(moves(stream.getvalue()) for stream in written)
    with monkeypatch.context() as mutant:
        mutant.setattr(terminal._Terminal, "render", Console.render)
        mutant.setattr(terminal._Terminal, "render_str", Console.render_str)
        with streams() as (out, _):
            write_everywhere(MARKS["a cleared screen"])
        assert moves(out.getvalue())
