"""Places of trees on the command line: a directory of this machine, or a folder of a share.

/mnt/share/trees
smb://server/share/folder                 as the guest of the server
smb://domain;user@server:1445/share/folder
"""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hakaru.engine import contract
from hakaru.errors import EnvironmentError_, UsageError

PORT = 445
SCHEME = "smb://"
EXAMPLE = "write it as `smb://user@server/share/folder`"


def destination(text: str, password_file: Path | None) -> contract.FilesDirectory | contract.FilesSmb:
    """Return the place that a user names. `password_file`: a file whose only line is the password
    of the user in a URL.

    Raises UsageError for a URL that is none, EnvironmentError_ if its server has no address.
    """
    if not text.lower().startswith(SCHEME):
        if password_file is not None:
            raise UsageError(f"a directory needs no password: {text}", EXAMPLE)
        return contract.FilesDirectory(path=str(Path(text).absolute()))
    try:
        url = urlsplit(text)
        if url.password is not None:
            # Before any message that repeats the URL.
            raise UsageError("other users of this machine can read a password in a URL", "use --password-file")
        server, port = url.hostname, url.port or PORT
    except ValueError as error:
        raise UsageError(f"{text} is no URL: {error}", EXAMPLE) from None
    share, _, folder = unquote(url.path).strip("/").partition("/")
    if not server or not share or not folder or url.query or url.fragment:
        raise UsageError(f"{text} does not name a server, a share and a folder", EXAMPLE)
    user = _user(unquote(url.username or ""), password_file)
    return contract.FilesSmb(address=address_of(server, port), share=share, folder=folder, user=user)


def _user(name: str, password_file: Path | None) -> contract.SmbGuest | contract.SmbPassword:
    if bool(name) != (password_file is not None):
        raise UsageError("a user needs a password, and a password a user", f"{EXAMPLE}, with --password-file")
    if password_file is None:
        return contract.SmbGuest()
    domain, _, user = name.rpartition(";")
    secret = contract.SecretFile(path=str(password_file.absolute()))
    return contract.SmbPassword(name=user, domain=domain, password=secret)


def address_of(server: str, port: int) -> str:
    """Return address and port of a server. All tools of a run use the same address of its name."""
    try:
        found = socket.getaddrinfo(server, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise EnvironmentError_(
            f"file server {server} has no address: {error.strerror}", "check the name, or write the address"
        ) from None
    family, *_, address = found[0]
    host = f"[{address[0]}]" if family == socket.AF_INET6 else address[0]
    return f"{host}:{port}"
