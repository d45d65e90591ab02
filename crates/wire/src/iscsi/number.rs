//! Tags and sequence numbers.
use std::fmt;

/// Initiator Task Tag: identifies a task, unique within the session while the task lives (RFC 7143
/// section 11.2.1.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Itt(pub u32);

impl Itt {
    /// No task: a NOP-Out that requests no answer, a NOP-In that is not an answer.
    pub const RESERVED: Itt = Itt(u32::MAX);
}

/// Target Transfer Tag: identifies an R2T, a NOP-In that requests an answer, or an unfinished text
/// exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ttt(pub u32);

impl Ttt {
    /// No transfer: unsolicited data, a ping that requests no answer.
    pub const RESERVED: Ttt = Ttt(u32::MAX);
}

macro_rules! serial_number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// Compared by RFC 1982 serial arithmetic (RFC 7143 section 4.2.2.1). The type lacks `Ord`,
        /// because the relation is not transitive.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// Returns the number `n` after this one, modulo 2^32.
            #[must_use]
            pub const fn plus(self, n: u32) -> Self {
                Self(self.0.wrapping_add(n))
            }

            /// Returns the number `n` before this one, modulo 2^32.
            #[must_use]
            pub const fn minus(self, n: u32) -> Self {
                Self(self.0.wrapping_sub(n))
            }

            /// Returns whether this number precedes `other`. Of two numbers 2^31 apart neither
            /// precedes the other.
            pub const fn precedes(self, other: Self) -> bool {
                let ahead = other.0.wrapping_sub(self.0);
                ahead != 0 && ahead < 1 << 31
            }

            /// Returns whether this number lies in the window from `first` to `last`, both
            /// included. An empty window has `last` = `first` - 1.
            pub const fn within(self, first: Self, last: Self) -> bool {
                !self.precedes(first) && !last.precedes(self) && !last.precedes(first)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

serial_number! {
    /// Number of a command within a session: CmdSN, ExpCmdSN, MaxCmdSN.
    CmdSn
}
serial_number! {
    /// Number of a status within a connection: StatSN, ExpStatSN.
    StatSn
}

/// Initiator Session ID (RFC 7143 section 11.12.5). Together with the initiator's name and the
/// portal group, it identifies a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Isid(pub [u8; 6]);

impl Isid {
    /// Returns an ISID of the "random" naming authority (type 10b): the low 24 bits of `random`,
    /// then the qualifier.
    pub const fn random(random: u32, qualifier: u16) -> Isid {
        let [_, a, b, c] = random.to_be_bytes();
        let [d, e] = qualifier.to_be_bytes();
        Isid([0x80, a, b, c, d, e])
    }
}

/// The three numbers that nearly every target PDU carries in bytes 24 to 35.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetNumbers {
    /// Number of the status, or of the next status if the PDU carries none.
    pub stat_sn: StatSn,
    /// Next command number that the target expects.
    pub exp_cmd_sn: CmdSn,
    /// Last command number that the target accepts. `exp_cmd_sn` - 1 closes the window.
    pub max_cmd_sn: CmdSn,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_numbers_compare_across_the_wrap() {
        assert!(CmdSn(u32::MAX).precedes(CmdSn(0)));
        assert!(!CmdSn(0).precedes(CmdSn(u32::MAX)));
        assert!(!CmdSn(5).precedes(CmdSn(5)));
        assert!(!CmdSn(0).precedes(CmdSn(1 << 31)) && !CmdSn(1 << 31).precedes(CmdSn(0)));
    }

    #[test]
    fn window_across_the_wrap_contains_exactly_its_range() {
        let (first, last) = (CmdSn(u32::MAX - 1), CmdSn(2));
        for inside in [u32::MAX - 1, u32::MAX, 0, 1, 2] {
            assert!(CmdSn(inside).within(first, last), "{inside}");
        }
        for outside in [u32::MAX - 2, 3, 1 << 31] {
            assert!(!CmdSn(outside).within(first, last), "{outside}");
        }
    }

    #[test]
    fn closed_window_holds_nothing() {
        for sn in [9, 10, 11] {
            assert!(!CmdSn(sn).within(CmdSn(10), CmdSn(9)), "{sn}");
        }
    }
}
