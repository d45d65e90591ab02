//! Settings shared by all VMs of an engine.
use std::time::Duration;

use crate::payload::Payload;
use hakaru_contract::LoginKeys;
use hakaru_contract::initiator::{COMMANDS_MAX, GuestQueue, InitiatorConfig};
use hakaru_iscsi_session::Chap;

/// Settings shared by all VMs of an engine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Login keys.
    pub keys: LoginKeys,
    /// CHAP settings of the VMs; `None` for logins without authentication.
    pub chap: Option<Chap>,
    /// Time limit of a login, a command, a ping and a logout.
    pub timeout: Duration,
    /// Contents of writes.
    pub payload: Payload,
    /// Run number for verification, which stamps and checks every block. The number distinguishes
    /// this run's stamps from those of earlier runs. `None` disables verification.
    pub verify_run: Option<u32>,
    /// Path of the requests to the sessions.
    pub commands: CommandLimits,
}

/// Path of requests from a VM to its sessions: the queue of its disk, splitting into commands, and
/// distribution over sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandLimits {
    /// Queue between each VM and its disk. Default: none.
    pub guest_queue: Option<GuestQueue>,
    /// Longest command, bytes, a multiple of the LU's block. Default: requests are not split.
    pub bytes_max: Option<u32>,
    /// Whether VMs with the same [`Destination::session_name`] share a session. Default false.
    ///
    /// [`Destination::session_name`]: hakaru_contract::initiator::Destination::session_name
    pub share_sessions: bool,
    /// Number of sessions of each VM, 1 to 64: one per path if there are several. 1 if sessions are
    /// shared. Default 1.
    pub sessions: u32,
    /// Maximum number of commands outstanding per LU of a session, 1 to 4096. Default 4096.
    pub lu_outstanding_max: u32,
    /// Maximum number of commands outstanding per session, 1 to 4096. Default 4096.
    pub session_outstanding_max: u32,
}

impl Default for CommandLimits {
    fn default() -> Self {
        CommandLimits {
            guest_queue: None,
            bytes_max: None,
            share_sessions: false,
            sessions: 1,
            lu_outstanding_max: COMMANDS_MAX,
            session_outstanding_max: COMMANDS_MAX,
        }
    }
}

impl CommandLimits {
    /// Returns the limits of a validated configuration.
    #[must_use]
    pub fn of(config: &InitiatorConfig) -> CommandLimits {
        CommandLimits {
            guest_queue: config.guest_queue,
            bytes_max: config.command_bytes_max,
            share_sessions: config.share_sessions,
            sessions: config.legs(),
            lu_outstanding_max: config.commands_max.unwrap_or(COMMANDS_MAX),
            session_outstanding_max: config.session_commands_max.unwrap_or(COMMANDS_MAX),
        }
    }
}
