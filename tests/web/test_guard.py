"""Who may read the pages of `hakaru web`."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from hakaru.web.app import Web
from hakaru.web.server import random_address
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from tests.web.conftest import ADDRESS, BASE, PORT, TOKEN

PATHS = (
    "/",
    "/events",
    "/compare",
    "/runs/x",
    "/runs/x/report/report.en.html",
    "/static/page.css",
    "/metrics",
    "/nothing",
)
FROM_ELSEWHERE = (
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"origin": f"http://{ADDRESS}:8000"},
    {"origin": f"http://127.0.0.1:{PORT}"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
    # A page of another server on this machine.
    {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"},
)


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_shown_without_the_cookie(stranger: TestClient, path: str) -> None:
    if path == "/metrics":
        # It needs no cookie, but exists only on demand.
        assert stranger.get(path).status_code == 404
        return
    answer = stranger.get(path)
    assert answer.status_code == 401
    assert "open the address" in answer.text


def test_the_token_works_once_and_becomes_a_cookie_that_scripts_cannot_read(stranger: TestClient) -> None:
    entered = stranger.get(f"/?token={TOKEN}")
    cookie = entered.headers["set-cookie"].lower()
    assert all(part in cookie for part in (f"hakaru_{PORT}=", "httponly", "samesite=strict", "path=/"))
    # Without a domain, it is for this address alone.
    assert TOKEN not in cookie and "domain" not in cookie
    assert stranger.get("/").status_code == 200
    stranger.cookies.clear()
    assert stranger.get(f"/?token={TOKEN}").status_code == 401


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x", "t\u00f6ken"])
def test_a_wrong_token_gives_no_cookie_and_leaves_the_right_one_valid(stranger: TestClient, token: str) -> None:
    answer = stranger.get("/", params={"token": token})
    assert answer.status_code == 401 and "set-cookie" not in answer.headers
    assert stranger.get(f"/?token={TOKEN}").status_code == 200


@pytest.mark.parametrize("cookie", ["x", "", '"', f"hakaru_{PORT}=wrong", f"hakaru_{PORT}=", "hakaru_1=x"])
def test_an_invented_cookie_is_refused(stranger: TestClient, cookie: str) -> None:
    assert stranger.get("/", headers={"cookie": cookie}).status_code == 401


@pytest.mark.parametrize("other", ['prefs={"a":1,"b":2}', "a/b=1", "x", '"', "a=b=c", "k\u00e9=\u00ff"])
def test_cookies_of_other_programs_do_not_hide_ours(client: TestClient, other: str) -> None:
    cookie = f"hakaru_{PORT}={client.cookies[f'hakaru_{PORT}']}"
    for header in (f"{other}; {cookie}", f"{cookie}; {other}"):
        assert client.get("/", headers={"cookie": header.encode("latin-1")}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", ADDRESS, f"{ADDRESS}:80", "127.0.0.1:80", "", f"[::1]:{PORT}"]
)
@pytest.mark.parametrize("path", ["/", "/metrics", f"/?token={TOKEN}"])
def test_another_name_of_this_server_is_refused(client: TestClient, path: str, host: str) -> None:
    answer = client.get(path, headers={"host": host})
    assert answer.status_code == 421 and "hakaru" not in answer.text


@pytest.mark.parametrize("headers", FROM_ELSEWHERE, ids=str)
@pytest.mark.parametrize("path", ["/", "/runs/x/report/report.en.html", "/static/live.js", "/metrics"])
def test_requests_of_other_pages_get_nothing_even_with_the_cookie(
    client: TestClient, path: str, headers: dict[str, str]
) -> None:
    answer = client.get(path, headers=headers)
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


def test_a_link_with_the_token_may_be_followed_from_anywhere_but_not_embedded(stranger: TestClient) -> None:
    embedded = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}
    assert stranger.get(f"/?token={TOKEN}", headers=embedded).status_code == 403
    followed = embedded | {"sec-fetch-dest": "document"}
    assert stranger.get(f"/?token={TOKEN}", headers=followed).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_only_reading_is_possible(client: TestClient, method: str) -> None:
    assert client.request(method, "/").status_code == 405


def test_websockets_are_refused(client: TestClient) -> None:
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/"):
        pass


@pytest.mark.parametrize("path", ["/", "/compare", "/runs/x", "/static/page.css", "/?token=wrong"])
def test_every_answer_has_the_headers_that_protect_it(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_the_fixed_address_has_metrics_and_no_page(folder: Path, name: str) -> None:
    app = Web(folder, "en", metrics=True).guarded(address=ADDRESS, port=PORT, token=TOKEN)
    with TestClient(app, base_url=BASE) as client:
        assert client.get(f"/?token={TOKEN}").status_code == 200
        fixed = {"host": f"{name}:{PORT}"}
        assert client.get("/metrics", headers=fixed).status_code == 200
        for path in ("/", f"/?token={TOKEN}", "/static/page.css", "/events", "/metrics/"):
            assert client.get(path, headers=fixed).status_code == 421


def test_every_start_has_an_address_of_its_own() -> None:
    addresses = {random_address() for _ in range(100)}
    assert len(addresses) > 90
    assert all(ipaddress.ip_address(a).is_loopback and not a.startswith("127.0.") for a in addresses)


def test_metrics_need_no_cookie_but_the_right_name(folder: Path) -> None:
    app = Web(folder, "en", metrics=True).guarded(address=ADDRESS, port=PORT, token=TOKEN)
    with TestClient(app, base_url=BASE) as scraper:
        assert scraper.get("/metrics").status_code == 200
        assert scraper.get("/metrics", headers={"host": "evil.example"}).status_code == 421
        assert scraper.get("/metrics", headers=FROM_ELSEWHERE[0]).status_code == 403
        assert scraper.get("/").status_code == 401
