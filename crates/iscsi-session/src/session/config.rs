//! Configuration and events of a session.
use std::time::Duration;

use hakaru_contract::LoginKeys;
use hakaru_wire::iscsi::Isid;

use super::authentication::Chap;
use crate::error::SessionError;

/// The purpose of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To ask which targets there are (SendTargets); ends itself with a logout.
    Discovery,
    /// To use this target.
    Normal {
        /// Its iSCSI name.
        target_name: String,
    },
}

/// Configuration of a session.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// iSCSI name of the initiator.
    pub initiator_name: String,
    /// Session ID; with the name it must be unique at the target, or an older session of the same
    /// is replaced.
    pub isid: Isid,
    /// Its purpose.
    pub purpose: Purpose,
    /// Keys to offer.
    pub keys: LoginKeys,
    /// CHAP of the initiator; a login to a target that does not ask for it fails then.
    pub chap: Option<Chap>,
    /// Limit for a login, a command, a ping and a logout.
    pub timeout: Duration,
}

/// An event of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Full feature phase: tasks are carried out.
    LoggedIn,
    /// The target moved to another portal: `address:port` (or with a host name). The session has
    /// ended; the caller makes another.
    Redirected {
        /// The other portal.
        address: String,
    },
    /// Answer of a discovery session.
    Targets(Vec<DiscoveredTarget>),
    /// The session ended as we asked.
    LoggedOut,
    /// The session ended otherwise.
    Lost(SessionError),
}

/// A target that a discovery session reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredTarget {
    /// Its iSCSI name.
    pub name: String,
    /// Its portals as `address:port,group`, as the target wrote them.
    pub addresses: Vec<String>,
}
