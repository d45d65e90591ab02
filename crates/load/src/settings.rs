//! Settings shared by all VMs of an engine.
use std::time::Duration;

use crate::payload::Payload;
use hakaru_contract::LoginKeys;
use hakaru_contract::initiator::COMMANDS_MAX;
use hakaru_contract::initiator::InitiatorConfig;
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
    /// Splitting of requests into commands.
    pub commands: CommandLimits,
}

/// Splitting of requests into commands, and distribution over sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandLimits {
    /// Number of sessions of each VM, 1 to 64. Default 1.
    pub sessions: u32,
    /// Longest command, bytes, a multiple of the LU's block. Default: requests are not split.
    pub bytes_max: Option<u32>,
    /// Maximum number of commands outstanding per session, 1 to 4096. Default 4096.
    pub outstanding_max: u32,
}

impl Default for CommandLimits {
    fn default() -> Self {
        CommandLimits {
            sessions: 1,
            bytes_max: None,
            outstanding_max: COMMANDS_MAX,
        }
    }
}

impl CommandLimits {
    /// Returns the limits of a validated configuration.
    #[must_use]
    pub fn of(config: &InitiatorConfig) -> CommandLimits {
        CommandLimits {
            sessions: config.sessions_per_vm,
            bytes_max: config.command_bytes_max,
            outstanding_max: config.commands_max.unwrap_or(COMMANDS_MAX),
        }
    }
}
