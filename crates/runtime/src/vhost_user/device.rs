//! The device of a port: the features that the guest accepted, its memory, and the pairs of rings
//! through which frames are moved.
use std::fs::File;

use vhost::vhost_user::message::VhostUserVirtioFeatures;

use super::memory::Memory;
use super::ring::{HEADER_BYTES_MAX, Put, Ring, Taken};
use super::steering::flow_hash;
use crate::packet::virtio::{HEADER_BYTES, VirtioHeader};
use crate::packet::{BATCH, Inbox, LossCause, Outgoing, Received};
use crate::wait::{Registrar, Token, clock};

mod requests;

/// Ring of a pair for the frames to the guest.
const TO_GUEST: usize = 0;
/// Ring of a pair for the frames from the guest.
const FROM_GUEST: usize = 1;
/// Most pairs of rings that a guest may use.
const PAIRS_MAX: usize = 64;

// Bits of virtio's features (virtio 1.2, sections 5.1.3 and 6).
const CHECKSUM: u64 = 1 << 0;
const GUEST_CHECKSUM: u64 = 1 << 1;
const GUEST_TCP4: u64 = 1 << 7;
const GUEST_TCP6: u64 = 1 << 8;
const HOST_TCP4: u64 = 1 << 11;
const HOST_TCP6: u64 = 1 << 12;
const MERGEABLE_BUFFERS: u64 = 1 << 15;
const SEVERAL_PAIRS: u64 = 1 << 22;
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
    | SEVERAL_PAIRS
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
    /// Whether both rings of the first pair are running now.
    pub is_up: bool,
}

/// A ring, and what the protocol says about it.
#[derive(Default)]
struct Queue {
    ring: Ring,
    kick: Option<Kick>,
    call: Option<File>,
    /// Last request of the peer to enable or disable the ring. `None`: none yet. Then only the rings
    /// of a peer that does not acknowledge `PROTOCOL` are enabled.
    is_enabled: Option<bool>,
}

impl Queue {
    /// `features`: those that the peer acknowledged.
    fn is_running(&self, features: u64) -> bool {
        let is_enabled = self.is_enabled.unwrap_or(features & PROTOCOL == 0);
        is_enabled && self.kick.is_some() && self.ring.is_ready()
    }
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
    /// Pairs that QEMU has mentioned so far, at least one.
    pairs: Vec<[Queue; 2]>,
    /// Pair that is asked for a frame next, and the frames that it gave in a row.
    turn: usize,
    taken: usize,
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
            pairs: one_pair(),
            turn: 0,
            taken: 0,
            counters: PortCounters::default(),
        }
    }

    /// Forgets the guest: its rings, its memory and its features.
    pub(super) fn disconnect(&mut self) {
        self.forget_rings();
        self.memory = None;
        self.features = 0;
    }

    fn forget_rings(&mut self) {
        self.pairs = one_pair();
        self.turn = 0;
        self.taken = 0;
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
    fn is_running(&self, pair: usize, side: usize) -> bool {
        self.pairs[pair][side].is_running(self.features)
    }

    /// Returns whether both rings of the first pair run.
    pub(super) fn is_up(&self) -> bool {
        self.is_running(0, TO_GUEST) && self.is_running(0, FROM_GUEST)
    }

    /// Returns the pair that takes a frame to the guest. `None` if no ring to the guest runs.
    fn pair_for(&self, packet: &Outgoing<'_>) -> Option<usize> {
        let running = || (0..self.pairs.len()).filter(|pair| self.is_running(*pair, TO_GUEST));
        match running().count() {
            0 => None,
            1 => running().next(),
            // The remainder is less than the number of pairs.
            count => running().nth((flow_hash(packet) % count as u64) as usize),
        }
    }

    /// Length of virtio-net's header in the rings, bytes.
    fn header_bytes(&self) -> usize {
        if self.features & (VERSION_1 | MERGEABLE_BUFFERS) == 0 {
            HEADER_BYTES
        } else {
            HEADER_BYTES_MAX
        }
    }

    /// Returns the next frame from the guest, if there is one, or the reason why it was lost. Pairs
    /// take turns of at most [`BATCH`] frames, because looking into an empty ring takes time.
    pub(super) fn receive(&mut self, inbox: &mut Inbox) -> Option<Result<Received, LossCause>> {
        if self.taken >= BATCH {
            self.pass_turn();
        }
        for _ in 0..self.pairs.len() {
            let received = self.receive_from(self.turn, inbox);
            if received.is_some() {
                self.taken += 1;
                return received;
            }
            self.pass_turn();
        }
        None
    }

    fn pass_turn(&mut self) {
        self.turn = (self.turn + 1) % self.pairs.len();
        self.taken = 0;
    }

    fn receive_from(
        &mut self,
        pair: usize,
        inbox: &mut Inbox,
    ) -> Option<Result<Received, LossCause>> {
        if !self.is_running(pair, FROM_GUEST) {
            return None;
        }
        let header_bytes = self.header_bytes();
        let memory = &self.memory.as_ref()?.mapped;
        let ring = &mut self.pairs[pair][FROM_GUEST].ring;
        let taken = ring.take(memory, header_bytes, |bytes| inbox.claim(bytes));
        let parsed = match taken {
            Ok(None) => return None,
            Ok(Some(Taken::Frame(header, bytes))) => parse(header, bytes, inbox),
            Ok(Some(Taken::Damaged)) => None,
            Err(_) => {
                self.break_ring(pair, FROM_GUEST);
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
            let (Some(memory), Some(pair)) = (&self.memory, self.pair_for(packet)) else {
                self.counters.dropped_down += (packets.len() - sent) as u64;
                return;
            };
            let mut header = [0; HEADER_BYTES_MAX];
            header[..HEADER_BYTES].copy_from_slice(&VirtioHeader::of(packet).emit());
            let parts = [packet.head, packet.body];
            let ring = &mut self.pairs[pair][TO_GUEST].ring;
            match ring.put(&memory.mapped, header, header_bytes, parts, is_mergeable) {
                Ok(Put::Done) => {
                    self.counters.packets_out += 1;
                    self.counters.bytes_out += (packet.head.len() + packet.body.len()) as u64;
                    self.counters.super_frames_out +=
                        u64::from(packet.offload.segmentation.is_some());
                }
                Ok(Put::NoBuffer | Put::TooLong) => self.counters.dropped_no_buffer += 1,
                Err(_) => {
                    self.break_ring(pair, TO_GUEST);
                    self.counters.dropped_down += 1;
                }
            }
        }
    }

    /// Notifies the driver of buffers that were returned to it, if it needs that.
    pub(super) fn notify(&mut self) {
        let Some(memory) = &self.memory else {
            return;
        };
        let features = self.features;
        let queues = self.pairs.iter_mut().flatten();
        for queue in queues.filter(|queue| queue.is_running(features)) {
            match queue.ring.needs_notification(&memory.mapped) {
                Ok(true) => {
                    if let Some(call) = &queue.call {
                        // Fails only if a notification is pending, or if the guest is gone.
                        let _ = rustix::io::write(call, &1_u64.to_ne_bytes());
                    }
                }
                Ok(false) => {}
                Err(_) => {
                    queue.ring.stop();
                    self.counters.broken_rings += 1;
                }
            }
        }
    }

    fn break_ring(&mut self, pair: usize, side: usize) {
        self.pairs[pair][side].ring.stop();
        self.counters.broken_rings += 1;
    }
}

fn one_pair() -> Vec<[Queue; 2]> {
    vec![Default::default()]
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
