"""An interrupt or a termination ends a command at any moment, whatever its libraries are doing
then.

The command works in a thread of its own, and the main thread only waits, for its end or for a
signal. An exception that a handler raises in the middle of a library may be swallowed there, by a
destructor or an `except`, or end in its traceback; and libraries put handlers of their own in place
of ours, in the main thread only.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import wraps
from queue import Empty, SimpleQueue
from typing import ParamSpec, TypeVar

from dpicl.leaving import SIGNALS, leave

_TELL_SECONDS, _LISTEN_SECONDS = 2.0, 0.02
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
