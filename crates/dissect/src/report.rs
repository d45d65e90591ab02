//! The result of an analysis; `hakaru-engine analyse` prints it as JSON.
use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::stream::StreamCounters;

/// Distribution of durations, ns; all 0 where there are none. Percentiles have three significant
/// digits, the mean and the maximum are exact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// Number of durations.
    pub count: u64,
    /// Mean, rounded down.
    pub mean_ns: u64,
    /// Half are not longer.
    pub p50_ns: u64,
    /// 99 of 100 are not longer.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Values of phases by name, in the order of the protocol. In JSON an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phases<T>(pub Vec<(&'static str, T)>);

impl<T> Phases<T> {
    /// Value of a phase, if there is one of this name.
    pub fn get(&self, name: &str) -> Option<&T> {
        let (_, value) = self.0.iter().find(|(known, _)| *known == name)?;
        Some(value)
    }

    /// Values in the order of the protocol.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, value)| value)
    }
}

impl<T: Serialize> Serialize for Phases<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// One phase of all commands of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PhaseReport {
    /// Exact sum; the sums of the phases make that of the latency.
    pub sum_ns: u64,
    /// Over commands.
    #[serde(flatten)]
    pub spread: Spread,
}

/// Commands of one kind that were seen from header to response, with nothing between missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommandReport {
    /// Number of them.
    pub commands: u64,
    /// Of these, ended with a status other than GOOD.
    pub failed: u64,
    /// Data they moved.
    pub bytes: u64,
    /// Exact sum of their latencies.
    pub latency_sum_ns: u64,
    /// From header to the end of the response.
    pub latency: Spread,
    /// By name, see `docs/reference/analyse.md`; empty for those that are neither READ nor WRITE.
    pub phases: Phases<PhaseReport>,
    /// R2Ts that they got.
    pub r2ts: u64,
    /// Most that one of them got.
    pub r2ts_per_command_max: u32,
    /// Each wait for an R2T in which nothing could be sent.
    pub r2t_wait: Spread,
}

/// One timed command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SlowCommand {
    /// `read`, `write` or `other`.
    pub kind: &'static str,
    /// First byte of the CDB.
    pub operation: u8,
    /// Logical unit: a number, or its 64 bits as hexadecimal digits.
    pub lun: String,
    /// Initiator task tag.
    pub itt: u32,
    /// SCSI status; 0 is GOOD.
    pub status: u8,
    /// Data it moved.
    pub bytes: u64,
    /// R2Ts that it got.
    pub r2ts: u32,
    /// From header to the end of the response.
    pub latency_ns: u64,
    /// By name, ns.
    pub phases: Phases<u64>,
    /// Capture time of its header.
    pub begin_ns: u64,
    /// Number of the packet that completed its header, counted over all files from 1.
    pub first_packet: u64,
    /// Number of the packet that completed its response.
    pub last_packet: u64,
}

/// Timed commands of one logical unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LunReport {
    /// See [`SlowCommand::lun`].
    pub lun: String,
    /// Ended with a status other than GOOD.
    pub failed: u64,
    /// Data they moved.
    pub bytes: u64,
    /// From header to the end of the response.
    pub latency: Spread,
}

/// Commands that ended with one status and one sense.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatusReport {
    /// SCSI status; 0 is GOOD.
    pub status: u8,
    /// Sense key, ASC, ASCQ, where the response carries sense data and they were captured.
    pub sense: Option<[u8; 3]>,
    /// Number of commands, timed or not.
    pub commands: u64,
}

/// One direction of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DirectionReport {
    /// PDUs whose header was seen, by the name of their opcode (RFC 7143).
    pub pdus: BTreeMap<String, u64>,
    /// TCP's side.
    #[serde(flatten)]
    pub stream: StreamCounters,
    /// Bytes passed over in search of the next PDU.
    pub skipped_bytes: u64,
    /// Times the place of the next PDU was lost.
    pub lost_step: u64,
    /// PDUs whose data does not have its digest.
    pub data_digest_errors: u64,
}

/// A connection that speaks iSCSI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SessionReport {
    /// `address:port` of the initiator.
    pub initiator: String,
    /// `address:port` of the target.
    pub target: String,
    /// InitiatorName, if the login was seen.
    pub initiator_name: Option<String>,
    /// TargetName; `None` for a discovery session too.
    pub target_name: Option<String>,
    /// ISID as hexadecimal digits.
    pub isid: Option<String>,
    /// CID.
    pub cid: Option<u16>,
    /// Status of the last login response, as four hexadecimal digits; 0000 is success.
    pub login_status: Option<String>,
    /// The capture begins before the connection does.
    pub from_start: bool,
    /// Keys that hold, if the whole login was seen.
    pub negotiated: Option<BTreeMap<String, String>>,
    /// Header and data digests are in use, as agreed on or as detected; `None`: unknown.
    pub digests: Option<(bool, bool)>,
    /// Round trip of TCP's handshake, ns: SYN to SYN-ACK to ACK, so that it is the same wherever it
    /// is captured. `None` where a segment of it is missing, or came again, or may have.
    pub handshake_rtt_ns: Option<u64>,
    /// Part of that round trip between the place of capture and the target, ns.
    pub target_side_rtt_ns: Option<u64>,
    /// Part of that round trip between the place of capture and the initiator, ns.
    pub initiator_side_rtt_ns: Option<u64>,
    /// SYNs and SYN-ACKs that came again.
    pub handshake_retransmissions: u64,
    /// From the first SYN to the ACK that ends the handshake, ns.
    pub handshake_ns: Option<u64>,
    /// Times of the first and the last packet, ns of the capture's clock.
    pub first_ns: u64,
    /// See `first_ns`.
    pub last_ns: u64,
    /// From the initiator.
    pub from_initiator: DirectionReport,
    /// From the target.
    pub from_target: DirectionReport,
    /// SCSI commands that began.
    pub commands: u64,
    /// Began, and had not ended when the capture did.
    pub commands_unfinished: u64,
    /// Began, and their tag was used again before a response was seen: aborted, or the response is
    /// missing.
    pub commands_without_response: u64,
    /// Ended, and are not timed: a part of them may be missing from the capture, or their times are
    /// not certain.
    pub commands_not_whole: u64,
    /// Beyond the number that is followed at once.
    pub commands_not_followed: u64,
    /// PDUs of data, R2Ts and responses whose command was not seen.
    pub pdus_without_command: u64,
    /// PDUs whose header was not captured, and which must have been there.
    pub assumed_pdus: u64,
    /// PDUs with a header that RFC 7143 forbids.
    pub malformed_pdus: u64,
    /// READs.
    pub reads: CommandReport,
    /// WRITEs.
    pub writes: CommandReport,
    /// All other commands.
    pub others: CommandReport,
    /// The slowest commands, slowest first.
    pub slowest: Vec<SlowCommand>,
    /// By logical unit.
    pub luns: Vec<LunReport>,
    /// By status and sense.
    pub statuses: Vec<StatusReport>,
}

/// Packets that have no TCP segment to read, by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NotSeenReport {
    /// Of a link layer that is not read here.
    pub unknown_link: u64,
    /// Neither IPv4 nor IPv6.
    pub not_ip: u64,
    /// IP without TCP.
    pub not_tcp: u64,
    /// Fragments of IP datagrams.
    pub fragments: u64,
    /// The snap length cut the headers.
    pub cut: u64,
    /// Headers that contradict themselves.
    pub malformed: u64,
}

/// The whole result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Packets read.
    pub packets: u64,
    /// Of these, cut by the snap length.
    pub packets_cut: u64,
    /// Of these, with a time before that of the packet before them: commands around them are not
    /// timed.
    pub packets_back_in_time: u64,
    /// Longest TCP payload that one packet of the capture holds, bytes.
    pub payload_bytes_max: u64,
    /// First and last instant, ns of the capture's clock; mostly since 1970.
    pub first_ns: u64,
    /// See `first_ns`.
    pub last_ns: u64,
    /// Packets that were not looked into.
    pub not_seen: NotSeenReport,
    /// TCP connections without a PDU.
    pub other_connections: u64,
    /// Beyond the number that is followed at once.
    pub connections_not_followed: u64,
    /// In the order of their first packet.
    pub sessions: Vec<SessionReport>,
}
