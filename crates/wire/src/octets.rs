//! Big-endian fields of fixed-size buffers. Offsets are constants of the caller, so the compiler
//! removes the bounds checks. A wrong constant panics in every test.

/// Copies a field out with one bounds check, so that its readers are small enough to be inlined.
fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(field(bytes, at))
}

pub(crate) fn u24_at(bytes: &[u8], at: usize) -> u32 {
    let [high, middle, low] = field(bytes, at);
    u32::from_be_bytes([0, high, middle, low])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(field(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(field(bytes, at))
}

pub(crate) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// # Panics
/// Panics if `value` needs more than 24 bits.
pub(crate) fn put_u24(bytes: &mut [u8], at: usize, value: u32) {
    assert!(value < 1 << 24, "{value} does not fit a 24-bit field");
    bytes[at..at + 3].copy_from_slice(&value.to_be_bytes()[1..]);
}

pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

pub(crate) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_be_bytes());
}
