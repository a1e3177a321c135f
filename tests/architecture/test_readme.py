"""What the README shows is what the code does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


@pytest.mark.exhaustive
def test_the_library_example_runs(tmp_path: Path) -> None:
    example = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert example is not None
    write_customers(tmp_path)
    program = (
        example[1] + "\nprint(len(release.table()), [account.releases for account in "
        "dpicl.Session().budget()])"
    )
    home = {**os.environ, "DPICL_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=home,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("customers, AIM-TabICL, epsilon 1\n") and done.stdout.endswith(
        "\n10000 [1]\n"
    )
    assert (tmp_path / "released.parquet").exists()
    assert (tmp_path / "released.parquet.certificate.json").exists()


def write_customers(folder: Path) -> list[str]:
    """Three hundred rows; gives them without the label."""
    rows = [
        f"{18 + row % 80},{row % 500}.5,{('north', 'south', 'west')[row % 3]}" for row in range(300)
    ]
    members = [f"{row},{('no', 'yes')[number % 2]}" for number, row in enumerate(rows)]
    bought = [f"{row},{('no', 'yes')[number % 5 > 2]}" for number, row in enumerate(members)]
    (folder / "customers.csv").write_text(
        "\n".join(["age,spent,city,member,bought", *bought, ""]), "utf-8"
    )
    return members


@pytest.mark.exhaustive
def test_the_three_commands_print_what_is_shown(tmp_path: Path) -> None:
    """Answers vary with the noise; everything else is as it stands."""
    fields = [
        {"name": "age", "type": "integer", "constraints": {"minimum": 18, "maximum": 100}},
        {"name": "spent", "type": "number", "constraints": {"minimum": 0, "maximum": 500}},
        {"name": "city", "type": "string", "constraints": {"enum": ["north", "south", "west"]}},
        *(
            {"name": name, "type": "boolean", "falseValues": ["no"], "trueValues": ["yes"]}
            for name in ("member", "bought")
        ),
    ]
    (tmp_path / "customers.schema.json").write_text(json.dumps({"fields": fields}), "utf-8")
    members = write_customers(tmp_path)
    (tmp_path / "new.csv").write_text(
        "\n".join(["age,spent,city,member", *members[:2], ""]), "utf-8"
    )
    (tmp_path / "data_contracts").mkdir()
    shown = re.search(r"```console\n(.*?)```", README, re.DOTALL)
    assert shown is not None
    home = {
        **os.environ,
        "DPICL_HOME": str(tmp_path / "home"),
        "DPICL_DATA": str(tmp_path),
        "PYTHONPATH": str(ROOT),
    }
    for step in shown[1].removeprefix("$ dpicl ").split("$ dpicl "):
        command, _, expected = step.partition("\n")
        words = [sys.executable, "-m", "dpicl", *command.split()]
        done = subprocess.run(
            words, cwd=tmp_path, env=home, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr
        pattern = re.sub(
            r"\\{\"answer.*",
            r"\\{\"answer\": \"(Yes|No)\", \"yes\": [0-9.]+\\}",
            re.escape(expected).replace("…", ".*"),
        )
        assert re.search(pattern, done.stdout, re.DOTALL), done.stdout
