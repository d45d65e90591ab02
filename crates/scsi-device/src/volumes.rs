//! Searches for cartridges by their barcodes, which SEND VOLUME TAG begins.

use hakaru_tape::Element;
use hakaru_wire::scsi::VolumeTemplate;

/// The last search of a nexus, whose results it requests in parts.
#[derive(Clone, Debug)]
pub(crate) struct VolumeSearch {
    /// SEND ACTION CODE of the search.
    pub action: u8,
    /// ELEMENT TYPE CODE of the elements searched; 0: all.
    pub element_type: u8,
    /// Template that the barcodes are compared with. `None`: no barcode fits.
    pub template: Option<VolumeTemplate>,
    /// First address that may still be reported.
    pub next: u32,
}

impl VolumeSearch {
    /// Whether the search finds this element, and has not reported it before.
    pub(crate) fn finds(&self, element: &Element<'_>) -> bool {
        let is_wanted = self.element_type == 0 || element.kind as u8 == self.element_type;
        let fits = |template: &VolumeTemplate| {
            let cartridge = element.cartridge;
            cartridge.is_some_and(|cartridge| template.matches(cartridge.barcode.as_bytes()))
        };
        is_wanted
            && u32::from(element.address) >= self.next
            && self.template.as_ref().is_some_and(fits)
    }
}
