//! What an analysis comes to; as JSON it is what `hakaru-engine analyse` prints.
use std::collections::BTreeMap;

use hakaru_stats::Histogram;
use serde::Serialize;

use crate::stream::StreamCounters;

/// How durations spread, ns to three significant digits; all 0 where there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// Number of durations.
    pub count: u64,
    /// Half are not longer.
    pub p50_ns: u64,
    /// 99 of 100 are not longer.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Spread {
    pub(crate) fn of(histogram: Option<&Histogram>) -> Spread {
        histogram.map_or_else(Spread::default, |histogram| Spread {
            count: histogram.count(),
            p50_ns: histogram.quantile_ns(0.5),
            p99_ns: histogram.quantile_ns(0.99),
            max_ns: histogram.max_ns(),
        })
    }
}

/// One phase of all commands of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PhaseReport {
    /// Exact sum; the phases' sums make the latency's.
    pub sum_ns: u64,
    /// Over commands.
    #[serde(flatten)]
    pub spread: Spread,
}

/// Commands of one kind that were seen from header to response, with nothing between missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommandReport {
    /// How many.
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
    pub phases: BTreeMap<String, PhaseReport>,
    /// R2Ts that they got.
    pub r2ts: u64,
    /// Most that one of them got.
    pub r2ts_per_command_max: u32,
    /// Each wait for an R2T in which nothing could be sent.
    pub r2t_wait: Spread,
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
    /// Header and data digests are in use, as agreed on or as seen; `None`: it could not be told.
    pub digests: Option<(bool, bool)>,
    /// Round trip of TCP's handshake, ns: SYN to SYN-ACK to ACK, so that it is the same wherever it is captured.
    pub handshake_rtt_ns: Option<u64>,
    /// When the first and the last packet came, ns of the capture's clock.
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
    /// Began, and their tag was used again before a response was seen: aborted, or the response is missing.
    pub commands_without_response: u64,
    /// Ended, but something of them may be missing in the capture: no times are told.
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

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Packets read.
    pub packets: u64,
    /// Of these, cut by the snap length.
    pub packets_cut: u64,
    /// Of these, with an instant before that of the packet before them; they count as at that one's.
    pub packets_back_in_time: u64,
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
