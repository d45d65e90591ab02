//! Numbers and fields of netlink messages.

/// Length of the header of every message, bytes.
pub(super) const HEADER: usize = 16;

pub(super) const NLMSG_ERROR: u16 = 2;
pub(super) const NLMSG_DONE: u16 = 3;
pub(super) const SOCK_DIAG_BY_FAMILY: u16 = 20;

/// Attributes of an answer, each requested by bit `number - 1` of the request.
pub(super) const ATTRIBUTE_INFO: u16 = 2;
pub(super) const ATTRIBUTE_CONGESTION: u16 = 4;
pub(super) const ATTRIBUTE_MEMORY: u16 = 7;

pub(super) fn emit_header(length: usize, flags: u16, sequence: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&(length as u32).to_ne_bytes());
    out.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    out.extend_from_slice(&flags.to_ne_bytes());
    out.extend_from_slice(&sequence.to_ne_bytes());
    out.extend_from_slice(&0_u32.to_ne_bytes());
}

/// Returns the number at offset `at`, in the machine's byte order.
pub(super) fn native_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Returns the number at offset `at`, in the machine's byte order.
pub(super) fn native_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
