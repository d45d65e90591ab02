//! The router of an L3 switch, for IPv4: interfaces in VLANs, ARP, static routes, and the ICMP
//! messages that users expect.
//!
//! The router handles every train that the switch receives, before the switch looks up its
//! receiver. A forwarded train keeps its bytes. The changes to its headers (addresses, time to
//! live) travel with it ([`Hop`]) and are written when it leaves the fabric.
//!
//! **Not supported**: IPv6 (bridged within its VLAN), fragmentation (packets that are too long are
//! dropped, and an ICMP error is sent if the sender forbade fragments), IP options that concern
//! routers, routing protocols, rate limits for ICMP.
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use hakaru_units::Time;

use crate::hop::Hop;
use crate::packet::Packet;
use crate::router_frames::{self as frames, Arp, ArpKind};
use crate::train::Train;
use hakaru_contract::fabric::RouterConfig;

/// Maximum number of frames queued for one unresolved neighbour.
const WAITING_FRAMES_MAX: u32 = 128;
/// Interval of ARP requests (RFC 1122, section 2.3.2.1, bounds their rate).
const ARP_INTERVAL: Duration = Duration::from_secs(1);
/// Number of ARP requests after which a neighbour counts as unreachable.
const ARP_REQUESTS: u32 = 3;

/// Decision on a train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The switch forwards the train within its VLAN.
    Bridge,
    /// The router consumed the train. [`Router::poll_output`] returns its output.
    Taken,
}

/// Frames that ended in the router, by cause, and frames that it originated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RouterCounters {
    pub(crate) taken: u64,
    pub(crate) originated: u64,
    pub(crate) ttl: u64,
    pub(crate) no_route: u64,
    pub(crate) unresolved: u64,
    pub(crate) mtu: u64,
    pub(crate) waiting: u64,
}

#[derive(Debug)]
pub(crate) struct Router {
    mac: [u8; 6],
    interfaces: Vec<Interface>,
    /// Routes, longest prefix first.
    routes: Vec<Route>,
    neighbours: BTreeMap<Ipv4Addr, Neighbour>,
    neighbours_max: usize,
    /// Earliest instant at which a request to a neighbour may have to be repeated. May be too early,
    /// because an answer does not change it.
    retry_at: Option<Time>,
    output: VecDeque<(u16, Train)>,
    pub(crate) counters: RouterCounters,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    vlan: u16,
    address: Ipv4Addr,
    mtu_bytes: u32,
}

#[derive(Clone, Copy, Debug)]
struct Route {
    network: u32,
    prefix_length: u8,
    interface: usize,
    /// Next hop. `None` if the receiver itself is a neighbour.
    via: Option<Ipv4Addr>,
}

#[derive(Debug)]
enum Neighbour {
    /// The Ethernet address is known.
    Known([u8; 6]),
    /// ARP requests were sent and have not been answered.
    Resolving {
        interface: usize,
        requests: u32,
        retry_at: Time,
        waiting: Vec<Train>,
    },
}

/// Returns the network of an address: its first `prefix_length` bits, and zeros.
pub(crate) fn network(address: Ipv4Addr, prefix_length: u8) -> u32 {
    let host_bits = 32 - u32::from(prefix_length.min(32));
    // `checked_shr` returns `None` for a shift by all 32 bits, whose result is 0.
    address
        .to_bits()
        .checked_shr(host_bits)
        .unwrap_or(0)
        .checked_shl(host_bits)
        .unwrap_or(0)
}

impl Router {
    /// Creates a router from a valid configuration. `number`, that of the switch, determines the
    /// Ethernet address. The router knows up to `neighbours_max` neighbours.
    pub(crate) fn new(config: &RouterConfig, number: usize, neighbours_max: usize) -> Router {
        let mut routes = Vec::new();
        for (index, interface) in config.interfaces.iter().enumerate() {
            routes.push(Route {
                network: network(interface.address, interface.prefix_length),
                prefix_length: interface.prefix_length,
                interface: index,
                via: None,
            });
        }
        let connected = routes.clone();
        for route in &config.routes {
            let to_via = |c: &&Route| network(route.via, c.prefix_length) == c.network;
            routes.extend(connected.iter().find(to_via).map(|connected| Route {
                network: network(route.destination, route.prefix_length),
                prefix_length: route.prefix_length,
                interface: connected.interface,
                via: Some(route.via),
            }));
        }
        routes.sort_by_key(|route| core::cmp::Reverse(route.prefix_length));
        let interfaces = config.interfaces.iter().map(|interface| Interface {
            vlan: interface.vlan,
            address: interface.address,
            mtu_bytes: interface.mtu_bytes,
        });
        Router {
            // A locally administered address: "hkr" and the number of the switch.
            mac: [0x02, b'h', b'k', b'r', (number >> 8) as u8, number as u8],
            interfaces: interfaces.collect(),
            routes,
            neighbours: BTreeMap::new(),
            neighbours_max,
            retry_at: None,
            output: VecDeque::new(),
            counters: RouterCounters::default(),
        }
    }

    /// Handles a train received in `vlan`.
    pub(crate) fn handle_train(&mut self, now: Time, vlan: u16, train: &Train) -> Verdict {
        let for_router = train.destination() == self.mac;
        if let Some(arp) = frames::parse_arp(train.packet.bytes()) {
            self.handle_arp(vlan, &arp);
            // A broadcast is also forwarded to the other ports of the VLAN.
            if for_router {
                self.counters.taken += u64::from(train.count);
            }
            return if for_router {
                Verdict::Taken
            } else {
                Verdict::Bridge
            };
        }
        if !for_router {
            return Verdict::Bridge;
        }
        let Some(ip) = frames::parse_ipv4(train) else {
            self.counters.no_route += u64::from(train.count);
            return Verdict::Taken;
        };
        if self
            .interfaces
            .iter()
            .any(|own| own.address == ip.destination)
        {
            self.answer(vlan, train, &ip);
        } else {
            self.route(now, vlan, train, &ip);
        }
        Verdict::Taken
    }

    /// Handles a packet for one of the router's own addresses. Answers echo requests and consumes
    /// everything else.
    fn answer(&mut self, vlan: u16, train: &Train, ip: &frames::Ipv4) {
        self.counters.taken += u64::from(train.count);
        if let Some(bytes) = frames::echo_reply(train, ip, self.mac) {
            self.originate(vlan, bytes);
        }
    }

    /// Forwards a train by its destination, or drops it with an ICMP error.
    fn route(&mut self, now: Time, vlan: u16, train: &Train, ip: &frames::Ipv4) {
        let count = u64::from(train.count);
        if ip.ttl <= 1 {
            self.counters.ttl += count;
            return self.send_icmp_error(vlan, train, ip, frames::TIME_EXCEEDED, 0);
        }
        let to = ip.destination;
        let fits = |route: &&Route| network(to, route.prefix_length) == route.network;
        let Some(route) = self.routes.iter().find(fits).copied() else {
            self.counters.no_route += count;
            return self.send_icmp_error(vlan, train, ip, frames::NET_UNREACHABLE, 0);
        };
        let out = self.interfaces[route.interface];
        if ip.longest_bytes > out.mtu_bytes {
            self.counters.mtu += count;
            if ip.forbids_fragments {
                self.send_icmp_error(
                    vlan,
                    train,
                    ip,
                    frames::FRAGMENTATION_NEEDED,
                    out.mtu_bytes as u16,
                );
            }
            return;
        }
        self.send_to(now, route.via.unwrap_or(to), route.interface, train.clone());
    }

    /// Sends a train to a neighbour, or queues it until the neighbour's Ethernet address is known.
    fn send_to(&mut self, now: Time, next: Ipv4Addr, interface: usize, train: Train) {
        match self.neighbours.get_mut(&next) {
            Some(Neighbour::Known(mac)) => {
                let mac = *mac;
                self.forward(mac, interface, train);
            }
            Some(Neighbour::Resolving { waiting, .. }) => {
                let frames: u32 = waiting.iter().map(|train| train.count).sum();
                if frames + train.count > WAITING_FRAMES_MAX {
                    self.counters.unresolved += u64::from(train.count);
                } else {
                    self.counters.waiting += u64::from(train.count);
                    waiting.push(train);
                }
            }
            None => {
                if !self.make_room() {
                    self.counters.unresolved += u64::from(train.count);
                    return;
                }
                self.counters.waiting += u64::from(train.count);
                let retry_at = now + ARP_INTERVAL;
                self.retry_at = Some(self.retry_at.map_or(retry_at, |at| at.min(retry_at)));
                let neighbour = Neighbour::Resolving {
                    interface,
                    requests: 1,
                    retry_at,
                    waiting: vec![train],
                };
                self.neighbours.insert(next, neighbour);
                self.request_address(next, interface);
            }
        }
    }

    /// Makes room for a neighbour: forgets a known one, which is requested again when it is needed.
    /// Returns false if the table is full of unresolved ones.
    fn make_room(&mut self) -> bool {
        if self.neighbours.len() < self.neighbours_max {
            return true;
        }
        let mut known = self.neighbours.iter();
        let known = known.find(|(_, neighbour)| matches!(neighbour, Neighbour::Known(_)));
        let Some((&address, _)) = known else {
            return false;
        };
        self.neighbours.remove(&address);
        true
    }

    fn forward(&mut self, destination: [u8; 6], interface: usize, mut train: Train) {
        train.hop = Some(Hop {
            destination,
            source: self.mac,
            hops: train.hop.map_or(0, |hop| hop.hops) + 1,
        });
        self.output
            .push_back((self.interfaces[interface].vlan, train));
    }

    fn request_address(&mut self, next: Ipv4Addr, interface: usize) {
        let own = self.interfaces[interface];
        let request = frames::arp_request(self.mac, own.address, next);
        self.originate(own.vlan, request);
    }

    fn handle_arp(&mut self, vlan: u16, arp: &Arp) {
        let Some(own) = self.interfaces.iter().find(|own| own.vlan == vlan).copied() else {
            return;
        };
        let for_us = arp.target == own.address;
        // RFC 826: updates a known sender, and learns a sender that requests the router's address.
        let is_known = self.neighbours.contains_key(&arp.sender);
        if (is_known || for_us && self.make_room())
            && !arp.sender.is_unspecified()
            && arp.sender != own.address
        {
            let before = self
                .neighbours
                .insert(arp.sender, Neighbour::Known(arp.sender_mac));
            if let Some(Neighbour::Resolving {
                interface, waiting, ..
            }) = before
            {
                for train in waiting {
                    self.counters.waiting -= u64::from(train.count);
                    self.forward(arp.sender_mac, interface, train);
                }
            }
        }
        if for_us && arp.kind == ArpKind::Request {
            self.originate(vlan, frames::arp_reply(self.mac, own.address, arp));
        }
    }

    /// Sends an ICMP error to the sender of a dropped train (RFC 792), unless RFC 1812, section
    /// 4.3.2.7, forbids it.
    fn send_icmp_error(
        &mut self,
        vlan: u16,
        train: &Train,
        ip: &frames::Ipv4,
        kind_and_code: (u8, u8),
        mtu: u16,
    ) {
        let own = self.interfaces.iter().find(|own| own.vlan == vlan);
        let bytes = own.and_then(|own| {
            frames::icmp_error(train, ip, self.mac, own.address, kind_and_code, mtu)
        });
        if let Some(bytes) = bytes {
            self.originate(vlan, bytes);
        }
    }

    /// Sends a frame of the router itself.
    fn originate(&mut self, vlan: u16, bytes: Vec<u8>) {
        if let Ok(packet) = Packet::new(bytes, None, None) {
            self.counters.originated += 1;
            self.output
                .push_back((vlan, Train::whole(Arc::new(packet))));
        }
    }

    /// Returns the next train to send, and its VLAN.
    pub(crate) fn poll_output(&mut self) -> Option<(u16, Train)> {
        self.output.pop_front()
    }

    /// Returns the instant at which [`Router::handle_timeout`] has to be called next.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.retry_at
    }

    /// Returns the earliest instant at which a request has to be repeated.
    fn earliest_retry(&self) -> Option<Time> {
        let retry_at = |neighbour: &Neighbour| match neighbour {
            Neighbour::Known(_) => None,
            Neighbour::Resolving { retry_at, .. } => Some(*retry_at),
        };
        self.neighbours.values().filter_map(retry_at).min()
    }

    /// Repeats requests to neighbours that have not answered. After the last request, drops the
    /// frames queued for the neighbour.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        let due = |neighbour: &Neighbour| matches!(neighbour, Neighbour::Resolving { retry_at, .. } if *retry_at <= now);
        let unanswered: Vec<Ipv4Addr> = self
            .neighbours
            .iter()
            .filter(|(_, n)| due(n))
            .map(|(address, _)| *address)
            .collect();
        for address in unanswered {
            let Some(Neighbour::Resolving {
                interface,
                requests,
                retry_at,
                ..
            }) = self.neighbours.get_mut(&address)
            else {
                continue;
            };
            if *requests < ARP_REQUESTS {
                (*requests, *retry_at) = (*requests + 1, now + ARP_INTERVAL);
                let interface = *interface;
                self.request_address(address, interface);
            } else if let Some(Neighbour::Resolving { waiting, .. }) =
                self.neighbours.remove(&address)
            {
                self.drop_unresolved(waiting);
            }
        }
        self.retry_at = self.earliest_retry();
    }

    /// Drops the frames queued for an unreachable neighbour, with an ICMP error each.
    fn drop_unresolved(&mut self, waiting: Vec<Train>) {
        for train in waiting {
            self.counters.waiting -= u64::from(train.count);
            self.counters.unresolved += u64::from(train.count);
            // The train arrived in the VLAN of its sender's network.
            if let Some(ip) = frames::parse_ipv4(&train) {
                let route_back = self
                    .routes
                    .iter()
                    .find(|r| network(ip.source, r.prefix_length) == r.network);
                if let Some(vlan) = route_back.map(|route| self.interfaces[route.interface].vlan) {
                    self.send_icmp_error(vlan, &train, &ip, frames::HOST_UNREACHABLE, 0);
                }
            }
        }
    }
}
