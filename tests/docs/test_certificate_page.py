"""The lines of docs/certificate.md that verify without dpicl do so, and refuse what was changed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from dpicl.home.settings import Settings
from dpicl.release.certificate_files import certificate_of, public_key, write_certified
from tests.docs.pages import DOCS
from tests.library.certificates import made_up_certificate


def test_the_lines_of_the_page_verify_without_dpicl(tmp_path: Path) -> None:
    (lines,) = re.findall(
        r"```python\n(.*?)```", (DOCS / "certificate.md").read_text("utf-8"), re.DOTALL
    )
    assert "dpicl" not in lines
    settings = Settings(tmp_path / "home", None, tmp_path, tmp_path, tmp_path)
    path = tmp_path / "rows.csv"
    statement = write_certified(
        path, lambda file: file.write(b"a\n1\n"), made_up_certificate(), settings
    )
    assert statement.implementation.parameters["words"] == "naïve – ≤ 1", (
        "what is not ASCII is verified too"
    )

    def verify() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", lines, str(path), public_key(settings)],
            check=False,
            capture_output=True,
            text=True,
            encoding="utf-8",
        )

    assert verify().stdout == f"{statement.certifies}\n"
    path.write_bytes(b"a\n2\n")
    assert verify().returncode == 1
    path.write_bytes(b"a\n1\n")
    beside = certificate_of(path)
    beside.write_bytes(beside.read_bytes().replace(b'"delta": 0', b'"delta": 1', 1))
    assert verify().returncode == 1
