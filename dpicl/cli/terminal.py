"""What all commands share: where they print, what --quiet leaves out, and progress.

An interrupt or a termination ends a command at any moment, whatever its libraries are doing then.
"""

from __future__ import annotations

import json
import logging
import math
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import asdict, dataclass, is_dataclass
from functools import wraps
from queue import Empty, SimpleQueue
from typing import IO, Any, ClassVar, NoReturn, ParamSpec, Protocol, TypeVar

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from dpicl.ground.errors import DpiclError
from dpicl.ground.nouns import twelve_digits
from dpicl.ground.printable import printable, unfiltered
from dpicl.ground.progress import QUIET, bar
from dpicl.ground.shutdown import SIGNALS, leave
from dpicl.ground.yaml_file import typed_value
from dpicl.home.settings import Settings, check_restored


class _Terminal(Console):
    """A console whose texts pass the filter, and whose own colours and moves do not."""

    @property
    def file(self) -> IO[str]:
        """What is written to."""
        stream: IO[str] = unfiltered(super().file)
        return stream

    @file.setter
    def file(self, stream: IO[str]) -> None:
        self._file = stream

    def render_str(self, text: str, **how: Any) -> Text:
        """A text, as wide as it is shown."""
        return super().render_str(printable(text), **how)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """What is no text but made of some, too."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


WIDTH = None if sys.stdout.isatty() else shutil.get_terminal_size((1_000, 0)).columns
"""Of what is no terminal: names in tables stay whole for the program that reads them."""
console = _Terminal(markup=False, emoji=False, highlight=False, width=WIDTH)
errors = _Terminal(markup=False, emoji=False, highlight=False, stderr=True)
HEARTBEAT = 30.0
"""Seconds between two lines of progress where there is no terminal."""
LOOK = 0.5
"""Seconds between two looks at how far it is."""


def say(*sentences: str, to: Console = console) -> None:
    """Print sentences, each on one line however narrow the terminal is."""
    for sentence in sentences:
        to.print(sentence, soft_wrap=True)


def note(*sentences: str, to: Console = console) -> None:
    """Print what is neither the result nor an error, unless --quiet was given."""
    if not QUIET.is_set():
        say(*sentences, to=to)


def refuse_all(problems: Sequence[DpiclError]) -> NoReturn:
    """Each on a line of standard error, as a single one is shown; exit code 2."""
    say(*(f"dpicl: {problem.told()}" for problem in problems), to=errors)
    sys.exit(2)


class _Notes(logging.Handler):
    """What is told of models, as notes on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage(), to=errors)


def show_models() -> None:
    """From now on say what is done to get and check a model, unless --quiet was given; where logs
    are JSON they say it.
    """
    log = logging.getLogger("dpicl.models")
    log.setLevel(logging.WARNING if QUIET.is_set() else logging.INFO)
    if not log.handlers and Settings.from_environment().logs != "json":
        log.addHandler(_Notes())


def new_table(*heads: str) -> Table:
    """An empty table, without rules."""
    return Table(*heads, box=None, header_style="bold")


def say_json(content: Any) -> None:
    """Print content for programs, on standard output; what has no bound is null."""
    print(json.dumps(_changed(content, _bounded), ensure_ascii=False, indent=2))  # noqa: T201 - the output of a command


def _bounded(value: float) -> float | None:
    return value if math.isfinite(value) else None


class PrintedRow(Protocol):
    """An answer that is a line of a table."""

    heads: ClassVar[tuple[str, ...]]

    def row(self) -> tuple[str, ...]:
        """The line's texts, one for each head."""


def table_of(kind: type[PrintedRow], rows: Iterable[PrintedRow]) -> Table:
    """Rows of one kind below its heads."""
    table = new_table(*kind.heads)
    for row in rows:
        table.add_row(*row.row())
    return table


def show(answer: object, text: Iterable[str | Table], *, as_json: bool) -> Console:
    """Print an answer, as JSON or as its text; gives the console for notes on it. Sums of numbers
    have twelve digits: 0.15, and not 0.15000000000000002.
    """
    if as_json:
        say_json(_changed(answer, twelve_digits))
        return errors
    for part in text:
        console.print(part, soft_wrap=isinstance(part, str))
    return console


def _changed(content: Any, change: Callable[[float], float | None]) -> Any:
    """Content with every number that is no whole one changed."""
    if is_dataclass(content) and not isinstance(content, type):
        content = asdict(content)
    if isinstance(content, dict):
        return {name: _changed(value, change) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_changed(value, change) for value in content]
    return change(content) if isinstance(content, float) else content


@dataclass
class Count:
    """How far something is: what is being done, how many of `total` things are done, and how far
    the one in work is.
    """

    doing: str
    of: str
    done: int = 0
    total: int | None = None
    detail: str = ""

    def update(self, done: int, total: int) -> None:
        """So many are done, of so many."""
        self.done = done
        self.total = total

    def line(self, seconds: float) -> str:
        """All of it in words, with the time that it has taken."""
        many = "" if self.total is None else f" {self.done} of {self.total} {self.of}"
        minutes, rest = divmod(round(seconds), 60)
        passed = f"{seconds:.0f} s" if seconds < 100 else f"{minutes} min {rest} s"
        return ", ".join(part for part in (self.doing + many, self.detail, passed) if part)


@contextmanager
def counted(
    doing: str,
    of: str,
    look: Callable[[Count], object] = lambda count: None,
    *,
    every: float = HEARTBEAT,
) -> Iterator[Count]:
    """Show on standard error how far something is: a bar on a terminal, else a line now and then,
    such as `running 12 of 64 cells, 3 min 30 s`.

    Args:
        look: brings the count up to date; called before it is shown.
        every: seconds between two lines.
    """
    count = Count(doing, of)
    stop = threading.Event()
    with _shown(count, look, every) as show:

        def watch() -> None:
            while not stop.wait(LOOK):
                show()

        show()
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield count
        finally:
            stop.set()
            watcher.join()
        show()


_PATIENCE = 1.0
"""Seconds between two looks at what goes on; what takes less is not shown."""


@contextmanager
def waiting(doing: str) -> Iterator[None]:
    """Show on a terminal what goes on that has no parts to count, and for how long. The cursor
    stays where the line begins: what is printed meanwhile takes its place, and nothing of it is
    left. Nothing elsewhere, with --quiet, or where logs are JSON.
    """
    if QUIET.is_set() or not errors.is_interactive or Settings.from_environment().logs == "json":
        yield
        return
    begun = time.monotonic()
    done = threading.Event()
    terminal = errors.file

    def put(text: str) -> None:
        terminal.write(f"\x1b[2K{text}\r")
        terminal.flush()

    def watch() -> None:
        is_shown = False
        while not done.wait(_PATIENCE):
            put(f"{printable(doing)}, {time.monotonic() - begun:.0f} s"[: errors.width - 1])
            is_shown = True
        if is_shown:
            put("")

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


@contextmanager
def _shown(
    count: Count, look: Callable[[Count], object], every: float
) -> Iterator[Callable[[], None]]:
    """Nothing with --quiet or where logs are JSON, a bar on a terminal, a line each `every` seconds
    elsewhere.
    """
    if QUIET.is_set() or Settings.from_environment().log_format == "json":
        yield lambda: None
        return
    if not errors.is_interactive:
        begun = last = time.monotonic()

        def line() -> None:
            nonlocal last
            if (now := time.monotonic()) - last >= every:
                last = now
                look(count)
                say(count.line(now - begun), to=errors)

        yield line
        return
    with bar(errors, count.of) as progress:
        task = progress.add_task(count.doing, total=None)

        def draw() -> None:
            look(count)
            description = ", ".join(part for part in (count.doing, count.detail) if part)
            progress.update(task, description=description, completed=count.done, total=count.total)

        yield draw


def split_values(text: str) -> list[str]:
    """The values of an option that takes several."""
    return [part.strip() for part in text.split(",") if part.strip()]


def typed_values(text: str) -> list[int | float | str]:
    """The same, numbers among them as such."""
    return [typed_value(part) for part in split_values(text)]


def check_state() -> None:
    """Refuse a wrong log format, or budgets in two places, before anything is charged."""
    settings = Settings.from_environment()
    _ = settings.log_format
    check_restored(settings.home)


def number(value: float | None, none: str = "none", figures: int = 4) -> str:
    """Of a table: so many figures, or that there is none."""
    return none if value is None else f"{value:.{figures}g}"


_TELL_SECONDS = 2.0
_LISTEN_SECONDS = 0.02
INTERRUPTION = "dpicl: interrupted; repeating the command is not charged again"
_sentence = INTERRUPTION
_tellers: list[Callable[[], object]] = [lambda: sys.stdout.flush()]
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def when_stopped(sentence: str) -> None:
    """What this process says from now on if it is stopped."""
    global _sentence
    _sentence = sentence


def tell_when_stopped(tell: Callable[[], object]) -> None:
    """What a stopped command does besides, within two seconds; whether it succeeds matters to
    nobody.
    """
    _tellers.append(tell)


def leave_when_told() -> None:
    """From now on a signal ends this process at once."""
    _listen(lambda sign, _: leave(_sentence, sign))


def stop_listening() -> None:
    """From now on a signal changes nothing: this process has done its work and ends."""
    _listen(signal.SIG_IGN)


def leave_to_python() -> None:
    """From now on an interrupt is an exception, and any other signal the end, as in every program
    in Python.
    """
    _listen(signal.SIG_DFL)
    _listen(signal.default_int_handler, signal.SIGINT)


def _listen(handler: Callable[..., object] | signal.Handlers, *signals: signal.Signals) -> None:
    for sign in signals or SIGNALS:
        # a shell's background jobs ignore an interrupt
        if signal.getsignal(sign) is not signal.SIG_IGN:
            signal.signal(sign, handler)


@contextmanager
def handlers_kept() -> Iterator[None]:
    """At the end the handlers of signals are what they were."""
    before = {sign: signal.getsignal(sign) for sign in SIGNALS}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


def stoppable(command: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A command that works in a thread; called in another than the main one, as it is."""

    @wraps(command)
    def waiting(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        if threading.current_thread() is not threading.main_thread():
            return command(*arguments, **options)
        ends: SimpleQueue[int | None] = SimpleQueue()
        results: list[Result] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                results.append(command(*arguments, **options))
            except BaseException as error:  # noqa: BLE001 - raised below
                errors.append(error)
            ends.put(None)

        with handlers_kept():
            _listen(lambda sign, _: ends.put(sign))
            threading.Thread(target=copy_context().run, args=(work,), daemon=True).start()
            if (sign := _first(ends)) is not None:
                leave_when_told()  # a second signal does not wait for what follows
                _tell_all()
                leave(_sentence, sign)
        if errors:
            raise errors[0]
        return results[0]

    waiting.is_stoppable = True  # type: ignore[attr-defined]
    return waiting


def _first(queue: SimpleQueue[int | None]) -> int | None:
    while True:
        try:
            # a signal that the system gives to another thread is heard only then
            return queue.get(timeout=_LISTEN_SECONDS)
        except Empty:
            continue


def _tell_all() -> None:
    def trying(tell: Callable[[], object]) -> None:
        with suppress(Exception):  # such as a server that the same signal has ended
            tell()

    tellers = [threading.Thread(target=trying, args=(tell,), daemon=True) for tell in _tellers]
    for teller in tellers:
        teller.start()
    for teller in tellers:
        teller.join(_TELL_SECONDS)
