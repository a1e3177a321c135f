"""Write golden.json again, for a change that is meant: `python -m tests.net.write [SCENARIO …]`."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from tests.net.scenarios import SCENARIOS
from tests.net.world import world

GOLDEN = Path(__file__).with_name("golden.json")


def main() -> None:
    """All scenarios, or those that are named."""
    golden = json.loads(GOLDEN.read_text("utf-8")) if GOLDEN.exists() else {}
    with tempfile.TemporaryDirectory() as folder, world(Path(folder)) as made:
        for name in sys.argv[1:] or SCENARIOS:
            began = time.monotonic()
            golden[name] = made.observed(name)
            known = {known: golden[known] for known in sorted(SCENARIOS) if known in golden}
            content = json.dumps(known, indent=1, ensure_ascii=False)
            GOLDEN.write_text(content + "\n", "utf-8")
            print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
