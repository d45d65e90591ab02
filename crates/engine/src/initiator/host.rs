//! A host over iSCSI with either one path per VM or several.
use std::collections::BTreeMap;

use hakaru_contract::initiator::Vm;
use hakaru_iscsi_session::{Arrival, Session, Transmit};
use hakaru_load::{Counters, HostEvent, IscsiHost, MultipathHost};
use hakaru_stats::Latencies;
use hakaru_units::Time;

/// A host and its sessions.
pub enum Host {
    /// One path, with one or more sessions.
    Single(IscsiHost),
    /// Several paths, with one session each.
    Multipath(Box<MultipathHost>),
}

/// Calls the same function of either kind of host.
macro_rules! either {
    ($self:ident, $host:ident => $call:expr) => {
        match $self {
            Host::Single($host) => $call,
            Host::Multipath($host) => $call,
        }
    };
}

impl Host {
    pub fn handle_connected(&mut self, now: Time, leg: usize) {
        either!(self, host => host.handle_connected(now, leg));
    }

    /// Returns whether the load cannot continue.
    pub fn handle_unreachable(&mut self, now: Time, leg: usize, latencies: &mut Latencies) -> bool {
        match self {
            Host::Single(_) => true,
            Host::Multipath(host) => host.handle_unreachable(now, leg, latencies),
        }
    }

    #[inline]
    pub fn handle_received(
        &mut self,
        arrival: Arrival,
        leg: usize,
        bytes: &[u8],
        latencies: &mut Latencies,
    ) {
        either!(self, host => host.handle_received(arrival, leg, bytes, latencies));
    }

    pub fn handle_closed(
        &mut self,
        now: Time,
        leg: usize,
        cause: &'static str,
        latencies: &mut Latencies,
    ) {
        either!(self, host => host.handle_closed(now, leg, cause, latencies));
    }

    pub fn handle_timeout(&mut self, now: Time, leg: usize, latencies: &mut Latencies) {
        either!(self, host => host.handle_timeout(now, leg, latencies));
    }

    #[inline]
    pub fn poll_timeout(&self, leg: usize) -> Option<Time> {
        either!(self, host => host.poll_timeout(leg))
    }

    #[inline]
    pub fn poll_transmit(&mut self, current: usize) -> Option<usize> {
        match self {
            Host::Single(host) => host.poll_transmit(current),
            Host::Multipath(host) => host.poll_transmit(),
        }
    }

    /// Returns the portal to which a leg must connect now.
    pub fn poll_connect(&mut self, leg: usize) -> Option<usize> {
        match self {
            Host::Single(_) => None,
            Host::Multipath(host) => host.poll_connect(leg),
        }
    }

    /// Returns whether lost paths are restored.
    pub fn is_persistent(&self) -> bool {
        matches!(self, Host::Multipath(host) if host.is_active())
    }

    pub fn begin(&mut self, now: Time) {
        either!(self, host => host.begin(now));
    }

    pub fn measure(&mut self, now: Time) {
        either!(self, host => host.measure(now));
    }

    pub fn end(&mut self, now: Time, latencies: &mut Latencies) {
        either!(self, host => host.end(now, latencies));
    }

    pub fn in_flight(&self) -> usize {
        either!(self, host => host.in_flight())
    }

    pub fn log_out(&mut self, now: Time, latencies: &mut Latencies) {
        either!(self, host => host.log_out(now, latencies));
    }

    #[inline]
    pub fn issue(&mut self, now: Time) {
        either!(self, host => host.issue(now));
    }

    #[inline]
    pub fn transmit(&mut self, leg: usize) -> &mut Transmit {
        either!(self, host => host.transmit(leg))
    }

    #[inline]
    pub fn session(&self, leg: usize) -> &Session {
        either!(self, host => host.session(leg))
    }

    pub fn poll_event(&mut self) -> Option<HostEvent> {
        either!(self, host => host.poll_event())
    }

    /// Returns the number of VMs, at least 1.
    pub fn vms(&self) -> usize {
        match self {
            Host::Single(host) => host.vms(),
            Host::Multipath(_) => 1,
        }
    }

    pub fn counters(&mut self, now: Time, vm: usize) -> Counters {
        match self {
            Host::Single(host) => host.counters(now, vm),
            Host::Multipath(host) => host.counters(now),
        }
    }

    /// Returns the counters of the paths, if there are several, and begins a new interval of the
    /// recent gap.
    pub fn take_path_counters(&mut self, now: Time) -> Option<BTreeMap<String, f64>> {
        let Host::Multipath(host) = self else {
            return None;
        };
        let mut map = BTreeMap::new();
        host.take_path_counters(now).visit(&mut |name, value| {
            map.insert(name.to_owned(), value);
        });
        Some(map)
    }

    pub fn config(&self, vm: usize) -> &Vm {
        match self {
            Host::Single(host) => host.config(vm),
            Host::Multipath(host) => host.config(),
        }
    }
}
