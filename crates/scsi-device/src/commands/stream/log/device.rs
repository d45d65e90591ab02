//! Pages about the drive.

use hakaru_tape::{Counters, Drive};
use hakaru_wire::scsi::LogParameter;

/// Bytes of a megabyte, in which log pages count.
pub(super) const MEGABYTE: u64 = 1_000_000;

/// Properties that a drive does not know itself.
pub(super) struct Surroundings {
    /// Serial number of its LU.
    pub(super) serial: String,
    /// Whether an initiator prevents the removal of the cartridge.
    pub(super) prevented: bool,
}

/// Returns the write error counters.
pub(super) fn write_errors(counters: Counters) -> Vec<LogParameter> {
    errors(counters.written_bytes, counters.write_errors)
}

/// Returns the read error counters.
pub(super) fn read_errors(counters: Counters) -> Vec<LogParameter> {
    errors(counters.read_bytes, counters.read_errors)
}

/// Returns corrected errors, bytes, and errors that were not corrected (SPC-4 section 7.3.6). The
/// drive corrects nothing: its store has the bytes, or fails.
fn errors(bytes: u64, uncorrected: u64) -> Vec<LogParameter> {
    vec![
        LogParameter::counter(0x0003, 0, 4),
        LogParameter::counter(0x0005, bytes, 8),
        LogParameter::counter(0x0006, uncorrected, 4),
    ]
}

/// Returns the bytes from initiators and to the medium, then from the medium and to initiators. With
/// a cartridge, returns the megabytes on the tape from the beginning to the end of data, to early
/// warning, from there to the end, and to the position.
pub(super) fn sequential_access(drive: &Drive) -> Vec<LogParameter> {
    let counters = drive.logged();
    let bytes = [
        counters.written_bytes,
        drive.ratio.stored_bytes(counters.written_bytes),
        drive.ratio.stored_bytes(counters.read_bytes),
        counters.read_bytes,
    ];
    let totals = bytes.into_iter().zip(0..);
    let totals = totals.map(|(bytes, code)| LogParameter::counter(code, bytes, 8));
    let places = drive.loaded().map(|cartridge| {
        let warning = cartridge.region.early_warning_bytes;
        [
            cartridge.medium.used_bytes(),
            cartridge.region.length_bytes - warning,
            warning,
            drive.place_bytes(),
        ]
    });
    let places = places.into_iter().flatten().zip(4..);
    let places = places.map(|(bytes, code)| {
        let megabytes = drive.ratio.stored_bytes(bytes) / MEGABYTE;
        LogParameter::counter(code, megabytes, 4)
    });
    totals.chain(places).collect()
}

/// Returns the temperature and the highest one for continuous operation (SPC-4, temperature log
/// page). FFh means that neither is available: the drive has no sensor, and a made-up value would
/// be no measurement.
pub(super) fn temperature() -> Vec<LogParameter> {
    const NOT_AVAILABLE: u8 = 0xff;
    [0x0000, 0x0001]
        .map(|code| LogParameter::binary(code, &[0, NOT_AVAILABLE]))
        .into()
}

/// Returns the very high frequency data (ADC-3 table 19). A drive answers while it is idle, so its
/// activity is 0.
pub(super) fn status(drive: &Drive, around: &Surroundings) -> Vec<LogParameter> {
    let present = drive.cartridge().is_some();
    let loaded = drive.loaded().is_ok();
    let byte = |bits: &[(bool, u8)]| {
        let set = bits.iter().filter(|(set, _)| *set);
        set.fold(0, |byte, (_, bit)| byte | bit)
    };
    let first = byte(&[
        // PAMR, HUI: unloaded by an initiator, MACC, CMPR, WRTP, DINIT.
        (around.prevented, 0x80),
        (drive.has_ejected(), 0x40),
        (loaded, 0x20),
        (drive.compression, 0x10),
        (drive.is_protected(), 0x08),
        (true, 0x01),
    ]);
    let second = byte(&[
        // RAA, MPRSNT, MSTD, MTHRD and MOUNTED.
        (!loaded, 0x20),
        (present, 0x10 | 0x04),
        (loaded, 0x02 | 0x01),
    ]);
    // TAFC.
    let fourth = drive.alerts.have_changed().into();
    vec![LogParameter::binary(0, &[first, second, 0, fourth])]
}

/// Returns loads, cleanings, errors, serial numbers, and whether removal is prevented (SSC-4
/// section 8.2.4). The life of the drive begins with the array. Nothing in it gets dirty.
pub(super) fn statistics(counters: Counters, around: &Surroundings) -> Vec<LogParameter> {
    let serial = |code| LogParameter::text(code, &around.serial, around.serial.len());
    vec![
        LogParameter::counter(0x0000, counters.loads, 4),
        LogParameter::counter(0x0001, 0, 4),
        LogParameter::counter(0x000e, counters.write_errors, 4),
        LogParameter::counter(0x000f, counters.read_errors, 4),
        serial(0x0040),
        serial(0x0041),
        LogParameter::binary(0x0080, &[around.prevented.into()]),
    ]
}

/// DATA COMPRESSION ENABLED.
pub(super) const COMPRESSION_ENABLED: u16 = 0x0100;

/// Returns ratios of compression, the bytes from and to initiators and tape since the cartridge was
/// loaded, and DCE (SSC-4 section 8.2.7). A number of bytes is one of megabytes and the rest.
pub(super) fn compression(drive: &Drive) -> Vec<LogParameter> {
    let mount = drive.mount();
    let mut parameters = vec![
        LogParameter::counter(0, ratio(drive, mount.read_bytes), 2),
        LogParameter::counter(1, ratio(drive, mount.written_bytes), 2),
    ];
    let bytes = [
        mount.read_bytes,
        drive.ratio.stored_bytes(mount.read_bytes),
        mount.written_bytes,
        drive.ratio.stored_bytes(mount.written_bytes),
    ];
    for (bytes, code) in bytes.into_iter().zip((2..).step_by(2)) {
        parameters.push(LogParameter::counter(code, bytes / MEGABYTE, 4));
        parameters.push(LogParameter::counter(code + 1, bytes % MEGABYTE, 4));
    }
    let enabled = drive.compression.into();
    parameters.push(LogParameter::binary(COMPRESSION_ENABLED, &[enabled]));
    parameters
}

/// Returns the ratio of compression of bytes that were moved, in percent; 0 if there are none.
pub(super) fn ratio(drive: &Drive, bytes: u64) -> u64 {
    if bytes == 0 { 0 } else { drive.ratio.percent() }
}
