"""Who may read the pages, and the headers of every answer.

The server listens on loopback, which every program and every page in a browser of this machine can
reach. So each request must

- name this server in `Host`. A page of another name that resolves to its address (DNS rebinding)
  does not,
- come from its own pages or from the address bar (`Origin`, `Sec-Fetch-Site`),
- have the cookie of a browser that was given the token. The token is in the URL that the command
  prints. It works once, so it is worthless in a history or a log.

A browser sends the cookies of an address to every port of it, and another user of this machine may
serve a page on 127.0.0.1. So the address of the pages is a random one of 127.0.0.0/8, new at every
start, and the cookie is for this address alone. This does not help against a user who looks the
address up (`/proc/net/tcp`) and gets the owner to open a page on another port of it.

A report is shown in a sandbox, so its origin is none of ours and the browser sends no cookie when a
link in it is followed. Its links to captures therefore contain a key, which is for one file and
until the server ends. The page that contains them is shown only to those who have the cookie.

`/metrics` needs no cookie, because a scraper cannot get one; it exists only if it was asked for.
Scrapers may also use 127.0.0.1, which stays the same. No page is there.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from urllib.parse import quote, unquote

from starlette.datastructures import Headers, QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

METRICS = "/metrics"
METRICS_ADDRESS = "127.0.0.1"
"""Where scrapers find `/metrics` at every start."""
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "sandbox allow-downloads; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""A report comes from a run that somebody else may have measured. Its page has an origin of its
own, runs no script and loads nothing. Its tables may be downloaded.
"""
HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
ENTER = (
    '<!doctype html><meta http-equiv="refresh" content="0;url=/"><link rel="icon" href="data:,">'
    '<title>hakaru</title><a href="/">hakaru</a>'
)


class Keys:
    """Keys in the links from a report to captures of its run."""

    LINK = re.compile(r'href="\.\./(capture/[^"/?#&]+)"')
    """A link as `hakaru.report.capture_files` writes it."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def with_keys(self, report: str, run: str) -> str:
        """The page of a report with keys in its links to captures."""

        def with_key(link: re.Match[str]) -> str:
            path = f"/runs/{run}/{unquote(link[1])}"
            return f'href="{quote(path)}?key={self._of(path)}"'

        return self.LINK.sub(with_key, report)

    def fits(self, request: Request) -> bool:
        """Whether a request has the key of the file that it asks for."""
        given = request.query_params.get("key", "")
        return hmac.compare_digest(given.encode(), self._of(request.scope["path"]).encode())

    def _of(self, path: str) -> str:
        return hmac.new(self._secret, path.encode(), hashlib.sha256).hexdigest()


class Guard:
    """An ASGI application around `app` that answers only those who may read. `address`, `token`:
    those of the printed URL. `keys`: those of links in reports.
    """

    def __init__(self, app: ASGIApp, *, address: str, port: int, token: str, keys: Keys) -> None:
        self._app = app
        self._keys = keys
        self._host = f"{address}:{port}"
        self._scraped_hosts = {f"{name}:{port}" for name in (METRICS_ADDRESS, "localhost")}
        self._token: str | None = token
        self._session = secrets.token_urlsafe(32)
        # Of another start at the same address, which is improbable but possible.
        self._cookie = f"hakaru_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            refused = self._judge(Request(scope))
            await (refused or self._app)(scope, receive, _with_headers(send))
        else:
            await send({"type": "websocket.close"})

    def _judge(self, request: Request) -> Response | None:
        """The answer to a request that may not read or that brings the token; None for others."""
        headers, url = request.headers, request.url
        host = headers.get("host")
        if host != self._host and not (url.path == METRICS and host in self._scraped_hosts):
            return _refuse(421, "this server has another name")
        entering = url.path == "/" and "token" in request.query_params
        if request.method == "GET" and self._keys.fits(request):
            return None
        if not self._is_own(headers, navigates=entering):
            return _refuse(403, "requests of other pages are refused")
        if request.method not in ("GET", "HEAD"):
            return _refuse(405, "only GET is possible")
        if entering:
            return self._enter(request.query_params)
        if url.path == METRICS or self._has_cookie(request):
            return None
        return _refuse(401, "open the address that `hakaru web` has printed; it works once per start of the command")

    def _is_own(self, headers: Headers, *, navigates: bool) -> bool:
        """Whether a request comes from one of our pages, from the address bar, or from a program.
        The link with the token may be followed from anywhere.
        """
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and origin != f"http://{self._host}":
            return False
        if site in (None, "none", "same-origin"):
            return True
        return navigates and headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"

    def _enter(self, query: QueryParams) -> Response:
        """Exchange the token for the cookie."""
        given = query["token"].encode()
        if self._token is None or not secrets.compare_digest(given, self._token.encode()):
            return _refuse(401, "this token is wrong or was used before; start `hakaru web` again for a new one")
        self._token = None
        # A page, not a redirection: a browser that followed a link of another site would send no
        # strict cookie along with the redirected request.
        response = HTMLResponse(ENTER)
        # Without a domain, the cookie is for this address alone.
        response.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path="/")
        return response

    def _has_cookie(self, request: Request) -> bool:
        # Starlette's parser skips what it does not understand in cookies of other programs.
        given = request.cookies.get(self._cookie, "")
        return secrets.compare_digest(given.encode(), self._session.encode())


def _refuse(status: int, reason: str) -> Response:
    return PlainTextResponse(f"{reason}\n", status)


def _with_headers(send: Send) -> Send:
    """Add the headers that a response does not set itself."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            known = {name.lower() for name, _ in message.get("headers", [])}
            added = [(k.lower().encode(), v.encode()) for k, v in HEADERS.items() if k.lower().encode() not in known]
            message = {**message, "headers": [*message.get("headers", []), *added]}
        await send(message)

    return send_with_headers
