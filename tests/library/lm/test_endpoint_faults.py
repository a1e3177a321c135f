"""A server that fails is asked again as long as that may help, and never by anybody who should not
be.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

from dpicl.ground.errors import ModelError
from dpicl.methods.ensemble_voting import Placement, Voters
from dpicl.models.endpoint import protocol
from dpicl.models.endpoint.protocol import BACKOFF_CAP_SECONDS, backoff, retry_after
from dpicl.models.kinds.fake import HashScorer
from tests.library.endpoint_server import EndpointServer, Habits, serving
from tests.library.lm.test_endpoint import opened
from tests.library.methods.test_dp_icl import ALONE, KEY, contract, table

BLANKED = [" No", " Yes"]
PROMPTS = [f"Row {number}. Cold? Answer:" for number in range(40)]
AGAIN = "expected a server that answers: start it and try again"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "BACKOFF_SECONDS", 0.01)


@pytest.mark.quick("503", "502")
@pytest.mark.parametrize("fault", ["429", "500", "502", "503", "408", "truncate", "cut", "close"])
def test_what_passes_by_itself_is_asked_again_and_answered_once(fault: str) -> None:
    with serving(Habits(echo="ignores", faults=(fault,), fault_every=9)) as server:
        scorer = opened(server, api="completions")
        probed, _ = len(server.requests), scorer.tally([], BLANKED)
        scores, tally = scorer.score(PROMPTS, BLANKED), scorer.tally(PROMPTS, BLANKED)
        answered = [server.answered[prompt] for prompt in PROMPTS]
        requests = len(server.requests)
    assert np.array_equal(scores, HashScorer().score(PROMPTS, BLANKED)) and answered == [1] * len(
        PROMPTS
    )
    assert tally["calls"] == len(PROMPTS)
    assert tally["repeated_calls"] == requests - probed - len(PROMPTS) > 0
    assert tally["lost_answers"] == (
        tally["repeated_calls"] if fault in ("truncate", "cut", "close") else 0
    )


def test_a_server_that_stalls_is_not_waited_for_for_ever() -> None:
    with serving(Habits(faults=("stall",), fault_every=30)) as server:
        scorer = opened(server, deadline_seconds=8)
        started = time.monotonic()
        assert np.array_equal(scorer.score(PROMPTS, BLANKED), HashScorer().score(PROMPTS, BLANKED))
        assert time.monotonic() - started < 25


def test_the_deadline_is_for_one_answer_with_all_attempts() -> None:
    with serving(Habits()) as server:
        scorer = opened(server, deadline_seconds=6)
        server.habits = Habits(delay_seconds=60)
        started = time.monotonic()
        with pytest.raises(ModelError) as late:
            scorer.score(PROMPTS[:1], BLANKED)
        assert time.monotonic() - started < 40
    assert str(late.value) == (
        f"model 'far': the server at {server.url} gives no answer: a call took more than 6 "
        f"seconds; {AGAIN}"
    )


@pytest.mark.exhaustive
def test_a_server_that_says_nothing_at_all_is_given_up_at_once_whatever_the_deadline() -> None:
    with serving(Habits(delay_seconds=60)) as server:
        started = time.monotonic()
        with pytest.raises(
            ModelError,
            match=f"gives no answer: it is silent for 6 seconds; {AGAIN}",
        ):
            opened(server)
        assert time.monotonic() - started < 30


@pytest.mark.parametrize("asked, least", [("1", 1.0), ("0", 0.0)])
def test_a_server_s_wish_to_wait_is_honoured(asked: str, least: float) -> None:
    with serving(
        Habits(echo="ignores", faults=("429",), fault_every=7, retry_after=asked)
    ) as server:
        scorer = opened(server, api="completions", max_connections=1)
        before = len(server.requests)
        started = time.monotonic()
        scorer.score(PROMPTS[:6], BLANKED)
        refused = (len(server.requests) // 7) - before // 7
        assert refused >= 1 and time.monotonic() - started >= refused * least


@pytest.mark.parametrize(
    "header, seconds",
    [
        ("0.5", 0.5),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("nan", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
    ],
)
def test_a_wait_is_a_number_or_a_date(header: str, seconds: float | None) -> None:
    assert retry_after(header) == seconds


def test_waits_are_jittered_in_full_doubled_and_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "BACKOFF_SECONDS", 0.5)
    for attempt, ceiling in [(1, 0.5), (3, 2.0), (30, BACKOFF_CAP_SECONDS)]:
        waits = [backoff(attempt, None) for _ in range(400)]
        assert min(waits) < ceiling / 10 and ceiling * 0.9 < max(waits) <= ceiling
    assert (backoff(1, 7.0), backoff(1, 9e8)) == (7.0, BACKOFF_CAP_SECONDS)


def test_a_server_that_is_gone_is_named_with_what_to_do() -> None:
    with serving(Habits()) as server:
        scorer = opened(server)
        scorer.score(PROMPTS[:10], BLANKED)
    with pytest.raises(ModelError) as gone:
        scorer.score(PROMPTS, BLANKED)
    assert re.fullmatch(
        f"model 'far': nothing answers at {server.url}: the last \\d+ calls failed "
        rf"\(no connection\); {AGAIN}",
        str(gone.value),
    )
    assert scorer.score(PROMPTS[:10], BLANKED).shape == (10, 2)


def test_answers_before_a_failure_are_kept() -> None:
    poisoned = [*PROMPTS, "POISON. Answer:"]
    with serving(Habits()) as server:
        scorer = opened(server)
        with pytest.raises(ModelError, match=r"(failed 10 times|calls failed) \(status 500\)"):
            scorer.score(poisoned, BLANKED)
        asked = len(server.requests)
        assert np.array_equal(scorer.score(PROMPTS, BLANKED), HashScorer().score(PROMPTS, BLANKED))
        assert len(server.requests) - asked < len(PROMPTS)


@pytest.mark.quick("mark1")
@pytest.mark.parametrize("mark", ["POISON", "word " * 60])
def test_rows_that_a_server_breaks_on_stop_no_ensemble_and_no_other_vote(mark: str) -> None:
    rows = [f"letter {number}" for number in range(20)]
    with serving(Habits(echo="ignores", context=50)) as server:
        voters = Voters(contract(), opened(server, trust="local"))
        tables = (table(rows), table([*rows, *[f"{number} {mark}" for number in range(9)]]))
        without, found = (
            voters.votes(Placement(one, KEY, Fraction(1), ALONE), [(0, "?")]) for one in tables
        )
        assert without == found
        asked = len(server.requests)
        assert voters.votes(Placement(tables[1], KEY, Fraction(1), ALONE), [(0, "?")]) == found
        assert len(server.requests) - asked <= 3 * 2 * 2 * 9, (
            "only public questions: what failed is known to fail"
        )


@pytest.mark.parametrize(
    "habits, told",
    [
        (Habits(model="other"), "status 404"),
        (
            Habits(key="k"),
            (
                "the server refuses the key (status 401); expected key_env to name the variable "
                "that "
                "holds it"
            ),
        ),
        (Habits(apis=()), "status 404"),
    ],
)
def test_what_never_passes_is_asked_once_in_every_manner(habits: Habits, told: str) -> None:
    with serving(habits) as server:
        with pytest.raises(ModelError) as refused:
            opened(server)
        assert len(server.requests) <= 5
    assert told in str(refused.value) and "k'" not in str(refused.value).removeprefix("model 'far'")


def test_a_key_comes_from_the_environment_and_is_in_nothing_that_is_kept(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FAR_KEY", "sesame-1")
    caplog.set_level("DEBUG")
    with serving(Habits(key="sesame-1", faults=("500",), fault_every=5)) as server:
        scorer = opened(server, key_env="FAR_KEY")
        scorer.score(["Hush. Answer:"], BLANKED)
        assert set(server.keys) == {"sesame-1"}
    kept = "\n".join([caplog.text, repr(vars(scorer)), repr(scorer.description)])
    assert "attempt 1 failed" in kept and "sesame" not in kept and "Hush" not in caplog.text


@pytest.mark.parametrize("value", ["", "naïve", "two\nlines"])
def test_a_key_that_is_not_there_or_no_header_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("FAR_KEY", value)
    with serving(Habits()) as server:
        with pytest.raises(ModelError) as refused:
            opened(server, key_env="FAR_KEY")
        assert server.keys == []
    assert (
        str(refused.value)
        == "model 'far': the variable FAR_KEY holds no key; expected the server's key, in "
        "printable ASCII"
    )


def test_a_redirect_is_not_followed_and_the_key_goes_nowhere_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FAR_KEY", "sesame")
    with serving(Habits()) as thief, serving(Habits(location=f"{thief.url}/models")) as server:
        with pytest.raises(
            ModelError,
            match=r"the server redirects \(status 307\); expected the address that answers by itself",  # noqa: E501
        ):
            opened(server, key_env="FAR_KEY")
        assert thief.keys == [] and server.keys == ["sesame"]


def test_a_login_of_the_user_s_for_the_host_is_not_sent(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    netrc = tmp_path_factory.mktemp("home") / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password sesame\n")
    monkeypatch.setenv("NETRC", str(netrc))
    heads = []
    with socket.create_server(("127.0.0.1", 0)) as door:

        def listen() -> None:
            call, _ = door.accept()
            heads.append(call.recv(4096).decode())
            call.sendall(b"HTTP/1.1 401 X\r\nContent-Length: 0\r\n\r\n")
            call.close()

        thread = threading.Thread(target=listen)
        thread.start()
        with pytest.raises(ModelError, match="refuses the key"):
            opened(EndpointServer(Habits(), port=door.getsockname()[1]))
        thread.join()
    assert heads[0].startswith("GET /v1/models") and "uthorization" not in heads[0]


@pytest.mark.exhaustive
def test_a_throttled_server_is_asked_less_at_once_and_all_is_answered() -> None:
    many = [f"Row {number}. Cold? Answer:" for number in range(200)]
    with (
        serving(Habits(echo="ignores", delay_seconds=0.05)) as free,
        serving(
            Habits(echo="ignores", delay_seconds=0.05, faults=("429",), fault_every=6)
        ) as throttled,
    ):
        for server in (free, throttled):
            scorer = opened(server, api="completions", max_connections=64)
            server.most_at_once = 0
            assert np.array_equal(scorer.score(many, BLANKED), HashScorer().score(many, BLANKED))
        assert throttled.most_at_once < free.most_at_once <= 64


def test_threads_share_a_scorer_and_ask_nothing_twice() -> None:
    with serving(Habits(echo="ignores")) as server:
        scorer = opened(server, api="completions")
        with ThreadPoolExecutor(4) as pool:
            found = [*pool.map(lambda _: scorer.score(PROMPTS, BLANKED), range(4))]
        assert {server.answered[prompt] for prompt in PROMPTS} == {1}
    assert all(np.array_equal(found[0], other) for other in found)
