//! The keys of a session: the offer of one side, the agreed values and the declared names.
use super::{AuthMethod, Digest, Key, SessionType, TaskReporting};

/// One side's preferences: the offer of an initiator, or a target's argument of each result
/// function. The defaults are those of RFC 7143 section 13, except where noted. Keys are spelled as
/// in the RFC, in snake case, here and in [`Agreed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Authentication methods, best first. Default: None.
    pub auth_methods: &'static [AuthMethod],
    /// Header digests, best first. Default: None.
    pub header_digests: &'static [Digest],
    /// Data digests, best first. Default: None.
    pub data_digests: &'static [Digest],
    /// Maximum connections of a session, 1 to 65 535. Default 1.
    pub max_connections: u32,
    /// Forbid unsolicited Data-Out PDUs. Default true.
    pub initial_r2t: bool,
    /// Allow data in the PDU of the command. Default true.
    pub immediate_data: bool,
    /// Longest data segment that this side accepts, bytes, 512 to 2^24 - 1. Default 8192.
    pub max_recv_data_segment_length: u32,
    /// Longest sequence of data PDUs, bytes, 512 to 2^24 - 1. Default 262 144.
    pub max_burst_length: u32,
    /// Maximum unsolicited data of a command, bytes, 512 to `max_burst_length`. Default 65 536.
    pub first_burst_length: u32,
    /// Seconds to wait after a failure before reconnecting, 0 to 3600. Default 2.
    pub default_time2wait: u32,
    /// Seconds for which tasks are then kept, 0 to 3600. Default 20. Tasks are never kept at error
    /// recovery level 0, where 0 is correct.
    pub default_time2retain: u32,
    /// R2Ts outstanding for one task, 1 to 65 535. Default 1.
    pub max_outstanding_r2t: u32,
    /// Data PDUs of a sequence in order. Default true.
    pub data_pdu_in_order: bool,
    /// Sequences in order. Default true.
    pub data_sequence_in_order: bool,
    /// Error recovery level, 0 to 2. Default 0.
    pub error_recovery_level: u32,
    /// Protocol level, 0 to 31; 1 is RFC 7143. Default 1.
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

/// Values in effect for a session and its connection. The defaults are those of RFC 7143 section 13
/// and apply to every key that was not negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Authentication method; `None` before agreement.
    pub auth_method: Option<AuthMethod>,
    /// Header digest in full feature phase.
    pub header_digest: Digest,
    /// Data digest in full feature phase.
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
    /// Maximum unsolicited data of a command, bytes; never above `max_burst_length`.
    pub first_burst_length: u32,
    /// Seconds to wait after a failure before reconnecting.
    pub default_time2wait: u32,
    /// Seconds for which tasks are then kept.
    pub default_time2retain: u32,
    /// R2Ts outstanding for one task.
    pub max_outstanding_r2t: u32,
    /// Data PDUs of a sequence come in order.
    pub data_pdu_in_order: bool,
    /// Sequences come in order.
    pub data_sequence_in_order: bool,
    /// Error recovery level, 0 to 2.
    pub error_recovery_level: u32,
    /// Report of tasks that end together.
    pub task_reporting: TaskReporting,
    /// Protocol level; 1 is RFC 7143.
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

/// Names and session type, declared by either side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// Normal or discovery.
    pub session_type: SessionType,
    /// Name of the initiator, once declared.
    pub initiator_name: Option<String>,
    /// Name of the target, once declared.
    pub target_name: Option<String>,
    /// Human-readable name of the initiator.
    pub initiator_alias: Option<String>,
    /// Human-readable name of the target.
    pub target_alias: Option<String>,
    /// Address to which a target redirects: `address:port,group`.
    pub target_address: Option<String>,
    /// Portal group of the target's portal.
    pub target_portal_group_tag: Option<u16>,
}

impl Offer {
    /// Returns this side's argument of a numeric key.
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

    /// Returns this side's argument of a boolean key.
    pub(super) fn boolean(&self, key: Key) -> Option<bool> {
        Some(match key {
            Key::InitialR2t => self.initial_r2t,
            Key::ImmediateData => self.immediate_data,
            Key::DataPduInOrder => self.data_pdu_in_order,
            Key::DataSequenceInOrder => self.data_sequence_in_order,
            _ => return None,
        })
    }

    /// Returns the words that this side accepts for a list key, best first.
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
            // RFC 3720 semantics are implemented; the others are extensions (section 13.23).
            Key::TaskReporting => vec![TaskReporting::Rfc3720.name()],
            _ => Vec::new(),
        }
    }
}

impl Agreed {
    /// Sets a negotiated number; other keys are ignored. Reduces FirstBurstLength to MaxBurstLength
    /// (section 13.14), because a peer may lower MaxBurstLength alone.
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

    /// Sets a negotiated boolean; other keys are ignored.
    pub(super) fn set_boolean(&mut self, key: Key, value: bool) {
        match key {
            Key::InitialR2t => self.initial_r2t = value,
            Key::ImmediateData => self.immediate_data = value,
            Key::DataPduInOrder => self.data_pdu_in_order = value,
            Key::DataSequenceInOrder => self.data_sequence_in_order = value,
            _ => {}
        }
    }

    /// Sets a negotiated word. Returns `None` if the key lacks that word.
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
    /// Returns a declared text, if any.
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

    /// Returns the field of a declared text.
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
