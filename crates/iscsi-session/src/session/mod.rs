//! The initiator's side of an iSCSI session with one connection at error recovery level 0 (RFC
//! 7143).
//!
//! ```text
//!              handle_connected          last Login Response         log_out            Logout Response
//!   Idle ─────────────────────→ Login ─────────────────────→ Full ───────────→ Logout ─────────────────→ Ended
//!                                 └───────────── any error of the session: Lost(SessionError) ─────────────→ ┘
//! ```
//!
//! `submit` queues tasks. They are sent in order when the target's command window allows. UNIT
//! ATTENTION is retried at once, BUSY and TASK SET FULL after a growing pause. An error that ends
//! the session is reported once as [`Event::Lost`]; unfinished tasks will not complete.
//!
//! Out of scope: reconnecting and following redirects (left to the caller), more than one
//! connection, error recovery levels 1 and 2.
//!
//! | file | contents |
//! |---|---|
//! | `machine` | [`Session`]: phases, timers, dispatch of PDUs |
//! | `commands` `task` `phases` | tasks and their PDUs; slots and tags; the clock of each command |
//! | `login` `authentication` `discovery` | login phase, CHAP, SendTargets |
//! | `link` | the send queue, numbers and keys that every sender of PDUs needs |
//! | `config` | configuration and events |
mod authentication;
mod commands;
mod config;
mod discovery;
mod link;
mod login;
mod machine;
mod phases;
mod task;

pub use self::authentication::Chap;
pub use self::config::{DiscoveredTarget, Event, Purpose, SessionConfig, SessionTimers};
pub use self::machine::Session;
pub(crate) use self::phases::Mark;
pub use self::phases::Phases;
pub use self::task::{Done, Task, TaskData};
