"""Several paths to an LU in a guest, joined by the kernel's dm-multipath: the commands that do so,
in two forms. Pure.

    table         a table of the device mapper, made with dmsetup. The kernel takes a failed path
                  out of use; a script in the guest puts it back when its session has returned.
    multipathd    multipath-tools, as Debian ships them: priorities by ALUA, a checker that tests
                  paths with TEST UNIT READY

In both forms, the timers of the sessions decide when a path has failed (`login.PathTimers`).
`hakaru.guest.joined_paths` runs the commands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Manager = Literal["table", "multipathd"]
Policy = Literal["round_robin", "least_queue_depth", "failover"]

_SELECTORS: dict[Policy, str] = {
    "round_robin": "round-robin",
    "least_queue_depth": "queue-length",
    # Each group has one path.
    "failover": "round-robin",
}
_GROUPING: dict[Policy, str] = {
    "round_robin": "group_by_prio",
    "least_queue_depth": "group_by_prio",
    "failover": "failover",
}
MULTIPATHD = "multipathd"
"""Program of multipath-tools, by which an image that has them is known."""
LOG = "/run/multipathd.log"
# multipathd examines every disk before it makes its first map.
_MAP_WAITS, _MAP_WAIT_US = 300, 200_000
_REMOVE_TRIES = 50


@dataclass(frozen=True)
class KernelMultipath:
    """Use of several paths by a kernel."""

    manager: Manager
    policy: Policy
    recovery_s: int
    """Time after the loss of a session after which the kernel gives up the path. multipathd sets it
    for each session again, and cannot set 0.
    """
    check_s: float
    """Interval between checks of failed paths. multipathd: whole seconds."""
    failback_s: float
    """`table`: time for which the session of a failed path must be logged in before its use."""
    no_path_s: int
    """Time without a path after which requests fail. 0: at once."""


def name_of(number: int) -> str:
    """Return the name of the `number`th device that a table makes."""
    return f"paths-{number}"


def join_script(number: int, disks: Sequence[str], multipath: KernelMultipath) -> str:
    """Return commands that join `disks` (`sda`) by a table, and print the path of the device."""
    name = name_of(number)
    selector, queues = _SELECTORS[multipath.policy], 1 if multipath.no_path_s else 0
    paths = [f"$(cat /sys/block/{disk}/dev) 1" for disk in disks]
    groups = [[path] for path in paths] if multipath.policy == "failover" else [paths]
    described = " ".join(f"{selector} 0 {len(group)} 1 {' '.join(group)}" for group in groups)
    features = "1 queue_if_no_path" if queues else "0"
    return f"""{_prepare_script(disks, multipath, "dmsetup")}
echo {multipath.no_path_s} >/sys/module/dm_multipath/parameters/queue_if_no_path_timeout_secs
sectors=$(cat /sys/block/{disks[0]}/size)
echo "0 $sectors multipath {features} 0 {len(groups)} 1 {described}" | dmsetup create {name} 2>&1
device=$(cd /sys/block/{disks[0]}/holders && echo dm-*)
[ -b /dev/$device ] || {{ echo "dmsetup made no device of {disks[0]}"; exit 1; }}
cat >/run/{name}.sh <<'END'
{_watch_script(name, disks, multipath)}
END
setsid dash /run/{name}.sh >/dev/null 2>&1 </dev/null &
echo $! >/run/{name}.pid
echo /dev/$device"""


def _prepare_script(disks: Sequence[str], multipath: KernelMultipath, *programs: str) -> str:
    """Return commands that load the modules, and fail with a reason if something is missing."""
    modules = ["dm_multipath", f"dm_{_SELECTORS[multipath.policy].replace('-', '_')}"]
    if multipath.manager == "multipathd":
        modules.append("scsi_dh_alua")
    return f"""set -e
for program in {" ".join(programs)}; do
    command -v $program >/dev/null || {{ echo "the guest's image has no $program"; exit 1; }}
done
for module in {" ".join(modules)}; do
    modprobe $module 2>/dev/null || {{ echo "kernel $(uname -r) has no module $module"; exit 1; }}
done
[ -e /dev/mapper/control ] || {{ echo "the device mapper of kernel $(uname -r) does not work"; exit 1; }}
wwid=$(cat /sys/block/{disks[0]}/device/wwid)
for disk in {" ".join(disks)}; do
    found=$(cat /sys/block/$disk/device/wwid)
    [ "$found" = "$wwid" ] || {{ echo "{disks[0]} and $disk are not one LU: $wwid, $found"; exit 1; }}
done"""


def _watch_script(name: str, disks: Sequence[str], multipath: KernelMultipath) -> str:
    """Return the script that puts returned paths back to use, as long as the device exists."""
    waits = -(-round(multipath.failback_s * 1e6) // round(multipath.check_s * 1e6))
    lines = [f"{disk}=$(cat /sys/block/{disk}/dev); seen_{disk}=0" for disk in disks]
    lines.append(f"while usleep {round(multipath.check_s * 1e6)}; do")
    lines.append(f"    status=$(dmsetup status {name}) || exit 0")
    lines.append("    changed=")
    for disk in disks:
        lines.append(f"""    case "$status" in *" ${disk} F "*)
        if [ "$(cat /sys/block/{disk}/device/state)" = running ]; then
            seen_{disk}=$((seen_{disk} + 1))
        else
            seen_{disk}=0
        fi
        if [ $seen_{disk} -gt {waits} ]; then
            dmsetup message {name} 0 "reinstate_path ${disk}" && changed=1 seen_{disk}=0
        fi;;
    esac""")
    if multipath.policy == "failover":
        # The kernel stays with the group that it uses.
        lines.append(f'    [ -n "$changed" ] || continue\n    status=$(dmsetup status {name}) || exit 0')
        branches = (
            f'*" ${disk} A "*) dmsetup message {name} 0 "switch_group {group}";;' for group, disk in enumerate(disks, 1)
        )
        lines.append(f'    case "$status" in {" ".join(branches)} esac')
    lines.append("done")
    return "\n".join(lines)


def part_script(name: str) -> str:
    """Return commands that remove the device of a table. No process may have it open."""
    return f"""if [ -e /run/{name}.pid ]; then kill "$(cat /run/{name}.pid)" 2>/dev/null; rm -f /run/{name}.*; fi
{_remove_script(name)}"""


def _remove_script(name: str) -> str:
    """Return commands that remove a device, whose paths may all have failed."""
    return f"""if dmsetup info {name} >/dev/null 2>&1; then
    dmsetup message {name} 0 fail_if_no_path
    for i in $(seq {_REMOVE_TRIES}); do
        dmsetup remove {name} >/run/removed 2>&1 && break
        [ $i -lt {_REMOVE_TRIES} ] || {{ cat /run/removed; exit 1; }}
        usleep 100000
    done
fi"""


def multipath_conf(multipath: KernelMultipath) -> str:
    """Return the text of multipath.conf."""
    check_s = round(multipath.check_s)
    retries = -(-multipath.no_path_s // check_s)
    return f"""defaults {{
    # The guest has no udev: LUs are identified by VPD page 83h.
    uid_attribute ""
    user_friendly_names no
    find_multipaths no
    skip_kpartx yes
    polling_interval {check_s}
    max_polling_interval {check_s}
    path_grouping_policy {_GROUPING[multipath.policy]}
    path_selector "{_SELECTORS[multipath.policy]} 0"
    prio alua
    detect_prio no
    path_checker tur
    detect_checker no
    failback immediate
    fast_io_fail_tmo {multipath.recovery_s}
    no_path_retry {retries or "fail"}
}}
devices {{
    device {{
        vendor ".*"
        product ".*"
        hardware_handler "1 alua"
    }}
}}
blacklist {{
    devnode "^(ram|zram|loop|nbd|fd|md|dm-|sr|vd)"
}}
"""


def multipathd_script(disks: Sequence[Sequence[str]], multipath: KernelMultipath) -> str:
    """Return commands that start multipathd, wait until it has joined the disks of every LU, and
    print the path of each device.
    """
    each = [_prepare_script(group, multipath, MULTIPATHD, "dmsetup") for group in disks]
    waits = "\n".join(f"wait_for {' '.join(group)}" for group in disks)
    return (
        "\n".join(each)
        + f"""
mkdir -p /etc/multipath
cat >/etc/multipath.conf <<'END'
{multipath_conf(multipath)}END
setsid multipathd -d -s -v2 >{LOG} 2>&1 </dev/null &
echo $! >/run/multipathd-started.pid
wait_for() {{
    for i in $(seq {_MAP_WAITS}); do
        for holder in /sys/block/$1/holders/dm-*; do
            complete=1
            for disk in "$@"; do [ -e "$holder/slaves/$disk" ] || complete=; done
            [ -n "$complete" ] && echo "/dev/${{holder##*/}}" && return
        done
        kill -0 "$(cat /run/multipathd-started.pid)" 2>/dev/null || break
        # multipathd finds only disks that udev knows. Others are added by its command `add path`.
        for disk in "$@"; do
            [ -n "$(ls /sys/block/$disk/holders)" ] || multipathd add path $disk >/run/added 2>&1 || :
        done
        usleep {_MAP_WAIT_US}
    done
    echo "multipathd did not join $*: $(cat /run/added; tail -n 20 {LOG})"
    exit 1
}}
{waits}"""
    )


def end_multipathd_script(devices: Sequence[str]) -> str:
    """Return commands that end multipathd and remove its devices (`dm-0`). No process may have
    them open.
    """
    removals = "\n".join(
        f'name=$(cat /sys/block/{device}/dm/name 2>/dev/null)\nif [ -n "$name" ]; then\n{_remove_script("$name")}\nfi'
        for device in devices
    )
    return f"""if [ -e /run/multipathd-started.pid ]; then
    daemon=$(cat /run/multipathd-started.pid)
    kill "$daemon" 2>/dev/null
    for i in $(seq {_MAP_WAITS}); do kill -0 "$daemon" 2>/dev/null || break; usleep {_MAP_WAIT_US}; done
    rm -f /run/multipathd-started.pid
fi
{removals}"""
