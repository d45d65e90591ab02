"""Places of trees of studies: a directory, the share of a file server, or the disk of a guest."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hakaru.engine import contract
from hakaru.fileserver.chain_spec import SHARE_PATH, ChainPlan
from hakaru.fileserver.samba_settings import FileServer, Share, User
from hakaru.kinds.files import chain
from hakaru.kinds.files.events import disk_sizes
from hakaru.kinds.files.load import FilesLoad, SmbSpec
from hakaru.kinds.files.seats import Seat, seats, server_nodes
from hakaru.lab.plan import LabPlan

VARIABLE = "HAKARU_FILES"
SHARE = "data"
# The server exists only in the lab's own network, which nothing else reaches.
USER = User("hakaru", "hakaru")


def scratch_folder() -> Path:
    """The folder for trees: $HAKARU_FILES, else `hakaru/files` in the cache folder of this user.

    A study names directories below it and cannot leave it, because a study file is data.
    """
    own = os.environ.get(VARIABLE)
    if own:
        return Path(own).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hakaru" / "files"


def file_servers(load: FilesLoad, lab: LabPlan) -> Mapping[str, FileServer]:
    """Node → its file server, with one share; empty for a directory and for a server in a guest."""
    smb = load.to.smb
    if smb is None or load.to.chain is not None:
        return {}
    folder = scratch_folder() / smb.directory
    return {
        node: FileServer(node, (Share(name=SHARE, path=str(folder / node)),), (USER,), smb.server)
        for node in server_nodes(load, lab)
    }


def chain_plans(load: FilesLoad, lab: LabPlan) -> tuple[ChainPlan, ...]:
    """The chain of each file server in its guest, on an array of its own, with Samba on it if tools
    are outside; empty without chains.
    """
    if load.to.chain is None:
        return ()
    plans = []
    for node, array in zip(server_nodes(load, lab), lab.array_names, strict=False):
        server: FileServer | None = None
        hosts: tuple[str, ...] = (node,)
        if load.to.smb is not None:
            server = FileServer(node, (Share(name=SHARE, path=SHARE_PATH),), (USER,), load.to.smb.server)
            hosts = tuple(seat.host for seat in seats(load, lab) if seat.server == node)
        plan = chain.plan(load.to.chain, lab, node, array, hosts, server)
        # Only then, because the device mapper takes a little time for each request.
        plans.append(replace(plan, spec=replace(plan.spec, extensible=bool(disk_sizes(load.events)))))
    return tuple(plans)


def directory(load: FilesLoad) -> contract.FilesDirectory:
    """The place of trees that the tools reach without a file server: in the guest of a chain, or a
    directory of this machine.
    """
    if load.to.chain is not None:
        return contract.FilesDirectory(path=chain.FOLDER)
    assert load.to.directory is not None
    return contract.FilesDirectory(path=str(scratch_folder() / load.to.directory))


def share(load: FilesLoad, seat: Seat) -> contract.FilesSmb:
    """The place of a client's trees: a folder of its own in the share of its server."""
    assert load.to.smb is not None
    user = contract.SmbPassword(name=USER.name, password=contract.SecretText(text=USER.password))
    folder = "trees" if load.clients == 1 else f"trees-{seat.number + 1}-of-{load.clients}"
    return smb_session(load.to.smb, address=seat.address, share=SHARE, folder=folder, user=user)


def smb_session(
    smb: SmbSpec, *, address: str, share: str, folder: str, user: contract.SmbGuest | contract.SmbPassword
) -> contract.FilesSmb:
    """A folder of a share, and the sessions of the tools with it."""
    return contract.FilesSmb(
        address=address,
        share=share,
        folder=folder,
        user=user,
        dialects=[smb.dialect],
        signing="required" if smb.signing else "if_required",
        encryption="if_required" if smb.encryption is None else "required",
        ciphers=["aes_128_gcm", "aes_128_ccm"] if smb.encryption is None else [smb.encryption],
        compound=smb.compound,
        folder_cache=smb.folder_cache,
        credits=smb.credits,
    )
