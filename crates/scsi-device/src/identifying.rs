//! Identifying information of a logical unit: what administrators set with SET IDENTIFYING INFORMATION.

use hakaru_wire::scsi::IdentifyingKind;

/// Identifying information of an LU, initially none. It survives resets, and ends with the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdentifyingInformation {
    device: Vec<u8>,
    text: Vec<u8>,
}

impl IdentifyingInformation {
    /// Returns the information of a kind; no bytes if there is none.
    pub(crate) fn get(&self, kind: IdentifyingKind) -> &[u8] {
        match kind {
            IdentifyingKind::Device => &self.device,
            IdentifyingKind::Text => &self.text,
        }
    }

    /// Replaces the information of a kind. Returns whether it has changed.
    pub(crate) fn set(&mut self, kind: IdentifyingKind, information: &[u8]) -> bool {
        let changed = self.get(kind) != information;
        let value = match kind {
            IdentifyingKind::Device => &mut self.device,
            IdentifyingKind::Text => &mut self.text,
        };
        *value = information.to_vec();
        changed
    }
}
