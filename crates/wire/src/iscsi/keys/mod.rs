//! Every text key of RFC 7143 (section 13; security keys of section 12; the keys of RFC 3720 that section 13.25 makes obsolete): its rule as a table, its
//! values, and the [`Negotiation`] that both sides run.
//!
//! A key is *declared* (one side says, the other takes note) or *negotiated* (the originator offers, the responder answers with the result, by a
//! result function both know). The table says which, so that `negotiation.rs` holds no list of keys but the fields of [`Agreed`] and [`Declared`].
mod negotiation;
mod parameters;
mod value;

pub use negotiation::{Negotiation, NegotiationError, PAIRS_MAX, Role, UNKNOWN_KEYS_MAX};
pub use parameters::{Agreed, Declared, Offer};
pub use value::{AuthMethod, Digest, SessionType, TaskReporting, is_iscsi_name, parse_number};

/// How a key gets its value, and which values there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Declared text of 1 to 255 bytes.
    Text,
    /// Declared number.
    Number {
        /// Least value.
        min: u32,
        /// Greatest value.
        max: u32,
    },
    /// Negotiated: the smaller number holds.
    Minimum {
        /// Least value.
        min: u32,
        /// Greatest value.
        max: u32,
    },
    /// Negotiated: the greater number holds.
    Maximum {
        /// Least value.
        min: u32,
        /// Greatest value.
        max: u32,
    },
    /// Negotiated: Yes where both say Yes.
    And,
    /// Negotiated: Yes where one says Yes.
    Or,
    /// Negotiated: the first of the originator's list that the responder takes.
    List,
    /// Belongs to an authentication method; legal only once that was agreed on.
    Authentication,
    /// A question, in full feature phase.
    Query,
    /// Of RFC 3720; answered with Reject, whatever it says (section 13.25).
    Obsolete,
}

/// When a key may be used ("Use" in section 13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// During the login of any connection (IO).
    Login,
    /// During the login of the first connection of a session (LO).
    LeadingLogin,
    /// In full feature phase (FFPO).
    FullFeature,
    /// Always (ALL).
    Always,
}

/// Who may send a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The initiator.
    Initiator,
    /// The target.
    Target,
    /// Either.
    Both,
}

/// All that the RFC says about a key, but its default: that is [`Agreed::default`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// As it is spelled; case counts.
    pub name: &'static str,
    /// How it gets its value.
    pub kind: Kind,
    /// When.
    pub usage: Use,
    /// By whom.
    pub sender: Sender,
    /// "Irrelevant when: SessionType=Discovery".
    pub normal_sessions_only: bool,
}

macro_rules! keys {
    ($($(#[$doc:meta])* $key:ident = $name:literal, $kind:expr, $usage:ident, $sender:ident $(, $normal:ident)?;)*) => {
        /// A key.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Key { $($(#[$doc])* $key,)* }

        impl Key {
            /// All of them.
            pub const ALL: &[Key] = &[$(Key::$key,)*];

            /// Its rule.
            pub fn rule(self) -> Rule {
                match self {
                    $(Key::$key => Rule {
                        name: $name,
                        kind: $kind,
                        usage: Use::$usage,
                        sender: Sender::$sender,
                        normal_sessions_only: !<[&str]>::is_empty(&[$(stringify!($normal))?]),
                    },)*
                }
            }

            /// The key of that name.
            pub fn from_name(name: &str) -> Option<Key> {
                match name { $($name => Some(Key::$key),)* _ => None }
            }
        }
    };
}

const SEGMENT: (u32, u32) = (512, (1 << 24) - 1);

keys! {
    /// 13.21.
    SessionType = "SessionType", Kind::Text, LeadingLogin, Initiator;
    /// 13.5.
    InitiatorName = "InitiatorName", Kind::Text, Login, Initiator;
    /// 13.4; the target sends it in answers to SendTargets only.
    TargetName = "TargetName", Kind::Text, Login, Both;
    /// 13.7.
    InitiatorAlias = "InitiatorAlias", Kind::Text, Always, Initiator;
    /// 13.6.
    TargetAlias = "TargetAlias", Kind::Text, Always, Target;
    /// 13.8.
    TargetAddress = "TargetAddress", Kind::Text, Always, Target;
    /// 13.9.
    TargetPortalGroupTag = "TargetPortalGroupTag", Kind::Number { min: 0, max: 65_535 }, Login, Target;
    /// 13.3.
    SendTargets = "SendTargets", Kind::Query, FullFeature, Initiator;
    /// 13.1.
    HeaderDigest = "HeaderDigest", Kind::List, Login, Both;
    /// 13.1.
    DataDigest = "DataDigest", Kind::List, Login, Both;
    /// 13.2.
    MaxConnections = "MaxConnections", Kind::Minimum { min: 1, max: 65_535 }, LeadingLogin, Both, normal;
    /// 13.10.
    InitialR2t = "InitialR2T", Kind::Or, LeadingLogin, Both, normal;
    /// 13.11.
    ImmediateData = "ImmediateData", Kind::And, LeadingLogin, Both, normal;
    /// 13.12.
    MaxRecvDataSegmentLength = "MaxRecvDataSegmentLength", Kind::Number { min: SEGMENT.0, max: SEGMENT.1 }, Always, Both;
    /// 13.13.
    MaxBurstLength = "MaxBurstLength", Kind::Minimum { min: SEGMENT.0, max: SEGMENT.1 }, LeadingLogin, Both, normal;
    /// 13.14. Negotiated after all that it depends on, see [`Negotiation::receive`].
    FirstBurstLength = "FirstBurstLength", Kind::Minimum { min: SEGMENT.0, max: SEGMENT.1 }, LeadingLogin, Both, normal;
    /// 13.15.
    DefaultTime2Wait = "DefaultTime2Wait", Kind::Maximum { min: 0, max: 3600 }, LeadingLogin, Both;
    /// 13.16.
    DefaultTime2Retain = "DefaultTime2Retain", Kind::Minimum { min: 0, max: 3600 }, LeadingLogin, Both;
    /// 13.17.
    MaxOutstandingR2t = "MaxOutstandingR2T", Kind::Minimum { min: 1, max: 65_535 }, LeadingLogin, Both, normal;
    /// 13.18.
    DataPduInOrder = "DataPDUInOrder", Kind::Or, LeadingLogin, Both, normal;
    /// 13.19.
    DataSequenceInOrder = "DataSequenceInOrder", Kind::Or, LeadingLogin, Both, normal;
    /// 13.20.
    ErrorRecoveryLevel = "ErrorRecoveryLevel", Kind::Minimum { min: 0, max: 2 }, LeadingLogin, Both;
    /// 13.23.
    TaskReporting = "TaskReporting", Kind::List, LeadingLogin, Both, normal;
    /// 13.24.
    IscsiProtocolLevel = "iSCSIProtocolLevel", Kind::Minimum { min: 0, max: 31 }, LeadingLogin, Both, normal;
    /// 13.25.
    IfMarker = "IFMarker", Kind::Obsolete, Login, Both;
    /// 13.25.
    OfMarker = "OFMarker", Kind::Obsolete, Login, Both;
    /// 13.25.
    IfMarkInt = "IFMarkInt", Kind::Obsolete, Login, Both;
    /// 13.25.
    OfMarkInt = "OFMarkInt", Kind::Obsolete, Login, Both;
    /// 12.1.
    AuthMethod = "AuthMethod", Kind::List, Login, Both;
    /// 12.1.3.
    ChapA = "CHAP_A", Kind::Authentication, Login, Both;
    /// 12.1.3.
    ChapI = "CHAP_I", Kind::Authentication, Login, Both;
    /// 12.1.3.
    ChapC = "CHAP_C", Kind::Authentication, Login, Both;
    /// 12.1.3.
    ChapN = "CHAP_N", Kind::Authentication, Login, Both;
    /// 12.1.3.
    ChapR = "CHAP_R", Kind::Authentication, Login, Both;
    /// 12.1.1.
    KrbApReq = "KRB_AP_REQ", Kind::Authentication, Login, Initiator;
    /// 12.1.1.
    KrbApRep = "KRB_AP_REP", Kind::Authentication, Login, Target;
    /// 12.1.2.
    SrpU = "SRP_U", Kind::Authentication, Login, Initiator;
    /// 12.1.2.
    SrpGroup = "SRP_GROUP", Kind::Authentication, Login, Both;
    /// 12.1.2.
    SrpA = "SRP_A", Kind::Authentication, Login, Initiator;
    /// 12.1.2.
    SrpB = "SRP_B", Kind::Authentication, Login, Target;
    /// 12.1.2.
    SrpS = "SRP_s", Kind::Authentication, Login, Target;
    /// 12.1.2.
    SrpM = "SRP_M", Kind::Authentication, Login, Initiator;
    /// 12.1.2.
    SrpHm = "SRP_HM", Kind::Authentication, Login, Target;
    /// 12.1.2.
    TargetAuth = "TargetAuth", Kind::Authentication, Login, Initiator;
}

impl Key {
    /// As it is spelled.
    pub fn name(self) -> &'static str {
        self.rule().name
    }
}

/// A set of keys, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KeySet(u64);

const _: () = assert!(Key::ALL.len() <= 64, "KeySet has 64 bits");

impl KeySet {
    pub(super) fn insert(&mut self, key: Key) {
        self.0 |= 1 << key as u8;
    }

    pub(super) fn remove(&mut self, key: Key) {
        self.0 &= !(1 << key as u8);
    }

    pub(super) fn contains(self, key: Key) -> bool {
        self.0 & 1 << key as u8 != 0
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Key> {
        Key::ALL
            .iter()
            .copied()
            .filter(move |&key| self.contains(key))
    }
}

#[cfg(test)]
mod tests;
