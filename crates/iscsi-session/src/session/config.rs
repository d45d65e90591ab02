//! Configuration and events of a session.
use std::time::Duration;

use hakaru_contract::LoginKeys;
use hakaru_wire::iscsi::Isid;

use super::authentication::Chap;
use crate::error::SessionError;

/// Purpose of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Requests the list of targets (SendTargets), then logs out.
    Discovery,
    /// Executes tasks on a target.
    Normal {
        /// iSCSI name of the target.
        target_name: String,
    },
}

/// Configuration of a session.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// iSCSI name of the initiator.
    pub initiator_name: String,
    /// Session ID. The target replaces an older session with the same initiator name and ID.
    pub isid: Isid,
    /// Purpose of the session.
    pub purpose: Purpose,
    /// Keys to offer.
    pub keys: LoginKeys,
    /// CHAP settings of the initiator. With them, a login fails if the target does not use CHAP.
    pub chap: Option<Chap>,
    /// Time limits.
    pub timers: SessionTimers,
}

/// Time limits of a session. A session that exceeds one of them ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionTimers {
    /// Time limit of a login.
    pub login: Duration,
    /// Time limit of a command, of a discovery and of a logout.
    pub command: Duration,
    /// Time without a byte of the target after which it is pinged (open-iscsi's
    /// `noop_out_interval`).
    pub ping_after: Duration,
    /// Time limit of a ping (open-iscsi's `noop_out_timeout`).
    pub ping: Duration,
}

impl SessionTimers {
    /// Returns timers with one limit for logins, commands, pings and logouts. An idle target is
    /// pinged after 5 seconds, as open-iscsi does.
    #[must_use]
    pub const fn new(limit: Duration) -> SessionTimers {
        SessionTimers {
            login: limit,
            command: limit,
            ping_after: Duration::from_secs(5),
            ping: limit,
        }
    }
}

/// An event of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The session has entered full feature phase, in which tasks are executed.
    LoggedIn,
    /// The target redirects to another portal. The session has ended, and the caller creates a new
    /// one.
    Redirected {
        /// `address:port` or `host:port` of the other portal.
        address: String,
    },
    /// Result of a discovery session.
    Targets(Vec<DiscoveredTarget>),
    /// The session ended as requested.
    LoggedOut,
    /// The session ended for another reason.
    Lost(SessionError),
}

/// A target that a discovery session reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredTarget {
    /// iSCSI name of the target.
    pub name: String,
    /// Portals of the target as `address:port,group`, in the target's notation.
    pub addresses: Vec<String>,
}
