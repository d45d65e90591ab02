//! The contract between `hakaru-engine` and the control plane: JSON lines on the engine's stdin and
//! stdout.
//!
//! Defined here once; `hakaru-engine schema` exports it as JSON Schema,
//! `schema/contract.schema.json` is that export checked in, and tests on both sides hold it. A
//! conversation:
//!
//! ```text
//! engine  → hello      who I am, which contract
//! control → configure  one engine's configuration
//! engine  → ready      bound, logged in, opened; with what was found (or error)
//! control → start      begin at this instant of CLOCK_MONOTONIC
//! engine  → phase, sample…   cumulative counters and interval histograms, one clock
//! engine  → result     load ended (initiator, probe), or answer to stop
//! control → manage     array: status, growth, volumes, …; the engine answers reply under the same id
//! control → stop       end cleanly; the engine answers result and exits 0
//! ```
//! The end of stdin means `stop`: an engine never outlives the process that started it.
//!
//! Every configuration type of the project is here, with its defaults and bounds; the cores take
//! these plain data types. The crate imports no core.
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
pub mod initiator;
mod login_keys;
pub mod manage;
pub mod message;
mod socket;
pub mod watch;

pub use access::{AccessConfig, AccessRule, LuAccess};
pub use array::*;
pub use capture::Capture;
pub use chap::{ChapAlgorithm, ChapConfig, ChapUser, SecretSource};
pub use config_error::{ConfigError, refuse};
pub use fabric_engine::FabricEngineConfig;
pub use login_keys::LoginKeys;
pub use manage::*;
pub use message::*;
pub use socket::SocketOptions;
pub use watch::*;

/// Version of the contract. Both sides refuse another one.
pub const CONTRACT_VERSION: u32 = 1;
