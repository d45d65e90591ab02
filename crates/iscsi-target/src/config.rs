//! Configuration of a target: name, portals, logical units and limits.

use core::net::SocketAddr;
use core::time::Duration;

use hakaru_contract::LoginKeys;
use hakaru_scsi_device::{LuDescription, PortGroupDescription};

use crate::login::access::Access;

/// Configuration of a target. Each portal is its own portal group, tagged with its position from 1,
/// and a SCSI target port.
#[derive(Clone, Debug)]
pub struct TargetConfig {
    /// iSCSI name (`iqn.`, `eui.` or `naa.`, RFC 7143 section 4.2.7), at most 223 bytes.
    pub target_name: String,
    /// Addresses the shell listens on, in the order of its portals. An unspecified address
    /// (`0.0.0.0`, `::`) is announced to an initiator as the address it connected to. 1 to 256
    /// portals.
    pub portals: Vec<SocketAddr>,
    /// Target port groups: portals that share an access state. Each portal that is in none of them
    /// is a group of its own.
    pub port_groups: Vec<PortGroupDescription>,
    /// Logical units, each `lun` once.
    pub lus: Vec<LuDescription>,
    /// The access list. Default: every initiator, every LU.
    pub access: Access,
    /// Limits and timeouts.
    pub limits: Limits,
}

/// Upper bound of [`Limits::tasks_max`].
pub(crate) const TASKS_MAX: u32 = (1 << 24) - 257;

/// Limits on the resources that peers can occupy, and timeouts.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections of any kind: sessions, logins in progress, and connections that are ending. Set
    /// it to the number of sockets that the process may open. Logins in progress from one origin
    /// may use at most three quarters of the connections that all others leave free. Default 32
    /// 768.
    pub connections_max: u32,
    /// Sessions in full feature phase. Default 16 384.
    pub sessions_max: u32,
    /// Connections that have not finished their login. Default 16 384.
    pub logins_max: u32,
    /// Like `logins_max`, from one origin (an IPv4 address, or an IPv6 network of 64 bits). Less
    /// than `logins_max`, so that one host cannot lock out the others. Default 12 288, because one
    /// load generator represents thousands of VMs.
    pub logins_per_address_max: u32,
    /// Time within which a login must finish. Default 15 s.
    pub login_timeout: Duration,
    /// Idle time after which the target sends a NOP-In to check that the initiator is alive.
    /// Default 10 s.
    pub keepalive_after: Duration,
    /// Time after which that NOP-In counts as unanswered, from the instant at which the initiator
    /// last took data. Default 5 s.
    pub keepalive_timeout: Duration,
    /// Time after which a connection is closed if the initiator accepts no data from its queue, or
    /// does not send requested data of a write. Default 60 s.
    pub stall_timeout: Duration,
    /// Time that an ending connection has to send its queue before it is cut. Default 5 s.
    pub linger: Duration,
    /// Commands a session may have in flight: MaxCmdSN - ExpCmdSN + 1. Also the number of its task
    /// management functions that may wait for the storage; a further one is rejected. Default 128.
    pub commands_max: u32,
    /// Tasks of all sessions together. A further command is answered with TASK SET FULL. The bound
    /// is 2^24 - 257, which is also the default: a Target Transfer Tag has 24 bits for the task, and
    /// each LU may have one task that belongs to no session. At least 1.
    pub tasks_max: u32,
    /// Immediate commands a session may have in flight in addition. A further one is rejected.
    /// Default 8.
    pub immediate_commands_max: u32,
    /// Login keys declared and agreed to. Default [`LoginKeys::of_array`].
    pub keys: LoginKeys,
    /// Longest transfer of one command, bytes; reported in VPD page B0h. Default 16 MiB.
    pub transfer_bytes_max: u32,
    /// Write data of all sessions together that the target holds, bytes. R2Ts wait for room;
    /// unsolicited data beyond the limit is answered with TASK SET FULL. Default 256 MiB.
    pub write_buffer_bytes_max: u64,
    /// Like `write_buffer_bytes_max`, for one session. In bytes, at least
    /// `transfer_bytes_max`. Default 32 MiB.
    pub session_write_buffer_bytes_max: u64,
    /// Copied bytes (not those sent in place) in the queue of one connection above which its next
    /// commands wait. Default 8 MiB.
    pub transmit_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 32_768,
            sessions_max: 16_384,
            logins_max: 16_384,
            logins_per_address_max: 12_288,
            login_timeout: Duration::from_secs(15),
            keepalive_after: Duration::from_secs(10),
            keepalive_timeout: Duration::from_secs(5),
            stall_timeout: Duration::from_secs(60),
            linger: Duration::from_secs(5),
            commands_max: 128,
            tasks_max: TASKS_MAX,
            immediate_commands_max: 8,
            keys: LoginKeys::of_array(),
            transfer_bytes_max: 16 << 20,
            write_buffer_bytes_max: 256 << 20,
            session_write_buffer_bytes_max: 32 << 20,
            transmit_bytes_max: 8 << 20,
        }
    }
}

/// MaxRecvDataSegmentLength of both sides until login has declared another (RFC 7143 section
/// 13.12), bytes.
pub(crate) const LOGIN_DATA_SEGMENT_BYTES: u32 = 8192;

/// Returns the portal group tag and relative target port identifier of a portal.
pub(crate) fn port_number(portal: usize) -> u16 {
    u16::try_from(portal + 1).expect("there are at most 256 portals")
}
