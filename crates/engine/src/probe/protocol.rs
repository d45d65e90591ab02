//! Protocol between the client and the server of a probe.
//!
//! The first byte of a connection selects its duty:
//!
//! | first byte | client sends | server sends |
//! |---|---|---|
//! | [`ECHO`] | messages of 64 bytes | the same bytes |
//! | [`DRAIN`] | as much as the path carries | a [`Report`] every few milliseconds |
//! | [`SINK`] | as much as the path carries | nothing |
//! | [`SOURCE`] | nothing | as much as the path carries |
use hakaru_units::Time;

/// First byte of a connection whose messages are sent back.
pub(super) const ECHO: u8 = b'E';
/// First byte of a connection that the server reads as fast as it can.
pub(super) const DRAIN: u8 = b'D';
/// First byte of a connection whose data the server discards without reports.
pub(super) const SINK: u8 = b'K';
/// First byte of a connection that the server fills as fast as it can.
pub(super) const SOURCE: u8 = b'S';

/// Length of an emitted [`Report`], bytes.
pub(super) const REPORT_BYTES: usize = 16;

/// Bytes moved per system call: enough that the calls cost little per byte.
pub(super) const CHUNK_BYTES: usize = 256 << 10;

/// Number of bytes that a receiver had received at an instant of its clock; 16 bytes on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Report {
    /// Receiver's clock, ns; little-endian in bytes 0 to 7.
    pub(super) at: Time,
    /// Bytes received so far; little-endian in bytes 8 to 15.
    pub(super) total: u64,
}

impl Report {
    pub(super) fn parse(bytes: &[u8; REPORT_BYTES]) -> Report {
        let word = |bytes: &[u8]| {
            bytes
                .iter()
                .rev()
                .fold(0_u64, |word, byte| word << 8 | u64::from(*byte))
        };
        Report {
            at: Time(word(&bytes[..8])),
            total: word(&bytes[8..]),
        }
    }

    pub(super) fn emit(self) -> [u8; REPORT_BYTES] {
        let mut bytes = [0; REPORT_BYTES];
        bytes[..8].copy_from_slice(&self.at.as_ns().to_le_bytes());
        bytes[8..].copy_from_slice(&self.total.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_little_endian_clock_and_total() {
        let mut bytes = [0; REPORT_BYTES];
        bytes[..8].copy_from_slice(&7_u64.to_le_bytes());
        bytes[8..].copy_from_slice(&(1_u64 << 40).to_le_bytes());
        let report = Report {
            at: Time(7),
            total: 1 << 40,
        };
        assert_eq!(Report::parse(&bytes), report);
        assert_eq!(report.emit(), bytes);
    }
}
