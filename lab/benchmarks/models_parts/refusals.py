"""Models that cannot be used: how long a run of a private table takes to say so, in how many
sentences, and what it has charged by then.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from socket import create_server

from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.models.local.tiny import build_tiny_model
from lab.benchmarks.figures import Figures
from tests.harness import SMALL_OPTIONS, Place, install, new_place, shop, shop_rows
from tests.library.lm_hub_server import hub_serving


@contextmanager
def models(root: Path) -> Iterator[dict[str, tuple[str, dict[str, str]]]]:
    """Each with what the environment says where it is asked for."""
    tiny = build_tiny_model(root, ["Yes No"])
    encoder, large = root / "encoder", root / "large"
    for folder in (encoder, large):
        folder.mkdir()
        for file in tiny.iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((tiny / "config.json").read_text())
    (encoder / "config.json").write_text(
        json.dumps({**config, "model_type": "t5", "architectures": ["T5ForConditionalGeneration"]})
    )
    header = json.dumps(
        {"w": {"dtype": "F32", "shape": [10**6, 10**6], "data_offsets": [0, 4 * 10**12]}}
    ).encode()
    (large / "more.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with (
        hub_serving(tiny) as (hub, _),
        closing(create_server(("127.0.0.1", 0), backlog=64)) as server,
    ):
        silent = f"http://127.0.0.1:{server.getsockname()[1]}"
        cache = {"HF_HOME": str(root / "cache"), "HF_HUB_OFFLINE": "0"}
        yield {
            "of another kind": (str(encoder), {}),
            "too large": (str(large), {}),
            "missing": (str(root / "nothing"), {}),
            "unknown to the hub": ("org/none", {**cache, "HF_ENDPOINT": hub}),
            "gated": ("org/gated", {**cache, "HF_ENDPOINT": hub}),
            "on a silent hub": ("org/model", {**cache, "HF_ENDPOINT": silent}),
            "a silent server": (f"{silent}/v1#m", {}),
        }


def measure(figures: Figures) -> None:
    """The slowest refusal, and all else that must hold of each."""
    slowest, told, charged = 0.0, 0, 0
    with tempfile.TemporaryDirectory() as folder, models(Path(folder)) as known:
        place = new_place(Path(folder) / "place")
        install(place, shop(private=True), shop_rows(80))
        for name, (model, environment) in known.items():
            started = time.monotonic()
            done = place.dpicl(
                "run",
                "private",
                *SMALL_OPTIONS,
                "--methods",
                "mst_tabicl",
                "--executor",
                "pool",
                "--model",
                model,
                timeout=60,
                file_limit=None,
                **environment,
            )
            taken = time.monotonic() - started
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            print(
                f"  {name:20} {taken:5.1f} s, exit {done.returncode}: {lines[-1] if lines else ''}"
            )
            slowest, told = max(slowest, taken), told + (done.returncode == 2 and len(lines) == 1)
            charged += _charged(place)
    figures.at_most("slowest-refusal-of-a-model", slowest, 10, " s")
    figures.exactly("models-refused-in-one-sentence", told, len(known))
    figures.exactly("charged-before-a-refusal", charged, 0)


def _charged(place: Place) -> int:
    with place.entered(), open_ledger(Settings.from_environment()) as ledger:
        return sum(len(list(ledger.entries(account.name))) for account in ledger.accounts())


if __name__ == "__main__":
    _figures = Figures()
    measure(_figures)
    _figures.finish()
