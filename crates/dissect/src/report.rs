//! The result of an analysis; `hakaru-engine analyse` prints it as JSON.
use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::stream::StreamCounters;

/// Distribution of durations, ns; all 0 if there are none. Percentiles have three significant
/// digits; mean and maximum are exact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// Number of durations.
    pub count: u64,
    /// Mean, rounded down.
    pub mean_ns: u64,
    /// Median: half of the durations are at most this long.
    pub p50_ns: u64,
    /// 99th percentile: 99 of 100 durations are at most this long.
    pub p99_ns: u64,
    /// Longest duration.
    pub max_ns: u64,
}

/// Values of phases by name, in the order of the protocol. In JSON an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phases<T>(pub Vec<(&'static str, T)>);

impl<T> Phases<T> {
    /// Returns the value of a phase; `None` if no phase has this name.
    pub fn get(&self, name: &str) -> Option<&T> {
        let (_, value) = self.0.iter().find(|(known, _)| *known == name)?;
        Some(value)
    }

    /// Returns the values in the order of the protocol.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, value)| value)
    }
}

impl<T: Serialize> Serialize for Phases<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// One phase, over all commands of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PhaseReport {
    /// Exact sum, ns; the sums of all phases add up to the sum of the latencies.
    pub sum_ns: u64,
    /// Distribution over commands.
    #[serde(flatten)]
    pub spread: Spread,
}

/// Commands of one kind that were captured completely, from header to response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommandReport {
    /// Number of commands.
    pub commands: u64,
    /// Commands that ended with a status other than GOOD.
    pub failed: u64,
    /// Data transferred, bytes.
    pub bytes: u64,
    /// Exact sum of their latencies, ns.
    pub latency_sum_ns: u64,
    /// Time from the header to the end of the response, ns.
    pub latency: Spread,
    /// Phases by name, see `docs/reference/analyse.md`; empty for commands that are neither READ
    /// nor WRITE.
    pub phases: Phases<PhaseReport>,
    /// R2Ts received.
    pub r2ts: u64,
    /// Maximum number of R2Ts of one command.
    pub r2ts_per_command_max: u32,
    /// Distribution of the waits for an R2T during which no data could be sent, ns.
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
    /// Data transferred, bytes.
    pub bytes: u64,
    /// R2Ts received.
    pub r2ts: u32,
    /// Time from the header to the end of the response, ns.
    pub latency_ns: u64,
    /// Phases by name, ns.
    pub phases: Phases<u64>,
    /// Capture time of its header, ns.
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
    /// Commands that ended with a status other than GOOD.
    pub failed: u64,
    /// Data transferred, bytes.
    pub bytes: u64,
    /// Time from the header to the end of the response, ns.
    pub latency: Spread,
}

/// Commands that ended with one status and one sense.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatusReport {
    /// SCSI status; 0 is GOOD.
    pub status: u8,
    /// Sense key, ASC and ASCQ, if the response carries sense data and it was captured.
    pub sense: Option<[u8; 3]>,
    /// Number of commands, timed or not.
    pub commands: u64,
}

/// One direction of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DirectionReport {
    /// PDUs whose header was seen, by the name of their opcode (RFC 7143).
    pub pdus: BTreeMap<String, u64>,
    /// Counters of the TCP stream.
    #[serde(flatten)]
    pub stream: StreamCounters,
    /// Bytes skipped in search of the next PDU.
    pub skipped_bytes: u64,
    /// Number of times that the place of the next PDU was lost.
    pub lost_step: u64,
    /// PDUs whose data does not match its digest.
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
    /// TargetName, if the login was seen; `None` for a discovery session.
    pub target_name: Option<String>,
    /// ISID as hexadecimal digits, if the login was seen.
    pub isid: Option<String>,
    /// Connection identifier (CID), if the login was seen.
    pub cid: Option<u16>,
    /// Status of the last login response, as four hexadecimal digits; 0000 is success.
    pub login_status: Option<String>,
    /// Whether the capture begins before the connection does.
    pub from_start: bool,
    /// Negotiated keys and their values, if the whole login was seen.
    pub negotiated: Option<BTreeMap<String, String>>,
    /// Whether header and data digests are in use, as negotiated or detected; `None` if unknown.
    pub digests: Option<(bool, bool)>,
    /// Round trip of the TCP handshake, ns: SYN to SYN-ACK to ACK, so that it does not depend on
    /// the place of capture. `None` if a segment of the handshake is missing, or may have been
    /// retransmitted.
    pub handshake_rtt_ns: Option<u64>,
    /// Part of the round trip between the place of capture and the target, ns.
    pub target_side_rtt_ns: Option<u64>,
    /// Part of the round trip between the place of capture and the initiator, ns.
    pub initiator_side_rtt_ns: Option<u64>,
    /// SYNs and SYN-ACKs that were retransmitted.
    pub handshake_retransmissions: u64,
    /// Time from the first SYN to the ACK that ends the handshake, ns.
    pub handshake_ns: Option<u64>,
    /// Time of the first packet, ns of the capture's clock.
    pub first_ns: u64,
    /// Time of the last packet, ns of the capture's clock.
    pub last_ns: u64,
    /// The initiator's direction.
    pub from_initiator: DirectionReport,
    /// The target's direction.
    pub from_target: DirectionReport,
    /// SCSI commands that began.
    pub commands: u64,
    /// Commands that had not ended when the capture did.
    pub commands_unfinished: u64,
    /// Commands whose tag was reused before a response was seen: aborted, or the response is
    /// missing.
    pub commands_without_response: u64,
    /// Commands that ended and are not timed: a part of them may be missing from the capture, or
    /// their times are not certain.
    pub commands_not_whole: u64,
    /// Commands that were not tracked, because too many were in flight.
    pub commands_not_followed: u64,
    /// Data PDUs, R2Ts and responses whose command was not seen.
    pub pdus_without_command: u64,
    /// PDUs that must have been sent, but whose header was not captured.
    pub assumed_pdus: u64,
    /// PDUs with a header that RFC 7143 forbids.
    pub malformed_pdus: u64,
    /// READ commands.
    pub reads: CommandReport,
    /// WRITE commands.
    pub writes: CommandReport,
    /// All other commands.
    pub others: CommandReport,
    /// The slowest commands, slowest first.
    pub slowest: Vec<SlowCommand>,
    /// Timed commands by logical unit.
    pub luns: Vec<LunReport>,
    /// Commands by status and sense.
    pub statuses: Vec<StatusReport>,
}

/// Packets that have no TCP segment to read, by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NotSeenReport {
    /// Packets of an unsupported link layer.
    pub unknown_link: u64,
    /// Packets that are neither IPv4 nor IPv6.
    pub not_ip: u64,
    /// IP packets without TCP.
    pub not_tcp: u64,
    /// Fragments of IP datagrams.
    pub fragments: u64,
    /// Packets whose headers the snap length cut.
    pub cut: u64,
    /// Packets whose headers contradict themselves.
    pub malformed: u64,
}

/// Result of an analysis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Packets read.
    pub packets: u64,
    /// Packets that the snap length cut.
    pub packets_cut: u64,
    /// Packets with an earlier time than the previous packet. Commands around them are not timed.
    pub packets_back_in_time: u64,
    /// Longest TCP payload of one packet of the capture, bytes.
    pub payload_bytes_max: u64,
    /// Time of the first packet, ns of the capture's clock, which usually counts from 1970.
    pub first_ns: u64,
    /// Time of the last packet, ns of the capture's clock.
    pub last_ns: u64,
    /// Packets that were not decoded, by cause.
    pub not_seen: NotSeenReport,
    /// TCP connections without a PDU.
    pub other_connections: u64,
    /// Connections that were not tracked, because there were too many.
    pub connections_not_followed: u64,
    /// Connections that speak iSCSI, in the order of their first packet.
    pub sessions: Vec<SessionReport>,
}
