"""Guests: virtual machines with a stock Debian kernel and userland, initiators that hakaru did not
write.

They are part of the tests and not of hakaru: no command starts one, so the wheel carries none of
this.

    image = image.find_image()                  kernel and initramfs of Debian packages, made once,
                                                without root
    async with await Guest.boot("vm-1", image) as guest:
        output = await guest.run("iscsiadm -m session")   a shell script in the guest: its output,
                                                          or GuestCommandError
        await guest.power_off()

`packages` brings the packages, `image` chooses what of them a guest needs, `cpio` writes the
archive, `machine` runs QEMU and speaks with `init.sh`, which is process 1 of the guest. A guest has
no disk of its own: what it stores, it stores on an array. It reaches this machine's loopback at
`machine.HOST_ADDRESS` and nothing else; no root is needed for that, nor any device of the host.
Where KVM works a guest runs on it, else QEMU emulates the processor (TCG), some 20 times slower: a
guest's own speed is never a measurement of an array.
"""
