//! A learning switch, which selects the egress ports of a frame.
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use hakaru_units::Time;

use crate::counters::SwitchCounters;
use crate::router::Router;
use hakaru_contract::fabric::{Forwarding, SharedBuffer, SwitchConfig};

const MULTICAST: u8 = 1;

/// A switch.
#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) forwarding: Forwarding,
    pub(crate) shared: Option<SharedBuffer>,
    pub(crate) ports: Vec<SwitchPort>,
    pub(crate) router: Option<Router>,
    /// Instant of the router's timeout that was scheduled last.
    pub(crate) router_at: Option<Time>,
    pub(crate) counters: SwitchCounters,
    addresses_max: usize,
    age_ns: u64,
    learned: HashMap<Address, Learned, BuildHasherDefault<AddressHasher>>,
}

/// A VLAN (upper 16 bits) and an Ethernet address (lower 48 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Address(u64);

impl Address {
    fn new(address: [u8; 6], vlan: u16) -> Address {
        let [a, b, c, d, e, f] = address;
        let [g, h] = vlan.to_be_bytes();
        Address(u64::from_be_bytes([g, h, a, b, c, d, e, f]))
    }
}

impl core::hash::Hash for Address {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0);
    }
}

/// A hash of few instructions, because every packet takes two lookups. Addresses are those of the
/// lab's own hosts, so there are no deliberate collisions.
#[derive(Clone, Copy, Debug, Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }
    fn write_u64(&mut self, value: u64) {
        // Fibonacci hashing (Knuth 6.4). The map uses the lower bits first, so the upper half is
        // mixed into them.
        let product = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// A port of a switch, which is an end of a link.
#[derive(Clone, Debug)]
pub(crate) struct SwitchPort {
    /// Egress channel.
    pub(crate) egress: usize,
    /// VLAN of an access port. `None` for a trunk.
    pub(crate) vlan: Option<u16>,
    /// VLANs allowed on a trunk. `None` for all.
    pub(crate) allowed: Option<BTreeSet<u16>>,
}

impl SwitchPort {
    /// Returns whether the port forwards frames of a VLAN.
    fn carries(&self, vlan: u16) -> bool {
        match (self.vlan, &self.allowed) {
            (Some(own), _) => own == vlan,
            (None, Some(allowed)) => allowed.contains(&vlan),
            (None, None) => true,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Learned {
    port: usize,
    seen_at: Time,
}

impl Switch {
    pub(crate) fn new((number, config): (usize, &SwitchConfig)) -> Switch {
        Switch {
            forwarding: config.forwarding,
            shared: config.shared_buffer,
            ports: Vec::new(),
            router: config
                .router
                .as_ref()
                .map(|router| Router::new(router, number, config.addresses_max as usize)),
            router_at: None,
            counters: SwitchCounters::default(),
            addresses_max: config.addresses_max as usize,
            age_ns: u64::from(config.address_age_s) * 1_000_000_000,
            learned: HashMap::default(),
        }
    }

    /// Returns the VLAN of a frame received at `port` with the 802.1Q tag `tag`. `None` if the port
    /// refuses the frame.
    pub(crate) fn vlan_of(&self, port: usize, tag: Option<u16>) -> Option<u16> {
        match (self.ports[port].vlan, tag) {
            (Some(vlan), None) => Some(vlan),
            (Some(_), Some(_)) => None,
            (None, tag) => Some(tag.unwrap_or(1)).filter(|vlan| self.ports[port].carries(*vlan)),
        }
    }

    /// Returns the tag of a frame of `vlan` that leaves through `port`. VLAN 1 is untagged.
    pub(crate) fn tag_of(&self, port: usize, vlan: u16) -> Option<u16> {
        (self.ports[port].vlan.is_none() && vlan != 1).then_some(vlan)
    }

    /// Records the port of a sender, unless the address table is full of recent addresses.
    pub(crate) fn learn(&mut self, now: Time, port: usize, source: [u8; 6], vlan: u16) {
        if source[0] & MULTICAST != 0 {
            return;
        }
        let learned = Learned { port, seen_at: now };
        let address = Address::new(source, vlan);
        if let Some(entry) = self.learned.get_mut(&address) {
            *entry = learned;
        } else {
            if self.learned.len() >= self.addresses_max {
                self.learned
                    .retain(|_, entry| now.ns_since(entry.seen_at) < self.age_ns);
            }
            if self.learned.len() < self.addresses_max {
                self.learned.insert(address, learned);
            }
        }
    }

    /// Returns the counters of the switch and its router.
    pub(crate) fn counters(&self) -> SwitchCounters {
        let router = self
            .router
            .as_ref()
            .map(|router| router.counters)
            .unwrap_or_default();
        SwitchCounters {
            taken: router.taken,
            originated: router.originated,
            dropped_ttl: router.ttl,
            dropped_no_route: router.no_route,
            dropped_unresolved: router.unresolved,
            dropped_mtu: router.mtu,
            frames_now: router.waiting,
            ..self.counters
        }
    }

    /// Returns the port of an address, if it was learned and has not aged out.
    pub(crate) fn port_of(&self, now: Time, address: [u8; 6], vlan: u16) -> Option<usize> {
        let learned = self.learned.get(&Address::new(address, vlan))?;
        (now.ns_since(learned.seen_at) < self.age_ns).then_some(learned.port)
    }

    /// Stores the ports through which a frame leaves in `out`: the port of its receiver, or all
    /// ports of the VLAN if the receiver is unknown. There are none if the receiver is behind the
    /// ingress port `from`, or if the address is reserved for bridges.
    pub(crate) fn route(
        &self,
        now: Time,
        from: Option<usize>,
        destination: [u8; 6],
        vlan: u16,
        out: &mut Vec<usize>,
    ) {
        out.clear();
        // Bridges do not forward pause frames, spanning tree and LLDP (IEEE 802.1Q, table 8-1).
        if destination[..5] == [0x01, 0x80, 0xc2, 0, 0] && destination[5] < 0x10 {
            return;
        }
        match self.port_of(now, destination, vlan) {
            Some(known) => out.extend((Some(known) != from).then_some(known)),
            None => {
                let carries = |port: &usize| self.ports[*port].carries(vlan);
                out.extend(
                    (0..self.ports.len())
                        .filter(|port| Some(*port) != from)
                        .filter(carries),
                );
            }
        }
    }
}
