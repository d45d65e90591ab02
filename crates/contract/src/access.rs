//! Who may use an array: users, the list, and where it may listen.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::chap::{ChapAlgorithm, ChapUser};

/// Who may log in, and what each finds. Default: everyone without authentication, every LU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AccessConfig {
    /// CHAP names of initiators, each once. With users and no `rules` each of them finds every LU,
    /// and nobody else logs in.
    pub users: Vec<ChapUser>,
    /// What the array proves itself with to initiators that ask (mutual CHAP); its secret is no
    /// user's. Default: those are refused.
    pub target: Option<ChapUser>,
    /// Algorithms of CHAP, best first. Default SHA3-256, SHA-256.
    pub algorithms: Vec<ChapAlgorithm>,
    /// Who is let in: whom all of a rule fits. Default: no list. An empty list lets nobody in.
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

/// Lets in whom all of this fits. Give each CHAP user its initiator names: who may log in under any
/// name may take the place of another's session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AccessRule {
    /// iSCSI name of the initiator. Default: any.
    pub initiator_name: Option<String>,
    /// Where it connects from: an address, or a prefix like `10.1.0.0/16`. Default: anywhere.
    pub address: Option<String>,
    /// The CHAP user it has proved to be. Default: any, and none.
    pub user: Option<String>,
    /// LUs that it finds; where several rules fit, those of all. Default: all, writable.
    pub lus: Option<Vec<LuAccess>>,
}

/// An LU that a rule shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LuAccess {
    /// Logical unit number, 0 to 255.
    pub lun: u8,
    /// Its writes are refused with WRITE PROTECTED. Default false.
    #[serde(default)]
    pub read_only: bool,
}
