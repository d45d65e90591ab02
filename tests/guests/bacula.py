"""Bacula in a guest: director with a SQLite catalogue, storage daemon, file daemon and console.

The storage daemon's configuration serves btape too, which needs no other daemon.
"""

from __future__ import annotations

from tests.guests.tape_library import LONG_S, Library

FOLDER = "/var/lib/bacula"
TREE, RESTORED = "/tmp/tree", "/tmp/restored"
VOLUME_BYTES = 20_000_000
"""Bytes after which the director wants the next cartridge, far fewer than a cartridge holds."""

STORAGE = """
Storage {{ Name = sd; Working Directory = /var/lib/bacula; Pid Directory = /run; SD Addresses = {{
  ip = {{ addr = 127.0.0.1; }} }} }}
Director {{ Name = dir; Password = "hakaru"; }}
Messages {{ Name = all; Director = dir = all; }}
Autochanger {{ Name = library; Device = drive-0, drive-1; Changer Device = {changer};
  Changer Command = "/etc/bacula/scripts/mtx-changer %c %o %S %a %d"; }}
"""
DRIVE = """
Device {{ Name = drive-{drive}; Drive Index = {drive}; Archive Device = /dev/nst{drive}; Autochanger = yes;
  Media Type = LTO; Automatic Mount = yes; Always Open = yes; Removable Media = yes; Random Access = no;
  {more} }}
"""
FILES = """
FileDaemon { Name = fd; Working Directory = /var/lib/bacula; Pid Directory = /run; }
Director { Name = dir; Password = "hakaru"; }
Messages { Name = all; Director = dir = all; }
"""
DIRECTOR = f"""
Director {{ Name = dir; Query File = /dev/null; Working Directory = {FOLDER}; Pid Directory = /run;
  Password = "hakaru"; Messages = all; Dir Address = 127.0.0.1; }}
Catalog {{ Name = catalog; DB Name = bacula; DB User = bacula; DB Password = ""; }}
Client {{ Name = fd; Address = 127.0.0.1; Catalog = catalog; Password = "hakaru"; }}
Storage {{ Name = library; Address = 127.0.0.1; Password = "hakaru"; Device = library; Media Type = LTO;
  Autochanger = yes; }}
FileSet {{ Name = tree; Include {{ Options {{ Signature = SHA256; }}
  File = {TREE}; }} }}
Pool {{ Name = tapes; Pool Type = Backup; Maximum Volume Bytes = {VOLUME_BYTES}; }}
Messages {{ Name = all; Append = "{FOLDER}/log" = all; }}
JobDefs {{ Name = job; Client = fd; FileSet = tree; Storage = library; Pool = tapes; Messages = all; }}
Job {{ Name = backup; Type = Backup; Level = Full; JobDefs = job; }}
Job {{ Name = restore; Type = Restore; JobDefs = job; Where = {RESTORED}; }}
"""
CONSOLE = """
Director { Name = dir; Address = 127.0.0.1; Password = "hakaru"; }
"""


def storage(changer: str, more: str = "") -> str:
    """Return the storage daemon's configuration, with more directives for its drives."""
    drives = (DRIVE.format(drive=drive, more=more) for drive in (0, 1))
    return STORAGE.format(changer=changer) + "".join(drives)


async def install(library: Library) -> None:
    """Do the work of the packages' scripts, which did not run: alternatives, folder, catalogue."""
    configurations = {
        "bacula-sd": storage(library.changer),
        # btape test writes 20,000 blocks of the largest length.
        "short-blocks": storage(library.changer, "Maximum Block Size = 4096;"),
        "bacula-fd": FILES,
        "bacula-dir": DIRECTOR,
        "bconsole": CONSOLE,
    }
    await library.run(
        # mtx-changer recognises Debian by the version's file, and then Debian's mt.
        f"ln -sf mt-st /usr/bin/mt; touch /etc/debian_version; mkdir -p {FOLDER}\n"
        "cd /usr/share/bacula-director; sed -i s/XXX_DBNAME_XXX/bacula/ make_sqlite3_tables; ./make_sqlite3_tables\n"
        + "".join(f"cat >/etc/bacula/{name}.conf <<'END'\n{text}END\n" for name, text in configurations.items())
    )


async def btape(library: Library, configuration: str, *answers: str) -> str:
    """Run btape with answers to its questions; return its output."""
    lines = " ".join(f"'{answer}'" for answer in (*answers, "quit"))
    return await library.run(
        f"printf '%s\\n' {lines} | btape -c /etc/bacula/{configuration}.conf /dev/nst0", timeout_s=LONG_S
    )


async def start(library: Library) -> None:
    """Start the three daemons. Each returns when it listens."""
    daemons = ("bacula-sd", "bacula-fd", "bacula-dir")
    await library.run("".join(f"{name} -c /etc/bacula/{name}.conf\n" for name in daemons))


async def stop(library: Library) -> None:
    """Stop the daemons and wait until they have released the drives."""
    await library.run(
        "pids=$(cat /run/bacula-*.pid); kill $pids\n"
        "for pid in $pids; do while [ -d /proc/$pid ]; do usleep 100000; done; done"
    )


async def console(library: Library, *commands: str) -> str:
    """Give the director commands; return its answers."""
    text = "".join(f"{command}\n" for command in commands)
    return await library.run(f"bconsole -c /etc/bacula/bconsole.conf <<'END'\n{text}END\n", timeout_s=LONG_S)
