//! What a target is: its name, portals, logical units and limits.

use core::net::SocketAddr;
use core::time::Duration;

use crate::access::Access;

/// A target. Each portal is a portal group of its own, tagged by its place from 1: a target port of SCSI with a state of its own.
#[derive(Clone, Debug)]
pub struct TargetConfig {
    /// iSCSI name (`iqn.`, `eui.` or `naa.`, RFC 7143 section 4.2.7), at most 223 bytes.
    pub target_name: String,
    /// Addresses the shell listens on, in the order of its portals. An unspecified address (`0.0.0.0`, `::`) is
    /// announced to an initiator as the address it connected to.
    /// 1 to 256 of them.
    pub portals: Vec<SocketAddr>,
    /// Logical units, each `lun` once.
    pub lus: Vec<LuDescription>,
    /// Who may log in, and what each finds. Default: everyone, everything.
    pub access: Access,
    /// Bounds and clocks.
    pub limits: Limits,
}

/// A logical unit as SCSI sees it.
#[derive(Clone, Debug)]
pub struct LuDescription {
    /// Logical unit number, 0 to 255.
    pub lun: u8,
    /// Capacity in bytes, a multiple of `block_bytes`, at least one block.
    pub size_bytes: u64,
    /// Logical block length in bytes: 512 or 4096.
    pub block_bytes: u32,
    /// Physical block length in bytes, told by READ CAPACITY(16): `block_bytes` times a power of two up to 2^15; `None`: `block_bytes`.
    pub physical_block_bytes: Option<u32>,
    /// Writes end in DATA PROTECT, WRITE PROTECTED.
    pub read_only: bool,
    /// The store has a volatile cache: WCE is reported, SYNCHRONIZE CACHE flushes.
    pub write_cache: bool,
    /// Revolutions per minute of the medium, told in VPD page B1h: 0401h to FFFEh; `None`: it does not rotate.
    pub rotation_rate_rpm: Option<u16>,
    /// The shell can lend the LU's memory: reads may be answered with [`crate::IoResult::ReadInPlace`].
    pub in_place: bool,
    /// Blocks take space when they are written first, and give it back when they are unmapped (SBC-3 section 4.7.3.3: LBPME, LBPRZ).
    pub thin: Option<Thin>,
    /// WRITE SAME with UNMAP gives blocks back whatever block was sent, as LIO and tgt do; not so: it writes a block that is not all zeros, as SBC-3
    /// section 5.49 wants it.
    pub unmap_any_data: bool,
    /// The medium can be taken out: RMB is set, START STOP UNIT ejects and loads.
    pub removable: bool,
    /// SANITIZE may overwrite the whole LU.
    pub sanitize: bool,
    /// Longest write that is done as a whole or not at all, whatever happens: WRITE ATOMIC takes as much, and nothing if this is 0. In bytes, a multiple
    /// of `block_bytes`, at most 65 535 blocks.
    pub atomic_bytes: u32,
    /// Reservations kept by [`crate::IoOp::Keep`]; `None`: none are kept, and none can be (PTPL_C is 0).
    pub reservations: Option<Vec<u8>>,
}

/// How a thin-provisioned LU takes space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thin {
    /// Bytes that are taken and given back together: OPTIMAL UNMAP GRANULARITY. A multiple of the block length.
    pub page_bytes: u64,
}

/// Space behind a thin LU, as LOG SENSE tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes the LU has taken.
    pub used_bytes: u64,
    /// Bytes it may still take: what is left in its pool, and of its quota if that is less.
    pub available_bytes: u64,
}

impl LuDescription {
    /// A writable LU in memory with 512-byte blocks, no volatile cache, not rotating.
    #[must_use]
    pub fn new(lun: u8, size_bytes: u64) -> Self {
        Self {
            lun,
            size_bytes,
            block_bytes: 512,
            physical_block_bytes: None,
            read_only: false,
            write_cache: false,
            rotation_rate_rpm: None,
            in_place: true,
            thin: None,
            unmap_any_data: false,
            removable: false,
            sanitize: false,
            atomic_bytes: 0,
            reservations: None,
        }
    }

    /// Number of logical blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.size_bytes / u64::from(self.block_bytes)
    }
}

/// Bounds on what peers can make the target hold, and the clocks it runs them by.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Sessions in full feature phase. Default 16 384.
    pub sessions_max: u32,
    /// Connections that have not finished their login. Default 16 384.
    pub logins_max: u32,
    /// The same from one address; less than `logins_max`, so that one host cannot lock out the others. Default 12 288,
    /// since one load generator stands for thousands of VMs.
    pub logins_per_address_max: u32,
    /// A login must be finished within this. Default 15 s.
    pub login_timeout: Duration,
    /// After this long without a byte from the initiator a NOP-In asks whether it is there. Default 10 s.
    pub keepalive_after: Duration,
    /// How long that NOP-In may stay unanswered. Default 5 s.
    pub keepalive_timeout: Duration,
    /// A connection that has something to receive and takes none of it, or does not send the data of a write that it was asked for, is closed
    /// after this. Default 60 s.
    pub stall_timeout: Duration,
    /// A connection that is being ended is cut if what was left to send is not taken within this. Default 5 s.
    pub linger: Duration,
    /// Commands a session may have in flight: MaxCmdSN - ExpCmdSN + 1. Default 128.
    pub commands_max: u32,
    /// Immediate commands a session may have in flight besides; one more is rejected. Default 8.
    pub immediate_commands_max: u32,
    /// MaxRecvDataSegmentLength we declare, bytes, 512 to 2^24-1. Default 256 KiB.
    pub data_segment_bytes_max: u32,
    /// MaxBurstLength we agree to at most, bytes. Default 1 MiB.
    pub max_burst_bytes: u32,
    /// FirstBurstLength we agree to at most, bytes. Default 64 KiB.
    pub first_burst_bytes: u32,
    /// MaxOutstandingR2T we agree to at most. Default 8.
    pub outstanding_r2t_max: u16,
    /// Whether we ask for InitialR2T=Yes. Default false.
    pub initial_r2t: bool,
    /// Whether we agree to ImmediateData=Yes. Default true.
    pub immediate_data: bool,
    /// Longest transfer of one command, bytes; told to initiators in VPD page B0h. Default 16 MiB.
    pub transfer_bytes_max: u32,
    /// Write data all sessions together may make the target hold, bytes. R2Ts wait for it; unsolicited data beyond it
    /// is answered with TASK SET FULL. Default 256 MiB.
    pub write_buffer_bytes_max: u64,
    /// The same for one session, at least `transfer_bytes_max`. Default 32 MiB.
    pub session_write_buffer_bytes_max: u64,
    /// Copied bytes (not those sent in place) queued to one connection above which its next commands wait, bytes. Default 8 MiB.
    pub transmit_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions_max: 16_384,
            logins_max: 16_384,
            logins_per_address_max: 12_288,
            login_timeout: Duration::from_secs(15),
            keepalive_after: Duration::from_secs(10),
            keepalive_timeout: Duration::from_secs(5),
            stall_timeout: Duration::from_secs(60),
            linger: Duration::from_secs(5),
            commands_max: 128,
            immediate_commands_max: 8,
            data_segment_bytes_max: 256 << 10,
            max_burst_bytes: 1 << 20,
            first_burst_bytes: 64 << 10,
            outstanding_r2t_max: 8,
            initial_r2t: false,
            immediate_data: true,
            transfer_bytes_max: 16 << 20,
            write_buffer_bytes_max: 256 << 20,
            session_write_buffer_bytes_max: 32 << 20,
            transmit_bytes_max: 8 << 20,
        }
    }
}
