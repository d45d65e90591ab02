"""The pages of `hakaru web`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hakaru.store import FORMAT, stored_runs, write_note
from hakaru.web.app import Web
from hakaru.web.hub import Hub
from starlette.testclient import TestClient

from tests.live.conftest import ScriptedRun
from tests.web.conftest import CAPTURE

WAIT_S = 120.0


def names(folder: Path) -> list[str]:
    return sorted(run.name for run in folder.iterdir() if not run.name.endswith(".partial"))


def with_report(folder: Path) -> str:
    return next(name for name in names(folder) if (folder / name / "report").is_dir())


@pytest.mark.parametrize(("language", "title"), [("en", "Runs"), ("ja", "実行の一覧")])
def test_all_runs_are_listed_in_both_languages(client: TestClient, folder: Path, language: str, title: str) -> None:
    page = client.get(f"/?lang={language}").text
    assert f'<html lang="{language}">' in page and title in page
    assert all(name in page for name in names(folder))


def test_texts_of_a_run_are_escaped(client: TestClient, folder: Path) -> None:
    write_note(folder / names(folder)[0], "<script>alert(1)</script>")
    for path in ("/", "/compare", f"/runs/{names(folder)[0]}"):
        page = client.get(path).text
        assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in page


def test_a_run_has_its_points_and_reports(client: TestClient, folder: Path) -> None:
    page = client.get(f"/runs/{with_report(folder)}").text
    assert "3,072" in page and "random-32k, 7 VMs" in page
    assert f"/runs/{with_report(folder)}/report/report.en.html" in page and '<iframe sandbox="allow-downloads" ' in page
    other = next(name for name in names(folder) if name != with_report(folder))
    without = client.get(f"/runs/{other}?lang=ja").text
    assert "<iframe" not in without and "hakaru report" in without
    # Without a report, the page shows the findings.
    assert "ボトルネック" in without


def test_a_report_is_sandboxed_and_a_pdf_is_downloaded(client: TestClient, folder: Path) -> None:
    html = client.get(f"/runs/{with_report(folder)}/report/report.en.html")
    policy = html.headers["content-security-policy"]
    assert (
        html.status_code == 200
        and policy.startswith("sandbox allow-downloads; default-src 'none'")
        and "script-src" not in policy
    )
    assert "frame-ancestors 'self'" in policy
    pdf = client.get(f"/runs/{with_report(folder)}/report/report.en.pdf")
    assert pdf.headers["content-type"] == "application/pdf"
    assert pdf.headers["content-disposition"].startswith("attachment")
    assert pdf.headers["content-security-policy"].startswith("sandbox")


@pytest.mark.parametrize(
    "path",
    [
        "/runs/{run}/run.json",
        "/runs/{run}/report/report.fr.html",
        "/runs/{run}/..%2frun.json",
        "/runs/{run}/report/..%2frun.json",
        "/runs/{run}/capture/run.json",
        "/runs/{run}/capture/..%2frun.json",
        "/runs/{run}/capture/none.pcapng",
        "/runs/..%2f..%2fetc/report/report.en.html",
        "/runs/%2e%2e/report/report.en.html",
        "/runs/none",
        "/static/../app.py",
        "/static/%2e%2e/app.py",
    ],
)
def test_no_other_file_can_be_read(client: TestClient, folder: Path, path: str) -> None:
    assert client.get(path.format(run=with_report(folder))).status_code == 404


def test_a_report_that_is_a_link_is_refused(client: TestClient, folder: Path) -> None:
    report = folder / with_report(folder) / "report" / "report.en.html"
    report.unlink()
    report.symlink_to("/etc/hostname")
    assert client.get(f"/runs/{with_report(folder)}/report/report.en.html").status_code == 404


def report_with_capture(folder: Path) -> Path:
    """Add a link to the report, as the report writes it, and return its run."""
    run = folder / with_report(folder)
    report = run / "report" / "report.en.html"
    report.write_text(f'<!doctype html><a href="../capture/{CAPTURE}">capture</a>')
    return run


def capture_link(page: str) -> str:
    """The only link of a report."""
    (link,) = re.findall(r'href="([^"]+)"', page)
    return str(link)


IN_FRAME = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}
"""Headers of a browser that follows a link in the sandbox, where it also sends no cookie."""


def test_a_link_from_a_report_to_a_capture_needs_no_cookie_but_the_key_of_its_file(
    client: TestClient, folder: Path
) -> None:
    run = report_with_capture(folder)
    link = capture_link(client.get(f"/runs/{run.name}/report/report.en.html").text)
    assert link.startswith(f"/runs/{run.name}/capture/{CAPTURE}?key=")
    client.cookies.clear()
    capture = client.get(link, headers=IN_FRAME)
    assert (capture.status_code, capture.content) == (200, b"packets")
    assert capture.headers["content-disposition"] == f'attachment; filename="{CAPTURE}"'
    other = link.replace("-host-1", "-host-2")
    for refused in (
        link.partition("?")[0],
        link[:-1],
        other,
        link.replace("/capture/", "/report/"),
        "/?key=" + link[-64:],
    ):
        assert client.get(refused, headers=IN_FRAME).status_code == 403
        assert client.get(refused).status_code == 401
    assert client.get(link, headers={"host": "evil.example"}).status_code == 421


@pytest.mark.parametrize("linked", ["file", "folder"])
def test_a_capture_that_is_a_link_is_refused(client: TestClient, folder: Path, linked: str) -> None:
    captures = folder / with_report(folder) / "capture"
    assert client.get(f"/runs/{with_report(folder)}/capture/{CAPTURE}").status_code == 200
    (captures / CAPTURE).unlink()
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / CAPTURE).write_bytes(b"secret")
    if linked == "file":
        (captures / CAPTURE).symlink_to(elsewhere / CAPTURE)
    else:
        captures.rmdir()
        captures.symlink_to(elsewhere)
    assert client.get(f"/runs/{with_report(folder)}/capture/{CAPTURE}").status_code == 404


FOREIGN = (
    '{"format": FORMAT}',
    '{"format": FORMAT, "study": "s", "kind": "vms", "started": "2026", "status": "lost"}',
    '{"format": FORMAT, "study": "s", "kind": "vms", "started": "2026", "status": []}',
    '{"format": FORMAT, "study": "s", "kind": "vms", "started": "2026", "status": "done", "error": {"a": 1}}',
    '{"format": FORMAT, "study": 1, "kind": [], "started": {}, "status": "done"}',
    '{"format": []}',
    "[]",
    "\\xff",
)


@pytest.mark.parametrize("text", FOREIGN)
def test_a_foreign_run_is_shown_as_unreadable(client: TestClient, folder: Path, text: str) -> None:
    (folder / "foreign").mkdir()
    (folder / "foreign" / "run.json").write_text(text.replace("FORMAT", str(FORMAT)))
    (folder / "foreign" / "summary.json").write_text("{}")
    for path in ("/", "/compare", "/runs/foreign"):
        answer = client.get(path)
        assert answer.status_code == 200 and "foreign" in answer.text and "unreadable" in answer.text
    assert next(run.status for run in stored_runs(folder) if run.name == "foreign") == "unreadable"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_closed_directory_of_another_user_hides_no_run(folder: Path) -> None:
    closed = folder / "closed.partial"
    closed.mkdir(mode=0o700)
    (closed / "run.json").write_text("{}")
    for each in [folder, *folder.parents][:4]:
        each.chmod(0o755)
    listing = "import sys, os; from pathlib import Path; from hakaru.store import stored_runs; "
    listing += "from hakaru.live.feed import live_runs; os.chdir(sys.argv[1]); os.setuid(65534); folder = Path(); "
    listing += "print(len(stored_runs(folder)), live_runs(folder))"
    listed = subprocess.run([sys.executable, "-c", listing, str(folder)], capture_output=True, text=True, check=False)
    assert listed.stdout == "2 []\n", listed.stderr


def test_an_error_does_not_end_the_hub(
    folder: Path, live: ScriptedRun, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("hakaru.web.hub.AGAIN_S", 0.0)

    async def body() -> tuple[bool, bool]:
        hub = Hub(folder)
        following = asyncio.create_task(hub.run())
        version = await asyncio.wait_for(hub.newer(0), WAIT_S)
        live.publisher.publish("sample", "not JSON")
        while hub.state is None or not hub.state.has_ended:
            version = await asyncio.wait_for(hub.newer(version), WAIT_S)
        ended = bool(json.loads(hub.shown("en"))["has_ended"])
        # The next turn follows the run again.
        await asyncio.wait_for(hub.newer(version), WAIT_S)
        alive = not following.done()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        return ended, alive

    assert asyncio.run(body()) == (True, True)
    assert "cannot follow the run in progress" in caplog.text


def test_two_runs_are_compared(client: TestClient, folder: Path) -> None:
    before, after = names(folder)
    page = client.get("/compare", params={"before": before, "after": after, "lang": "ja"})
    assert page.status_code == 200
    assert before in page.text and after in page.text and "latency_ms_p99" in page.text
    assert "read_latency_ms_p50" not in page.text
    every = client.get("/compare", params={"before": before, "after": after, "all": "1"}).text
    assert "read_latency_ms_p50" in every


def test_runs_that_cannot_be_compared_give_the_reason(client: TestClient, folder: Path) -> None:
    before, after = names(folder)
    (folder / after / "points.json").write_text("[]")
    answer = client.get("/compare", params={"before": before, "after": after})
    assert answer.status_code == 400 and "no point in common" in answer.text
    assert client.get("/compare", params={"before": before, "after": "../x"}).status_code == 400


def test_the_page_gets_the_run_in_progress_and_its_end(folder: Path, live: ScriptedRun) -> None:
    async def body() -> tuple[dict[str, Any], dict[str, Any]]:
        hub = Hub(folder)
        following = asyncio.create_task(hub.run())
        version = 0

        async def until(condition: Any) -> dict[str, Any]:
            nonlocal version
            while True:
                version = await asyncio.wait_for(hub.newer(version), WAIT_S)
                shown = json.loads(hub.shown("en"))
                if condition(shown):
                    return dict(shown)

        running = await until(lambda shown: shown["points"] and shown["points"][0]["limiter"])
        live.finish()
        ended = await until(lambda shown: shown["is_complete"])
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        return running, ended

    running, ended = asyncio.run(body())
    assert running["status_text"] == "running (load 2/12)"
    assert running["points"][0]["result"] == "1,297 ± 234" and running["tail"] == "p99 ms"
    assert running["points"][1]["is_current"]
    assert running["series"]["rates"][0] == {"name": "IOPS", "values": [2600]}
    assert [queue["name"] for queue in running["series"]["queues"]][:2] == ["in flight", "array port"]
    assert (ended["status_text"], ended["done"], ended["total"]) == ("done", 12, 12)


def test_the_stream_of_events_begins_with_the_state(folder: Path, live: ScriptedRun) -> None:
    web = Web(folder, "en", metrics=False)

    async def first() -> str:
        async for text in web._states("en"):
            return text
        return ""

    retry, data = asyncio.run(first()).split("\n", 1)
    assert retry == "retry: 2000" and data == "data: null\n\n"
