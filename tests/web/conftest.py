"""The pages about a folder with two runs that have ended and one in progress."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hakaru.analysis import summarise
from hakaru.web.app import Web
from starlette.testclient import TestClient

from tests.fixtures.make_run import make_run
from tests.live.conftest import ScriptedRun, scripted_run

PORT = 9270
ADDRESS = "127.3.2.1"
BASE = f"http://{ADDRESS}:{PORT}"
TOKEN = "the-token"
CAPTURE = "p01-1-host-1.pcapng"


@pytest.fixture(scope="session")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write two runs with summaries, the first with a report that contains a script."""
    folder = tmp_path_factory.mktemp("ended")
    first, second = make_run(folder), make_run(folder)
    for run in (first, second):
        summarise(run)
    (first / "report").mkdir()
    (first / "report" / "report.en.html").write_text("<!doctype html><script>parent.document.title='x'</script>report")
    (first / "report" / "report.en.pdf").write_bytes(b"%PDF-1.7")
    (first / "capture").mkdir()
    (first / "capture" / CAPTURE).write_bytes(b"packets")
    return folder


@pytest.fixture
def folder(ended: Path, tmp_path: Path) -> Path:
    """A folder of runs of the test's own."""
    return Path(shutil.copytree(ended, tmp_path / "runs"))


@pytest.fixture
def live(folder: Path, invented_run: Path) -> Iterator[ScriptedRun]:
    """The run in progress."""
    with scripted_run(invented_run, folder) as run:
        run.start()
        run.begin(0, 1, 0)
        run.end(0, 1, 1300)
        run.begin(1, 1, 1)
        run.sample(1, 1, 2600)
        yield run


@pytest.fixture
def stranger(folder: Path) -> Iterator[TestClient]:
    """A client without a cookie."""
    app = Web(folder, "en", metrics=False).guarded(address=ADDRESS, port=PORT, token=TOKEN)
    with TestClient(app, base_url=BASE, follow_redirects=False) as client:
        yield client


@pytest.fixture
def client(stranger: TestClient) -> TestClient:
    """A client that has used the token."""
    assert stranger.get(f"/?token={TOKEN}").status_code == 200
    return stranger
