//! An L3 switch with the frames that hosts would send: ARP, forwarding, ICMP.
use std::net::Ipv4Addr;
use std::time::Duration;

use crate::net::*;
use hakaru_contract::fabric::{End, FabricConfig, LinkConfig};
use hakaru_fabric::{Fabric, Packet, Segmentation, SwitchCounters};
use hakaru_units::Time;

/// Ethernet address of the first switch's router.
const ROUTER: [u8; 6] = [2, b'h', b'k', b'r', 0, 0];
const UNKNOWN: [u8; 6] = [0xff; 6];

/// Returns hosts `1` (10.0.1.1, VLAN 1) and `2` (10.0.2.2, VLAN 2) on an L3 switch, which has .254
/// in both networks. 10.9.0.0/16 is behind host 2.
fn routed(mtu_bytes: u32) -> FabricConfig {
    let mut config: FabricConfig = serde_json::from_value(serde_json::json!({
        "switches": [{"name": "s", "router": {
            "interfaces": [
                {"vlan": 1, "address": "10.0.1.254", "prefix_length": 24},
                {"vlan": 2, "address": "10.0.2.254", "prefix_length": 24, "mtu_bytes": mtu_bytes},
            ],
            "routes": [{"destination": "10.9.0.0", "prefix_length": 16, "via": "10.0.2.2"}],
        }}],
        "links": [],
    }))
    .unwrap();
    for (name, vlan) in [("1", 1), ("2", 2)] {
        config.links.push(LinkConfig {
            b: End::Switch {
                name: "s".into(),
                vlan: Some(vlan),
                allowed: None,
            },
            ..host(name, "s", rate(GIGABIT), rate(GIGABIT))
        });
    }
    config
}

fn sum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|two| u32::from(two[0]) << 8 | u32::from(*two.get(1).unwrap_or(&0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Builds an IPv4 packet from host 1 that forbids fragments, with its header checksum.
fn ipv4(to_mac: [u8; 6], to: &str, ttl: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(to_mac);
    bytes.extend(mac(1));
    bytes.extend([0x08, 0, 0x45, 0]);
    bytes.extend(((20 + payload.len()) as u16).to_be_bytes());
    bytes.extend([0, 7, 0x40, 0, ttl, protocol, 0, 0, 10, 0, 1, 1]);
    bytes.extend(to.parse::<Ipv4Addr>().unwrap().octets());
    let seal = !sum(&bytes[14..34]);
    bytes[24..26].copy_from_slice(&seal.to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn arp(operation: u8, from: (u8, &str), to: ([u8; 6], &str)) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(to.0);
    bytes.extend(mac(from.0));
    bytes.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, operation]);
    bytes.extend(mac(from.0));
    bytes.extend(from.1.parse::<Ipv4Addr>().unwrap().octets());
    bytes.extend([0; 6]);
    bytes.extend(to.1.parse::<Ipv4Addr>().unwrap().octets());
    bytes
}

/// A fabric and the current instant.
struct Net {
    fabric: Fabric,
    now: Time,
}

impl Net {
    fn new(mtu_bytes: u32) -> Net {
        let fabric = Fabric::new(&routed(mtu_bytes)).unwrap();
        Net {
            fabric,
            now: Time::ZERO,
        }
    }

    /// Sends a frame. Returns the frames that leave within 10 ms: port and bytes.
    fn exchange(&mut self, port: usize, bytes: Vec<u8>) -> Vec<(usize, Vec<u8>)> {
        self.exchange_packet(port, Packet::new(bytes, None, None).unwrap())
    }

    fn exchange_packet(&mut self, port: usize, packet: Packet) -> Vec<(usize, Vec<u8>)> {
        self.fabric.handle_frame(self.now, port, packet);
        self.now += Duration::from_millis(10);
        self.fabric.handle_timeout(self.now);
        self.outcome()
    }

    fn outcome(&mut self) -> Vec<(usize, Vec<u8>)> {
        let mut seen = Vec::new();
        for port in 0..2 {
            while let Some(out) = self.fabric.poll_frame(port, self.now) {
                seen.push((port, bytes_of(&out)));
            }
        }
        assert_conserved(&mut self.fabric);
        seen
    }

    fn switch(&self) -> SwitchCounters {
        self.fabric.switch_counters().next().unwrap().1
    }
}

/// Returns a fabric whose router has resolved both hosts.
fn resolved_net(mtu_bytes: u32) -> Net {
    let mut net = Net::new(mtu_bytes);
    for (n, own, router) in [(1, "10.0.1.1", "10.0.1.254"), (2, "10.0.2.2", "10.0.2.254")] {
        let seen = net.exchange(usize::from(n) - 1, arp(1, (n, own), (UNKNOWN, router)));
        let (port, reply) = &seen[0];
        assert_eq!((seen.len(), *port), (1, usize::from(n) - 1));
        assert_eq!(
            (&reply[..6], &reply[6..12], reply[21]),
            (&mac(n)[..], &ROUTER[..], 2)
        );
        assert_eq!(reply[28..32], router.parse::<Ipv4Addr>().unwrap().octets());
    }
    net
}

#[test]
fn a_packet_for_another_network_leaves_one_hop_older_with_its_checksum_right() {
    let mut net = resolved_net(1500);
    // The first receiver is a neighbour, the second is behind a static route. Both are reached
    // through host 2.
    for to in ["10.0.2.2", "10.9.8.7"] {
        let seen = net.exchange(0, ipv4(ROUTER, to, 64, 17, b"payload!"));
        let (port, frame) = &seen[0];
        assert_eq!((seen.len(), *port), (1, 1), "{to}");
        assert_eq!(
            (&frame[..6], &frame[6..12], frame[22]),
            (&mac(2)[..], &ROUTER[..], 63)
        );
        assert_eq!(sum(&frame[14..34]), 0xffff);
        assert_eq!(&frame[34..], b"payload!");
    }
}

#[test]
fn a_super_frame_is_routed_whole() {
    let mut net = resolved_net(1500);
    let mut bytes = ipv4(ROUTER, "10.0.2.2", 64, 6, &vec![0; 20 + 3000]);
    bytes[46] = 5 << 4;
    let cut = Segmentation {
        header_bytes: 54,
        payload_bytes: 1460,
    };
    let packet = Packet::new(bytes, Some(cut), Some((34, 16))).unwrap();
    net.exchange_packet(0, packet);
    let down = counters(&mut net.fabric, "2/b-a");
    // The ARP reply, and three frames.
    assert_eq!((down.frames_out, down.drops.all()), (3 + 1, 0));
}

#[test]
fn a_full_frame_is_routed_over_a_trunk_with_a_tag_that_the_packet_lacks() {
    // The hosts are on another switch; the router is behind a trunk.
    let mut config = routed(1500);
    config.switches.push(switch("e"));
    for link in &mut config.links {
        if let End::Switch { name, .. } = &mut link.b {
            *name = "e".into();
        }
    }
    let trunk = |name: &str| End::Switch {
        name: name.into(),
        vlan: None,
        allowed: Some(vec![1, 2]),
    };
    config.links.push(LinkConfig {
        name: "trunk".into(),
        a: trunk("e"),
        b: trunk("s"),
        ..host("x", "s", rate(GIGABIT), rate(GIGABIT))
    });
    let mut net = Net {
        fabric: Fabric::new(&config).unwrap(),
        now: Time::ZERO,
    };
    // From host 2 (tagged on the trunk) to host 1 (untagged on the trunk).
    net.exchange(0, arp(1, (1, "10.0.1.1"), (UNKNOWN, "10.0.1.254")));
    net.exchange(1, arp(1, (2, "10.0.2.2"), (UNKNOWN, "10.0.2.254")));
    let before = counters(&mut net.fabric, "trunk/a-b").bytes_out;
    let seen = net.exchange(1, ipv4(ROUTER, "10.0.1.1", 64, 17, &[0; 1480]));
    assert_eq!((seen.len(), seen[0].0), (1, 0));
    assert_eq!(net.switch().dropped_mtu, 0);
    let up = counters(&mut net.fabric, "trunk/a-b");
    assert_eq!(up.bytes_out - before, 1518 + 4, "the frame has a tag");
    assert_eq!(counters(&mut net.fabric, "1/b-a").drops.all(), 0);
}

#[test]
fn packets_to_an_unresolved_neighbour_wait_for_its_arp_reply() {
    let mut net = Net::new(1500);
    let seen = net.exchange(0, ipv4(ROUTER, "10.0.2.2", 64, 17, b"first"));
    let (port, request) = &seen[0];
    assert_eq!(
        (seen.len(), *port),
        (1, 1),
        "one ARP request, in the right VLAN"
    );
    assert_eq!((&request[..6], request[21]), (&UNKNOWN[..], 1));
    assert_eq!(request[38..42], [10, 0, 2, 2]);
    let answer = arp(2, (2, "10.0.2.2"), (ROUTER, "10.0.2.254"));
    let seen = net.exchange(1, answer);
    assert_eq!(seen.len(), 1);
    assert_eq!(&seen[0].1[34..], b"first");
}

#[test]
fn a_router_with_a_full_table_forgets_neighbours_and_asks_for_them_again() {
    let mut config = routed(1500);
    config.switches[0].addresses_max = 2;
    let mut net = Net {
        fabric: Fabric::new(&config).unwrap(),
        now: Time::ZERO,
    };
    for host in 1..=100 {
        let own = format!("10.0.2.{host}");
        net.exchange(1, arp(1, (2, &own), (UNKNOWN, "10.0.2.254")));
    }
    let asks = |net: &mut Net, host: u8| {
        let to = format!("10.0.2.{host}");
        let seen = net.exchange(0, ipv4(ROUTER, &to, 64, 17, b"hello"));
        seen.iter().any(|(_, bytes)| bytes[12..14] == [0x08, 0x06])
    };
    assert!(!asks(&mut net, 100), "one of the last two senders");
    assert!(asks(&mut net, 1) && asks(&mut net, 50));
    // Both places are taken by neighbours that have not answered yet.
    assert!(!asks(&mut net, 60));
}

#[test]
fn a_neighbour_that_never_answers_is_unreachable() {
    let mut net = Net::new(1500);
    net.exchange(0, ipv4(ROUTER, "10.0.2.9", 64, 17, b"lost"));
    let mut seen = Vec::new();
    while let Some(at) = net.fabric.poll_timeout() {
        net.fabric.handle_timeout(at);
        seen.extend(net.outcome());
        assert!(at < Time(10_000_000_000), "the router stops waiting");
    }
    let requests = seen.iter().filter(|(port, _)| *port == 1).count();
    let errors: Vec<_> = seen.iter().filter(|(port, _)| *port == 0).collect();
    assert_eq!(
        (requests, errors.len()),
        (2, 1),
        "two more ARP requests, one ICMP error"
    );
    assert_eq!(errors[0].1[34..36], [3, 1]);
    let switch = net.switch();
    assert_eq!((switch.dropped_unresolved, switch.frames_now), (1, 0));
}

/// Sends a frame and returns the ICMP error that it causes, after checking its checksums: type,
/// code, and the rest.
fn icmp_error(net: &mut Net, bytes: Vec<u8>) -> (u8, u8, Vec<u8>) {
    let seen = net.exchange(0, bytes);
    let (port, frame) = &seen[0];
    assert_eq!((seen.len(), *port, frame[23]), (1, 0, 1));
    assert_eq!(
        (&frame[..6], &frame[26..30]),
        (&mac(1)[..], &[10, 0, 1, 254][..])
    );
    assert_eq!((sum(&frame[14..34]), sum(&frame[34..])), (0xffff, 0xffff));
    (frame[34], frame[35], frame[36..].to_vec())
}

#[test]
fn the_sender_receives_an_icmp_error_for_a_dropped_packet() {
    let mut net = resolved_net(1000);
    let error_to = |net: &mut Net, to: &str, ttl, bytes: usize| {
        let sent = ipv4(ROUTER, to, ttl, 17, &vec![7; bytes]);
        let (kind, code, rest) = icmp_error(net, sent.clone());
        assert_eq!(
            rest[6..34],
            sent[14..42],
            "the error quotes the packet that was sent"
        );
        (kind, code, u16::from_be_bytes([rest[4], rest[5]]))
    };
    assert_eq!(
        error_to(&mut net, "10.0.2.2", 1, 100),
        (11, 0, 0),
        "time to live"
    );
    assert_eq!(
        error_to(&mut net, "10.77.0.1", 64, 100),
        (3, 0, 0),
        "no route"
    );
    assert_eq!(
        error_to(&mut net, "10.0.2.2", 64, 981),
        (3, 4, 1000),
        "too long"
    );
    let seen = net.exchange(0, ipv4(ROUTER, "10.0.2.2", 64, 17, &[7; 980]));
    assert_eq!(seen[0].0, 1, "the packet is just short enough");
    let c = net.switch();
    assert_eq!(
        (c.dropped_ttl, c.dropped_no_route, c.dropped_mtu),
        (1, 1, 1)
    );
}

#[test]
fn icmp_errors_for_a_super_frame_quote_its_frames() {
    let mut net = resolved_net(1000);
    let mut bytes = ipv4(ROUTER, "10.0.2.2", 64, 6, &vec![0; 20 + 2920]);
    bytes[38..42].copy_from_slice(&5000_u32.to_be_bytes());
    bytes[46] = 5 << 4;
    let cut = Segmentation {
        header_bytes: 54,
        payload_bytes: 1460,
    };
    let packet = Packet::new(bytes, Some(cut), Some((34, 16))).unwrap();
    let seen = net.exchange_packet(0, packet);
    let sequences: Vec<u32> = seen
        .iter()
        .map(|(_, frame)| {
            assert_eq!(
                frame[44..46],
                1500_u16.to_be_bytes(),
                "total length of a frame"
            );
            u32::from_be_bytes(frame[66..70].try_into().unwrap())
        })
        .collect();
    // At 1 Gbit/s a train is a single frame.
    assert_eq!(sequences, [5000, 6460]);
}

#[test]
fn a_router_answers_echoes_to_each_of_its_addresses_and_sends_no_error_about_an_error() {
    let mut net = resolved_net(1500);
    let mut echo = vec![8, 0, 0, 0, 0, 1, 0, 2];
    echo.extend(b"are you there");
    let seal = !sum(&echo);
    echo[2..4].copy_from_slice(&seal.to_be_bytes());
    for to in ["10.0.1.254", "10.0.2.254"] {
        let seen = net.exchange(0, ipv4(ROUTER, to, 64, 1, &echo));
        let frame = &seen[0].1;
        assert_eq!((frame[34], sum(&frame[34..])), (0, 0xffff));
        assert_eq!(&frame[38..], &echo[4..]);
        assert_eq!(frame[26..30], to.parse::<Ipv4Addr>().unwrap().octets());
    }
    let unreachable = [3, 1, 0xfc, 0xfe, 0, 0, 0, 0];
    let sent = ipv4(ROUTER, "10.77.0.1", 64, 1, &unreachable);
    assert!(net.exchange(0, sent).is_empty());
}

#[test]
fn packets_not_addressed_to_the_router_stay_in_their_vlan() {
    let mut net = resolved_net(1500);
    let sent = ipv4(mac(2), "10.0.2.2", 64, 17, b"direct");
    assert!(net.exchange(0, sent).is_empty());
    let c = net.switch();
    assert_eq!(
        c.dropped_filtered,
        2 + 1,
        "no other host of the VLAN received the ARP requests"
    );
}

#[test]
fn invalid_routers_are_refused_with_a_reason() {
    let message = |change: &dyn Fn(&mut hakaru_contract::fabric::RouterConfig)| {
        let mut config = routed(1500);
        change(config.switches[0].router.as_mut().unwrap());
        Fabric::new(&config).map(|_| ()).unwrap_err().to_string()
    };
    assert!(message(&|r| r.interfaces.clear()).contains("1 to 256"));
    assert!(message(&|r| r.interfaces[1].vlan = 1).contains("one address in each VLAN"));
    assert!(message(&|r| r.interfaces[1].prefix_length = 8).contains("overlaps"));
    assert!(message(&|r| r.routes[0].via = Ipv4Addr::new(1, 1, 1, 1)).contains("no interface"));
    assert!(message(&|r| r.routes[0].prefix_length = 33).contains("0 to 32"));
}
