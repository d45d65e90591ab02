//! Addresses in configurations.
use std::net::SocketAddr;

use crate::failure::Failure;

/// Parses `address:port`, with an IPv6 address in brackets. Addresses and ports are numeric,
/// because an engine queries no name server.
///
/// # Errors
/// The text is not an `address:port`. The message names `field`.
pub fn parse_address(field: &str, text: &str) -> Result<SocketAddr, Failure> {
    text.parse().map_err(|_| {
        Failure::usage(
            format_args!("{field}: {text:?} is not `address:port`"),
            "use a numeric address and port, such as 10.0.0.1:3260 or [fd00::1]:3260",
        )
    })
}
