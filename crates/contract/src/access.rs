//! Access to an array: CHAP users, access rules, and the LUs that each rule exposes.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::chap::{ChapAlgorithm, ChapUser};

/// Rules for logging in, and the LUs that each initiator sees. Default: any initiator may log in
/// without authentication and sees every LU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AccessConfig {
    /// CHAP users that initiators may authenticate as; each name at most once. With users and no
    /// `rules`, only these users may log in, and each of them sees every LU.
    pub users: Vec<ChapUser>,
    /// CHAP name and secret with which the array authenticates itself to initiators that ask for it
    /// (mutual CHAP). The secret must differ from every user's. Default: such logins are refused.
    pub target: Option<ChapUser>,
    /// CHAP algorithms, preferred first. Default SHA3-256, SHA-256.
    pub algorithms: Vec<ChapAlgorithm>,
    /// Access rules. An initiator is admitted if it meets all conditions of at least one rule.
    /// Default: no rules, no check. An empty list admits no initiator.
    pub rules: Option<Vec<AccessRule>>,
}

impl Default for AccessConfig {
    fn default() -> Self {
        AccessConfig {
            users: Vec::new(),
            target: None,
            algorithms: ChapAlgorithm::strong(),
            rules: None,
        }
    }
}

/// An access rule, which admits an initiator that meets all of its conditions. Bind each CHAP user
/// to its initiator names: a user who may log in under any name can reinstate, and so take over,
/// another initiator's session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AccessRule {
    /// iSCSI name of the initiator. Default: any.
    pub initiator_name: Option<String>,
    /// Source address of the connection: an address, or a prefix like `10.1.0.0/16`. Default: any.
    pub address: Option<String>,
    /// CHAP user that the initiator authenticated as. Default: any user, or no authentication.
    pub user: Option<String>,
    /// LUs that the initiator sees; if several rules match, the union of their LUs. Default: all
    /// LUs, writable.
    pub lus: Option<Vec<LuAccess>>,
}

/// An LU that a rule exposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LuAccess {
    /// Logical unit number, 0 to 255.
    pub lun: u8,
    /// Refuse this initiator's writes with WRITE PROTECTED. Default false.
    #[serde(default)]
    pub read_only: bool,
}
