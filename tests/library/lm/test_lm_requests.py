"""Claims about the fake scorer, and about what importing the language-model layer loads."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dpicl.models.kinds.fake import HashScorer


def test_a_fake_score_is_the_same_on_every_machine() -> None:
    assert HashScorer().score(["Is it?"], [" Yes"])[0, 0] == pytest.approx(
        -0.3329232329260936, abs=1e-15
    )


def test_importing_the_layer_loads_neither_torch_nor_transformers() -> None:
    code = (
        "import sys, dpicl.models; sys.exit(bool({'torch', 'transformers', 'huggingface_hub'} & "
        "set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
