"""Guests: virtual machines with a stock Debian kernel and userland, as initiators, targets and
routers that hakaru did not write (docs/concepts/guests.md).

    image = find_image("cloud")                    kernel and initramfs of Debian packages, built
                                                   once, without root
    accelerator = await find_accelerator(image)    KVM if a guest boots on it, else TCG
    async with await Guest.boot(GuestSpec("vm-1", image), accelerator) as guest:
        output = await guest.run("iscsiadm -m session")
        await guest.power_off()

Modules that only describe: `recipe` (content of an image), `nic` (models of interfaces),
`requirements` (what this machine lacks for one), `command` (QEMU's arguments). Modules that act:
`packages`, `libraries`, `cpio` and `image` build an image; `kernel` unpacks its kernel for TCG;
`facts` examines this machine; `tap` opens interfaces; `emulator` runs QEMU and its monitor;
`machine` is the guest; `accelerator` chooses KVM or TCG; `pinning` places threads and interrupts.
Nothing is imported here, so that plans do not load QEMU's client.
"""
