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
    /// Time limit of a login, a command, a ping and a logout.
    pub timeout: Duration,
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
