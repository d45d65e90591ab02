"""The process of `hakaru web`: a random address on loopback, a token, and uvicorn."""

from __future__ import annotations

import contextlib
import secrets
import socket
import sys
from pathlib import Path

import uvicorn

from hakaru.errors import EnvironmentError_
from hakaru.live.follow import step_back
from hakaru.translation import shown
from hakaru.web.app import Web
from hakaru.web.guard import METRICS, METRICS_ADDRESS

BACKLOG = 64
END_S = 1
"""Time for answers in progress when the server ends. The events of a page never end by
themselves.
"""


def serve(folder: Path, port: int, language: str, *, metrics: bool) -> int:
    """Serve the runs of `folder` until Ctrl-C or SIGTERM. Prints the URL with the token on stdout.
    `port` 0: any free one. Raises EnvironmentError_ if the port is in use.
    """
    step_back()
    token = secrets.token_urlsafe(24)
    address = random_address()
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(_listen(address, port))]
        bound_port = listeners[0].getsockname()[1]
        if metrics:
            listeners.append(stack.enter_context(_listen(METRICS_ADDRESS, bound_port)))
        app = Web(folder, language, metrics=metrics).guarded(address=address, port=bound_port, token=token)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            lifespan="on",
            timeout_graceful_shutdown=END_S,
        )
        print(f"http://{address}:{bound_port}/?token={token}", flush=True)
        print(shown("open this address in a browser of this machine; it works once"), file=sys.stderr)
        if metrics:
            print(shown(f"metrics for Prometheus: http://{METRICS_ADDRESS}:{bound_port}{METRICS}"), file=sys.stderr)
        with contextlib.suppress(KeyboardInterrupt):  # the usual end
            uvicorn.Server(config).run(sockets=listeners)
    return 0


def random_address() -> str:
    """A loopback address other than 127.0.0.1, which other servers of this machine use. It keeps
    the cookie from them (`hakaru.web.guard`).
    """
    return ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(3))])


def _listen(address: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(BACKLOG)
    except OSError as e:
        listener.close()
        raise EnvironmentError_(
            f"cannot listen on {address}:{port}: {e.strerror}", "choose another port with --port; 0 is any free one"
        ) from e
    return listener
