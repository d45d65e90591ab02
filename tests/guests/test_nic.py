"""Models of NICs, QEMU's arguments for them, and the reasons why a machine lacks one. No guest is
booted.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hakaru.errors import EnvironmentError_
from hakaru.guest.command import Channel, Machine, Port, device_macs_of, macs_of, qemu_arguments, slot_of
from hakaru.guest.emulator import ids_of
from hakaru.guest.facts import parse_version
from hakaru.guest.function import Function
from hakaru.guest.nic import MODELS, Nic, mac_of, settings_script
from hakaru.guest.pinning import Pinning, interrupts_script
from hakaru.guest.recipe import RECIPES
from hakaru.guest.refusal import Refusal
from hakaru.guest.requirements import Accelerator, Facts, requirements, vectors_of
from hakaru.guest.tap import open_macvtap, open_tap

CLOUD, GENERIC = RECIPES["cloud"], RECIPES["generic"]
DEVICES = frozenset({"virtio-net-pci", "e1000", "e1000e", "igb", "rtl8139", "vmxnet3", "vfio-pci"})
VIRTUAL = Function("0000:03:10.0", physical="0000:03:00.0", group="12")
FACTS = Facts((10, 0, 2), DEVICES, frozenset({"tap", "vhost-user"}), Accelerator("kvm"))
DEBIAN_12 = replace(FACTS, qemu=(7, 2, 22), devices=DEVICES - {"igb"}, accelerator=Accelerator("tcg", "no KVM"))


def refusal_of(nic: Nic, facts: Facts = FACTS, *, recipe: str = "generic", cpus: int = 2) -> Refusal:
    refusal = requirements(nic, RECIPES[recipe], facts, cpus=cpus)  # type: ignore[index]
    assert refusal is not None and refusal.hint, refusal
    return refusal


@pytest.mark.parametrize("model", MODELS)
def test_complete_machine_has_every_model(model: str) -> None:
    functions = (VIRTUAL,) if MODELS[model].backend == "function" else ()  # type: ignore[index]
    assert requirements(Nic(model=model), GENERIC, FACTS, functions=functions) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("nic", "facts", "reason"),
    [
        (Nic(), replace(FACTS, qemu=None), "qemu-system-x86_64 is not installed"),
        (Nic(model="igb"), DEBIAN_12, "QEMU 7.2.22 has no device `igb`"),
        (Nic(model="igbvf"), DEBIAN_12, "QEMU 7.2.22 has no device `igb`"),
        (
            Nic(model="vhost-user", socket="/s"),
            replace(FACTS, netdevs=frozenset({"tap"})),
            "without the network backend",
        ),
        (Nic(), replace(FACTS, tun="this machine has no /dev/net/tun"), "no /dev/net/tun"),
        (Nic(model="vhost-net"), replace(FACTS, vhost_net="this machine has no /dev/vhost-net"), "no /dev/vhost-net"),
        (Nic(model="macvtap"), replace(FACTS, macvtap="the kernel cannot create a macvtap"), "cannot create a macvtap"),
        (Nic(model="vfio"), replace(FACTS, devices=DEVICES - {"vfio-pci"}), "has no device `vfio-pci`"),
        (Nic(model="sr-iov"), FACTS, "which only a site file names"),
        (Nic(model="e1000", queues=2), FACTS, "QEMU's e1000 has one pair of queues"),
        (Nic(model="vhost-user", socket="/s", queues=2), DEBIAN_12, "needs `vectors=0`"),
        (Nic(queues=4), FACTS, "which has 2"),
        (Nic(rx_ring=128), FACTS, "the rx ring of `virtio-net` cannot have 128 descriptors"),
        (Nic(rx_ring=300), FACTS, "cannot have 300 descriptors"),
        (Nic(tx_ring=512), FACTS, "the tx ring of `virtio-net` cannot have 512 descriptors"),
        (Nic(model="e1000", rx_ring=81), FACTS, "cannot have 81 descriptors"),
        (Nic(model="rtl8139", rx_ring=64), FACTS, "has a fixed size"),
    ],
)
def test_machine_that_lacks_something_is_refused_with_the_reason(nic: Nic, facts: Facts, reason: str) -> None:
    assert reason in refusal_of(nic, facts).reason


def test_kernel_without_the_driver_is_refused_and_the_other_image_named() -> None:
    refusal = refusal_of(Nic(model="e1000"), recipe="cloud")
    assert refusal.reason == "the kernel of guest image `cloud` has no driver e1000"
    assert "`generic`" in refusal.hint


def test_vhost_user_has_no_vectors_only_where_qemu_would_crash() -> None:
    nic = Nic(model="vhost-user", socket="/s")
    assert vectors_of(nic, DEBIAN_12) == 0
    assert vectors_of(nic, FACTS) is None
    assert vectors_of(Nic(queues=2), DEBIAN_12) == 6
    assert vectors_of(Nic(model="e1000"), DEBIAN_12) is None
    assert requirements(Nic(model="vhost-user", socket="/s", tx_ring=1024), CLOUD, DEBIAN_12) is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"socket": "/s"}, "`socket` belongs to `vhost-user`"),
        ({"mac": "52:54"}, "six bytes"),
        ({"mac": "01:00:5e:00:00:01"}, "multicast"),
        ({"model": "vfio", "mac": "52:54:00:68:00:01"}, "has an address of its own"),
        ({"model": "ne2000"}, "Input should be"),
        ({"queues": 0}, "greater than or equal to 1"),
    ],
)
def test_impossible_descriptions_are_errors(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Nic.model_validate(fields)


def test_addresses_differ_by_guest_and_position() -> None:
    assert len({mac_of(Nic(), guest, position) for guest in range(3) for position in range(3)}) == 9
    assert mac_of(Nic(mac="52:54:00:AA:00:01"), 1, 2) == "52:54:00:aa:00:01"


def arguments_for(*ports: Port) -> str:
    machine = Machine(
        "vm-1", Path("/k"), Path("/i"), 512 << 20, 2, "tcg", (Channel("hakaru", 9),), ports, host_network=False
    )
    return " ".join(qemu_arguments(machine))


def test_arguments_of_each_backend() -> None:
    virtio = Nic(queues=2, rx_ring=1024, offloads=False)
    text = arguments_for(Port("a", virtio, (5, 6), vectors=6))
    assert "-netdev tap,id=port0,fds=5:6,vhost=off" in text
    assert "mac=52:54:00:68:00:00,romfile=,mq=on,vectors=6,rx_queue_size=1024,csum=off,gso=off," in text
    assert "vhost=on" in arguments_for(Port("a", Nic(model="vhost-net"), (5,)))
    assert "fd=5,vhost=off -device e1000,netdev=port0," in arguments_for(Port("a", Nic(model="e1000"), (5,)))
    text = arguments_for(Port("a", Nic(model="vhost-user", socket="/a,b"), vectors=0))
    assert "memory-backend=ram" in text and "memory-backend-memfd,id=ram,size=512M,share=on" in text
    assert "socket,id=port0-socket,path=/a,,b -netdev vhost-user,id=port0,chardev=port0-socket" in text
    assert "vectors=0" in text
    text = arguments_for(Port("a", Nic(model="vhost-user", socket="@a"), vectors=0))
    assert "socket,id=port0-socket,path=a,abstract=on -netdev" in text
    assert "memory-backend" not in arguments_for()


def test_device_with_virtual_functions_has_a_bus_of_its_own_and_another_address_than_they() -> None:
    ports = (Port("a", Nic(model="igb"), (5,)), Port("b", Nic(model="igbvf"), (6,)))
    assert macs_of(ports, 0) == ["52:54:00:68:00:00", "52:54:00:68:00:01"]
    assert device_macs_of(ports, 0) == ["52:54:00:68:00:00", "52:54:00:69:00:01"]
    text = arguments_for(*ports)
    assert "-device pcie-root-port,id=port0-bus,chassis=1 -netdev tap,id=port0," in text
    assert "-device igb,netdev=port0,id=port0-nic,mac=52:54:00:68:00:00,romfile=,bus=port0-bus" in text
    assert "-device pcie-root-port,id=port1-bus,chassis=2 -netdev tap,id=port1,fd=6,vhost=off" in text
    assert "-device igb,netdev=port1,id=port1-nic,mac=52:54:00:69:00:01,romfile=,bus=port1-bus" in text
    assert "hakaru.drivers=igb,igbvf" in text


def test_function_is_at_a_known_place_and_its_driver_is_found_by_the_guest() -> None:
    ports = [Port(name, Nic(model="sr-iov"), function=f"0000:03:10.{each}") for each, name in enumerate("ab")]
    text = arguments_for(*ports)
    for position in range(2):
        assert f"-device vfio-pci,host=0000:03:10.{position},id=port{position}-nic,addr=0x1{position}," in text
        assert slot_of(position) == f"0000:00:1{position}.0"
    assert "-netdev" not in text and "hakaru.drivers= " in text


def test_guest_with_an_adapter_locks_its_memory() -> None:
    nic = Nic(model="vfio")
    refusal = requirements(nic, GENERIC, replace(FACTS, locked_bytes=64 << 10), functions=(VIRTUAL,))
    assert refusal is not None and "784 MiB, and this user may lock 0 MiB" in refusal.reason, refusal
    assert "limits.conf" in refusal.hint
    assert requirements(nic, GENERIC, replace(FACTS, locked_bytes=1 << 30), functions=(VIRTUAL,)) is None


def test_image_without_drivers_of_adapters_is_refused() -> None:
    refusal = requirements(Nic(model="vfio"), CLOUD, FACTS, functions=(VIRTUAL,))
    assert refusal is not None and refusal.reason == "the kernel of guest image `cloud` has no driver vfio"
    assert refusal.hint == "use the image `generic`"


def test_devices_behind_bridges_are_found() -> None:
    device = {"qdev_id": "port0-nic"}
    bridges = [
        {"qdev_id": "port0-bus", "pci_bridge": {"bus": {}, "devices": [device]}},
        {"qdev_id": "", "pci_bridge": {"bus": {}}},
    ]
    assert list(ids_of([{"devices": [*bridges, {"qdev_id": "last"}]}])) == ["port0-bus", "port0-nic", "last"]


def test_drivers_are_loaded_for_the_nics_that_a_guest_has() -> None:
    text = arguments_for(
        Port("a", Nic(), (5,)), Port("b", Nic(model="e1000"), (6,)), Port("c", Nic(model="e1000"), (7,))
    )
    assert "hakaru.drivers=e1000,virtio_net" in text


def test_settings_of_devices_without_options_are_made_in_the_guest() -> None:
    assert settings_script(Nic(), "a") == ""
    assert settings_script(Nic(queues=2), "a") == "ethtool -L a combined 2"
    script = settings_script(Nic(model="e1000", offloads=False, rx_ring=512, tx_ring=128), "a")
    assert "ethtool -K a rx off tx off" in script and "ethtool -G a rx 512 tx 128" in script
    assert interrupts_script("a", Pinning()) == ""
    assert "set -- 1 0" in interrupts_script("a", Pinning(interrupts=(1, 0)))


def test_tap_that_cannot_be_opened_is_an_error_with_the_cause(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentError_, match=r"tun cannot be opened: No such file or directory"):
        open_tap("tap0", device=tmp_path / "tun")
    no_device = tmp_path / "file"
    no_device.touch()
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(EnvironmentError_, match="interface tap0 cannot be created: Inappropriate ioctl"):
        open_tap("tap0", queues=2, device=no_device)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    with pytest.raises(ValueError, match="at most 15 bytes"):
        open_tap("a-name-that-is-too-long")
    with pytest.raises(EnvironmentError_, match="device of the macvtap over cannot be opened: No such file"):
        open_macvtap("over", tmp_path / "tap")


def test_version_is_read_from_the_text_of_qemu() -> None:
    assert parse_version("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)") == (7, 2, 22)
    assert parse_version("something else") is None
