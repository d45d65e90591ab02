//! Vital product data pages of tape drives alone (SPC-4 section 7.8.7, SSC-3 section 8.4).

use hakaru_tape::Alert;
use hakaru_wire::scsi::DeviceType;

/// Extended INQUIRY data.
const EXTENDED_INQUIRY: u8 = 0x86;
/// Sequential-access device capabilities.
const CAPABILITIES: u8 = 0xb0;
/// Manufacturer-assigned serial number.
const MANUFACTURER_SERIAL: u8 = 0xb1;
/// TapeAlert supported flags.
const TAPE_ALERT_FLAGS: u8 = 0xb2;

/// Codes of these pages, ascending.
pub(crate) const PAGES: [u8; 4] = [
    EXTENDED_INQUIRY,
    CAPABILITIES,
    MANUFACTURER_SERIAL,
    TAPE_ALERT_FLAGS,
];

/// Returns a page of a drive with this serial number. `None`: there is no such page.
pub(crate) fn page(code: u8, serial: &str) -> Option<Vec<u8>> {
    let fields = match code {
        EXTENDED_INQUIRY => extended_inquiry(),
        // The WORM bit is 0.
        CAPABILITIES => vec![0; 2],
        MANUFACTURER_SERIAL => serial.as_bytes().to_vec(),
        TAPE_ALERT_FLAGS => {
            let flags = Alert::ALL
                .iter()
                .fold(0, |flags, alert| flags | alert.flag());
            flags.to_be_bytes().to_vec()
        }
        _ => return None,
    };
    let mut page = vec![DeviceType::Tape as u8, code, 0, fields.len() as u8];
    page.extend(fields);
    Some(page)
}

/// Returns the fields of the extended INQUIRY data: without protection information and volatile
/// cache.
fn extended_inquiry() -> Vec<u8> {
    let mut fields = vec![0; 60];
    // SIMPSUP: tasks have the attribute SIMPLE.
    fields[1] = 0x01;
    // LUICLR: REPORT LUNS ends its unit attention condition on every LU.
    fields[3] = 0x01;
    fields
}
