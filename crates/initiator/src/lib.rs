//! iSCSI initiator, load patterns and pacing of many VMs, without I/O.
#![forbid(unsafe_code)]
pub mod config;
