//! The mode pages of tape drives (SPC-4 section 7.5, SSC-3 section 8.3).

use hakaru_tape::Drive;
use hakaru_wire::scsi::ModePage;

pub(super) const DISCONNECT_RECONNECT: u8 = 0x02;
pub(super) const COMPRESSION: u8 = 0x0f;
pub(super) const DEVICE_CONFIGURATION: u8 = 0x10;
/// Subpage of the page above.
pub(super) const EXTENSION: u8 = 0x01;
pub(super) const PARTITION: u8 = 0x11;
pub(super) const POWER_CONDITION: u8 = 0x1a;

/// DCE of the data compression page.
pub(super) const COMPRESS: u8 = 0x80;
/// DCC of the data compression page.
const CAN_COMPRESS: u8 = 0x40;
/// Compression algorithm of the data compression page: the default of the drive.
const ALGORITHM: u8 = 0x01;
/// SELECT DATA COMPRESSION ALGORITHM: offset in the device configuration page after its header.
pub(super) const SELECT_COMPRESSION: usize = 12;
/// SHORT ERASE MODE of the extension, after its header: an erase without LONG ends the data at the
/// position, too.
const SHORT_ERASE_MODE: (usize, u8) = (1, 0x02);
/// PEWS of the extension, after its header.
pub(super) const WARNING_SIZE: core::ops::Range<usize> = 2..4;

/// Settings that the mode data reports.
#[derive(Clone, Copy)]
pub(super) struct Settings {
    pub(super) descriptor_sense: bool,
    pub(super) compression: bool,
    pub(super) warning_megabytes: u16,
}

impl Settings {
    pub(super) const DEFAULT: Settings = Settings {
        descriptor_sense: false,
        compression: true,
        warning_megabytes: 0,
    };

    pub(super) fn of(drive: &Drive, descriptor_sense: bool) -> Settings {
        Settings {
            descriptor_sense,
            compression: drive.compression,
            warning_megabytes: drive.warning_megabytes,
        }
    }
}

/// Returns the mode pages, ascending.
pub(super) fn pages(settings: Settings) -> Vec<ModePage> {
    let page = |code, bytes: Vec<u8>| ModePage::Unknown {
        code,
        subpage: None,
        bytes,
    };
    let dce = if settings.compression { COMPRESS } else { 0 };
    let mut compression = vec![dce | CAN_COMPRESS, 0x80];
    compression.extend_from_slice(&u32::from(ALGORITHM).to_be_bytes());
    compression.extend_from_slice(&u32::from(ALGORITHM).to_be_bytes());
    compression.resize(14, 0);
    // LOIS: READ POSITION is supported. EEG: the drive writes its own mark at the end of data.
    let mut configuration = vec![0; 14];
    configuration[6] = 0x40;
    configuration[8] = 0x10;
    configuration[SELECT_COMPRESSION] = settings.compression.into();
    // TAPLSD is 0: LOG SENSE ends TapeAlert flags.
    let mut extension = vec![0; 28];
    extension[SHORT_ERASE_MODE.0] = SHORT_ERASE_MODE.1;
    extension[WARNING_SIZE].copy_from_slice(&settings.warning_megabytes.to_be_bytes());
    vec![
        ModePage::ErrorRecovery {
            reassign_on_write: false,
            reassign_on_read: false,
        },
        // No limits: those of a session are negotiated at its login.
        page(DISCONNECT_RECONNECT, vec![0; 14]),
        ModePage::Control {
            descriptor_sense: settings.descriptor_sense,
            queue_algorithm: 0,
            task_aborted_status: false,
            write_protect: false,
        },
        page(COMPRESSION, compression),
        page(DEVICE_CONFIGURATION, configuration),
        ModePage::Unknown {
            code: DEVICE_CONFIGURATION,
            subpage: Some(EXTENSION),
            bytes: extension,
        },
        // No additional partitions.
        page(PARTITION, vec![0, 0, 0, 0x03, 0, 0]),
        // No timer lets the drive enter another power condition.
        page(POWER_CONDITION, vec![0; 38]),
        ModePage::InformationalExceptions {
            disabled: true,
            method: 0,
        },
    ]
}

/// Returns the SUBPAGE CODE.
pub(super) fn subpage_of(page: &ModePage) -> u8 {
    match page {
        ModePage::Unknown {
            subpage: Some(subpage),
            ..
        } => *subpage,
        _ => 0,
    }
}

/// Returns the mode pages as masks with ones in changeable bits.
pub(super) fn changeable_pages() -> Vec<ModePage> {
    let all = pages(Settings::DEFAULT);
    let mut pages: Vec<ModePage> = all.iter().map(ModePage::unchangeable).collect();
    for page in &mut pages {
        match page {
            ModePage::Control {
                descriptor_sense, ..
            } => *descriptor_sense = true,
            ModePage::Unknown {
                code,
                subpage,
                bytes,
            } => match (*code, *subpage) {
                (COMPRESSION, None) => bytes[0] = COMPRESS,
                (DEVICE_CONFIGURATION, None) => bytes[SELECT_COMPRESSION] = 0xff,
                (DEVICE_CONFIGURATION, Some(EXTENSION)) => bytes[WARNING_SIZE].fill(0xff),
                _ => {}
            },
            _ => {}
        }
    }
    pages
}
