"""The process of `hakaru web`: an address on loopback, a token, and uvicorn."""

from __future__ import annotations

import contextlib
import secrets
import socket
import sys
from pathlib import Path

import uvicorn

from hakaru.errors import EnvironmentError_
from hakaru.live.follow import step_back
from hakaru.web.app import Web
from hakaru.web.guard import METRICS

ADDRESS = "127.0.0.1"
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
    with _listen(port) as listener:
        bound_port = listener.getsockname()[1]
        app = Web(folder, language, metrics=metrics).guarded(port=bound_port, token=token)
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
        base = f"http://{ADDRESS}:{bound_port}"
        print(f"{base}/?token={token}", flush=True)
        print("open this address in a browser of this machine; it works once", file=sys.stderr)
        if metrics:
            print(f"metrics for Prometheus: {base}{METRICS}", file=sys.stderr)
        with contextlib.suppress(KeyboardInterrupt):  # the usual end
            uvicorn.Server(config).run(sockets=[listener])
    return 0


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((ADDRESS, port))
        listener.listen(BACKLOG)
    except OSError as e:
        listener.close()
        raise EnvironmentError_(
            f"cannot listen on {ADDRESS}:{port}: {e.strerror}", "choose another port with --port; 0 is any free one"
        ) from e
    return listener
