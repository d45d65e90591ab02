//! A target and scripted initiators in one thread, with real PDU bytes, explicit time and LUs in
//! plain vectors.

mod initiator;
mod unmapped;

pub use initiator::{Answer, Initiator, Keys, answer_to, keys_of, r2t_of, unsolicited, value};
pub use unmapped::Unmapped;
use unmapped::span;

pub mod control;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use hakaru_iscsi_target::{
    ConnectionId, Extent, Io, IoOp, IoResult, LuDescription, Segment, Target, TargetConfig, Thin,
};
use hakaru_units::Time;
use hakaru_wire::iscsi::text::emit_pair;
use hakaru_wire::iscsi::{Bhs, LoginStatus, Opcode, Stage};
use hakaru_wire::scsi::{Cdb, Transfer};

pub const TARGET: &str = "iqn.2026-01.net.example:array";
pub const INITIATOR: &str = "iqn.2026-01.net.example:vm1";
/// Size of LU 0 and LU 5 (4096-byte blocks).
pub const LU_BYTES: usize = 1 << 20;

/// LUs larger than this have no contents. A test with such an LU answers its accesses itself.
const SIZE_BYTES_MAX: u64 = 1 << 30;

/// A PDU that came from the target.
#[derive(Clone, Debug)]
pub struct Pdu {
    pub bhs: Bhs,
    pub data: Vec<u8>,
}

impl Pdu {
    pub fn opcode(&self) -> Opcode {
        self.bhs.opcode().expect("a known opcode")
    }
}

pub fn config() -> TargetConfig {
    let mut four_k = LuDescription::new(5, LU_BYTES as u64);
    four_k.block_bytes = 4096;
    four_k.write_cache = true;
    let mut read_only = LuDescription::new(7, LU_BYTES as u64);
    read_only.read_only = true;
    TargetConfig {
        target_name: TARGET.to_owned(),
        portals: vec![
            "10.0.0.1:3260".parse().unwrap(),
            "0.0.0.0:3261".parse().unwrap(),
        ],
        port_groups: Vec::new(),
        lus: vec![LuDescription::new(0, LU_BYTES as u64), four_k, read_only],
        access: hakaru_iscsi_target::Access::default(),
        limits: hakaru_iscsi_target::Limits::default(),
    }
}

/// Returns [`config`] with an additional LU 3, which is thin and removable and supports SANITIZE
/// and WRITE ATOMIC of 64 KiB.
pub fn config_with_thin_lu() -> TargetConfig {
    let mut config = config();
    let mut thin = LuDescription::new(3, LU_BYTES as u64);
    thin.thin = Some(Thin { page_bytes: 4096 });
    thin.sanitize = true;
    thin.removable = true;
    thin.atomic_bytes = 64 << 10;
    config.lus.push(thin);
    config
}

/// The target with its storage and the far ends of its connections.
pub struct Pair {
    pub target: Target,
    pub time: Time,
    pub lus: HashMap<u8, Vec<u8>>,
    /// Whether the storage holds accesses until `release`.
    pub stalled: bool,
    pub held: Vec<Io>,
    /// Whether reads are answered with a copy even if they could be sent in place.
    pub copy: bool,
    /// Blocks of 512 bytes that were deallocated.
    pub unmapped: Unmapped,
    /// Records of reservations that were stored, by LU.
    pub kept: HashMap<u8, Vec<u8>>,
    /// Maximum number of bytes that the simulated kernel accepts at once.
    pub write_max: usize,
    /// Whether memory of LUs is lent to the kernel where possible.
    pub lend: bool,
    /// Connections from which the kernel accepts no data.
    pub blocked: HashSet<ConnectionId>,
    sent: HashMap<ConnectionId, Vec<u8>>,
    closed: HashSet<ConnectionId>,
}

impl Pair {
    pub fn new() -> Pair {
        Pair::with(config())
    }

    pub fn with(config: TargetConfig) -> Pair {
        let lus = config
            .lus
            .iter()
            .filter(|lu| lu.size_bytes <= SIZE_BYTES_MAX)
            .map(|lu| (lu.lun, vec![0; lu.size_bytes as usize]))
            .collect();
        Pair {
            target: Target::with_entropy(config, counting()),
            time: Time(1_000_000_000),
            lus,
            stalled: false,
            held: Vec::new(),
            copy: false,
            unmapped: Unmapped::default(),
            kept: HashMap::new(),
            write_max: usize::MAX,
            lend: false,
            blocked: HashSet::new(),
            sent: HashMap::new(),
            closed: HashSet::new(),
        }
    }

    pub fn connect(&mut self) -> ConnectionId {
        self.try_connect().expect("a connection is accepted")
    }

    pub fn try_connect(&mut self) -> Option<ConnectionId> {
        self.try_connect_from("10.0.0.9:40000")
    }

    pub fn try_connect_from(&mut self, peer: &str) -> Option<ConnectionId> {
        let local = "10.0.0.1:3260".parse().unwrap();
        self.target
            .handle_connected(self.time, 0, local, peer.parse().unwrap())
    }

    /// Passes bytes of an initiator to the target and handles all consequences.
    pub fn send(&mut self, connection: ConnectionId, bytes: &[u8]) {
        self.target.handle_received(self.time, connection, bytes);
        self.run();
    }

    pub fn advance(&mut self, seconds: f64) {
        // Time advances from deadline to deadline, as in a shell.
        let end = self.time + Duration::from_secs_f64(seconds);
        while let Some(at) = self.target.poll_timeout().filter(|at| *at <= end) {
            self.time = at.max(self.time);
            self.target.handle_timeout(self.time);
            self.run();
        }
        self.time = end;
    }

    pub fn run(&mut self) {
        loop {
            let mut worked = false;
            while let Some(io) = self.target.poll_io() {
                worked = true;
                if self.stalled {
                    self.held.push(io);
                } else {
                    self.serve(io);
                }
            }
            while let Some(connection) = self.target.poll_transmit() {
                worked = true;
                self.take(connection);
            }
            if !worked {
                break;
            }
        }
        while let Some(connection) = self.target.poll_close() {
            self.closed.insert(connection);
        }
    }

    /// Lets the storage complete accesses again.
    pub fn release(&mut self) {
        self.stalled = false;
        for io in std::mem::take(&mut self.held) {
            self.serve(io);
        }
        self.run();
    }

    /// Executes the first access that the storage holds.
    pub fn release_one(&mut self) {
        let io = self.held.remove(0);
        self.serve(io);
        self.run();
    }

    /// Whether the target has sent nothing since the last call of `received`.
    pub fn received_nothing(&self, connection: ConnectionId) -> bool {
        self.sent.get(&connection).is_none_or(Vec::is_empty)
    }

    fn serve(&mut self, io: Io) {
        let lu = self.lus.get_mut(&io.lun).expect("an existing LU");
        let result = match io.op {
            IoOp::Read { in_place: true, .. } if !self.copy => IoResult::ReadInPlace,
            IoOp::Read {
                offset_bytes,
                length_bytes,
                ..
            } => {
                let mut data = self.target.take_buffer(length_bytes as usize);
                data.extend_from_slice(&lu[offset_bytes as usize..][..length_bytes as usize]);
                IoResult::ReadData(data)
            }
            IoOp::Write {
                offset_bytes, data, ..
            } => {
                let range = Extent {
                    offset_bytes,
                    length_bytes: data.len() as u64,
                };
                self.unmapped.set(io.lun, range, false);
                lu[span(range)].copy_from_slice(&data);
                IoResult::Written(data)
            }
            IoOp::Flush | IoOp::FlushPart { .. } => IoResult::Flushed,
            IoOp::Tape { .. } => IoResult::Done,
            IoOp::Unmap { ranges } => {
                for range in ranges {
                    self.unmapped.set(io.lun, range, true);
                    lu[span(range)].fill(0);
                }
                IoResult::Done
            }
            IoOp::WriteSame {
                range,
                block,
                unmap,
                ..
            } => {
                assert!(!unmap || block.iter().all(|byte| *byte == 0));
                self.unmapped.set(io.lun, range, unmap);
                for part in lu[span(range)].chunks_mut(block.len()) {
                    part.copy_from_slice(&block);
                }
                IoResult::Done
            }
            IoOp::Status { range, extents_max } => {
                IoResult::Provisioned(self.unmapped.status(io.lun, range, extents_max))
            }
            IoOp::Keep { record } => {
                self.kept.insert(io.lun, record);
                IoResult::Done
            }
        };
        self.target.handle_io_done(self.time, io.id, result);
    }

    /// Accepts the queued bytes of a connection, like a kernel.
    fn take(&mut self, connection: ConnectionId) {
        while !self.blocked.contains(&connection) && !self.target.transmit(connection).is_empty() {
            if self.lend && self.take_lent(connection) {
                continue;
            }
            let mut bytes = Vec::new();
            for segment in self.target.transmit(connection).segments() {
                match segment {
                    Segment::Lu { lun, .. }
                        if self.lend && self.target.may_lend(connection, lun) =>
                    {
                        break;
                    }
                    Segment::Bytes(part) => bytes.extend_from_slice(part),
                    Segment::Lu {
                        lun,
                        offset_bytes,
                        length_bytes,
                    } => {
                        bytes.extend_from_slice(
                            &self.lus[&lun][offset_bytes as usize..][..length_bytes as usize],
                        );
                    }
                }
            }
            bytes.truncate(self.write_max);
            let lus = &self.lus;
            let mut read_lu = |lun: u8, offset: u64, out: &mut [u8]| {
                out.copy_from_slice(&lus[&lun][offset as usize..][..out.len()]);
            };
            self.target
                .handle_transmitted(self.time, connection, bytes.len(), &mut read_lu);
            self.sent
                .entry(connection)
                .or_default()
                .extend_from_slice(&bytes);
        }
    }

    /// Lends the first pending segment to the kernel if it is memory of an LU. The socket accepts it
    /// at once.
    fn take_lent(&mut self, connection: ConnectionId) -> bool {
        let first = self.target.transmit(connection).segments().next();
        let Some(Segment::Lu {
            lun,
            offset_bytes,
            length_bytes,
        }) = first
        else {
            return false;
        };
        if !self.target.may_lend(connection, lun) {
            return false;
        }
        let lus = &self.lus;
        let mut read_lu = |lun: u8, offset: u64, out: &mut [u8]| {
            out.copy_from_slice(&lus[&lun][offset as usize..][..out.len()]);
        };
        let length = (length_bytes as usize).min(self.write_max);
        let bytes = &self.lus[&lun][offset_bytes as usize..][..length];
        self.sent
            .entry(connection)
            .or_default()
            .extend_from_slice(bytes);
        self.target.handle_lent(connection, length, &mut read_lu);
        assert_eq!(self.target.transmit(connection).lent_bytes(), length as u64);
        self.target
            .handle_transmitted(self.time, connection, length, &mut read_lu);
        true
    }

    pub fn unblock(&mut self, connection: ConnectionId) {
        self.blocked.remove(&connection);
        self.take(connection);
        self.run();
    }

    /// Returns the bytes that the target has sent since the last call.
    pub fn received(&mut self, connection: ConnectionId) -> Vec<u8> {
        self.sent.remove(&connection).unwrap_or_default()
    }

    pub fn is_closed(&self, connection: ConnectionId) -> bool {
        self.closed.contains(&connection)
    }

    pub fn counter(&self, entity: &str, name: &str) -> f64 {
        let mut counter = None;
        self.target.visit_counters(&mut |e, n, value| {
            if (e, n) == (entity, name) {
                counter = Some(value);
            }
        });
        counter.unwrap_or_else(|| panic!("no counter {entity} {name}"))
    }

    /// Logs in a normal session with these operational keys in addition to its names.
    pub fn log_in(&mut self, keys: &[(&str, &str)]) -> Initiator {
        self.log_in_as(INITIATOR, 1, keys)
    }

    pub fn log_in_as(&mut self, name: &str, isid: u32, keys: &[(&str, &str)]) -> Initiator {
        let connection = self.connect();
        let mut initiator = Initiator::new(connection, isid);
        let mut text = names(name);
        keys.iter()
            .for_each(|(key, value)| emit_pair(&mut text, key, value));
        let answer = initiator.login(
            self,
            Stage::OperationalNegotiation,
            Some(Stage::FullFeaturePhase),
            &text,
        );
        assert_eq!(answer.0.status, LoginStatus::SUCCESS, "{:?}", answer.1);
        let agreed = |key: &str| answer.1.iter().any(|(k, v)| k == key && v == "CRC32C");
        initiator.set_digests(agreed("HeaderDigest"), agreed("DataDigest"));
        initiator.tsih = answer.0.tsih;
        initiator
    }
}

/// Returns a deterministic generator whose output never repeats within a test.
fn counting() -> hakaru_iscsi_target::Entropy {
    let mut calls = 0u64;
    Box::new(move |out| {
        calls += 1;
        for (at, byte) in out.iter_mut().enumerate() {
            *byte = calls.to_be_bytes()[at % 8] ^ at as u8;
        }
    })
}

pub fn names(initiator: &str) -> Vec<u8> {
    let mut text = Vec::new();
    emit_pair(&mut text, "InitiatorName", initiator);
    emit_pair(&mut text, "SessionType", "Normal");
    emit_pair(&mut text, "TargetName", TARGET);
    text
}

/// Returns bytes that vary with their offset and with `seed`.
pub fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length)
        .map(|i| (i as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0] ^ seed)
        .collect()
}

/// Returns a READ of blocks.
pub fn read(lba: u64, blocks: u32) -> Cdb {
    Cdb::Read(Transfer {
        lba,
        blocks,
        ..Transfer::default()
    })
}

/// Returns the CDB of a WRITE of blocks.
pub fn write(lba: u64, blocks: u32) -> [u8; 16] {
    Cdb::Write(Transfer {
        lba,
        blocks,
        ..Transfer::default()
    })
    .emit()
}

/// Returns a target whose LUs contain [`pattern`]s, and a session.
pub fn logged_in(keys: &[(&str, &str)]) -> (Pair, Initiator) {
    let mut pair = Pair::new();
    for (lun, lu) in &mut pair.lus {
        *lu = pattern(LU_BYTES, *lun);
    }
    let initiator = pair.log_in(keys);
    (pair, initiator)
}
