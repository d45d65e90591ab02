//! What a session is made from, and what it reports.
use std::time::Duration;

use hakaru_contract::LoginKeys;
use hakaru_wire::iscsi::Isid;

use super::authentication::Chap;
use crate::error::SessionError;

/// What a session is for.
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

/// How to log in.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// iSCSI name of the initiator.
    pub initiator_name: String,
    /// Session ID; with the name it must be unique at the target, or an older session of the same is replaced.
    pub isid: Isid,
    /// What for.
    pub purpose: Purpose,
    /// Keys to offer.
    pub keys: LoginKeys,
    /// How it proves who it is; a target that does not ask is then not logged in to.
    pub chap: Option<Chap>,
    /// Limit for a login, a command, a ping and a logout.
    pub timeout: Duration,
}

/// What happened to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Full feature phase: tasks are carried out.
    LoggedIn,
    /// The target is to be found elsewhere: `address:port` (or with a host name). The session has ended; make another.
    Redirected {
        /// Where.
        address: String,
    },
    /// Answer of a discovery session.
    Targets(Vec<DiscoveredTarget>),
    /// The session ended as we asked.
    LoggedOut,
    /// The session ended otherwise.
    Lost(SessionError),
}

/// A target that a discovery session told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredTarget {
    /// Its iSCSI name.
    pub name: String,
    /// Its portals as `address:port,group`, as the target wrote them.
    pub addresses: Vec<String>,
}
