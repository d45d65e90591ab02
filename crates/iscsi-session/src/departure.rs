//! The time at which sent bytes left the host.
use hakaru_units::Time;

/// The instants at which bytes were passed to the kernel and at which they left the host. If the
/// latter is unknown, both are the former, which is what a [`Time`] converts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Begin of the call that passed the bytes to the kernel.
    pub passed: Time,
    /// Departure from the host, not before `passed`.
    pub left: Time,
}

impl From<Time> for Departure {
    fn from(at: Time) -> Departure {
        Departure {
            passed: at,
            left: at,
        }
    }
}
