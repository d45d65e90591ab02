//! The keys of a session: one side's offer, the values agreed on, and the names declared.
use super::{AuthMethod, Digest, Key, SessionType, TaskReporting};

/// One side's part in the negotiation: what an initiator offers, or a target's argument of each result function. The
/// defaults are those of RFC 7143 section 13, except where noted. Keys are spelled as in the RFC, in snake case, here
/// and in [`Agreed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Authentication methods, best first. Default: None.
    pub auth_methods: &'static [AuthMethod],
    /// Header digests, best first. Default: None.
    pub header_digests: &'static [Digest],
    /// Data digests, best first. Default: None.
    pub data_digests: &'static [Digest],
    /// Connections of a session, 1 to 65 535. Default 1.
    pub max_connections: u32,
    /// Wait for an R2T before sending unsolicited data. Default true.
    pub initial_r2t: bool,
    /// Send data with the command. Default true.
    pub immediate_data: bool,
    /// Longest data segment that this side takes, bytes, 512 to 2^24 - 1. Default 8192.
    pub max_recv_data_segment_length: u32,
    /// Longest sequence of data PDUs, bytes, 512 to 2^24 - 1. Default 262 144.
    pub max_burst_length: u32,
    /// Most unsolicited data of a command, bytes, 512 to `max_burst_length`. Default 65 536.
    pub first_burst_length: u32,
    /// Seconds to wait after a failure before reconnecting, 0 to 3600. Default 2.
    pub default_time2wait: u32,
    /// Seconds for which tasks are then kept, 0 to 3600. Default 20; 0 at error recovery level 0 says the truth.
    pub default_time2retain: u32,
    /// R2Ts outstanding for one task, 1 to 65 535. Default 1.
    pub max_outstanding_r2t: u32,
    /// Data PDUs of a sequence in order. Default true.
    pub data_pdu_in_order: bool,
    /// Sequences in order. Default true.
    pub data_sequence_in_order: bool,
    /// 0 to 2. Default 0.
    pub error_recovery_level: u32,
    /// 0 to 31; 1 is RFC 7143. Default 1.
    pub iscsi_protocol_level: u32,
}

impl Default for Offer {
    fn default() -> Self {
        Offer {
            auth_methods: &[AuthMethod::None],
            header_digests: &[Digest::None],
            data_digests: &[Digest::None],
            max_connections: 1,
            initial_r2t: true,
            immediate_data: true,
            max_recv_data_segment_length: 8192,
            max_burst_length: 262_144,
            first_burst_length: 65_536,
            default_time2wait: 2,
            default_time2retain: 20,
            max_outstanding_r2t: 1,
            data_pdu_in_order: true,
            data_sequence_in_order: true,
            error_recovery_level: 0,
            iscsi_protocol_level: 1,
        }
    }
}

/// The values that hold for a session and its connection. The defaults are those of RFC 7143 section 13; they hold for
/// every key that was not negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Authentication method; `None` before one was agreed on.
    pub auth_method: Option<AuthMethod>,
    /// Header digest from full feature phase on.
    pub header_digest: Digest,
    /// Data digest from full feature phase on.
    pub data_digest: Digest,
    /// Connections of the session.
    pub max_connections: u32,
    /// Unsolicited Data-Out PDUs are not allowed.
    pub initial_r2t: bool,
    /// Data may come with the command.
    pub immediate_data: bool,
    /// Longest data segment that this side receives, bytes: as it declared, 8192 until then.
    pub max_recv_data_segment_length: u32,
    /// Longest data segment that the peer receives, bytes: as it declared, 8192 until then.
    pub peer_max_recv_data_segment_length: u32,
    /// Longest sequence of data PDUs, bytes.
    pub max_burst_length: u32,
    /// Most unsolicited data of a command, bytes; never above `max_burst_length`.
    pub first_burst_length: u32,
    /// Seconds.
    pub default_time2wait: u32,
    /// Seconds.
    pub default_time2retain: u32,
    /// R2Ts outstanding for one task.
    pub max_outstanding_r2t: u32,
    /// Data PDUs of a sequence come in order.
    pub data_pdu_in_order: bool,
    /// Sequences come in order.
    pub data_sequence_in_order: bool,
    /// 0 to 2.
    pub error_recovery_level: u32,
    /// How tasks that end together are reported.
    pub task_reporting: TaskReporting,
    /// 1: RFC 7143.
    pub iscsi_protocol_level: u32,
}

impl Default for Agreed {
    fn default() -> Self {
        Agreed {
            auth_method: None,
            header_digest: Digest::None,
            data_digest: Digest::None,
            max_connections: 1,
            initial_r2t: true,
            immediate_data: true,
            max_recv_data_segment_length: 8192,
            peer_max_recv_data_segment_length: 8192,
            max_burst_length: 262_144,
            first_burst_length: 65_536,
            default_time2wait: 2,
            default_time2retain: 20,
            max_outstanding_r2t: 1,
            data_pdu_in_order: true,
            data_sequence_in_order: true,
            error_recovery_level: 0,
            task_reporting: TaskReporting::Rfc3720,
            iscsi_protocol_level: 1,
        }
    }
}

/// Names and the session's type, declared by either side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// Normal or discovery.
    pub session_type: SessionType,
    /// Name of the initiator, once it came.
    pub initiator_name: Option<String>,
    /// Name of the target, once it came.
    pub target_name: Option<String>,
    /// Description of the initiator for people.
    pub initiator_alias: Option<String>,
    /// Description of the target for people.
    pub target_alias: Option<String>,
    /// Address that a redirecting target names: `address:port,group`.
    pub target_address: Option<String>,
    /// Portal group of the target's portal.
    pub target_portal_group_tag: Option<u16>,
}

impl Offer {
    /// This side's part in the result of a numeric key.
    pub(super) fn number(&self, key: Key) -> Option<u32> {
        Some(match key {
            Key::MaxConnections => self.max_connections,
            Key::MaxBurstLength => self.max_burst_length,
            Key::FirstBurstLength => self.first_burst_length,
            Key::DefaultTime2Wait => self.default_time2wait,
            Key::DefaultTime2Retain => self.default_time2retain,
            Key::MaxOutstandingR2t => self.max_outstanding_r2t,
            Key::ErrorRecoveryLevel => self.error_recovery_level,
            Key::IscsiProtocolLevel => self.iscsi_protocol_level,
            _ => return None,
        })
    }

    /// This side's part in the result of a boolean key.
    pub(super) fn boolean(&self, key: Key) -> Option<bool> {
        Some(match key {
            Key::InitialR2t => self.initial_r2t,
            Key::ImmediateData => self.immediate_data,
            Key::DataPduInOrder => self.data_pdu_in_order,
            Key::DataSequenceInOrder => self.data_sequence_in_order,
            _ => return None,
        })
    }

    /// Words that this side takes for a list key, best first.
    pub(super) fn words(&self, key: Key) -> Vec<&'static str> {
        match key {
            Key::HeaderDigest => self
                .header_digests
                .iter()
                .map(|digest| digest.name())
                .collect(),
            Key::DataDigest => self
                .data_digests
                .iter()
                .map(|digest| digest.name())
                .collect(),
            Key::AuthMethod => self
                .auth_methods
                .iter()
                .map(|method| method.name())
                .collect(),
            // Semantics of RFC 3720 are the ones that are built; the others are extensions of it (section 13.23).
            Key::TaskReporting => vec![TaskReporting::Rfc3720.name()],
            _ => Vec::new(),
        }
    }
}

impl Agreed {
    /// Sets a negotiated number; other keys are left alone. FirstBurstLength is cut to MaxBurstLength (section 13.14) here, so that nobody ever sees it above:
    /// a peer may well lower the one and leave the other at its default.
    pub(super) fn set_number(&mut self, key: Key, value: u32) {
        match key {
            Key::MaxConnections => self.max_connections = value,
            Key::MaxBurstLength => self.max_burst_length = value,
            Key::FirstBurstLength => self.first_burst_length = value,
            Key::DefaultTime2Wait => self.default_time2wait = value,
            Key::DefaultTime2Retain => self.default_time2retain = value,
            Key::MaxOutstandingR2t => self.max_outstanding_r2t = value,
            Key::ErrorRecoveryLevel => self.error_recovery_level = value,
            Key::IscsiProtocolLevel => self.iscsi_protocol_level = value,
            _ => {}
        }
        self.first_burst_length = self.first_burst_length.min(self.max_burst_length);
    }

    /// Sets a negotiated boolean; other keys are left alone.
    pub(super) fn set_boolean(&mut self, key: Key, value: bool) {
        match key {
            Key::InitialR2t => self.initial_r2t = value,
            Key::ImmediateData => self.immediate_data = value,
            Key::DataPduInOrder => self.data_pdu_in_order = value,
            Key::DataSequenceInOrder => self.data_sequence_in_order = value,
            _ => {}
        }
    }

    /// Sets a negotiated word. `None` where the word is none of the key's.
    pub(super) fn set_word(&mut self, key: Key, word: &str) -> Option<()> {
        match key {
            Key::HeaderDigest => self.header_digest = Digest::from_name(word)?,
            Key::DataDigest => self.data_digest = Digest::from_name(word)?,
            Key::AuthMethod => self.auth_method = Some(AuthMethod::from_name(word)?),
            Key::TaskReporting => self.task_reporting = TaskReporting::from_name(word)?,
            _ => return None,
        }
        Some(())
    }
}

impl Declared {
    /// A declared text, where it came.
    pub(super) fn text(&self, key: Key) -> Option<&str> {
        match key {
            Key::SessionType => Some(self.session_type.name()),
            Key::InitiatorName => self.initiator_name.as_deref(),
            Key::TargetName => self.target_name.as_deref(),
            Key::InitiatorAlias => self.initiator_alias.as_deref(),
            Key::TargetAlias => self.target_alias.as_deref(),
            Key::TargetAddress => self.target_address.as_deref(),
            _ => None,
        }
    }

    /// The field of a declared text.
    pub(super) fn text_mut(&mut self, key: Key) -> Option<&mut Option<String>> {
        Some(match key {
            Key::InitiatorName => &mut self.initiator_name,
            Key::TargetName => &mut self.target_name,
            Key::InitiatorAlias => &mut self.initiator_alias,
            Key::TargetAlias => &mut self.target_alias,
            Key::TargetAddress => &mut self.target_address,
            _ => return None,
        })
    }
}
