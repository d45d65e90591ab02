//! Messages between the control plane and an engine.
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::array::ArrayConfig;
use crate::backup::BackupConfig;
use crate::fabric_engine::FabricEngineConfig;
use crate::files::FilesConfig;
use crate::initiator::InitiatorConfig;
use crate::manage::ManageAction;
use crate::named_histogram::NamedHistogram;
use crate::packets::PacketsConfig;
use crate::probe::ProbeConfig;
use crate::trial::{TrialOrder, TrialOutcome};
use crate::watch::WatchConfig;

/// A message from the control plane to an engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Configures the engine. Sent first, once.
    Configure {
        /// Contract version of the sender.
        contract: u32,
        /// Kind of engine and its configuration.
        // Boxed because it is far larger than every other command.
        config: Box<EngineConfig>,
    },
    /// Starts the load or the sampling at an instant of `CLOCK_MONOTONIC`; an instant in the past
    /// means now.
    Start {
        /// Instant, nanoseconds of `CLOCK_MONOTONIC`.
        at_ns: u64,
    },
    /// Ends the warm-up at an instant of `CLOCK_MONOTONIC`, if it does not end earlier; an instant
    /// in the past means now. The measuring phase keeps its length. Only loads of VMs and
    /// of files accept it; after their warm-up, nothing changes.
    Measure {
        /// Instant, nanoseconds of `CLOCK_MONOTONIC`.
        at_ns: u64,
    },
    /// Carries out a management request; answered by one `reply`. Only an array accepts it, once it
    /// is `ready`.
    Manage {
        /// Number of the request, repeated in the reply.
        id: u64,
        /// The request.
        action: ManageAction,
    },
    /// Reports the counters as they are now; answered by one `reply`, whose value has them by
    /// entity. Only a fabric accepts it, once it is `ready`.
    Count {
        /// Number of the request, repeated in the reply.
        id: u64,
    },
    /// Takes a link down, or up again, in both directions: frames offered to it are dropped meanwhile.
    /// Answered by one `reply`. Only a fabric accepts it, once it is `ready`.
    SetLink {
        /// Number of the request, repeated in the reply.
        id: u64,
        /// Name of the link.
        link: String,
        /// Whether the link is up.
        up: bool,
    },
    /// Carries out a trial; answered by one `trial`, or by `reply` with an error. Only a generator
    /// of packets accepts it, once it has started. Trials are carried out in order.
    Trial(TrialOrder),
    /// Ends the engine cleanly: it answers `result` and exits 0.
    Stop,
}

/// Configuration of an engine of any kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "engine", rename_all = "snake_case")]
pub enum EngineConfig {
    /// Storage array.
    Array(Box<ArrayConfig>),
    /// Block load.
    Initiator(InitiatorConfig),
    /// Counters of a node and its connections.
    Watch(WatchConfig),
    /// Measurement of a network path.
    Probe(ProbeConfig),
    /// Switches and links.
    Fabric(FabricEngineConfig),
    /// Image backup.
    Backup(BackupConfig),
    /// Generator and receiver of packets.
    Packets(PacketsConfig),
    /// Trees of files, and loads on them.
    Files(FilesConfig),
}

/// A message from an engine to the control plane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// First message, sent on start.
    Hello {
        /// Contract version of the engine.
        contract: u32,
        /// Version of the engine.
        version: String,
    },
    /// Configured and waiting for `start`.
    Ready {
        /// Details of the set-up: `portals` as bound, `lus`, `sessions`, negotiated keys,
        /// `io_backend`, ….
        found: BTreeMap<String, serde_json::Value>,
    },
    /// A phase began: `warmup`, `measure`, `drain`, `verify`, `built`.
    Phase {
        /// Name of the phase.
        phase: String,
        /// Instant, nanoseconds of `CLOCK_MONOTONIC`.
        at_ns: u64,
    },
    /// Counters at an instant.
    Sample(Sample),
    /// End of the work.
    Result {
        /// Instant, nanoseconds of `CLOCK_MONOTONIC`.
        at_ns: u64,
        /// Results; names and units in `docs/reference/metrics.md`.
        values: BTreeMap<String, f64>,
        /// Histograms of the whole measuring phase.
        histograms: Vec<NamedHistogram>,
    },
    /// End of a trial.
    Trial(TrialOutcome),
    /// Answer to `manage`, `count` or `set_link`, with either `value` or `error`. Also refuses a trial, with
    /// `error`.
    Reply {
        /// Number of the request.
        id: u64,
        /// Requested or created objects, or counters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<BTreeMap<String, serde_json::Value>>,
        /// Reason why nothing was done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<ReplyError>,
    },
    /// The engine cannot carry out or continue its work. Fatal unless `fatal` is false.
    Error {
        /// Origin of the error.
        class: ErrorClass,
        /// Description: which operation failed, on which object.
        message: String,
        /// Remedy.
        hint: String,
        /// Whether the engine terminates.
        fatal: bool,
    },
}

/// Reason why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplyError {
    /// Origin of the error.
    pub class: ErrorClass,
    /// Description of the error.
    pub message: String,
    /// Remedy.
    pub hint: String,
}

/// Origin of an error; decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// Invalid configuration (exit 2).
    Usage,
    /// Refused by the machine or network (exit 3).
    Environment,
    /// Wrong, stale or torn data was read (exit 6).
    Verification,
    /// A peer violated the protocol, refused or disappeared (exit 7).
    Peer,
    /// A peer did not answer a command, request, login or ping in time (exit 7).
    Unanswered,
    /// A defect of hakaru (exit 1).
    Internal,
}

/// Cumulative counters of one engine at one instant, and histograms of the interval since the
/// previous sample.
///
/// `counters[ENTITY][NAME]` never decreases while the engine runs, except names that end in `_now`
/// (gauges). Entities are the kinds of docs/reference/metrics.md, for example `vm/NAME`, `lu/N`,
/// `drive/G.D` and `link/NAME`. Each sample has all of them, except for samples of drives alone that
/// an array sends in between ([`ArrayConfig::drive_sample_interval_ms`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// Instant, nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Entity → name → value.
    pub counters: BTreeMap<String, BTreeMap<String, f64>>,
    /// Latencies of requests that completed in the interval.
    #[serde(default)]
    pub histograms: Vec<NamedHistogram>,
}
