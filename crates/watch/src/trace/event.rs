//! Events of TCP's tracepoints, in one form for all kernels.
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::format::{Field, Format};
use crate::tcp_state::CongestionState;

/// A supported tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracepointKind {
    /// `tcp:tcp_probe`
    Probe,
    /// `tcp:tcp_retransmit_skb`
    Retransmit,
    /// `tcp:tcp_cong_state_set`
    State,
}

impl TracepointKind {
    /// All supported tracepoints. Tracing requires the first.
    pub const ALL: [TracepointKind; 3] = [
        TracepointKind::Probe,
        TracepointKind::Retransmit,
        TracepointKind::State,
    ];

    /// Returns the tracepoint's folder below `events/` of tracefs.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            TracepointKind::Probe => "tcp/tcp_probe",
            TracepointKind::Retransmit => "tcp/tcp_retransmit_skb",
            TracepointKind::State => "tcp/tcp_cong_state_set",
        }
    }

    /// Returns the kernel's filter for events with one of these ports at either end; empty for all
    /// ports.
    #[must_use]
    pub fn filter(ports: &[u16]) -> String {
        let conditions = ports.iter().map(|p| format!("sport=={p}||dport=={p}"));
        conditions.collect::<Vec<_>>().join("||")
    }
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpEvent {
    /// Instant of the event, ns of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// The socket's own address.
    pub local: SocketAddr,
    /// The peer's address.
    pub peer: SocketAddr,
    /// The socket's cookie, if the event contains it.
    pub cookie: Option<u64>,
    /// Address of the socket in the kernel's memory: the same for all events of one socket. After
    /// its end another socket may reuse it.
    pub place: Option<u64>,
    /// Kind of the event, with its fields.
    pub kind: EventKind,
}

/// Kind of a [`TcpEvent`], with its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A segment was received.
    Probe(Probe),
    /// A segment was retransmitted.
    Retransmit,
    /// Congestion control entered a state.
    State(CongestionState),
}

/// State of the connection just before the segment was processed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// Congestion window, segments.
    pub congestion_window_segments: Option<u64>,
    /// `tcp_current_ssthresh`, segments. Unlike the threshold of `tcp_info` it is at least three
    /// quarters of the congestion window, except during loss recovery.
    pub current_threshold_segments: Option<u64>,
    /// Smoothed round-trip time, µs.
    pub rtt_us: Option<u64>,
    /// Bytes sent and not yet acknowledged.
    pub unacked_bytes: Option<u64>,
    /// Window that the peer advertises, bytes.
    pub peer_window_bytes: Option<u64>,
    /// Window advertised to the peer, bytes.
    pub receive_window_bytes: Option<u64>,
    /// Payload of the segment, bytes.
    pub data_bytes: Option<u64>,
}

/// Layouts of one kernel's tracepoints.
#[derive(Clone, Debug, Default)]
pub struct Layouts(Vec<Layout>);

#[derive(Clone, Debug)]
struct Layout {
    tracepoint: TracepointKind,
    id: u16,
    addresses: Addresses,
    cookie: Option<Field>,
    place: Option<Field>,
    window: Option<Field>,
    threshold: Option<Field>,
    rtt: Option<Field>,
    next: Option<Field>,
    unacknowledged: Option<Field>,
    peer_window: Option<Field>,
    receive_window: Option<Field>,
    data: Option<Field>,
    state: Option<Field>,
}

/// `tcp_probe` has a `struct sockaddr` for each end; the others have separate fields for IPv4 and
/// IPv6.
#[derive(Clone, Copy, Debug)]
struct Addresses {
    source: Field,
    destination: Field,
    source_port: Field,
    destination_port: Field,
    /// IPv6 fields of the other tracepoints, and the address family, which selects the pair in use.
    v6: Option<(Field, Field, Option<Field>)>,
}

impl Layouts {
    /// Adds the layout of a tracepoint. Returns `false` if it lacks the fields that identify the
    /// socket.
    pub fn add(&mut self, tracepoint: TracepointKind, format: &Format) -> bool {
        let field = |name: &str| format.field(name);
        let Some(addresses) = Addresses::of(format) else {
            return false;
        };
        self.0.push(Layout {
            tracepoint,
            id: format.id,
            addresses,
            cookie: field("sock_cookie"),
            place: field("skaddr"),
            window: field("snd_cwnd"),
            threshold: field("ssthresh"),
            rtt: field("srtt"),
            next: field("snd_nxt"),
            unacknowledged: field("snd_una"),
            peer_window: field("snd_wnd"),
            receive_window: field("rcv_wnd"),
            data: field("data_len"),
            state: field("cong_state"),
        });
        true
    }

    /// Parses a raw record. `None` for records of other tracepoints and for truncated records.
    #[must_use]
    pub fn parse(&self, at_ns: u64, raw: &[u8]) -> Option<TcpEvent> {
        let id = u16::from_ne_bytes(raw.get(..2)?.try_into().ok()?);
        let layout = self.0.iter().find(|layout| layout.id == id)?;
        let number = |field: Option<Field>| field?.number(raw);
        let (local, peer) = layout.addresses.read(raw)?;
        let kind = match layout.tracepoint {
            TracepointKind::Probe => EventKind::Probe(layout.probe(raw)),
            TracepointKind::Retransmit => EventKind::Retransmit,
            TracepointKind::State => {
                EventKind::State(CongestionState(number(layout.state)?.try_into().ok()?))
            }
        };
        Some(TcpEvent {
            at_ns,
            local,
            peer,
            cookie: number(layout.cookie),
            place: number(layout.place),
            kind,
        })
    }
}

impl Layout {
    fn probe(&self, raw: &[u8]) -> Probe {
        let number = |field: Option<Field>| field?.number(raw);
        let unacked = || {
            // Sequence numbers wrap.
            let (next, first) = (number(self.next)?, number(self.unacknowledged)?);
            Some(u64::from((next as u32).wrapping_sub(first as u32)))
        };
        Probe {
            congestion_window_segments: number(self.window),
            current_threshold_segments: number(self.threshold).filter(|t| *t < 0x7fff_ffff),
            rtt_us: number(self.rtt),
            unacked_bytes: unacked(),
            peer_window_bytes: number(self.peer_window),
            receive_window_bytes: number(self.receive_window),
            data_bytes: number(self.data),
        }
    }
}

impl Addresses {
    fn of(format: &Format) -> Option<Addresses> {
        let field = |name: &str| format.field(name);
        let source = field("saddr")?;
        let v6 = if source.size == 4 {
            Some((field("saddr_v6")?, field("daddr_v6")?, field("family")))
        } else {
            None
        };
        Some(Addresses {
            source,
            destination: field("daddr")?,
            source_port: field("sport")?,
            destination_port: field("dport")?,
            v6,
        })
    }

    fn read(&self, raw: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
        let (local, peer) = match self.v6 {
            None => (
                socket_address(self.source.bytes(raw)?)?,
                socket_address(self.destination.bytes(raw)?)?,
            ),
            Some((source, destination, family)) => {
                let is_v6 = family.and_then(|field| field.number(raw)) == Some(10);
                let ends = if is_v6 {
                    (source, destination)
                } else {
                    (self.source, self.destination)
                };
                (address(ends.0.bytes(raw)?)?, address(ends.1.bytes(raw)?)?)
            }
        };
        let port = |field: Field| u16::try_from(field.number(raw)?).ok();
        let local = SocketAddr::new(local, port(self.source_port)?);
        Some((local, SocketAddr::new(peer, port(self.destination_port)?)))
    }
}

/// Parses a `struct sockaddr_in` or `sockaddr_in6`.
fn socket_address(bytes: &[u8]) -> Option<std::net::IpAddr> {
    match u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?) {
        2 => address(bytes.get(4..8)?),
        10 => address(bytes.get(8..24)?),
        _ => None,
    }
}

fn address(bytes: &[u8]) -> Option<std::net::IpAddr> {
    match bytes.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE: &str = include_str!("../../tests/trace/tcp_probe");
    const RETRANSMIT: &str = include_str!("../../tests/trace/tcp_retransmit_skb");
    const STATE: &str = include_str!("../../tests/trace/tcp_cong_state_set");

    fn layouts() -> Layouts {
        let mut layouts = Layouts::default();
        for (kind, text) in TracepointKind::ALL
            .into_iter()
            .zip([PROBE, RETRANSMIT, STATE])
        {
            assert!(layouts.add(kind, &Format::parse(text).unwrap()));
        }
        layouts
    }

    fn put(raw: &mut [u8], text: &str, name: &str, bytes: &[u8]) {
        let field = Format::parse(text).unwrap().field(name).unwrap();
        raw[field.offset..field.offset + bytes.len()].copy_from_slice(bytes);
    }

    fn number(raw: &mut [u8], text: &str, name: &str, value: u64) {
        let field = Format::parse(text).unwrap().field(name).unwrap();
        put(raw, text, name, &value.to_le_bytes()[..field.size]);
    }

    #[cfg(target_endian = "little")]
    fn probe() -> Vec<u8> {
        let mut raw = vec![0; 140];
        number(&mut raw, PROBE, "common_type", 2273);
        put(&mut raw, PROBE, "saddr", &[2, 0, 0, 0, 10, 0, 0, 1]);
        put(&mut raw, PROBE, "daddr", &[2, 0, 0, 0, 10, 0, 0, 2]);
        for (name, value) in [
            ("sport", 3260),
            ("dport", 40_000),
            ("snd_cwnd", 10),
            ("ssthresh", 0x7fff_ffff),
            ("srtt", 20_000),
            ("snd_nxt", 5),
            ("snd_una", 0xffff_fffb),
            ("sock_cookie", 0x1_0000_0007),
            ("skaddr", 0xffff_8880_0000_1000),
        ] {
            number(&mut raw, PROBE, name, value);
        }
        raw
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn probe_is_read_by_the_kernels_own_layout() {
        let event = layouts().parse(77, &probe()).unwrap();
        assert_eq!(event.at_ns, 77);
        assert_eq!(event.local, "10.0.0.1:3260".parse().unwrap());
        assert_eq!(event.peer, "10.0.0.2:40000".parse().unwrap());
        assert_eq!(event.cookie, Some(0x1_0000_0007));
        assert_eq!(event.place, Some(0xffff_8880_0000_1000));
        let EventKind::Probe(probe) = event.kind else {
            panic!("{event:?}")
        };
        assert_eq!(probe.congestion_window_segments, Some(10));
        assert_eq!(probe.current_threshold_segments, None);
        assert_eq!(probe.rtt_us, Some(20_000));
        assert_eq!(probe.unacked_bytes, Some(10), "sequence numbers wrap");
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn state_is_read_with_addresses_of_either_family() {
        let mut raw = vec![0; 64];
        number(&mut raw, STATE, "common_type", 2271);
        number(&mut raw, STATE, "family", 10);
        number(&mut raw, STATE, "cong_state", 4);
        let mut loopback = [0; 16];
        loopback[15] = 1;
        put(&mut raw, STATE, "saddr_v6", &loopback);
        let event = layouts().parse(1, &raw).unwrap();
        assert_eq!(event.local, "[::1]:0".parse().unwrap());
        assert_eq!(event.cookie, None);
        assert_eq!(event.kind, EventKind::State(CongestionState::LOSS));
        number(&mut raw, STATE, "family", 2);
        put(&mut raw, STATE, "saddr", &[10, 0, 0, 9]);
        let event = layouts().parse(1, &raw).unwrap();
        assert_eq!(event.local, "10.0.0.9:0".parse().unwrap());
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn foreign_and_truncated_records_are_none() {
        let layouts = layouts();
        assert_eq!(layouts.parse(1, &[9, 9, 0, 0]), None);
        let probe = probe();
        for length in 0..68 {
            assert_eq!(layouts.parse(1, &probe[..length]), None, "{length}");
        }
        for length in 68..probe.len() {
            let _ = layouts.parse(1, &probe[..length]);
        }
    }

    #[test]
    fn filter_names_every_port_at_either_end() {
        assert_eq!(TracepointKind::filter(&[]), "");
        let two = "sport==3260||dport==3260||sport==860||dport==860";
        assert_eq!(TracepointKind::filter(&[3260, 860]), two);
    }
}
