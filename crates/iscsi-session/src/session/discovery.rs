//! The answer of a discovery session, collected over several Text Responses.
use hakaru_wire::iscsi::text::parse_pairs;

use super::config::DiscoveredTarget;
use crate::error::SessionError;

/// Maximum length of the list of targets, bytes.
const TEXT_MAX: usize = 1 << 20;
/// Maximum number of Text Responses of one discovery: 1 MiB in pieces of the minimum
/// MaxRecvDataSegmentLength.
const RESPONSES_MAX: u32 = 2048;

/// The text received so far.
#[derive(Debug, Default)]
pub(super) struct Discovery {
    text: Vec<u8>,
    responses: u32,
}

impl Discovery {
    /// Appends the text of one response.
    pub(super) fn extend(&mut self, text: &[u8]) -> Result<(), SessionError> {
        self.text.extend_from_slice(text);
        self.responses += 1;
        if self.text.len() > TEXT_MAX || self.responses > RESPONSES_MAX {
            return Err(SessionError::Protocol(
                "the list of targets exceeds 1 MiB or 2048 Text Responses",
            ));
        }
        Ok(())
    }

    /// Returns the targets of the entire text.
    pub(super) fn targets(&self) -> Result<Vec<DiscoveredTarget>, SessionError> {
        parse_targets(&self.text)
    }
}

/// Parses the answer to SendTargets (RFC 7143 appendix C): each TargetName is followed by its
/// TargetAddresses.
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
