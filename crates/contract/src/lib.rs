//! The contract between `hakaru-engine` and the control plane: JSON lines on the engine's stdin and
//! stdout.
//!
//! The contract is defined here and nowhere else. `hakaru-engine schema` exports it as JSON Schema,
//! the export is checked in as `schema/contract.schema.json`, and tests on both sides compare them.
//! A conversation:
//!
//! ```text
//! engine  → hello      contract and version of the engine
//! control → configure  configuration of one engine
//! engine  → ready      listening, logged in, files open, with details (or error)
//! control → start      begin at this instant of CLOCK_MONOTONIC
//! engine  → phase, sample…   cumulative counters and interval histograms, one clock
//! engine  → result     load ended (initiator, probe), or answer to stop
//! control → manage     array: status, growth, volumes, …; answered by a reply with the same id
//! control → count      fabric: its counters now; answered by a reply with the same id
//! control → trial      packets: frames at given rates; answered by a trial with the same id
//! control → stop       end cleanly; the engine answers result and exits 0
//! ```
//! End of file on stdin means `stop`: an engine never outlives the process that started it.
//!
//! Every configuration type of the project is defined here, with its defaults and bounds. The cores
//! take these plain data types. Of the
//! cores, this crate imports `wire` alone.
#![forbid(unsafe_code)]

mod access;
pub mod array;
pub mod backup;
mod capture;
mod chap;
mod config_error;
pub mod drive;
pub mod fabric;
mod fabric_engine;
pub mod files;
pub mod initiator;
mod login_keys;
pub mod manage;
pub mod message;
mod named_histogram;
pub mod packets;
mod probe;
pub mod smb;
mod socket;
pub mod store;
pub mod tape;
pub mod trial;
pub mod watch;

pub use access::{AccessConfig, AccessRule, LuAccess};
pub use array::*;
pub use capture::Capture;
pub use chap::{ChapAlgorithm, ChapConfig, ChapUser, SecretSource};
pub use config_error::{ConfigError, refuse};
pub use fabric_engine::FabricEngineConfig;
pub use files::*;
pub use login_keys::LoginKeys;
pub use manage::*;
pub use message::*;
pub use named_histogram::NamedHistogram;
pub use packets::*;
pub use probe::{ProbeConfig, StreamConfig};
pub use smb::*;
pub use socket::SocketOptions;
pub use store::StoreConfig;
pub use tape::*;
pub use trial::*;
pub use watch::*;

/// Version of the contract. Each side refuses any other version.
pub const CONTRACT_VERSION: u32 = 1;
