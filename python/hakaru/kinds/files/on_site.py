"""Trees on the share of a site: a file server that exists, instead of Samba in a lab."""

from __future__ import annotations

from hakaru.engine import contract
from hakaru.errors import UsageError
from hakaru.files.place import address_of
from hakaru.fileserver.samba_settings import SambaSettings
from hakaru.kinds.files.load import load_at
from hakaru.kinds.files.place import smb_session
from hakaru.run.site_file import Site, SiteShare
from hakaru.study import Expanded, Study
from hakaru.study.expand import shown


def check(expanded: Expanded, site: Site) -> None:
    """Raise UsageError if files may not be created on the share, or if a point has its trees
    elsewhere or configures the server.
    """
    share = _share(site)
    if not share.expendable:
        raise UsageError(
            f"nothing was written: the load creates files and deletes them, and site {site.name!r} does not declare "
            f"folder {share.folder!r} of share {share.name!r} on {share.server} expendable",
            "if all data in that folder may be lost, add `expendable: true` to the share",
        )
    for point in expanded.points:
        load = load_at(expanded.at(point))
        to = load.to
        if to.smb is None or to.chain is not None:
            where = "in a directory of this machine" if to.chain is None else "on a disk in a guest"
            raise UsageError(
                f"nothing was written: at the point {shown(point)}, the trees are {where}, not on a share",
                "use `load.to: {smb: {}}`, or choose other points with --only",
            )
        if load.servers * load.clients > 1:
            raise UsageError(
                f"nothing was written: the point {shown(point)} has {load.servers} file servers and {load.clients} "
                "clients, and a site has one of each",
                "leave out `load.servers` and `load.clients`, or choose other points with --only",
            )
        if load.cold:
            raise UsageError(
                f"nothing was written: the point {shown(point)} sets `load.cold`, and hakaru cannot empty the caches "
                "of the file server of a site",
                "leave it out, or choose other points with --only",
            )
        if to.smb.server != SambaSettings():
            raise UsageError(
                f"nothing was written: the point {shown(point)} sets `load.to.smb.server`, and hakaru cannot configure "
                "the file server of a site",
                "configure it on the server and remove it here, or choose other points with --only",
            )


def destination(study: Study, site: Site) -> contract.FilesSmb:
    """The folder of the share, for the engine. Raises EnvironmentError_ if the server's name has no
    address.
    """
    smb, share = load_at(study).to.smb, _share(site)
    assert smb is not None
    user = share.user.user() if share.user else contract.SmbGuest()
    address = address_of(share.server, share.port)
    return smb_session(smb, address=address, share=share.name, folder=share.folder, user=user)


def _share(site: Site) -> SiteShare:
    assert site.share is not None
    return site.share
