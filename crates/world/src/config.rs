//! What a world is made of.
use std::time::Duration;

use hakaru_contract::LoginKeys;
use hakaru_contract::drive::ArrayModel;
use hakaru_contract::initiator::Vm;
use hakaru_iscsi_target::Limits;
use hakaru_load::CommandLimits;

/// A target, its drives, its VMs and the wire between.
#[derive(Clone, Debug)]
pub struct WorldConfig {
    /// iSCSI name of the target; the VMs' destinations name it.
    pub target_name: String,
    /// Logical units, each `lun` once.
    pub lus: Vec<LuSetup>,
    /// Timing model; `None`: accesses take no time.
    pub model: Option<ArrayModel>,
    /// The VMs. Their destinations are iSCSI; portals are ignored, there is one.
    pub vms: Vec<Vm>,
    /// Login keys of all VMs.
    pub keys: LoginKeys,
    /// How requests become commands; one session per VM.
    pub commands: CommandLimits,
    /// What the target agrees to, and its other bounds.
    pub limits: Limits,
    /// Limit for a login, a command, a ping and a logout. Default of the engine: 30 s.
    pub timeout: Duration,
    /// The one path between all VMs and the target.
    pub wire: Wire,
    /// Keep what is written, stamp it and check what is read; the number tells this run's stamps
    /// from others'. Without it LUs read as zeros and forget what is written.
    pub verify_run: Option<u32>,
    /// Seed of the drives; VMs have their own.
    pub seed: u64,
}

/// A logical unit and its place on the modelled drives.
#[derive(Clone, Copy, Debug)]
pub struct LuSetup {
    /// Logical unit number.
    pub lun: u8,
    /// Capacity in bytes, a multiple of `block_bytes`.
    pub size_bytes: u64,
    /// 512 or 4096.
    pub block_bytes: u32,
    /// RAID group, counted from 0; without meaning if there is no model.
    pub group: u32,
    /// First byte of the group that is the LU's.
    pub group_offset_bytes: u64,
}

/// A full-duplex path that all sessions share, each direction for itself, taking turns segment by
/// segment.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    /// TCP payload carried per second in each direction, bytes, above 0.
    pub rate_bytes_per_s: f64,
    /// From the end of a segment's transmission to its arrival, one way.
    pub delay: Duration,
    /// Most bytes that a session sends per turn, at least 1.
    pub segment_bytes: usize,
}

impl Wire {
    /// 1 Gbit/s Ethernet: of each 1538 bytes on the medium 1448 are TCP payload (MTU 1500,
    /// timestamps), 117.7 MB/s. 50 µs one way through one switch; turns of 16 KiB, about what a TCP
    /// segmentation offload sends at once.
    #[must_use]
    pub fn gigabit_ethernet() -> Wire {
        Wire {
            rate_bytes_per_s: 125e6 * 1448.0 / 1538.0,
            delay: Duration::from_micros(50),
            segment_bytes: 16 << 10,
        }
    }
}
