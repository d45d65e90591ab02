//! Bounds on logins in progress: their number and the text they hold, in total and per origin.
//!
//! An initiator that is not logged in yet has not proved its identity, so no origin may keep others
//! from logging in. Every login may hold a small amount of text. Text beyond that comes out of a
//! common budget, of which one origin gets a part.

use core::net::{IpAddr, Ipv6Addr};
use std::collections::HashMap;

use crate::config::Limits;

/// Text that a login may always hold, bytes: several times what initiators send.
const OWN_BYTES: usize = 4 << 10;
/// Text that one login may hold, bytes: the longest text that is collected, and its answers.
const LOGIN_BYTES_MAX: usize = 128 << 10;
/// Text beyond their own shares that all logins may hold, bytes.
const COMMON_BYTES_MAX: usize = 64 << 20;
/// Text beyond their own shares that the logins of one origin may hold, bytes.
const ORIGIN_BYTES_MAX: usize = 16 << 20;

/// An IPv4 address, or the /64 network of an IPv6 address, because one host may own all addresses
/// of such a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin(IpAddr);

impl Origin {
    pub(crate) fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(v4) => IpAddr::V4(v4),
            IpAddr::V6(v6) => {
                let network = v6.to_bits() >> 64 << 64;
                IpAddr::V6(Ipv6Addr::from_bits(network))
            }
        })
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    logins: u32,
    common_bytes: usize,
}

/// Logins in progress.
#[derive(Debug, Default)]
pub(crate) struct LoginBudget {
    all: Usage,
    by_origin: HashMap<Origin, Usage>,
}

impl LoginBudget {
    /// Counts a login if no bound is reached. `open` is the number of connections of any kind,
    /// including those whose login is not in progress.
    #[must_use]
    pub(crate) fn begin(&mut self, origin: Origin, limits: &Limits, open: u32) -> bool {
        let origin_logins = self.by_origin.get(&origin).map_or(0, |usage| usage.logins);
        let left_by_others = limits
            .connections_max
            .saturating_sub(open.saturating_sub(origin_logins));
        // The last free connection is open to every origin. Otherwise none could log in.
        let share = (left_by_others - left_by_others.div_ceil(4)).max(1);
        let fits = open < limits.connections_max
            && self.all.logins < limits.logins_max
            && origin_logins < limits.logins_per_address_max.min(share);
        if fits {
            self.all.logins += 1;
            self.by_origin.entry(origin).or_default().logins += 1;
        }
        fits
    }

    /// Changes the text that a login holds from `before_bytes` to `now_bytes`. Returns false, and
    /// changes nothing, if a bound is exceeded.
    #[must_use]
    pub(crate) fn hold(&mut self, origin: Origin, before_bytes: usize, now_bytes: usize) -> bool {
        let common = |bytes: usize| bytes.saturating_sub(OWN_BYTES);
        let (before, now) = (common(before_bytes), common(now_bytes));
        let usage = self.by_origin.entry(origin).or_default();
        let (all_bytes, origin_bytes) = (
            self.all.common_bytes - before + now,
            usage.common_bytes - before + now,
        );
        let fits = now <= before
            || now_bytes <= LOGIN_BYTES_MAX
                && all_bytes <= COMMON_BYTES_MAX
                && origin_bytes <= ORIGIN_BYTES_MAX;
        if fits {
            (self.all.common_bytes, usage.common_bytes) = (all_bytes, origin_bytes);
        }
        fits
    }

    /// Removes a login that has ended and held `held_bytes`.
    pub(crate) fn end(&mut self, origin: Origin, held_bytes: usize) {
        let common = held_bytes.saturating_sub(OWN_BYTES);
        self.all.logins -= 1;
        self.all.common_bytes -= common;
        if let Some(usage) = self.by_origin.get_mut(&origin) {
            usage.logins -= 1;
            usage.common_bytes -= common;
            if usage.logins == 0 {
                self.by_origin.remove(&origin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(text: &str) -> Origin {
        Origin::of(text.parse().expect("an address"))
    }

    #[test]
    fn one_origin_cannot_use_the_text_budget_of_others() {
        let mut budget = LoginBudget::default();
        let limits = Limits::default();
        let (greedy, good) = (origin("10.0.0.66"), origin("10.0.0.1"));
        let mut held = 0;
        while budget.begin(greedy, &limits, 0) && budget.hold(greedy, 0, LOGIN_BYTES_MAX) {
            held += 1;
        }
        assert_eq!(held, ORIGIN_BYTES_MAX / (LOGIN_BYTES_MAX - OWN_BYTES));
        assert!(budget.hold(greedy, 0, OWN_BYTES));
        assert!(budget.begin(good, &limits, 0) && budget.hold(good, 0, LOGIN_BYTES_MAX));
        assert!(!budget.hold(good, LOGIN_BYTES_MAX, LOGIN_BYTES_MAX + 1));
    }

    #[test]
    fn text_of_ended_logins_is_no_longer_counted() {
        let mut budget = LoginBudget::default();
        let peer = origin("2001:db8::1");
        let limits = Limits {
            logins_max: 1,
            ..Limits::default()
        };
        for _ in 0..100_000 {
            assert!(budget.begin(peer, &limits, 0));
            assert!(budget.hold(peer, 0, 100_000) && budget.hold(peer, 100_000, 10));
            assert!(!budget.begin(origin("10.0.0.1"), &limits, 1));
            budget.end(peer, 10);
        }
        assert_eq!((budget.all.common_bytes, budget.by_origin.len()), (0, 0));
    }

    #[test]
    fn logins_of_one_origin_leave_a_quarter_of_the_connections_to_others() {
        let limits = Limits {
            connections_max: 100,
            ..Limits::default()
        };
        let (greedy, good) = (origin("10.0.0.66"), origin("10.0.0.1"));
        for sessions in 0..100 {
            let mut budget = LoginBudget::default();
            let free = limits.connections_max - sessions;
            let mut open = sessions;
            while budget.begin(greedy, &limits, open) {
                open += 1;
            }
            assert_eq!(open - sessions, (free * 3 / 4).max(1));
            assert_eq!(budget.begin(good, &limits, open), free > 1, "{free} left");
        }
    }

    #[test]
    fn no_login_begins_when_all_connections_are_in_use() {
        let limits = Limits {
            connections_max: 100,
            ..Limits::default()
        };
        let mut budget = LoginBudget::default();
        assert!(!budget.begin(origin("10.0.0.1"), &limits, 100));
        assert!(budget.begin(origin("10.0.0.1"), &limits, 99));
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_origin() {
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::ffff:1"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
        assert_eq!(origin("::ffff:10.0.0.1"), origin("10.0.0.1"));
        assert_ne!(origin("10.0.0.1"), origin("10.0.0.2"));
    }
}
