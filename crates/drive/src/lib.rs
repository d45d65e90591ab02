//! Models of drives, RAID groups, controllers and ports: when does a request complete.
#![forbid(unsafe_code)]
pub mod config;
