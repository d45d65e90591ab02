//! Trees in a folder of a share of an SMB server: sessions of the client in `hakaru_smb`, each on a
//! TCP connection of its own.
//!
//! `settings` checks the configuration. `session` is one session with its socket, `problem` the
//! names and hints of its errors. `root`, `transport` and `visitor` are the three sides of a
//! destination.
mod problem;
mod root;
mod session;
mod settings;
mod transport;
mod visitor;

pub use root::Share;
pub use settings::Settings;
