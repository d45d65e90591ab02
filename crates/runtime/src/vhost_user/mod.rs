//! Ports in the shared memory of guests: the back end of vhost-user for virtio-net.
//!
//! QEMU connects to the socket of a [`VhostUserPort`] and passes the guest's memory and its rings,
//! which are in pairs: one to the guest and one from it. Frames are then copied between the fabric
//! and the guest's buffers, without a system call per frame and without a TAP. No privilege is
//! needed.
//!
//! A thread per port answers QEMU's requests, which arrive when the guest's driver starts or stops
//! and otherwise never. It shares the device with the thread that moves frames, under a lock that
//! it holds for one request at a time.
//!
//! Everything that the peer supplies is checked: sizes and addresses of rings, indices, chains of
//! descriptors and their buffers. A ring that breaks the rules is stopped until the driver starts
//! it again; a damaged frame is dropped and counted. Memory is accepted only from files that cannot
//! shrink, because reading memory behind the end of a file would kill the process.
//!
//! | file | contents |
//! |---|---|
//! | `memory` | the guest's memory, mapped |
//! | `ring` | frames in the buffers of one virtqueue |
//! | `steering` | the pair of rings that frames of a flow take to the guest |
//! | `device` | features, memory and rings; frames through them |
//! | `device/requests` | requests of the vhost-user protocol |
//! | `port` | the socket, the thread, and the calls of a shell |
//!
//! **Not supported**: packed rings, steering by a table of the driver (RSS) or by the pair on which
//! the driver sent frames of a flow, control queues (QEMU implements them), migration, an IOMMU in the
//! guest.
mod device;
#[cfg(test)]
mod driver;
mod memory;
mod port;
mod ring;
mod steering;

pub use device::{Accepts, PortCounters};
pub use port::VhostUserPort;
