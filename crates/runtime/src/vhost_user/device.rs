//! The device that the vhost-user protocol describes: features, memory, and two rings. Frames are
//! moved through it by the port.
use std::fs::File;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVirtioFeatures,
    VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};
use vm_memory::GuestAddress;

use super::memory::Memory;
use super::ring::{HEADER_BYTES_MAX, Put, Ring, Taken};
use crate::packet::virtio::{HEADER_BYTES, VirtioHeader};
use crate::packet::{Inbox, LossCause, Outgoing, Received};
use crate::wait::{Interest, Registrar, Token, clock};

/// Ring of the frames to the guest.
const TO_GUEST: usize = 0;
/// Ring of the frames from the guest.
const FROM_GUEST: usize = 1;

// Bits of virtio's features (virtio 1.2, sections 5.1.3 and 6).
const CHECKSUM: u64 = 1 << 0;
const GUEST_CHECKSUM: u64 = 1 << 1;
const GUEST_TCP4: u64 = 1 << 7;
const GUEST_TCP6: u64 = 1 << 8;
const HOST_TCP4: u64 = 1 << 11;
const HOST_TCP6: u64 = 1 << 12;
const MERGEABLE_BUFFERS: u64 = 1 << 15;
const INDIRECT_DESCRIPTORS: u64 = 1 << 28;
const EVENT_IDX: u64 = 1 << 29;
const VERSION_1: u64 = 1 << 32;
const PROTOCOL: u64 = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();
const OFFERED: u64 = CHECKSUM
    | GUEST_CHECKSUM
    | GUEST_TCP4
    | GUEST_TCP6
    | HOST_TCP4
    | HOST_TCP6
    | MERGEABLE_BUFFERS
    | INDIRECT_DESCRIPTORS
    | EVENT_IDX
    | PROTOCOL
    | VERSION_1;

/// Work that a guest accepts to be left to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepts {
    /// Frames whose checksum is not filled in.
    pub checksum: bool,
    /// Super-frames of TCP, for which the checksum need not be filled in either.
    pub super_frames: bool,
}

/// Counters of a port, from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames and super-frames from the guest.
    pub packets_in: u64,
    /// Their bytes, without FCS.
    pub bytes_in: u64,
    /// Those that were super-frames.
    pub super_frames_in: u64,
    /// Frames and super-frames written into the guest's memory.
    pub packets_out: u64,
    /// Their bytes, without FCS.
    pub bytes_out: u64,
    /// Those that were super-frames.
    pub super_frames_out: u64,
    /// Frames to the guest dropped because its driver offered too few receive buffers.
    pub dropped_no_buffer: u64,
    /// Frames to the guest dropped because no guest is connected, or its driver is not running.
    pub dropped_down: u64,
    /// Frames from the guest dropped because they were no frames: too short, too long, or outside
    /// of the guest's memory.
    pub damaged: u64,
    /// Rings stopped because the driver broke them.
    pub broken_rings: u64,
    /// Connections of a guest so far.
    pub connections: u64,
    /// Connections that ended because of a request that breaks the protocol, or that the port
    /// refuses.
    pub refused_requests: u64,
    /// Whether both rings are running now.
    pub is_up: bool,
}

/// A ring, and what the protocol says about it.
#[derive(Default)]
struct Queue {
    ring: Ring,
    kick: Option<Kick>,
    call: Option<File>,
    /// Rings begin enabled, although the protocol says otherwise: QEMU enables those of a NIC before
    /// it acknowledges the features, and the library refuses such a request.
    is_disabled: bool,
}

/// The descriptor by which the driver notifies this side.
struct Kick {
    file: File,
    /// `None` for the ring whose notifications nothing waits for.
    registrar: Option<Registrar>,
}

impl Drop for Kick {
    /// The peer has duplicates of the descriptor, so closing it does not deregister it.
    fn drop(&mut self) {
        if let Some(registrar) = &self.registrar {
            // It is registered as long as this object exists.
            let _ = registrar.deregister(&self.file);
        }
    }
}

/// The device of one port.
pub(super) struct Device {
    registrar: Registrar,
    token: Token,
    features: u64,
    memory: Option<Memory>,
    queues: [Queue; 2],
    pub(super) counters: PortCounters,
}

impl Device {
    /// Creates a device without a guest. Notifications of frames are reported under `token`.
    pub(super) fn new(registrar: Registrar, token: Token) -> Device {
        Device {
            registrar,
            token,
            features: 0,
            memory: None,
            queues: Default::default(),
            counters: PortCounters::default(),
        }
    }

    /// Forgets the guest: its rings, its memory and its features.
    pub(super) fn disconnect(&mut self) {
        self.queues = Default::default();
        self.memory = None;
        self.features = 0;
    }

    fn has(&self, features: u64) -> bool {
        self.features & features == features
    }

    /// Returns the work that the guest accepts.
    pub(super) fn accepts(&self) -> Accepts {
        let checksum = self.has(GUEST_CHECKSUM);
        Accepts {
            checksum,
            super_frames: checksum && self.has(GUEST_TCP4 | GUEST_TCP6),
        }
    }

    /// Returns whether a ring runs.
    fn is_running(&self, index: usize) -> bool {
        let queue = &self.queues[index];
        !queue.is_disabled && queue.kick.is_some() && queue.ring.is_ready()
    }

    /// Returns whether both rings run.
    pub(super) fn is_up(&self) -> bool {
        self.is_running(TO_GUEST) && self.is_running(FROM_GUEST)
    }

    /// Length of virtio-net's header in the rings, bytes.
    fn header_bytes(&self) -> usize {
        if self.features & (VERSION_1 | MERGEABLE_BUFFERS) == 0 {
            HEADER_BYTES
        } else {
            HEADER_BYTES_MAX
        }
    }

    /// Returns the next frame from the guest, if there is one, or the reason why it was lost.
    pub(super) fn receive(
        &mut self,
        inbox: &mut Inbox,
    ) -> Option<std::result::Result<Received, LossCause>> {
        if !self.is_running(FROM_GUEST) {
            return None;
        }
        let header_bytes = self.header_bytes();
        let memory = &self.memory.as_ref()?.mapped;
        let ring = &mut self.queues[FROM_GUEST].ring;
        let taken = ring.take(memory, header_bytes, |bytes| inbox.claim(bytes));
        let parsed = match taken {
            Ok(None) => return None,
            Ok(Some(Taken::Frame(header, bytes))) => parse(header, bytes, inbox),
            Ok(Some(Taken::Damaged)) => None,
            Err(_) => {
                self.break_ring(FROM_GUEST);
                return None;
            }
        };
        Some(match parsed {
            Some(received) => {
                self.counters.packets_in += 1;
                self.counters.bytes_in += received.bytes.len() as u64;
                self.counters.super_frames_in += u64::from(received.offload.segmentation.is_some());
                Ok(received)
            }
            None => {
                self.counters.damaged += 1;
                Err(LossCause::Unknown)
            }
        })
    }

    /// Writes frames into the guest's memory, in order. Frames for which there is no room are
    /// dropped and counted.
    pub(super) fn send(&mut self, packets: &[Outgoing<'_>]) {
        let (header_bytes, is_mergeable) = (self.header_bytes(), self.has(MERGEABLE_BUFFERS));
        for (sent, packet) in packets.iter().enumerate() {
            let Some(memory) = self.memory.as_ref().filter(|_| self.is_running(TO_GUEST)) else {
                self.counters.dropped_down += (packets.len() - sent) as u64;
                return;
            };
            let mut header = [0; HEADER_BYTES_MAX];
            header[..HEADER_BYTES].copy_from_slice(&VirtioHeader::of(packet).emit());
            let parts = [packet.head, packet.body];
            let ring = &mut self.queues[TO_GUEST].ring;
            match ring.put(&memory.mapped, header, header_bytes, parts, is_mergeable) {
                Ok(Put::Done) => {
                    self.counters.packets_out += 1;
                    self.counters.bytes_out += (packet.head.len() + packet.body.len()) as u64;
                    self.counters.super_frames_out +=
                        u64::from(packet.offload.segmentation.is_some());
                }
                Ok(Put::NoBuffer | Put::TooLong) => self.counters.dropped_no_buffer += 1,
                Err(_) => {
                    self.break_ring(TO_GUEST);
                    self.counters.dropped_down += 1;
                }
            }
        }
    }

    /// Notifies the driver of buffers that were returned to it, if it needs that.
    pub(super) fn notify(&mut self) {
        for index in [TO_GUEST, FROM_GUEST] {
            let Some(memory) = self.memory.as_ref().filter(|_| self.is_running(index)) else {
                continue;
            };
            let Queue { ring, call, .. } = &mut self.queues[index];
            match ring.needs_notification(&memory.mapped) {
                Ok(true) => {
                    if let Some(call) = call {
                        // Fails only if a notification is pending, or if the guest is gone.
                        let _ = rustix::io::write(call, &1_u64.to_ne_bytes());
                    }
                }
                Ok(false) => {}
                Err(_) => self.break_ring(index),
            }
        }
    }

    fn break_ring(&mut self, index: usize) {
        self.queues[index].ring.stop();
        self.counters.broken_rings += 1;
    }

    fn queue(&mut self, index: u32) -> Result<&mut Queue> {
        let queue = self.queues.get_mut(index as usize);
        queue.ok_or(Error::InvalidParam)
    }

    /// Starts a ring whose description is complete, and looks for frames in it.
    fn start(&mut self, index: usize) -> Result<()> {
        let event_idx = self.has(EVENT_IDX);
        let queue = &mut self.queues[index];
        let (Some(memory), Some(kick)) = (&self.memory, &queue.kick) else {
            return Ok(());
        };
        if !queue.ring.is_ready() && !queue.ring.start(&memory.mapped, event_idx) {
            return Err(Error::InvalidParam);
        }
        // The driver may have notified before this side listened.
        let _ = rustix::io::write(&kick.file, &1_u64.to_ne_bytes());
        Ok(())
    }
}

/// Parses virtio-net's header of a frame. `None` for a frame of an unsupported kind.
fn parse(header: [u8; HEADER_BYTES_MAX], bytes: Vec<u8>, inbox: &mut Inbox) -> Option<Received> {
    let offload = header
        .first_chunk()
        .and_then(|header| VirtioHeader::parse(header).offload(0));
    let Some(offload) = offload else {
        inbox.give_back(bytes);
        return None;
    };
    Some(Received {
        bytes,
        offload,
        at: clock::now(),
    })
}

/// Makes writes to a descriptor of the peer fail instead of block.
fn unblocked(file: Option<File>) -> Result<Option<File>> {
    if let Some(file) = &file {
        let set = || fcntl_setfl(file, fcntl_getfl(file)? | OFlags::NONBLOCK);
        set().map_err(|error| Error::ReqHandlerError(error.into()))?;
    }
    Ok(file)
}

const UNSUPPORTED: Error = Error::InvalidOperation("not supported by this device");

impl VhostUserBackendReqHandlerMut for Device {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.reset_device()
    }

    fn reset_device(&mut self) -> Result<()> {
        self.queues = Default::default();
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(OFFERED)
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !OFFERED != 0 {
            return Err(Error::FeatureMismatch);
        }
        self.features = features;
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _: Option<bool>,
    ) -> Result<Option<Vec<u64>>> {
        let memory = Memory::map(regions, files).map_err(Error::ReqHandlerError)?;
        for queue in &mut self.queues {
            if queue.ring.is_ready() && !queue.ring.is_in(&memory.mapped) {
                queue.ring.stop();
            }
        }
        self.memory = Some(memory);
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, descriptors: u32) -> Result<()> {
        let size = u16::try_from(descriptors).map_err(|_| Error::InvalidParam)?;
        self.queue(index)?
            .ring
            .set_size(size)
            .map_err(|_| Error::InvalidParam)
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _: u64,
    ) -> Result<()> {
        let memory = self.memory.as_ref().ok_or(Error::InvalidParam)?;
        let address = |user| memory.guest_address(user).ok_or(Error::InvalidParam);
        let places: [GuestAddress; 3] =
            [address(descriptors)?, address(available)?, address(used)?];
        self.queue(index)?
            .ring
            .set_places(places)
            .map_err(|_| Error::InvalidParam)
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let base = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        self.queue(index)?.ring.set_base(base);
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let queue = self.queue(index)?;
        queue.ring.stop();
        queue.kick = None;
        queue.call = None;
        Ok(VhostUserVringState::new(index, queue.ring.base().into()))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let (registrar, token) = (self.registrar.clone(), self.token);
        // Without a descriptor this side would have to poll the ring.
        let file = unblocked(file)?.ok_or(UNSUPPORTED)?;
        let is_awaited = usize::from(index) == FROM_GUEST;
        let queue = self.queue(index.into())?;
        queue.kick = None;
        if is_awaited {
            let registered = registrar.register(&file, token, Interest::Edge);
            registered.map_err(Error::ReqHandlerError)?;
        }
        queue.kick = Some(Kick {
            file,
            registrar: is_awaited.then_some(registrar),
        });
        self.start(index.into())
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let file = unblocked(file)?;
        self.queue(index.into())?.call = file;
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, _: Option<File>) -> Result<()> {
        // A ring that the driver broke is counted; QEMU ignores this descriptor.
        self.queue(index.into()).map(|_| ())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        // The library adds the one that it implements (REPLY_ACK).
        Ok(VhostUserProtocolFeatures::empty())
    }

    fn set_protocol_features(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(1)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.queue(index)?.is_disabled = !enable;
        if enable {
            self.start(index as usize)?;
        }
        Ok(())
    }

    fn get_config(&mut self, _: u32, _: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        Err(UNSUPPORTED)
    }

    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        Err(UNSUPPORTED)
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        Err(UNSUPPORTED)
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        Err(UNSUPPORTED)
    }

    fn get_inflight_fd(&mut self, _: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        Err(UNSUPPORTED)
    }

    fn set_inflight_fd(&mut self, _: &VhostUserInflight, _: File) -> Result<()> {
        Err(UNSUPPORTED)
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Err(UNSUPPORTED)
    }

    fn add_mem_region(
        &mut self,
        _: &VhostUserSingleMemoryRegion,
        _: File,
        _: Option<bool>,
    ) -> Result<Option<u64>> {
        Err(UNSUPPORTED)
    }

    fn remove_mem_region(&mut self, _: &VhostUserSingleMemoryRegion) -> Result<()> {
        Err(UNSUPPORTED)
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        Err(UNSUPPORTED)
    }

    fn check_device_state(&mut self) -> Result<()> {
        Err(UNSUPPORTED)
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        Err(UNSUPPORTED)
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        Err(UNSUPPORTED)
    }
}
