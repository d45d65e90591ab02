//! Trials of the `packets` engine: the order, and what came of it.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::named_histogram::NamedHistogram;

/// A trial: frames at given rates for a given time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialOrder {
    /// Number of the trial, repeated in its outcome.
    pub id: u64,
    /// Time in which frames are due, nanoseconds, 10^6 to 3.6 × 10^12.
    pub duration_ns: u64,
    /// Frames per second of each stream, in the order of the configuration, 0 to 10^9, in steps of
    /// 0.001. With 0 the stream sends nothing. `None`: as fast as possible; then every other stream
    /// of the same sending port has 0 or `None`. At most 10^9 frames per stream and trial.
    pub rates: Vec<Option<f64>>,
    /// Time without any frame of the trial, after the last one was sent, after which the trial
    /// ends, nanoseconds, 0 to 6 × 10^10. Default 10^8. It ends in any case after 10 s, or this
    /// time if it is longer.
    #[serde(default = "default_settle_ns")]
    pub settle_ns: u64,
    /// Longest delay of a frame behind its due instant, nanoseconds, 10^5 to 10^9. A frame that
    /// cannot be sent within this time is not sent, so no burst is longer. Default 5 × 10^6.
    #[serde(default = "default_late_limit_ns")]
    pub late_limit_ns: u64,
}

/// Outcome of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialOutcome {
    /// Number of the trial.
    pub id: u64,
    /// Due instant of the first frames, nanoseconds of `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// End of the trial, nanoseconds of `CLOCK_MONOTONIC`.
    pub end_ns: u64,
    /// Faults of the tester. If there are any, the trial is invalid, and no loss in it may be
    /// charged to the device.
    pub tester_faults: Vec<TesterFault>,
    /// Counts of each stream, in the order of the configuration.
    pub streams: Vec<StreamOutcome>,
    /// Counts of each port, in the order of the configuration.
    pub ports: Vec<PortOutcome>,
    /// Stops of this machine's processors while frames were due. `None` without permission for
    /// real-time threads, which find them.
    pub stops: Option<ProcessorStops>,
    /// `latency_ns` and `lateness_ns` of each stream; empty ones are omitted.
    pub histograms: Vec<NamedHistogram>,
}

/// A reason why a trial is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TesterFault {
    /// Kind of the fault.
    pub kind: TesterFaultKind,
    /// Stream or port concerned, `stream/NAME` or `port/NAME`.
    pub entity: String,
    /// Description with figures.
    pub message: String,
}

/// Kinds of faults of the tester.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TesterFaultKind {
    /// Frames were not sent, because the tester was too slow.
    Unsent,
    /// A frame was sent later than the limit, because the interface refused it for so long. The
    /// frames after it left in a burst, so losses of the trial may be the tester's.
    Late,
    /// The receive ring had no room.
    ReceiveRing,
    /// The kernel dropped frames of the receiving interface before the ring.
    ReceiveInterface,
    /// The sending interface dropped frames that it had accepted. Not a fault if the interface hands
    /// frames to the queue of another one (veth pair, TAP).
    TransmitInterface,
    /// More frames of a stream arrived than were sent, so its counts are wrong.
    Surplus,
}

/// Stops of processors: times in which one ran no program, because a hypervisor stopped it, or because
/// the kernel handled interrupts or kept real-time threads from running. Stops of less than 0.5 ms do
/// not count, nor those of a processor that had more than 50 per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessorStops {
    /// Number of stops of all processors.
    pub count: u64,
    /// The longest stop, nanoseconds, up to 1 ms too long.
    pub longest_ns: u64,
    /// Time of the trial that is not judged, nanoseconds: every stop, and as much time after it.
    pub excluded_ns: u64,
}

/// Counts of one stream in one trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamOutcome {
    /// Name of the stream.
    pub name: String,
    /// Number of frames that the rate and the duration result in. `None` for a stream as fast as
    /// possible.
    pub intended: Option<u64>,
    /// Frames that the kernel accepted.
    pub sent: u64,
    /// `intended - sent`, or 0 if there is no intended number.
    pub unsent: u64,
    /// Distinct intact frames of this trial that arrived.
    pub received: u64,
    /// `sent - received`. Includes corrupted frames. 0 if more arrived than were sent, which is a
    /// fault of the tester.
    pub lost: u64,
    /// Further copies of received frames.
    pub duplicated: u64,
    /// Received frames whose number is lower than one of the same flow received before (RFC 4737).
    pub reordered: u64,
    /// Frames that arrived damaged.
    pub corrupted: u64,
    /// Size of the frames sent, with FCS, bytes.
    pub sent_bytes: u64,
    /// Size of the frames received, with FCS, bytes.
    pub received_bytes: u64,
    /// Instants of the first and the last frame sent and received, nanoseconds of
    /// `CLOCK_MONOTONIC`. `None` if there was no frame.
    pub first_sent_ns: Option<u64>,
    /// See `first_sent_ns`.
    pub last_sent_ns: Option<u64>,
    /// See `first_sent_ns`.
    pub first_received_ns: Option<u64>,
    /// See `first_sent_ns`.
    pub last_received_ns: Option<u64>,
    /// Greatest delay of a frame behind its due instant when it was sent, nanoseconds.
    pub lateness_ns_max: u64,
    /// Frames due in the times that are not judged (`ProcessorStops`), which the counts above
    /// include. 0 for a stream as fast as possible.
    pub excluded: u64,
    /// Those of them that were not sent.
    pub excluded_unsent: u64,
    /// Those of them that were sent and lost.
    pub excluded_lost: u64,
}

/// Counts of one port in one trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortOutcome {
    /// Name of the port.
    pub name: String,
    /// Frames that the interface accepted and then dropped: of a veth pair, because the input queue
    /// of the other end was full or that end is down.
    pub tx_dropped: u64,
    /// Times that the interface refused a frame, which was then tried again.
    pub refused: u64,
    /// Frames that the kernel received and dropped before the ring.
    pub rx_dropped: u64,
    /// Frames lost because the receive ring was full.
    pub ring_dropped: u64,
    /// Frames with the mark of this engine that belong to no stream towards this port: flooded by a
    /// switch, or with a damaged tag.
    pub foreign: u64,
    /// Frames of earlier trials that arrived after the end of the previous one.
    pub late: u64,
    /// CPU time of the transmit thread in this trial, nanoseconds.
    pub transmit_cpu_ns: u64,
    /// CPU time of the receive thread in this trial, nanoseconds.
    pub receive_cpu_ns: u64,
}

fn default_settle_ns() -> u64 {
    100_000_000
}
fn default_late_limit_ns() -> u64 {
    5_000_000
}
