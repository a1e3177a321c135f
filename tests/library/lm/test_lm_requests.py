"""Claims about the fake scorer, and about what importing the language-model layer loads."""

from __future__ import annotations

import pytest

from dpicl.models.kinds.fake import HashScorer


def test_a_fake_score_is_the_same_on_every_machine() -> None:
    assert HashScorer().score(["Is it?"], [" Yes"])[0, 0] == pytest.approx(
        -0.3329232329260936, abs=1e-15
    )
