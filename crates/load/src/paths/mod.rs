//! Several paths from a host to an LU: which path a command takes, when a path has failed, and what
//! becomes of its commands.
//!
//! | file | content |
//! |---|---|
//! | `set` | the paths and their timers: when to connect, to check and to give up; without sessions |
//! | `path` | a path: its connection, the access state of its port, its usability |
//! | `choice` | the choice of a path for a command |
//! | `flights` | the commands on paths, held or waiting, and the writes of lost paths |
//! | `figures` | counters |
//! | `survey` | identification of the LU behind a path, and the access states of ports (ALUA) |
//! | `host` | a host with one session per path, which [`PathSet`] directs |
//! | `leg` | a path of a host and its session |
//! | `setup` | the LU that all paths of a host must lead to, and its survey |
//! | `kernel` | the paths of a kernel, which directs them itself (dm-multipath): what it shows of them |
//!
//! # Life of a path
//!
//! ```text
//!            login, survey                     active/optimized, active/non-optimized
//!  connecting ──────────→ up ─────────────────→ usable
//!     ↑                    │ session ends         ⇅ access state
//!     │  every retry_s     ↓                     standby, unavailable, transitioning
//!     └────────────────── down
//! ```
//! The commands of a lost path are *held* for `recovery_s`. If a new session of the path begins
//! meanwhile, or at the end of that time, they *wait* for any usable path, oldest first, before new
//! commands.
//!
//! # Commands that may take effect twice
//!
//! The target may have received a command whose answer was lost with its path. Repeating a read is
//! harmless. A write and its repetition have the same data, so their order does not matter either.
//! The danger is a later write to the same blocks: if the target carries out the old write after it,
//! acknowledged data is lost. Such a later write therefore waits until the old one can no longer
//! take effect. That is known
//!
//! 1. when a login with the session ID of the lost session succeeds, because the target ends the old
//!    session and its tasks first (session reinstatement, RFC 7143 section 6.3.5). The login of the
//!    path itself is such a login. If another path leads to the same target portal group, the
//!    session ID is at once logged in over that one for this purpose, and logged out again;
//! 2. at the latest `stale_s` after the loss. The connection of a lost session is reset, so nothing
//!    remains in the send queue of this machine. The time bounds what is under way in the network
//!    and in the target. It includes packets that the kernel holds for up to 3 s while it looks for
//!    the address of a neighbour, and sends when the link returns.
//!
//! Linux's dm-multipath relies on time alone, that of its timers, for all targets.

mod choice;
mod figures;
mod flights;
mod host;
mod kernel;
mod leg;
mod path;
mod set;
mod setup;
mod survey;

pub use self::figures::PathCounters;
pub use self::flights::{AttemptId, WriteRange};
pub use self::host::MultipathHost;
pub use self::kernel::{KernelPaths, PathSight, PathStatus, parse_multipath_status};
pub use self::path::{PathChange, Usability};
pub use self::set::{PathAction, PathSet};
