"""A real browser, driven through its DevTools protocol: a page at a width, light or dark, by
keyboard, and what is wrong with it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, product
from pathlib import Path
from typing import Any

from websockets.sync.client import connect
from websockets.sync.connection import Connection

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
WIDTHS = (360, 820, 1280)
"""The first is a phone's."""
CHECKS = Path(__file__).with_suffix(".js").read_text("utf-8")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--remote-debugging-port=0",
)
KEYS = {"Tab": 9, "Enter": 13}


class Tab:
    """One page of a browser."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._numbers, self._session = connection, count(1), ""
        self.seen: list[dict[str, Any]] = []
        """Every event since the page was opened."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command."""
        message = {"id": next(self._numbers), "method": method, "params": parameters}
        self._connection.send(
            json.dumps(message | ({"sessionId": self._session} if self._session else {}))
        )
        while True:
            answer = json.loads(self._connection.recv(timeout=60))
            if answer.get("id") == message["id"]:
                assert "error" not in answer, (method, answer)
                return dict(answer["result"])
            self.seen.append(answer)

    def open(
        self,
        page: Path,
        *,
        width: int = 1400,
        dark: bool = False,
        scripts: bool = True,
        fragment: str = "",
    ) -> None:
        """A file, until it is there whole."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.send(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        self.send("Emulation.setScriptExecutionDisabled", value=not scripts)
        # from one fragment to another, nothing would be loaded
        for address in (
            "about:blank",
            page.resolve().as_uri() + fragment,
        ):
            self.seen = []
            self.send("Page.navigate", url=address)
            while not any(event.get("method") == "Page.loadEventFired" for event in self.seen):
                self.seen.append(json.loads(self._connection.recv(timeout=60)))

    @property
    def fetched(self) -> list[str]:
        """Every address that the page asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self.seen
            if event.get("method") == "Network.requestWillBeSent"
        ]

    def run(self, expression: str) -> Any:
        """The value of an expression in the page, which may call what `browser.js` defines."""
        wrapped = f"(() => {{ {CHECKS}\nreturn {expression}; }})()"
        result = self.send(
            "Runtime.evaluate", expression=wrapped, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def draw(self) -> None:
        """Two frames, after which the page's observers of sizes have seen what lies in it."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def unfold(self) -> None:
        """Every fold open, and drawn."""
        self.run("document.querySelectorAll('details').forEach(one => one.open = true)")
        self.draw()

    def press(self, key: str) -> None:
        """A key, down and up."""
        what = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]} | (
            {"text": "\r"} if key == "Enter" else {}
        )
        self.send("Input.dispatchKeyEvent", type="keyDown", **what)
        self.send(
            "Input.dispatchKeyEvent",
            type="keyUp",
            **{name: value for name, value in what.items() if name != "text"},
        )

    def type(self, text: str) -> None:
        """Letters, where the focus is."""
        self.send("Input.insertText", text=text)


@contextmanager
def open_tab(profile: Path) -> Iterator[Tab]:
    """A tab of a browser that ends with the block."""
    assert CHROMIUM, "no Chromium"
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr
            address = next(
                filter(
                    None,
                    (
                        re.search(r"DevTools listening on (ws://\S+)", line)
                        for line in process.stderr
                    ),
                )
            )[1]
            with connect(address, max_size=None) as connection:
                yield Tab(connection)
        finally:
            process.terminate()


def faults(tab: Tab, page: Path) -> list[str]:
    """What is wrong with a page, everything in it opened: at three widths, light and dark, and by
    keyboard.
    """
    found = []
    for width, dark in product(WIDTHS, (False, True)):
        tab.open(page, width=width, dark=dark)
        tab.unfold()
        wrong = [*tab.run("contrastFaults()"), *([] if dark else tab.run("layoutFaults()"))]
        found += [f"{width} px, {'dark' if dark else 'light'}: {fault}" for fault in wrong]
    tab.open(page)
    return found + _keyboard_faults(tab)


def _keyboard_faults(tab: Tab) -> list[str]:
    """Tab reaches everything in order and shows where it is; Enter opens and closes every fold."""
    found, order = [], []
    tab.unfold()
    expected = int(tab.run("focusable().length"))
    for _ in range(expected):
        tab.press("Tab")
        order.append(tab.run("place()"))
        found.append(tab.run("document.activeElement === document.body ? '' : focusFault()"))
    if order != [*range(expected)]:
        missed = sorted({*range(expected)} - {*order})
        first = tab.run(f"named(focusable()[{missed[0] if missed else 0}])")
        found.append(
            f"{len(missed)} of {expected} elements are not reached by Tab in order, the first: "
            f"{first}"
        )
    for number in range(int(tab.run("document.querySelectorAll('summary').length"))):
        summary = f"document.querySelectorAll('summary')[{number}]"
        tab.run(f"{summary}.focus()")
        tab.press("Enter")
        if tab.run(f"{summary}.parentElement.open"):
            found.append(tab.run(f"named({summary})") + ": Enter does not close it")
        tab.run(f"{summary}.parentElement.open = true")
    return [fault for fault in found if fault]
