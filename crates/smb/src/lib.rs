//! Client of SMB 2.1 to 3.1.1 (MS-SMB2), without I/O. One [`Connection`] is one session with one
//! share.
//!
//! # Calls of a shell, in order
//! 1. [`Connection::new`] takes the [`Config`], and random values and the time of day as
//!    [`Entropy`]. The shell connects a socket to port 445.
//! 2. [`Connection::handle_connected`] begins the login: NEGOTIATE, SESSION_SETUP with NTLMv2 in
//!    SPNEGO, TREE_CONNECT. It ends with [`Event::Ready`] or [`Event::Lost`].
//! 3. [`Connection::submit`] queues one operation, [`Connection::submit_related`] several as one
//!    compound. They are sent in order, as soon as the server's credits allow.
//! 4. After each of these calls, the shell passes the slices of [`Connection::poll_transmit`] to
//!    the kernel and reports their number of bytes to [`Connection::handle_sent`]. Data of writes
//!    is sent from the caller's buffer.
//! 5. [`Connection::handle_received`] takes received bytes, in pieces of any size.
//! 6. [`Connection::poll_event`] returns what has happened: each operation ends with exactly one
//!    [`Event::Done`], which has the instants at which it was submitted, sent and answered. Data of
//!    reads stays in the buffer of its message.
//! 7. [`Connection::poll_timeout`] returns the time at which [`Connection::handle_timeout`] must be
//!    called.
//! 8. [`Connection::log_off`] ends the session after the last operation, with [`Event::LoggedOff`].
//!    If the socket ends before, [`Connection::handle_closed`] reports it.
//!
//! [`FileSteps`] is a layer above, for loads: steps by path, such as "look a folder up" or "rename a
//! file", each as one compound or as requests apart. Its owner passes it the ends of its operations
//! and gets the end of the step. [`FileRun`] begins the steps of a file ahead of each other.
//!
//! `crates/engine/examples/copy_files/shell.rs` is such a shell, for many connections in one thread.
//!
//! The crate has no socket, thread or clock: the caller passes the time. It never repeats a
//! request and never connects again, so a load measures what the server does. A server that
//! violates the protocol causes a [`ConnectionError`], never a panic; memory for its responses is
//! bounded by what was requested.
//!
//! | module | contents |
//! |---|---|
//! | [`wire`] | formats of all messages, for both sides |
//! | `connection` | state machine: login, operations in flight, credits, time limits |
//! | `receive`, `transmit` | frames of the stream; bytes to send |
//! | `steps`, `file_run` | requests of a step by path; steps of a file ahead of each other |
//! | `signing` | preauthentication hash, keys, HMAC-SHA256, AES-CMAC, AES-GMAC |
//! | `encryption` | AES-128-GCM and AES-128-CCM |
//! | `ntlm`, `spnego` | NTLMv2 and its wrapping |
//!
//! # Parts of the standards that are left out
//! | part | effect |
//! |---|---|
//! | encryption with 3.0 and 3.0.2, and with keys of 256 bits | AES-128 of 3.1.1 only; other sessions that require encryption are refused with a clear error |
//! | dialect 2.0.2, SMB 1 | servers without 2.1 are refused |
//! | Kerberos | NTLMv2, guests and anonymous sessions only |
//! | NTLM key exchange, sealing | the session key is the session base key |
//! | validation of the negotiation (FSCTL, 3.0 and 3.0.2) | a man in the middle could lower the dialect below 3.1.1, which has the preauthentication hash |
//! | multichannel, RDMA, QUIC, compression | one TCP connection per session |
//! | several shares per session, DFS | a connection per share; no referrals are followed |
//! | oplocks, leases, durable and persistent handles | nothing is cached, and opens end with their connection |
//! | CANCEL, LOCK, IOCTL, CHANGE_NOTIFY | a pending request ends with its response or its time limit |
//! | attributes, times, security descriptors, streams, symbolic links | neither set nor followed |
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod config;
mod connection;
mod encryption;
mod error;
mod file_run;
mod ntlm;
mod op;
mod receive;
mod signing;
mod spnego;
mod steps;
mod transmit;
pub mod wire;

pub use config::{Config, Credentials, Encryption, Entropy, Signing};
pub use connection::{Connection, Event, SessionFacts};
pub use error::{ConnectionError, OpError};
pub use file_run::FileRun;
pub use ntlm::Password;
pub use op::{Done, Op, OpId, Output, ReadData, WriteData};
pub use steps::{FileSteps, Step, StepDone, StepError};
