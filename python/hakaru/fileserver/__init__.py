"""File servers of real software, and the layers below them (docs/concepts/file-servers.md).

    server = FileServer("fs-1", shares=(Share(name="data", path="/srv/data"),), users=(User(…),))
    async with await Samba.start(server, namespace=descriptor) as samba:       in a lab's node
        …                                                                      clients at port 445
        samba.check()

    disk = VirtualDisk(format="qcow2", size="64 GiB")           plan: `disk.refusal(versions)`
    chain = await Chain.build(guest, ChainSpec(…))              the same server in a guest, on a
    rows = await chain.layers()                                 virtual disk on an iSCSI LU

Modules that only describe: `samba_settings` (smb.conf), `virtual_disk` (formats and their
commands), `partition` (that of a virtual disk), `image_map` (output of qemu-img), `layers` (bytes
as seen by each layer). Modules that act: `samba` and its program `confined`, `chain` (in a guest),
`extension` and `compaction` of it.
"""
