"""Places of trees of studies: a directory, the share of a file server, or the disk of a guest."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hakaru.engine import contract
from hakaru.fileserver.chain_spec import SHARE_PATH, ChainPlan
from hakaru.fileserver.samba import PORT
from hakaru.fileserver.samba_settings import FileServer, Share, User
from hakaru.kinds.files import chain
from hakaru.kinds.files.load import FilesLoad, SmbSpec
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
    """Node → the file server, with one share; empty for a directory and for a server in a guest."""
    smb = load.to.smb
    if smb is None or load.to.chain is not None:
        return {}
    folder = scratch_folder() / smb.directory
    node = lab.array_name
    return {node: FileServer(node, (Share(name=SHARE, path=str(folder / node)),), (USER,), smb.server)}


def chain_plan(load: FilesLoad, lab: LabPlan) -> ChainPlan | None:
    """The chain in the guest, with Samba on it if tools are outside; None without a chain."""
    if load.to.chain is None:
        return None
    server = None
    if load.to.smb is not None:
        node = lab.loading_names[-1]
        server = FileServer(node, (Share(name=SHARE, path=SHARE_PATH),), (USER,), load.to.smb.server)
    return chain.plan(load.to.chain, lab, server)


def destination(load: FilesLoad, lab: LabPlan) -> contract.FilesDestination:
    """The place of the trees, for the engine."""
    if load.to.smb is not None:
        return _share(load.to.smb, lab, in_guest=load.to.chain is not None)
    if load.to.chain is not None:
        return contract.FilesDirectory(path=chain.FOLDER)
    assert load.to.directory is not None
    return contract.FilesDirectory(path=str(scratch_folder() / load.to.directory))


def _share(smb: SmbSpec, lab: LabPlan, *, in_guest: bool) -> contract.FilesSmb:
    client = lab.loading_names[0]
    if in_guest:
        address = f"{lab.addresses(lab.loading_names[-1])[0]}:{PORT}"
    else:
        reachable = lab.reachable_addresses(client)
        address = next(portal for portal in lab.portals(port=PORT) if portal.rpartition(":")[0] in reachable)
    user = contract.SmbPassword(name=USER.name, password=contract.SecretText(text=USER.password))
    return smb_session(smb, address=address, share=SHARE, folder="trees", user=user)


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
        compound=smb.compound,
        credits=smb.credits,
    )
