"""`python -m lab.architectures [--device cuda] [--results FILE] [NAME …]`: check architectures,
all or these, each in a process of its own.

What was found on a CPU is kept. A process that dies or hangs is a finding as well.
`docs/reference/models.md` is made of what is kept.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import torch
import transformers
from transformers.utils import logging

from dpicl.models.local.tiny import build_tiny_model
from lab.architectures.check import PROMPTS, Finding, check
from lab.architectures.small import names

RESULTS = Path(__file__).with_name("results.json")
SECONDS = 900
PROCESSES = 2


def checked(name: str, tokenizer_folder: Path, device: str = "cpu") -> Finding:
    """The finding of one architecture, whatever its process does."""
    context = (
        multiprocessing.get_context("fork")
        if device == "cpu"
        else multiprocessing.get_context("spawn")
    )
    receiver, sender = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder:
        process = context.Process(
            target=_check, args=(name, tokenizer_folder, Path(folder) / "model", device, sender)
        )
        process.start()
        sender.close()
        try:
            finding: Finding = (
                receiver.recv()
                if receiver.poll(SECONDS)
                else Finding(name, "crashed", sentence="does not end")
            )
        except EOFError:
            finding = Finding(name, "crashed", sentence="the process died")
        process.kill()
        process.join()
    return finding


def _check(name: str, tokenizer_folder: Path, home: Path, device: str, sender: object) -> None:
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    sender.send(check(name, tokenizer_folder, home, device))  # type: ignore[attr-defined]


def main() -> None:
    """Print what was found, and keep what a CPU gives."""
    parser = argparse.ArgumentParser(prog="python -m lab.architectures", description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where findings are kept")
    parser.add_argument("names", nargs="*", default=names())
    asked = parser.parse_args()
    chosen = asked.names
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(PROCESSES) as pool:
        tokenizer_folder = build_tiny_model(Path(folder), [*PROMPTS, " a clerk of the state"])
        findings = []
        for finding in pool.map(lambda name: checked(name, tokenizer_folder, asked.device), chosen):
            findings.append(finding)
            sys.stdout.write(
                f"{finding.name}: {finding.verdict}; {finding.reads}; {finding.sentence}\n"
            )
            sys.stdout.flush()
    if asked.device != "cpu":
        return
    is_anew = chosen == names() or not asked.results.exists()
    kept = (
        {}
        if is_anew
        else {
            finding["name"]: finding
            for finding in json.loads(asked.results.read_text(encoding="utf-8"))["findings"]
        }
    )
    kept |= {finding.name: asdict(finding) for finding in findings}
    content = {
        "transformers": transformers.__version__,
        "findings": [kept[name] for name in sorted(kept)],
    }
    asked.results.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
