//! Addresses in configurations.
use std::net::SocketAddr;

use crate::failure::Failure;

/// `address:port`, IPv6 as `[address]:port`. Numbers only: an engine asks no name server.
///
/// # Errors
/// The text is not such an address; the message names `field`.
pub fn parse_address(field: &str, text: &str) -> Result<SocketAddr, Failure> {
    text.parse().map_err(|_| {
        Failure::usage(
            format_args!("{field}: {text:?} is not `address:port`"),
            "numbers only, as 10.0.0.1:3260 or [fd00::1]:3260",
        )
    })
}
