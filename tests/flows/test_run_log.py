"""A scheduled run says on its terminal when it begins and ends; Prefect's log has a refusal as one
sentence, and its page all frames of any other error.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator

import pytest

import flows.tabicl  # noqa: F401 - what a worker imports
from dpicl.ground.errors import BudgetError
from dpicl.home.settings import Settings
from flows.run_log import announced


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What the loggers of Prefect's engine write."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger = logging.getLogger("prefect")
    logger.addHandler(handler)
    yield stream
    logger.removeHandler(handler)


def raised(error: Exception) -> None:
    """As Prefect tells of an error, by the flow run's logger and then by its engine's."""
    run, engine = (logging.getLogger(f"prefect.{name}") for name in ("flow_runs", "engine"))
    try:
        raise error
    except type(error) as caught:
        run.exception("Encountered exception during execution: %r", caught)
        run.error("Engine execution exited with unexpected exception", exc_info=True)
        engine.error("Execution of flow run 'x' exited with unexpected exception", exc_info=True)


def test_a_refusal_is_one_sentence_and_each_is_said(written: io.StringIO) -> None:
    for name in ("shop", "till"):
        raised(BudgetError(f"account '{name}': 50% is spent; expected a higher cap"))
    assert written.getvalue().splitlines() == [
        f"account '{name}': 50% is spent; expected a higher cap" for name in ("shop", "till")
    ]


def test_any_other_error_has_its_frames(written: io.StringIO) -> None:
    raised(ZeroDivisionError("of ours"))
    assert written.getvalue().count("Traceback") == 3


def test_a_scheduled_run_says_that_it_begins_and_how_it_ended(
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = Settings.from_environment()
    with announced("nightly-1", settings, goes_on=False):
        pass
    with pytest.raises(BudgetError), announced("nightly-2", settings, goes_on=True):
        raise BudgetError("no")
    err = re.sub(r"after \d+ s", "after 0 s", capsys.readouterr().err)
    lines = [line.split(" ", 2)[2] for line in err.splitlines()]
    assert lines == [
        "run nightly-1 begins",
        "run nightly-1 completed after 0 s",
        "run nightly-2 goes on",
        "run nightly-2 failed by BudgetError after 0 s",
    ]
