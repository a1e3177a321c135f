"""A server on this machine that speaks the OpenAI protocol, as badly as it is told to.

By itself it has no model: a token is a word with the blank before it, and its log-probability
after a text is what `HashScorer` says. So the truth of every score is known.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from dpicl.models.kinds.fake import HashScorer
from dpicl.models.requests import Sampling

LABELS = ("No", "Yes")
WORDS = tuple(f"word{number}" for number in range(18))
"""With the labels, everything that the model may say next."""
Json = dict[str, Any]
Pairs = list[tuple[str, float | None]]


def truth(text: str, token: str) -> float:
    """Log-probability of one token after a text."""
    return float(HashScorer().score([text], [token])[0, 0])


def writing(prompt: str, temperature: float, seed: int) -> str:
    """What is written after a prompt by a server that `writes`, from the first word to the end."""
    if "WORDLESS" in prompt:
        return ""
    sampling = Sampling(new_tokens=8, temperature=temperature, seed=seed)
    return f"{HashScorer().generate([prompt], sampling)[0]}\nAnd so on."


@dataclass(frozen=True)
class Habits:
    """What a server does and does not do.

    `fault_every` N makes every N-th request meet the next of `faults`. Prompts that hold FILTERED,
    REFUSED, REJECTED or POISON are treated accordingly; SILENT ones get words without the labels,
    WORDLESS ones no text, CENSORED ones a text that the filter broke off.
    """

    model: str = "m"
    key: str = ""
    apis: tuple[str, ...] = ("completions", "chat")
    echo: str = "repeats"
    """`repeats`, `again` (each token has the chance that it comes once more), `ignores`, `refuses`
    (status 400) or `breaks` (status 500).
    """
    logprobs: str = "lists"
    """`lists`, `content` (a chat's shape everywhere) or `none`."""
    most_top: int = 20
    blanks: bool = True
    """Whether echoed tokens show their blanks."""
    text: str = " Yes, because"
    writes: bool = False
    """Whether a text is `writing`, and not always the same."""
    leads: str = " "
    """What stands before a text that it writes."""
    stops: bool = True
    """Whether it ends a text where it is asked to."""
    rejects: tuple[str, ...] = ()
    """Parameters that it does not know."""
    context: int = 0
    states_context: bool = True
    lists: int = 200
    """Status of the list of models."""
    usage: bool = True
    calls_itself: str = ""
    drifts: bool = False
    """Every answer differs a little."""
    location: str = ""
    """Redirects there."""
    faults: tuple[str, ...] = ()
    fault_every: int = 0
    retry_after: str = ""
    delay_seconds: float = 0.0


class Speaker(Protocol):
    """What a server says."""

    def read(self, text: str) -> Pairs:
        """The tokens of a text, each with its log-probability; the first has none."""

    def next(self, text: str, blank: str) -> Pairs:
        """Tokens that may follow, with their log-probabilities; a chat's have no blank."""


class Hashes:
    """Says what hashes say."""

    def read(self, text: str) -> Pairs:
        """See `Speaker`."""
        words = list(re.finditer(r"\s*\S+", text))
        return [
            (word[0], truth(text[: word.start()], word[0]) if word.start() else None)
            for word in words
        ]

    def next(self, text: str, blank: str) -> Pairs:
        """See `Speaker`."""
        return [
            (blank + word, truth(text, blank + word))
            for word in (WORDS if "SILENT" in text else LABELS + WORDS)
        ]


@dataclass
class EndpointServer:
    """What a server was asked and gave; `answered` counts whole answers by the text they were
    for.
    """

    habits: Habits
    speaker: Speaker = field(default_factory=Hashes)
    port: int = 0
    requests: list[Json] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    answered: Counter[str] = field(default_factory=Counter)
    at_once: int = 0
    most_at_once: int = 0
    drawn: int = 0
    prefilled: int = 0
    """Words that were read: of what is echoed all, else those after the longest beginning that was
    read before.
    """
    begun: set[str] = field(default_factory=set)

    @property
    def url(self) -> str:
        """What a model's entry names."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until either side is through with it."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                size = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
                body = await reader.readexactly(int(size[1])) if size else b""
                self.at_once += 1
                self.most_at_once = max(self.at_once, self.most_at_once)
                try:
                    await self._one(head, body, writer)
                finally:
                    self.at_once -= 1
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _one(self, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        path = head.split(" ")[1].removeprefix("/v1")
        key = re.search(r"authorization: Bearer (\S+)", head, re.IGNORECASE)
        self.keys.append(key[1] if key else "")
        asked: Json = json.loads(body) if body else {}
        fault = ""
        if body:
            self.requests.append(asked)
            faulty = self.habits.fault_every and len(self.requests) % self.habits.fault_every == 0
            fault = (
                self.habits.faults[
                    len(self.requests) // self.habits.fault_every % len(self.habits.faults)
                ]
                if faulty
                else ""
            )
            self._read(asked)
        await asyncio.sleep(self.habits.delay_seconds)
        if body:
            self.begun |= set(beginnings(text_of(asked)))
        if fault in ("stall", "close"):
            await asyncio.sleep(30 if fault == "stall" else 0)
            raise ConnectionError
        status, content = self._answer(path, asked)
        if fault.isdigit():
            status, content = int(fault), {"error": "busy"}
        if fault == "abort" and status == 200:
            choice: Json = content["choices"][0]
            holder, name = (choice, "text") if "text" in choice else (choice["message"], "content")
            holder[name], choice["finish_reason"] = (holder[name] or "")[:3], "abort"
        raw = json.dumps(content).encode()
        if fault == "truncate":
            raw = raw[: len(raw) // 2]
        retry = (
            f"Retry-After: {self.habits.retry_after}\r\n"
            if self.habits.retry_after and status == 429
            else ""
        )
        moved = f"Location: {self.habits.location}\r\n" if self.habits.location else ""
        if status == 200 and not fault and body:  # counted before the client can know
            self.answered[text_of(asked)] += 1
        writer.write(
            f"HTTP/1.1 {status} X\r\nContent-Length: "
            f"{len(raw) + (9 if fault == 'cut' else 0)}\r\n{retry}{moved}\r\n".encode()
            + raw
        )
        await writer.drain()
        if fault == "cut":
            raise ConnectionError

    def _answer(self, path: str, asked: Json) -> tuple[int, Json]:
        habits = self.habits
        if habits.location:
            return 307, {}
        if habits.key and self.keys[-1] != habits.key:
            return 401, {"error": {"message": "no key"}}
        if path == "/models" and habits.lists != 200:
            return habits.lists, {"detail": "no list"}
        if path == "/models":
            entry: Json = (
                {"id": habits.model, "max_model_len": habits.context}
                if habits.states_context and habits.context
                else {"id": habits.model}
            )
            return 200, {"data": [entry]}
        if path == "/stats":
            rows = [count for text, count in self.answered.items() if text.startswith("Row")]
            return 200, {
                "answered": len(rows),
                "answered_twice": sum(count > 1 for count in rows),
                "most_at_once": self.most_at_once,
            }
        api = {"/completions": "completions", "/chat/completions": "chat"}.get(path, "")
        if api not in habits.apis or asked["model"] != habits.model:
            return 404, {"error": {"message": "unknown", "code": "model_not_found"}}
        return self._judged(api, asked)

    def _read(self, asked: Json) -> None:
        """Count the words that are not kept from before: servers keep nothing for log-probabilities
        of a prompt.
        """
        whole = beginnings(text_of(asked))
        self.prefilled += (
            len(whole)
            if asked.get("echo")
            else 1 + sum(beginning not in self.begun for beginning in whole[:-1])
        )

    def _judged(self, api: str, asked: Json) -> tuple[int, Json]:
        habits, text = self.habits, text_of(asked)
        tokens = len(self.speaker.read(text))
        if habits.context and tokens > habits.context:
            told = (
                f"This model's maximum context length is {habits.context} tokens. However, you "
                f"requested {tokens} tokens: {text}"
            )
            return 400, {"error": {"message": told, "code": "context_length_exceeded"}}
        if "REJECTED" in text:
            return 400, {"error": {"message": f"cannot read {text}"}}
        if "FILTERED" in text and api == "completions":
            return 400, {"error": {"message": text, "code": "content_filter"}}
        if "POISON" in text or (asked.get("echo") and habits.echo == "breaks"):
            return 500, {"error": {"message": f"Unsupported param: echo, {text}"}}
        if set(asked) & set(habits.rejects):
            return 400, {
                "error": {
                    "message": f"Unsupported parameter: {habits.rejects}",
                    "code": "unsupported_parameter",
                }
            }
        if asked.get("echo") and habits.echo == "refuses":
            return 400, {"error": {"message": "Only no echo is supported"}}
        top: Any = asked.get(
            "top_logprobs", asked.get("logprobs", 0) if api == "completions" else 0
        )
        if top > habits.most_top:
            return 400, {"error": {"message": f"at most {habits.most_top} logprobs"}}
        choice = self._completion(asked) if api == "completions" else self._chat(asked)
        choice["finish_reason"] = (
            "content_filter" if "CENSORED" in text else choice["finish_reason"]
        )
        usage = (
            {"usage": {"prompt_tokens": tokens, "completion_tokens": new_tokens(asked)}}
            if habits.usage
            else {}
        )
        return 200, {
            "choices": [choice],
            "model": habits.calls_itself or habits.model,
            "system_fingerprint": "f1",
            **usage,
        }

    def _next(self, text: str, blank: str, top: int) -> Pairs:
        """The likeliest tokens after a text."""
        drift = len(self.requests) * 1e-4 if self.habits.drifts else 0.0
        said = [
            (token, (logprob or 0.0) - drift) for token, logprob in self.speaker.next(text, blank)
        ]
        return sorted(said, key=lambda entry: -entry[1])[: max(top, 1)]  # type: ignore[return-value]

    def _completion(self, asked: Json) -> Json:
        text, top = asked["prompt"], asked.get("logprobs", 0)
        echo = asked.get("echo") and self.habits.echo in ("repeats", "again")
        likely = self._next(text, " ", top)
        said, end = self._said(asked, likely)
        choice: Json = {
            "index": 0,
            "text": text + said if echo else said,
            "finish_reason": end,
            "logprobs": None,
        }
        if top and self.habits.logprobs != "none":
            pairs = self.speaker.read(text) if echo else []
            # as llama-cpp-python does where a model has no start token
            if self.habits.echo == "again":
                ends = [
                    sum(len(token) for token, _ in pairs[: place + 1])
                    for place in range(len(pairs))
                ]
                pairs = [
                    (token, truth(text[:end], token))
                    for (token, _), end in zip(pairs, ends, strict=True)
                ]
            choice["logprobs"] = self._written(
                [*pairs, likely[0]], [likely] if not echo else [{}, likely]
            )
        return choice

    def _said(self, asked: Json, likely: Pairs) -> tuple[str, str]:
        """A text and why it ends; tokens are counted by words."""
        if not self.habits.writes:
            return likely[0][0] if new_tokens(asked) == 1 else self.habits.text, "length"
        self.drawn += 1
        seed = asked.get("seed", self.drawn + 1000)  # without one nobody can repeat what is drawn
        whole = self.habits.leads + writing(text_of(asked), asked["temperature"], seed)
        words = re.findall(r"\s*\S+", whole)
        text = "".join(words[: new_tokens(asked)])
        end = "length" if len(words) > new_tokens(asked) else "stop"
        marks = (
            [text.find(mark) for mark in asked.get("stop", ()) if mark in text]
            if self.habits.stops
            else []
        )
        return (text[: min(marks)], "stop") if marks else (text, end)

    def _written(self, tokens: Pairs, tops: list[Any]) -> Json:
        if self.habits.logprobs == "content":
            listed = [{"token": token, "logprob": logprob} for token, logprob in tops[-1]]
            return {
                "content": [
                    {"token": token, "logprob": logprob, "top_logprobs": listed}
                    for token, logprob in tokens
                ]
            }
        shown = [token if self.habits.blanks else token.strip() for token, _ in tokens]
        return {
            "tokens": shown,
            "token_logprobs": [value for _, value in tokens],
            "top_logprobs": [dict(top) for top in tops],
        }

    def _chat(self, asked: Json) -> Json:
        text = text_of(asked)
        if "FILTERED" in text:
            return {"index": 0, "message": {"content": ""}, "finish_reason": "content_filter"}
        if "REFUSED" in text:
            return {
                "index": 0,
                "message": {"content": None, "refusal": "I cannot"},
                "finish_reason": "stop",
            }
        likely = self._next(text, "", asked.get("top_logprobs", 1))
        said, end = self._said(asked, likely)
        choice: Json = {"index": 0, "message": {"content": said}, "finish_reason": end}
        if asked.get("logprobs") and self.habits.logprobs != "none":
            listed = [{"token": token, "logprob": logprob} for token, logprob in likely]
            choice["logprobs"] = {"content": [{**listed[0], "top_logprobs": listed}]}
        return choice


def new_tokens(asked: Json) -> int:
    """How many are wanted, by either name."""
    return int(
        asked["max_completion_tokens"] if "max_completion_tokens" in asked else asked["max_tokens"]
    )


def text_of(asked: Json) -> str:
    """The prompt of either kind of request."""
    return str(asked["prompt"] if "prompt" in asked else asked["messages"][-1]["content"])


def beginnings(text: str) -> list[str]:
    """A text up to the end of each of its words."""
    return [text[: word.end()] for word in re.finditer(r"\s*\S+", text)]


@contextmanager
def serving(
    habits: Habits, *, speaker: Speaker | None = None, port: int = 0
) -> Iterator[EndpointServer]:
    """A running server, on a thread of its own; by default at any free port."""
    server, loop = EndpointServer(habits, speaker or Hashes()), asyncio.new_event_loop()
    listener = loop.run_until_complete(
        asyncio.start_server(server.serve, "127.0.0.1", port, backlog=1024, limit=1 << 24)
    )
    server.port = listener.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        listener.close()
        for task in (tasks := asyncio.all_tasks(loop)):
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks))
        loop.close()
