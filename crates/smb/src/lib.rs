//! Client of SMB 2.1 to 3.1.1 (MS-SMB2), without I/O.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod config;
mod connection;
mod error;
mod ntlm;
mod op;
mod receive;
mod signing;
mod spnego;
mod transmit;
pub mod wire;

pub use config::{Config, Credentials, Entropy, Signing};
pub use connection::{Connection, Event, SessionFacts};
pub use error::{ConnectionError, OpError};
pub use ntlm::Password;
pub use op::{Done, Op, OpId, Output, ReadData, WriteData};
