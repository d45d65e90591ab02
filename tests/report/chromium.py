"""A Chromium without a window, driven over its pipe by the DevTools protocol: layout, colours,
console and requests of a report.

    with Chromium() as browser:
        browser.open(path, width=390, dark=True)
        browser.evaluate("document.title")
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

EXECUTABLE = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
PALE = """
(() => {
  const channel = c => (c /= 255) <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
  const light = colour => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map(Number);
    return .2126 * channel(r) + .7152 * channel(g) + .0722 * channel(b);
  };
  const page = light(getComputedStyle(document.documentElement).backgroundColor);
  return [...document.querySelectorAll('figure > div svg text')].filter(
    e => e.getBoundingClientRect().width && !e.closest('.keep, .lab') && e.textContent.trim()
  ).filter(e => {
    const ink = light(getComputedStyle(e).fill);
    return (Math.max(ink, page) + .05) / (Math.min(ink, page) + .05) < 4.5;
  }).map(e => e.textContent + ' ' + getComputedStyle(e).fill);
})()
"""
"""Texts of charts whose contrast to the page is below 4.5, with their colour."""
Json = dict[str, Any]


class Chromium:
    """One browser with one page. `problems` and `requests` are those since the last `open`."""

    def __init__(self) -> None:
        assert EXECUTABLE is not None
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands_read, self._commands = os.pipe()
        self._answers, answers_write = os.pipe()

        # Chromium reads commands from descriptor 3 and writes answers to 4.
        wiring = 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"'
        ends = (str(commands_read), str(answers_write))
        self._process = subprocess.Popen(
            ["bash", "-c", wiring, "bash", *ends, EXECUTABLE, *OPTIONS, f"--user-data-dir={self._profile.name}"],
            pass_fds=(commands_read, answers_write),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(commands_read)
        os.close(answers_write)
        self._ids = itertools.count(1)
        self._buffer = b""
        self._is_loaded = False
        self._session: str | None = None
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        attached = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # The whole session, because the browser has processes of its own.
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._commands)
        os.close(self._answers)
        self._profile.cleanup()

    def open(
        self, path: Path, *, width: int = 1400, height: int = 900, dark: bool = False, paper: bool = False
    ) -> float:
        """Load a file in a window of this size; return the seconds until it is loaded."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", {"media": "print" if paper else "", "features": [scheme]})
        self.problems.clear()
        self.requests.clear()
        self._is_loaded = False
        began = time.monotonic()
        self._call("Page.navigate", {"url": path.resolve().as_uri()})
        while not self._is_loaded:
            self._receive()
        # Fonts are decoded after the page is loaded.
        self.evaluate("document.fonts.ready.then(() => new Promise(done => requestAnimationFrame(() => done(1))))")
        return time.monotonic() - began

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page. A promise is awaited."""
        options = {"expression": script, "awaitPromise": True, "returnByValue": True}
        answer = self._call("Runtime.evaluate", options)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press_tab(self) -> None:
        """Press the tabulator key."""
        for kind in ("rawKeyDown", "keyUp"):
            key = {"type": kind, "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
            self._call("Input.dispatchKeyEvent", key)

    def screenshot(self, path: Path) -> None:
        """Write the whole page as PNG."""
        answer = self._call("Page.captureScreenshot", {"captureBeyondViewport": True})
        path.write_bytes(base64.b64decode(answer["data"]))

    def _call(self, method: str, options: Json | None = None) -> Json:
        wanted = next(self._ids)
        message: Json = {"id": wanted, "method": method, "params": options or {}}
        if self._session:
            message["sessionId"] = self._session
        raw = json.dumps(message).encode() + b"\0"
        while raw:
            raw = raw[os.write(self._commands, raw) :]
        while True:
            answer = self._receive()
            if answer.get("id") == wanted:
                assert "error" not in answer, (method, answer["error"])
                result: Json = answer["result"]
                return result

    def _receive(self) -> Json:
        while b"\0" not in self._buffer:
            chunk = os.read(self._answers, 1 << 20)
            assert chunk, "Chromium ended"
            self._buffer += chunk
        raw, _, self._buffer = self._buffer.partition(b"\0")
        message: Json = json.loads(raw)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, about: Json) -> None:
        if event == "Page.loadEventFired":
            self._is_loaded = True
        elif event == "Log.entryAdded":
            self.problems.append(about["entry"]["text"])
        elif event == "Runtime.exceptionThrown":
            self.problems.append(about["exceptionDetails"]["text"])
        elif event == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
