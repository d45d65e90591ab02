//! Configuration of a world.
use std::time::Duration;

use hakaru_contract::LoginKeys;
use hakaru_contract::drive::ArrayModel;
use hakaru_contract::initiator::Vm;
use hakaru_iscsi_target::Limits;
use hakaru_load::CommandLimits;

/// A target, its drives, its VMs and the network path between them.
#[derive(Clone, Debug)]
pub struct WorldConfig {
    /// iSCSI name of the target, which the destinations of the VMs must contain.
    pub target_name: String,
    /// Logical units, each `lun` once.
    pub lus: Vec<LuSetup>,
    /// Timing model; `None`: accesses take no time.
    pub model: Option<ArrayModel>,
    /// The VMs. Their destinations are iSCSI. Their portals are ignored, because a world has one.
    pub vms: Vec<Vm>,
    /// Login keys of all VMs.
    pub keys: LoginKeys,
    /// Path of the requests to the sessions. Each host has one session.
    pub commands: CommandLimits,
    /// Limits of the target, including the login keys that it accepts.
    pub limits: Limits,
    /// Limit for a login, a command, a ping and a logout. Default of the engine: 30 s.
    pub timeout: Duration,
    /// The path between all VMs and the target.
    pub wire: Wire,
    /// Verification: keep written data, stamp it and check every read. The number distinguishes
    /// this run's stamps from those of other runs. Without it, LUs read as zeros and discard
    /// written data.
    pub verify_run: Option<u32>,
    /// Seed of the drives; each VM has its own seed.
    pub seed: u64,
}

/// A logical unit and its position on the modelled drives.
#[derive(Clone, Copy, Debug)]
pub struct LuSetup {
    /// Logical unit number.
    pub lun: u8,
    /// Capacity in bytes, a multiple of `block_bytes`.
    pub size_bytes: u64,
    /// Logical block length: 512 or 4096.
    pub block_bytes: u32,
    /// RAID group, counting from 0; ignored without a model.
    pub group: u32,
    /// Offset of the LU in the group's usable space, bytes.
    pub group_offset_bytes: u64,
}

/// A full-duplex path shared by all sessions. In each direction the sessions with data to send take
/// turns, one segment at a time.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    /// Rate of TCP payload in each direction, bytes per second, above 0.
    pub rate_bytes_per_s: f64,
    /// One-way delay, from the end of a segment's transmission to its arrival.
    pub delay: Duration,
    /// Longest segment: bytes that a session sends per turn, at least 1.
    pub segment_bytes: usize,
}

impl Wire {
    /// Returns a path of 1 Gbit/s Ethernet. Of each 1538 bytes on the medium, 1448 are TCP payload
    /// (MTU 1500, timestamps), 117.7 MB/s. The delay is 50 µs one way through one switch. Segments
    /// have 16 KiB, about the size that TCP segmentation offload sends at once.
    #[must_use]
    pub fn gigabit_ethernet() -> Wire {
        Wire {
            rate_bytes_per_s: 125e6 * 1448.0 / 1538.0,
            delay: Duration::from_micros(50),
            segment_bytes: 16 << 10,
        }
    }
}
