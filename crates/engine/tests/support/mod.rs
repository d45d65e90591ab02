//! A real array engine as a process, and an initiator that connects to it over a real socket.
#![allow(dead_code, reason = "each test binary uses a part of this module")]
pub mod array;
pub mod client;
