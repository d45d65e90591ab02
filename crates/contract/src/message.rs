//! Messages.
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::array::{ArrayConfig, ProbeConfig};
use crate::backup::BackupConfig;
use crate::fabric_engine::FabricEngineConfig;
use crate::initiator::InitiatorConfig;
use crate::manage::ManageAction;
use crate::watch::WatchConfig;

/// From the control plane to an engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Become one engine. Comes first, once.
    Configure {
        /// The contract that the sender speaks.
        contract: u32,
        /// What to be.
        // Boxed since it is far larger than every other command.
        config: Box<EngineConfig>,
    },
    /// Begin the load or the sampling at an instant of `CLOCK_MONOTONIC`; an instant that has
    /// passed means now.
    Start {
        /// Nanoseconds.
        at_ns: u64,
    },
    /// Do this beside serving; answered by one `reply`. Only an array takes such orders, once it is
    /// `ready`.
    Manage {
        /// Comes back in the reply.
        id: u64,
        /// The exchange that was not answered.
        action: ManageAction,
    },
    /// End cleanly: answer `result`, exit 0.
    Stop,
}

/// Configuration of whichever engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "engine", rename_all = "snake_case")]
pub enum EngineConfig {
    /// Storage array.
    Array(ArrayConfig),
    /// Block load.
    Initiator(InitiatorConfig),
    /// Counters of a node.
    Watch(WatchConfig),
    /// Measuring a path.
    Probe(ProbeConfig),
    /// Switches and links.
    Fabric(FabricEngineConfig),
    /// Image backup.
    Backup(BackupConfig),
}

/// From an engine to the control plane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// First line, before anything is asked.
    Hello {
        /// The contract spoken.
        contract: u32,
        /// Version of the engine.
        version: String,
    },
    /// Configured; waits for `start`.
    Ready {
        /// What was found: `portals` as bound, `lus`, `sessions`, negotiated keys, `io_backend`, ….
        found: BTreeMap<String, serde_json::Value>,
    },
    /// A phase began: `warmup`, `measure`, `drain`, `verify`.
    Phase {
        /// Which.
        phase: String,
        /// When, nanoseconds of `CLOCK_MONOTONIC`.
        at_ns: u64,
    },
    /// Counters at an instant.
    Sample(Sample),
    /// The end of the work.
    Result {
        /// When, nanoseconds of `CLOCK_MONOTONIC`.
        at_ns: u64,
        /// What came of it; names and units in `docs/reference/metrics.md`.
        values: BTreeMap<String, f64>,
        /// Histograms of the whole measuring phase.
        histograms: Vec<NamedHistogram>,
    },
    /// What came of a `manage`: either `value` or `error`.
    Reply {
        /// The order's.
        id: u64,
        /// What was asked for, or what was made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<BTreeMap<String, serde_json::Value>>,
        /// Why nothing was done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<ReplyError>,
    },
    /// The engine cannot do or go on with what was asked. Fatal unless `fatal` is false.
    Error {
        /// Whose doing.
        class: ErrorClass,
        /// What happened, where.
        message: String,
        /// What to do about it.
        hint: String,
        /// The engine ends.
        fatal: bool,
    },
}

/// Why an order was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplyError {
    /// Whose doing.
    pub class: ErrorClass,
    /// What happened.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// Whose doing an error is; decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// The configuration cannot be (exit 2).
    Usage,
    /// The machine or network refuses (exit 3).
    Environment,
    /// Wrong, stale or torn data was read (exit 6).
    Verification,
    /// A peer broke the protocol, refused or vanished (exit 7).
    Peer,
    /// A defect of ours (exit 1).
    Internal,
}

/// Cumulative counters of one engine at one instant, and histograms of the interval since the
/// sample before.
///
/// `counters[ENTITY][NAME]` only ever grows while the engine runs, except names that end in `_now`
/// (gauges). Entities: `vm/NAME`, `lu/N`, `port/N`, `group/N`, `drive/N`, `controller`, `session`,
/// `process`, `machine`, `cpu/N`, `nic/NAME`, `irq/NAME`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// When, nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Entity → name → value.
    pub counters: BTreeMap<String, BTreeMap<String, f64>>,
    /// Latencies of requests that ended in the interval.
    #[serde(default)]
    pub histograms: Vec<NamedHistogram>,
}

/// A mergeable histogram.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedHistogram {
    /// Entity, or `vms` for all VMs together.
    pub entity: String,
    /// `read_latency_ns`, `write_latency_ns`, ….
    pub name: String,
    /// HdrHistogram V2, deflated, base64: every HDR tool reads it. Values are in the unit that the
    /// name ends in, mostly nanoseconds; 3 significant digits.
    pub hdr: String,
}
