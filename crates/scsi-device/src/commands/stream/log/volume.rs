//! Pages about the cartridge.

use hakaru_tape::Drive;
use hakaru_wire::scsi::LogParameter;

use super::super::attributes::MANUFACTURER;
use super::device::{MEGABYTE, ratio};

/// Returns the volume statistics (SSC-4 section 8.2.9). Bytes are those on the tape. The first parameter reports whether the
/// others are valid, and is the only one without a cartridge. The counts of a cartridge's life are
/// known of new cartridges alone.
pub(super) fn statistics(drive: &Drive) -> Vec<LogParameter> {
    const VALID: u16 = 0x0000;
    let Ok(cartridge) = drive.loaded() else {
        return vec![LogParameter::binary(VALID, &[0])];
    };
    let counter = LogParameter::counter;
    let text = |code, text: &str, length| LogParameter::text(code, text, length);
    let mount = drive.mount();
    let megabytes = |bytes| drive.ratio.stored_bytes(bytes) / MEGABYTE;
    let (length, used) = (
        megabytes(cartridge.region.length_bytes),
        megabytes(cartridge.medium.used_bytes()),
    );
    let mut parameters = vec![
        LogParameter::binary(VALID, &[1]),
        counter(0x0001, cartridge.loads, 4),
        counter(0x000c, mount.write_errors, 2),
        counter(0x000d, mount.read_errors, 2),
        counter(0x000e, megabytes(mount.written_bytes), 4),
        counter(0x000f, megabytes(mount.read_bytes), 4),
        counter(0x0012, ratio(drive, mount.written_bytes), 2),
        counter(0x0013, ratio(drive, mount.read_bytes), 2),
        counter(0x0016, length, 4),
        counter(0x0017, used, 4),
        text(0x0040, &cartridge.barcode, 32),
        text(0x0042, &cartridge.barcode, 32),
        text(0x0043, MANUFACTURER, 8),
        text(0x0045, drive.format().personality(), 9),
        LogParameter::binary(0x0080, &[cartridge.write_protected.into()]),
        // WORM.
        LogParameter::binary(0x0081, &[0]),
        of_partition(0x0202, length),
        of_partition(0x0203, used),
        of_partition(0x0204, megabytes(cartridge.left_bytes())),
    ];
    if let Some(life) = drive.life() {
        parameters.extend([
            counter(0x0004, life.write_errors, 2),
            counter(0x0009, life.read_errors, 2),
            counter(0x0010, megabytes(life.written_bytes), 8),
            counter(0x0011, megabytes(life.read_bytes), 8),
        ]);
    }
    parameters.sort_by_key(|parameter| parameter.code);
    parameters
}

/// Returns a parameter with a record for each partition: its length after the first byte, the
/// number of the partition, and the value. There is one partition.
fn of_partition(code: u16, value: u64) -> LogParameter {
    let mut record = [7, 0, 0, 0, 0, 0, 0, 0];
    let value = u32::try_from(value).unwrap_or(u32::MAX);
    record[4..].copy_from_slice(&value.to_be_bytes());
    LogParameter::binary(code, &record)
}

/// Returns the loads of the cartridge, and the errors of its life.
pub(super) fn usage(drive: &Drive) -> Vec<LogParameter> {
    let mut parameters = Vec::new();
    if let Ok(cartridge) = drive.loaded() {
        parameters.push(LogParameter::counter(0x0001, cartridge.loads, 4));
    }
    if let Some(life) = drive.life() {
        parameters.push(LogParameter::counter(0x0004, life.write_errors, 2));
        parameters.push(LogParameter::counter(0x0009, life.read_errors, 2));
    }
    parameters
}

/// Returns remaining and maximum capacity of the main partition and of the alternate partition,
/// which does not exist, in MiB on the tape. All are 0 without a cartridge.
pub(super) fn capacity(drive: &Drive) -> Vec<LogParameter> {
    let mib = |bytes: u64| {
        let mib = drive.ratio.stored_bytes(bytes) >> 20;
        u32::try_from(mib).unwrap_or(u32::MAX)
    };
    let (left, length) = drive.cartridge().map_or((0, 0), |cartridge| {
        (cartridge.left_bytes(), cartridge.region.length_bytes)
    });
    let values = [mib(left), 0, mib(length), 0].into_iter().zip(1..);
    values
        .map(|(value, code)| LogParameter::binary(code, &value.to_be_bytes()))
        .collect()
}
