"""Amanda's amtapetype in a guest: fills a cartridge and describes it in Amanda's words."""

from __future__ import annotations

from tests.guests.tape_library import LONG_S, Library

# Without the property, Amanda takes the ENOSPC of an early warning for the end of the tape. With
# it, it repeats the write, and reports a logical end of the medium (LEOM) if that succeeds.
CONFIGURATION = """
define device drive {
  tapedev "tape:/dev/nst0"
  device-property "LEOM" "true"
}
"""
_ASK = '$device->property_get("compression")'


async def install(library: Library) -> None:
    """Do the work of the packages' scripts, which did not run: user, folders, configuration.

    amtapetype gets the answer that the drive does not compress. Without one it would write for
    60 s, fail if that fills the cartridge, and judge by this machine's speeds.
    """
    await library.run(
        "echo backup:x:34:34::/tmp:/bin/sh >>/etc/passwd; echo backup:x:34: >>/etc/group\n"
        "mkdir -p /tmp/amanda /var/log/amanda /etc/amanda/lab; chown backup:backup /tmp/amanda /var/log/amanda\n"
        f"cat >/etc/amanda/lab/amanda.conf <<'END'\n{CONFIGURATION}END\n"
        f"grep -qF '{_ASK}' /usr/bin/amtapetype; sed -i 's/{_ASK}/0/' /usr/bin/amtapetype"
    )


async def amtapetype(library: Library) -> str:
    """Run amtapetype on the cartridge in drive 0; return its output."""
    return await library.run("amtapetype lab drive 2>&1", timeout_s=LONG_S)
