"""Guests: virtual machines with a stock Debian kernel and userland, initiators that hakaru did not
write.

Guests are part of the tests: no command of hakaru starts one, so the wheel does not contain them.

    image = image.find_image()                  kernel and initramfs of Debian packages, built once,
                                                without root
    async with await Guest.boot("vm-1", image) as guest:
        output = await guest.run("iscsiadm -m session")   a shell script in the guest: its output,
                                                          or GuestCommandError
        await guest.power_off()

`packages` downloads the packages, `image` selects the files that a guest needs, `cpio` writes the
archive, `machine` runs QEMU and talks to `init.sh`, process 1 of the guest. A guest has no disk and
stores data only on an array. It reaches only this machine's loopback, at `machine.HOST_ADDRESS`,
which needs neither root nor a device of the host. A guest runs on KVM where that works. Otherwise
QEMU emulates the processor (TCG), about 20 times slower, so the speed of a guest never measures an
array.
"""
