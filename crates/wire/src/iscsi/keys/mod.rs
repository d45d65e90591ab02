//! Every text key of RFC 7143 (section 13; security keys of section 12; the keys of RFC 3720 that
//! section 13.25 makes obsolete): a table of rules, their values, and the [`Negotiation`] that both
//! sides run.
//!
//! A key is *declared* (one side states its value) or *negotiated* (the originator offers, the
//! responder answers with the result of a function that both sides know). The table has the kind of
//! every key; `negotiation.rs` has no list of keys other than the fields of [`Agreed`] and
//! [`Declared`].
mod negotiation;
mod parameters;
mod value;

pub use negotiation::{Negotiation, NegotiationError, PAIRS_MAX, Role, UNKNOWN_KEYS_MAX};
pub use parameters::{Agreed, Declared, Offer};
pub use value::{AuthMethod, Digest, SessionType, TaskReporting, is_iscsi_name, parse_number};

/// Method by which a key gets its value, with the range of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Declared text of 1 to 255 bytes.
    Text,
    /// Declared number.
    Number {
        /// Minimum.
        min: u32,
        /// Maximum.
        max: u32,
    },
    /// Negotiated: the result is the smaller number.
    Minimum {
        /// Minimum.
        min: u32,
        /// Maximum.
        max: u32,
    },
    /// Negotiated: the result is the greater number.
    Maximum {
        /// Minimum.
        min: u32,
        /// Maximum.
        max: u32,
    },
    /// Negotiated: Yes if both sides have Yes.
    And,
    /// Negotiated: Yes if either side has Yes.
    Or,
    /// Negotiated: the first of the originator's list that the responder accepts.
    List,
    /// Belongs to an authentication method; allowed only after agreement on the method.
    Authentication,
    /// A request for information, in full feature phase.
    Query,
    /// Obsolete key of RFC 3720; always answered with Reject (section 13.25).
    Obsolete,
}

/// Phases in which a key may be used ("Use" in section 13).
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

/// Sides that may send a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The initiator.
    Initiator,
    /// The target.
    Target,
    /// Either side.
    Both,
}

/// The RFC's rule of a key. Its default is in [`Agreed::default`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Name, case-sensitive.
    pub name: &'static str,
    /// Method by which the key gets its value.
    pub kind: Kind,
    /// Phases in which the key may be used.
    pub usage: Use,
    /// Sides that may send the key.
    pub sender: Sender,
    /// Whether discovery sessions ignore the key ("Irrelevant when: SessionType=Discovery").
    pub normal_sessions_only: bool,
}

macro_rules! keys {
    ($($(#[$doc:meta])* $key:ident = $name:literal, $kind:expr, $usage:ident, $sender:ident $(, $normal:ident)?;)*) => {
        /// A key.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Key { $($(#[$doc])* $key,)* }

        impl Key {
            /// Every key.
            pub const ALL: &[Key] = &[$(Key::$key,)*];

            /// Returns the rule of the key.
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

            /// Returns the key with this name. Case matters.
            pub fn from_name(name: &str) -> Option<Key> {
                match name { $($name => Some(Key::$key),)* _ => None }
            }
        }
    };
}

const SEGMENT: (u32, u32) = (512, (1 << 24) - 1);

keys! {
    /// Section 13.21.
    SessionType = "SessionType", Kind::Text, LeadingLogin, Initiator;
    /// Section 13.5.
    InitiatorName = "InitiatorName", Kind::Text, Login, Initiator;
    /// Section 13.4; the target sends it in answers to SendTargets only.
    TargetName = "TargetName", Kind::Text, Login, Both;
    /// Section 13.7.
    InitiatorAlias = "InitiatorAlias", Kind::Text, Always, Initiator;
    /// Section 13.6.
    TargetAlias = "TargetAlias", Kind::Text, Always, Target;
    /// Section 13.8.
    TargetAddress = "TargetAddress", Kind::Text, Always, Target;
    /// Section 13.9.
    TargetPortalGroupTag = "TargetPortalGroupTag", Kind::Number { min: 0, max: 65_535 }, Login, Target;
    /// Section 13.3.
    SendTargets = "SendTargets", Kind::Query, FullFeature, Initiator;
    /// Section 13.1.
    HeaderDigest = "HeaderDigest", Kind::List, Login, Both;
    /// Section 13.1.
    DataDigest = "DataDigest", Kind::List, Login, Both;
    /// Section 13.2.
    MaxConnections = "MaxConnections", Kind::Minimum { min: 1, max: 65_535 }, LeadingLogin, Both, normal;
    /// Section 13.10.
    InitialR2t = "InitialR2T", Kind::Or, LeadingLogin, Both, normal;
    /// Section 13.11.
    ImmediateData = "ImmediateData", Kind::And, LeadingLogin, Both, normal;
    /// Section 13.12.
    MaxRecvDataSegmentLength = "MaxRecvDataSegmentLength", Kind::Number { min: SEGMENT.0, max: SEGMENT.1 }, Always, Both;
    /// Section 13.13.
    MaxBurstLength = "MaxBurstLength", Kind::Minimum { min: SEGMENT.0, max: SEGMENT.1 }, LeadingLogin, Both, normal;
    /// Section 13.14. Negotiated after the keys that it depends on, see [`Negotiation::receive`].
    FirstBurstLength = "FirstBurstLength", Kind::Minimum { min: SEGMENT.0, max: SEGMENT.1 }, LeadingLogin, Both, normal;
    /// Section 13.15.
    DefaultTime2Wait = "DefaultTime2Wait", Kind::Maximum { min: 0, max: 3600 }, LeadingLogin, Both;
    /// Section 13.16.
    DefaultTime2Retain = "DefaultTime2Retain", Kind::Minimum { min: 0, max: 3600 }, LeadingLogin, Both;
    /// Section 13.17.
    MaxOutstandingR2t = "MaxOutstandingR2T", Kind::Minimum { min: 1, max: 65_535 }, LeadingLogin, Both, normal;
    /// Section 13.18.
    DataPduInOrder = "DataPDUInOrder", Kind::Or, LeadingLogin, Both, normal;
    /// Section 13.19.
    DataSequenceInOrder = "DataSequenceInOrder", Kind::Or, LeadingLogin, Both, normal;
    /// Section 13.20.
    ErrorRecoveryLevel = "ErrorRecoveryLevel", Kind::Minimum { min: 0, max: 2 }, LeadingLogin, Both;
    /// Section 13.23.
    TaskReporting = "TaskReporting", Kind::List, LeadingLogin, Both, normal;
    /// Section 13.24.
    IscsiProtocolLevel = "iSCSIProtocolLevel", Kind::Minimum { min: 0, max: 31 }, LeadingLogin, Both, normal;
    /// Section 13.25.
    IfMarker = "IFMarker", Kind::Obsolete, Login, Both;
    /// Section 13.25.
    OfMarker = "OFMarker", Kind::Obsolete, Login, Both;
    /// Section 13.25.
    IfMarkInt = "IFMarkInt", Kind::Obsolete, Login, Both;
    /// Section 13.25.
    OfMarkInt = "OFMarkInt", Kind::Obsolete, Login, Both;
    /// Section 12.1.
    AuthMethod = "AuthMethod", Kind::List, Login, Both;
    /// Section 12.1.3.
    ChapA = "CHAP_A", Kind::Authentication, Login, Both;
    /// Section 12.1.3.
    ChapI = "CHAP_I", Kind::Authentication, Login, Both;
    /// Section 12.1.3.
    ChapC = "CHAP_C", Kind::Authentication, Login, Both;
    /// Section 12.1.3.
    ChapN = "CHAP_N", Kind::Authentication, Login, Both;
    /// Section 12.1.3.
    ChapR = "CHAP_R", Kind::Authentication, Login, Both;
    /// Section 12.1.1.
    KrbApReq = "KRB_AP_REQ", Kind::Authentication, Login, Initiator;
    /// Section 12.1.1.
    KrbApRep = "KRB_AP_REP", Kind::Authentication, Login, Target;
    /// Section 12.1.2.
    SrpU = "SRP_U", Kind::Authentication, Login, Initiator;
    /// Section 12.1.2.
    SrpGroup = "SRP_GROUP", Kind::Authentication, Login, Both;
    /// Section 12.1.2.
    SrpA = "SRP_A", Kind::Authentication, Login, Initiator;
    /// Section 12.1.2.
    SrpB = "SRP_B", Kind::Authentication, Login, Target;
    /// Section 12.1.2.
    SrpS = "SRP_s", Kind::Authentication, Login, Target;
    /// Section 12.1.2.
    SrpM = "SRP_M", Kind::Authentication, Login, Initiator;
    /// Section 12.1.2.
    SrpHm = "SRP_HM", Kind::Authentication, Login, Target;
    /// Section 12.1.2.
    TargetAuth = "TargetAuth", Kind::Authentication, Login, Initiator;
}

impl Key {
    /// Returns the name.
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
