"""The picture of README.md: `python -m tools.example_picture` runs the page's first block of Python
in an empty folder, and keeps what it drew as docs/example.svg. Its noise differs each time.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.words import ROOT


def main() -> None:
    """Write the picture; nothing of the user's own state is touched."""
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert block is not None
    with TemporaryDirectory() as folder:
        own = {"XDG_STATE_HOME": f"{folder}/state", "XDG_CONFIG_HOME": f"{folder}/config"}
        others = {name: value for name, value in os.environ.items() if name[:6] != "DPICL_"}
        environment = others | own | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", block[1]]
        subprocess.run(command, cwd=folder, env=environment, check=True)  # noqa: S603
        shutil.copyfile(Path(folder) / "released.svg", ROOT / "docs" / "example.svg")


if __name__ == "__main__":
    main()
