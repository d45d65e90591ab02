"""The pages in a real browser (Chromium), served by the real command."""

from __future__ import annotations

import contextlib
import http.server
import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hakaru.wording import LANGUAGES

from tests import axe
from tests.live.conftest import ScriptedRun
from tests.report.chromium import PALE
from tests.web.conftest import CAPTURE
from tests.web.test_pages import report_with_capture

sync_api = pytest.importorskip("playwright.sync_api")
ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium")
WAIT_MS = 120_000
FORMS: list[Any] = list(itertools.product((1400, 390), ("light", "dark")))
"""Width and colours of a screen."""

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


@dataclass
class Served:
    """A browser, and the server that it looks at."""

    browser: Any
    url: str
    """With the token."""
    faults: list[str]
    """Errors of pages, and what their security policy refused."""

    @property
    def base(self) -> str:
        return self.url.partition("/?")[0]

    @property
    def address(self) -> str:
        return self.base.removeprefix("http://").rpartition(":")[0]

    def page(self) -> sync_api.Page:
        """A new browser session at the first page."""
        page = self.browser.new_context().new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", lambda message: self.faults.append(message.text) if message.type == "error" else None)
        page.goto(self.url)
        page.wait_for_url(f"{self.base}/")
        return page


def width_of(element: sync_api.Locator) -> float:
    box = element.bounding_box()
    assert box is not None
    return float(box["width"])


def until(page: sync_api.Page, condition: Callable[[], bool]) -> None:
    """Let the page work until the condition holds; fail after a minute."""
    for _ in range(600):
        if condition():
            return
        page.wait_for_timeout(100)
    pytest.fail("the page did not get there")


@pytest.fixture
def served(folder: Path) -> Iterator[Served]:
    command = [sys.executable, "-m", "hakaru.cli", "web", "--port", "0", "--out", str(folder), "--lang", "en"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server,
        sync_api.sync_playwright() as playwright,
    ):
        assert server.stdout is not None
        served = Served(None, server.stdout.readline().strip(), [])
        try:
            # Root has no sandbox of Chromium. Names of other sites lead to this machine.
            rules = f"MAP other.example 127.0.0.1, MAP evil.example {served.address}"
            arguments = ["--no-sandbox", f"--host-resolver-rules={rules}"]
            served.browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
            yield served
        finally:
            if served.browser is not None:
                served.browser.close()
            server.terminate()
            assert server.wait(60) in (0, -15)


def test_the_run_in_progress_fills_at_every_width(served: Served, live: ScriptedRun) -> None:
    page = served.page()
    page.wait_for_selector("#rates .chart canvas")
    page.wait_for_selector("#points summary")
    page.wait_for_selector("#status:text-is('running (load 2/12)')")
    until(page, lambda: "1,297 ± 234" in page.inner_text("#points"))
    page.wait_for_selector("#rates .chart b:text-is('2,600')")
    live.sample(1, 1, 3456)
    page.wait_for_selector("#rates .chart b:text-is('3,456')")
    for width in (1400, 800, 390):
        page.set_viewport_size({"width": width, "height": 800})
        place, chart = page.locator("#rates .chart > div").first, page.locator("#rates .uplot").first
        until(page, lambda p=place, c=chart: abs(width_of(p) - width_of(c)) <= 1)
        until(page, lambda w=width: page.evaluate("document.documentElement.scrollWidth") <= w)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(20, 25, 30)"
    live.finish()
    page.wait_for_selector("#status:text-is('done')")
    page.click("#run a")
    page.wait_for_url(f"**/runs/{live.run.name}?lang=en")
    page.click("text=日本語")
    page.wait_for_selector("html[lang=ja]")
    assert served.faults == []


# Alone, because runs are compared only while a processor would be idle: beside other tests, a
# page took more than two minutes. A comparison takes seconds, so one test looks at its page.
@pytest.mark.alone
def test_two_runs_are_compared_by_clicks_on_pages_that_everybody_can_read(served: Served, folder: Path) -> None:
    # One run has a point that the other one lacks.
    points = min(folder.glob("*/points.json"))
    points.write_text(json.dumps(json.loads(points.read_text())[:-1]))
    page = served.page()
    page.locator("input[name=before]").nth(0).check()
    page.locator("input[name=after]").nth(1).check()
    page.click("button")
    page.wait_for_selector(".compared tbody tr")
    page.wait_for_selector("text=1 point exists only in")
    count = page.locator(".compared tbody tr").count()
    page.click("text=Show every comparison")
    page.locator(".compared tbody tr").nth(count).wait_for()
    assert served.faults == []
    assert "lang=en" in page.url
    for language in LANGUAGES:
        if language != "en":
            page.goto(page.url.replace("lang=en", f"lang={language}"))
            page.wait_for_selector(".compared tbody tr")
        page.evaluate(axe.SCRIPT)
        # The page has no script: width and scheme select styles.
        for width, scheme in FORMS:
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(axe.VIOLATIONS) == [], (width, scheme, language)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (width, language)
            if width == FORMS[0][0]:
                page.wait_for_selector("figure svg")
                assert page.evaluate("document.querySelectorAll('figure > div svg text').length") > 20
                assert page.evaluate(PALE) == [], (scheme, language)


def test_a_report_runs_no_script_and_a_second_use_of_the_token_fails(served: Served, folder: Path) -> None:
    page = served.page()
    name = next(run.name for run in folder.iterdir() if (run / "report").is_dir())
    page.goto(f"{served.base}/runs/{name}")
    title = page.title()
    report = page.frame_locator("iframe")
    report.locator("body:text-is('report')").wait_for()
    assert page.title() == title and name in title
    # The browser says what it refused.
    until(page, lambda: any("sandbox" in fault for fault in served.faults))
    other = served.browser.new_context().new_page()
    assert other.goto(served.url).status == 401
    assert other.goto(f"{served.base}/").status == 401


def test_a_link_in_a_report_downloads_a_capture(served: Served, folder: Path) -> None:
    run = report_with_capture(folder)
    page = served.page()
    page.goto(f"{served.base}/runs/{run.name}")
    with page.expect_download() as download:
        page.frame_locator("iframe").locator("a").click()
    assert download.value.suggested_filename == CAPTURE
    assert Path(download.value.path()).read_bytes() == b"packets"
    assert served.faults == []


def violations(served: Served, paths: dict[str, str]) -> dict[Any, Any]:
    """Return the violations that axe finds on pages in both languages, in every form.

    `paths`: page → selector of an element that appears last.
    """
    page = served.page()
    found = {}
    for language, path in itertools.product(LANGUAGES, paths):
        for width, scheme in FORMS:
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            page.goto(served.base + path.format(language))
            page.wait_for_selector(paths[path])
            page.evaluate(axe.SCRIPT)
            if here := page.evaluate(axe.VIOLATIONS):
                found[width, scheme, path.format(language)] = here
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    return found


def test_axe_finds_nothing_on_any_page(served: Served, folder: Path, live: ScriptedRun) -> None:
    # Without reports, because no script runs in their sandbox; `tests.report` checks them.
    run = next(run for run in folder.iterdir() if (run / "report").is_dir())
    other = next(each for each in folder.iterdir() if each not in (run, live.directory))
    paths = {
        "/?lang={}": "#points tr.current",
        f"/runs/{run.name}?lang={{}}": "iframe",
        f"/runs/{other.name}?lang={{}}": ".finding",
        "/compare?lang={}": "table.runs",
    }
    assert violations(served, paths) == {}


@contextlib.contextmanager
def other_site(script: str, address: str = "127.0.0.1", cookies: list[str] | None = None) -> Iterator[str]:
    """Serve a page with a script on another port of this machine. Adds the cookies that it gets to
    `cookies`.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if cookies is not None:
                cookies.append(self.headers.get("Cookie", ""))
            body = f"<!doctype html><title>other</title><body><script>{script}</script>".encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = http.server.ThreadingHTTPServer((address, 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f":{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


ATTEMPTS = """
const base = BASE, results = {};
const tries = {
  fetch: () => fetch(base + '/', {credentials: 'include'}).then((r) => r.text()),
  blind: () => fetch(base + '/', {credentials: 'include', mode: 'no-cors'})
    .then((r) => r.type === 'opaque' ? '' : 'read'),
  style: () => new Promise((done, fail) => { const l = document.createElement('link'); l.rel = 'stylesheet';
    l.onload = () => done('loaded'); l.onerror = fail; l.href = base + '/static/page.css'; document.head.append(l); }),
  script: () => new Promise((done, fail) => { const s = document.createElement('script');
    s.onload = () => done('loaded'); s.onerror = fail; s.src = base + '/static/live.js'; document.body.append(s); }),
  events: () => new Promise((done, fail) => { const e = new EventSource(base + '/events', {withCredentials: true});
    e.onmessage = (m) => done(m.data); e.onerror = () => { e.close(); fail(); }; }),
};
Promise.all(Object.entries(tries).map(([name, attempt]) =>
  attempt().then((found) => { results[name] = found; }, () => { results[name] = ''; })))
  .then(() => { window.results = results; });
"""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "other.example", "the same address"])
def test_a_page_of_another_origin_gets_nothing(served: Served, host: str) -> None:
    # The browser has the cookie, and other ports of the same address are the same site for it.
    page = served.page()
    cookies: list[str] = []
    is_same = host == "the same address"
    script = ATTEMPTS.replace("BASE", repr(served.base))
    with other_site(script, served.address if is_same else "127.0.0.1", cookies) as place:
        page.goto(f"http://{served.address if is_same else host}{place}")
        page.wait_for_function("() => window.results !== undefined")
        assert page.evaluate("window.results") == {"fetch": "", "blind": "", "style": "", "script": "", "events": ""}
    # Servers of other addresses do not get the cookie.
    assert cookies and (is_same or set(cookies) == {""})


def test_a_name_that_is_bound_to_this_machine_gets_nothing(served: Served) -> None:
    page = served.page()
    port = served.base.rpartition(":")[2]
    for path in ("/", "/metrics", "/static/page.css", f"/?{served.url.partition('?')[2]}"):
        answer = page.goto(f"http://evil.example:{port}{path}")
        assert answer.status == 421
