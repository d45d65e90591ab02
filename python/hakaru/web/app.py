"""The routes of `hakaru web`. `hakaru.web.guard` has judged every request before it comes here.

The folders of a run have the same places as on a disk, so that links of a report between them work:
`/runs/RUN/report/report.en.html` and `/runs/RUN/capture/p01-1-host-1.pcapng`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from hakaru.errors import EnvironmentError_, HakaruError
from hakaru.report.charts import DARK_CSS
from hakaru.store import StoredRun, stored_run, stored_runs
from hakaru.store.captures import SUFFIX
from hakaru.web import pages
from hakaru.web.comparison import Comparisons
from hakaru.web.guard import METRICS, REPORT_POLICY, Guard, Keys
from hakaru.web.hub import Hub
from hakaru.web.metrics import exposition
from hakaru.wording import LANGUAGES

STATIC = Path(__file__).parent / "static"
SEND_S = 0.5
"""Shortest time between two states that a page gets."""
ALIVE_S = 10.0
"""Longest time without a line, so that a page notices a lost connection."""
CAPTURE = "capture"
REPORTS = {f"report.{language}.{form}" for language in LANGUAGES for form in ("html", "pdf")}


class Web:
    """The pages about the runs of `folder`. `language`: of readers who ask for none."""

    def __init__(self, folder: Path, language: str, *, metrics: bool) -> None:
        self._folder = folder
        self._default = language
        self._metrics = metrics
        self._hub = Hub(folder)
        self._comparisons = Comparisons()
        self._keys = Keys()

    def guarded(self, *, address: str, port: int, token: str) -> Guard:
        """The application, for readers who have the token."""
        routes = [
            Route("/", self._home),
            Route("/events", self._events),
            Route("/compare", self._compare),
            Route("/runs/{run}", self._run),
            Route("/runs/{run}/report/{file}", self._report),
            Route("/runs/{run}/capture/{file}", self._capture),
            Route("/static/charts.css", self._charts),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        if self._metrics:
            routes.append(Route(METRICS, self._scrape))
        app = Starlette(routes=routes, lifespan=self._lifespan)
        return Guard(app, address=address, port=port, token=token, keys=self._keys)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        following = asyncio.create_task(self._hub.run())
        try:
            yield
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    def _language(self, request: Request) -> str:
        asked = request.query_params.get("lang")
        return asked if asked in LANGUAGES else self._default

    async def _stored(self) -> list[StoredRun]:
        """All runs, the newest first."""
        return (await asyncio.to_thread(stored_runs, self._folder))[::-1]

    async def _home(self, request: Request) -> Response:
        return HTMLResponse(pages.home(await self._stored(), self._language(request)))

    async def _run(self, request: Request) -> Response:
        run = await self._named(request.path_params["run"])
        if run is None:
            return PlainTextResponse("there is no such run\n", 404)
        return HTMLResponse(pages.run(run, self._language(request)))

    async def _named(self, name: str) -> StoredRun | None:
        return await asyncio.to_thread(stored_run, self._folder, name)

    async def _report(self, request: Request) -> Response:
        run, name = await self._named(request.path_params["run"]), request.path_params["file"]
        path = _file_of(run, "report", name) if run is not None and name in REPORTS else None
        if run is None or path is None:
            return PlainTextResponse("there is no such report\n", 404)
        headers = {"Content-Security-Policy": REPORT_POLICY}
        if path.suffix == ".pdf":
            name = f"{run.name}.{name.removeprefix('report.')}"
            return FileResponse(path, filename=name, media_type="application/pdf", headers=headers)
        text = await asyncio.to_thread(path.read_text, encoding="utf-8", errors="replace")
        return HTMLResponse(self._keys.with_keys(text, run.name), headers=headers)

    async def _capture(self, request: Request) -> Response:
        run, name = await self._named(request.path_params["run"]), request.path_params["file"]
        path = _file_of(run, CAPTURE, name) if run is not None and name.endswith(SUFFIX) else None
        if path is None:
            return PlainTextResponse("there is no such capture\n", 404)
        return FileResponse(path, filename=name, media_type="application/x-pcapng")

    async def _charts(self, _: Request) -> Response:
        return FileResponse(DARK_CSS)

    async def _compare(self, request: Request) -> Response:
        language = self._language(request)
        before, after = (request.query_params.get(side, "") for side in ("before", "after"))
        all_rows = request.query_params.get("all") == "1"
        runs = await self._stored()
        chosen = [next((run for run in runs if run.name == name), None) for name in (before, after)]
        if chosen[0] is None or chosen[1] is None:
            return HTMLResponse(pages.compare_form(runs, language, ""), 400 if before or after else 200)
        try:
            compared = await _while_connected(
                request, self._comparisons.compare(chosen[0].path, chosen[1].path, language, all_rows=all_rows)
            )
        except HakaruError as error:
            status = 503 if isinstance(error, EnvironmentError_) else 400
            return HTMLResponse(pages.compare_form(runs, language, f"{error.message}: {error.hint}"), status)
        if compared is None:
            return Response(status_code=204)  # the browser has left
        return HTMLResponse(pages.compared(compared, before, after, language, all_rows=all_rows))

    async def _events(self, request: Request) -> Response:
        return StreamingResponse(self._states(self._language(request)), media_type="text/event-stream")

    async def _states(self, language: str) -> AsyncIterator[str]:
        """The newest state, again and again; states between two of them are left out."""
        version = self._hub.version
        yield f"retry: 2000\ndata: {self._hub.shown(language)}\n\n"
        while True:
            try:
                version = await asyncio.wait_for(self._hub.newer(version), ALIVE_S)
            except TimeoutError:
                yield ": alive\n\n"
                continue
            yield f"data: {self._hub.shown(language)}\n\n"
            await asyncio.sleep(SEND_S)

    async def _scrape(self, _: Request) -> Response:
        body, content_type = exposition(lambda: self._hub.state)
        return Response(body, headers={"Content-Type": content_type})


def _file_of(run: StoredRun, folder: str, name: str) -> Path | None:
    """A file of a run; None if there is none, or if a link leads to another file."""
    path = run.path / folder / name
    return path if path.is_file() and path.resolve() == run.path.resolve() / folder / name else None


async def _while_connected(request: Request, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any] | None:
    """Await `work`, which is cancelled when the browser disconnects; None then."""
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_left(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _left(request: Request) -> None:
    """Return when the browser has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
