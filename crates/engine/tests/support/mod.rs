//! A real array engine as a process, and an initiator that speaks to it over a real socket.
#![allow(dead_code, reason = "each test binary uses its part")]
pub mod array;
pub mod client;
