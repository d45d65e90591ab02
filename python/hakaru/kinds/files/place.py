"""Places of the trees of studies: a directory, or the share of a file server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hakaru.engine import contract
from hakaru.fileserver.samba import PORT
from hakaru.fileserver.samba_settings import FileServer, Share, User
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
    """Node → the file server, with one share; empty for a directory."""
    smb = load.to.smb
    if smb is None:
        return {}
    folder = scratch_folder() / smb.directory
    node = lab.array_name
    return {node: FileServer(node, (Share(name=SHARE, path=str(folder / node)),), (USER,), smb.server)}


def destination(load: FilesLoad, lab: LabPlan) -> contract.FilesDestination:
    """The place of the trees, for the engine."""
    if load.to.smb is not None:
        return _share(load.to.smb, lab)
    assert load.to.directory is not None
    return contract.FilesDirectory(path=str(scratch_folder() / load.to.directory))


def _share(smb: SmbSpec, lab: LabPlan) -> contract.FilesSmb:
    reachable = lab.reachable_addresses(lab.loading_names[0])
    return contract.FilesSmb(
        address=next(portal for portal in lab.portals(port=PORT) if portal.rpartition(":")[0] in reachable),
        share=SHARE,
        folder="trees",
        user=contract.SmbPassword(name=USER.name, password=contract.SecretText(text=USER.password)),
        dialects=[smb.dialect],
        signing="required" if smb.signing else "if_required",
        compound=smb.compound,
        credits=smb.credits,
    )
