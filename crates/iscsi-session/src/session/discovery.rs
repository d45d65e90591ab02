//! The answer of a discovery session, collected over several Text Responses.
use hakaru_wire::iscsi::text::parse_pairs;

use super::config::DiscoveredTarget;
use crate::error::SessionError;

/// Longest list of targets that is collected, bytes. A target has no business sending more.
const TEXT_MAX: usize = 1 << 20;
/// Text Responses of one discovery; 1 MiB in pieces of the least MaxRecvDataSegmentLength is 2048.
const RESPONSES_MAX: u32 = 2048;

/// The text so far.
#[derive(Debug, Default)]
pub(super) struct Discovery {
    text: Vec<u8>,
    responses: u32,
}

impl Discovery {
    /// Adds the text of one response.
    pub(super) fn extend(&mut self, text: &[u8]) -> Result<(), SessionError> {
        self.text.extend_from_slice(text);
        self.responses += 1;
        if self.text.len() > TEXT_MAX || self.responses > RESPONSES_MAX {
            return Err(SessionError::Protocol("Text Response without end"));
        }
        Ok(())
    }

    /// Returns the targets of the whole text.
    pub(super) fn targets(&self) -> Result<Vec<DiscoveredTarget>, SessionError> {
        parse_targets(&self.text)
    }
}

/// The answer to SendTargets (RFC 7143 appendix C): a TargetName, then its TargetAddresses.
fn parse_targets(text: &[u8]) -> Result<Vec<DiscoveredTarget>, SessionError> {
    let mut targets: Vec<DiscoveredTarget> = Vec::new();
    for pair in parse_pairs(text) {
        match pair.map_err(|e| SessionError::Negotiation(e.to_string()))? {
            ("TargetName", name) => targets.push(DiscoveredTarget {
                name: name.to_owned(),
                addresses: Vec::new(),
            }),
            ("TargetAddress", address) => match targets.last_mut() {
                Some(target) => target.addresses.push(address.to_owned()),
                None => return Err(SessionError::Protocol("TargetAddress before TargetName")),
            },
            _ => {}
        }
    }
    Ok(targets)
}
