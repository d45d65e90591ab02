//! `sock_diag`: requests to the kernel for TCP sockets over netlink, and its answers
//! (include/uapi/linux/inet_diag.h, netlink.h).
//!
//! This file emits requests and parses answers; the shell sends and receives. There are two kinds
//! of request. A *dump* returns the sockets of a family with given ports; the kernel filters with a
//! small program in the request. A request by addresses and cookie returns a single socket, and
//! many of them fit in one message. For few sockets that is far cheaper, because a dump walks the
//! table of all connections of the machine.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::tcp_info::TcpInfo;

const HEADER: usize = 16;
const REQUEST: usize = 56;
const MESSAGE: usize = 72;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_DUMP: u16 = 0x300;
/// The table changed during the dump: sockets may be missing or duplicated.
const NLM_F_DUMP_INTR: u16 = 0x10;

const IPPROTO_TCP: u8 = 6;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// Attributes of an answer, each requested by bit `number - 1` of the request.
const ATTRIBUTE_INFO: u16 = 2;
const ATTRIBUTE_CONGESTION: u16 = 4;
const ATTRIBUTE_MEMORY: u16 = 7;
const WANTED: u8 =
    1 << (ATTRIBUTE_INFO - 1) | 1 << (ATTRIBUTE_CONGESTION - 1) | 1 << (ATTRIBUTE_MEMORY - 1);

/// States in which a connection can have data in flight: not LISTEN, TIME_WAIT, SYN_RECEIVED,
/// CLOSED.
const STATES: u32 = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11;

const REQUEST_BYTECODE: u16 = 1;
const SOURCE_EQUALS: u8 = 11;
const DESTINATION_EQUALS: u8 = 12;
const JUMP: u8 = 1;

/// Largest number of ports in a request. The program allows more, but a tracepoint's filter is
/// limited to a page of text.
pub const PORTS_MAX: usize = 64;

/// Address family of sockets. Each family takes a request of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6, including sockets that reach IPv4 through mapped addresses.
    V6,
}

impl Family {
    fn number(self) -> u8 {
        match self {
            Family::V4 => AF_INET,
            Family::V6 => AF_INET6,
        }
    }
}

/// Identity of a socket: its addresses as the kernel returned them, and its cookie, which is unique
/// until the next boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketId {
    family: u8,
    /// `struct inet_diag_sockid`.
    id: [u8; 48],
}

impl SocketId {
    /// Creates an identity from two addresses of one family and a cookie. `interface`: index of the
    /// interface that the socket is bound to, 0 for none.
    #[must_use]
    pub fn new(local: SocketAddr, peer: SocketAddr, interface: u32, cookie: u64) -> SocketId {
        let mut id = [0; 48];
        let (family, source) = octets(local.ip());
        let (_, destination) = octets(peer.ip());
        id[..2].copy_from_slice(&local.port().to_be_bytes());
        id[2..4].copy_from_slice(&peer.port().to_be_bytes());
        id[4..20].copy_from_slice(&source);
        id[20..36].copy_from_slice(&destination);
        id[36..40].copy_from_slice(&interface.to_ne_bytes());
        id[40..44].copy_from_slice(&(cookie as u32).to_ne_bytes());
        id[44..48].copy_from_slice(&((cookie >> 32) as u32).to_ne_bytes());
        SocketId { family, id }
    }

    /// Returns the local address.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.address(0, 4)
    }

    /// Returns the peer's address.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.address(2, 20)
    }

    /// Returns the cookie: unique among all sockets of the machine until it reboots, in all
    /// namespaces.
    #[must_use]
    pub fn cookie(&self) -> u64 {
        let half = |at: usize| u64::from(native_u32(&self.id, at).expect("within 48 bytes"));
        half(40) | half(44) << 32
    }

    fn address(&self, port: usize, at: usize) -> SocketAddr {
        let port = u16::from_be_bytes([self.id[port], self.id[port + 1]]);
        let octets: [u8; 16] = self.id[at..at + 16].try_into().expect("16 bytes");
        let ip = if self.family == AF_INET {
            IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]))
        } else {
            // A mapped address is reported as IPv4.
            Ipv6Addr::from(octets).to_canonical()
        };
        SocketAddr::new(ip, port)
    }
}

fn octets(ip: IpAddr) -> (u8, [u8; 16]) {
    match ip {
        IpAddr::V4(v4) => {
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&v4.octets());
            (AF_INET, octets)
        }
        IpAddr::V6(v6) => (AF_INET6, v6.octets()),
    }
}

/// Appends the request for one socket, answered by one [`Answer::Socket`] or [`Answer::Refused`]
/// under `sequence`.
pub fn emit_request_of(socket: &SocketId, sequence: u32, out: &mut Vec<u8>) {
    emit_header(HEADER + REQUEST, NLM_F_REQUEST, sequence, out);
    out.extend_from_slice(&[socket.family, IPPROTO_TCP, WANTED, 0]);
    out.extend_from_slice(&u32::MAX.to_ne_bytes());
    out.extend_from_slice(&socket.id);
}

/// Appends the request for all sockets of a family that have one of `ports` at either end (all
/// sockets if `ports` is empty). It is answered by any number of [`Answer::Socket`] and one
/// [`Answer::Done`] or [`Answer::Refused`].
///
/// # Panics
/// If there are more than [`PORTS_MAX`] ports.
pub fn emit_dump(family: Family, ports: &[u16], sequence: u32, out: &mut Vec<u8>) {
    assert!(
        ports.len() <= PORTS_MAX,
        "the configuration was checked for its number of ports"
    );
    let program = port_filter(ports);
    let attribute = if program.is_empty() {
        0
    } else {
        4 + program.len()
    };
    emit_header(
        HEADER + REQUEST + attribute,
        NLM_F_REQUEST | NLM_F_DUMP,
        sequence,
        out,
    );
    out.extend_from_slice(&[family.number(), IPPROTO_TCP, WANTED, 0]);
    out.extend_from_slice(&STATES.to_ne_bytes());
    out.extend_from_slice(&[0; 48]);
    if attribute > 0 {
        out.extend_from_slice(&(attribute as u16).to_ne_bytes());
        out.extend_from_slice(&REQUEST_BYTECODE.to_ne_bytes());
        out.extend_from_slice(&program);
    }
}

fn emit_header(length: usize, flags: u16, sequence: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&(length as u32).to_ne_bytes());
    out.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    out.extend_from_slice(&flags.to_ne_bytes());
    out.extend_from_slice(&sequence.to_ne_bytes());
    out.extend_from_slice(&0_u32.to_ne_bytes());
}

/// Emits the program "source or destination port is one of these" for `inet_diag_bc_run`.
/// Instructions have 4 bytes: code, jump if true, jump if false; a comparison has the port in a
/// second instruction. The kernel accepts a socket if the program ends exactly at its end, and
/// rejects it if the program ends beyond. Each comparison but the last is followed by a jump to the
/// end, which is executed if the comparison was true.
fn port_filter(ports: &[u16]) -> Vec<u8> {
    let comparisons: Vec<(u8, u16)> = ports
        .iter()
        .flat_map(|port| [(SOURCE_EQUALS, *port), (DESTINATION_EQUALS, *port)])
        .collect();
    let mut program = Vec::new();
    let mut instruction = |code: u8, yes: u8, no: u16| {
        program.extend_from_slice(&[code, yes]);
        program.extend_from_slice(&no.to_ne_bytes());
    };
    for (i, (code, port)) in comparisons.iter().enumerate() {
        let after = comparisons.len() - 1 - i;
        // Skips the jump that follows. After the last comparison this is beyond the end: rejected.
        instruction(*code, 8, 12);
        instruction(0, 0, *port);
        if after > 0 {
            // Length of the jump and the rest: 12 bytes per comparison, 8 for the last.
            instruction(JUMP, 4, (4 + 12 * after - 4) as u16);
        }
    }
    program
}

/// The kernel's answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A socket.
    Socket(Box<Socket>),
    /// End of a dump. `interrupted`: sockets were added or removed meanwhile, so some may be
    /// missing.
    Done {
        /// Whether sockets were added or removed during the dump.
        interrupted: bool,
    },
    /// Refusal with an errno: 2 (ENOENT) if the requested socket no longer exists.
    Refused(i32),
}

/// State of a socket at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Socket {
    /// Identity of the socket.
    pub id: SocketId,
    /// Bytes received and not yet read by the application.
    pub receive_queue_bytes: u32,
    /// Bytes written by the application and not yet acknowledged by the peer, sent or not.
    pub send_queue_bytes: u32,
    /// State of TCP; fields that the kernel lacks are `None`.
    pub info: TcpInfo,
    /// Memory of its buffers (Linux 2.6.38).
    pub memory: Option<Memory>,
    /// Name of its congestion control.
    pub congestion_control: Option<String>,
}

/// `SK_MEMINFO`: memory used by a socket's buffers, with overhead, and its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Memory of received data, bytes.
    pub receive_bytes: u32,
    /// Limit of it (`SO_RCVBUF` as the kernel counts).
    pub receive_limit_bytes: u32,
    /// Memory of data to be sent, bytes.
    pub send_bytes: u32,
    /// Limit of it (`SO_SNDBUF` as the kernel counts).
    pub send_limit_bytes: u32,
    /// Segments dropped for lack of memory (Linux 4.7).
    pub drops: Option<u32>,
}

/// Iterator over the messages of a datagram. A truncated message or one of another kind ends it.
pub struct Answers<'a> {
    rest: &'a [u8],
}

/// Parses the answers in a datagram, each with the sequence number of its request.
#[must_use]
pub fn answers(datagram: &[u8]) -> Answers<'_> {
    Answers { rest: datagram }
}

impl Iterator for Answers<'_> {
    type Item = (u32, Answer);

    fn next(&mut self) -> Option<(u32, Answer)> {
        loop {
            let length = native_u32(self.rest, 0)? as usize;
            let (kind, flags) = (native_u16(self.rest, 4)?, native_u16(self.rest, 6)?);
            let sequence = native_u32(self.rest, 8)?;
            let body = self.rest.get(HEADER..length)?;
            self.rest = self
                .rest
                .get(length.next_multiple_of(4)..)
                .unwrap_or_default();
            let answer = match kind {
                NLMSG_DONE => Some(Answer::Done {
                    interrupted: flags & NLM_F_DUMP_INTR != 0,
                }),
                NLMSG_ERROR => {
                    native_u32(body, 0).map(|code| Answer::Refused((code as i32).wrapping_neg()))
                }
                SOCK_DIAG_BY_FAMILY => {
                    parse_socket(body).map(|socket| Answer::Socket(Box::new(socket)))
                }
                _ => None,
            };
            // An unknown answer is skipped.
            if let Some(answer) = answer {
                return Some((sequence, answer));
            }
        }
    }
}

/// `struct inet_diag_msg` and the attributes behind it.
fn parse_socket(body: &[u8]) -> Option<Socket> {
    let head = body.get(..MESSAGE)?;
    let family = head[0];
    if family != AF_INET && family != AF_INET6 {
        return None;
    }
    let mut socket = Socket {
        id: SocketId {
            family,
            id: head[4..52].try_into().expect("48 bytes"),
        },
        receive_queue_bytes: native_u32(head, 56)?,
        send_queue_bytes: native_u32(head, 60)?,
        info: TcpInfo::default(),
        memory: None,
        congestion_control: None,
    };
    let mut rest = &body[MESSAGE..];
    while let Some(length) = native_u16(rest, 0).map(usize::from) {
        let (Some(kind), Some(value)) = (native_u16(rest, 2), rest.get(4..length)) else {
            break;
        };
        match kind {
            ATTRIBUTE_INFO => socket.info = TcpInfo::parse(value),
            ATTRIBUTE_MEMORY => socket.memory = parse_memory(value),
            ATTRIBUTE_CONGESTION => socket.congestion_control = parse_name(value),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(socket)
}

fn parse_memory(value: &[u8]) -> Option<Memory> {
    let at = |i: usize| native_u32(value, 4 * i);
    Some(Memory {
        receive_bytes: at(0)?,
        receive_limit_bytes: at(1)?,
        send_limit_bytes: at(3)?,
        // All queued data; the second field counts only data passed down and not freed.
        send_bytes: at(5)?,
        drops: at(8),
    })
}

fn parse_name(value: &[u8]) -> Option<String> {
    let name = value.split(|byte| *byte == 0).next()?;
    let text = std::str::from_utf8(name).ok()?;
    (!text.is_empty()).then(|| text.to_owned())
}

fn native_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn native_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program as `inet_diag_bc_run` does (net/ipv4/inet_diag.c), for the instructions used
    /// here.
    fn takes(program: &[u8], source: u16, destination: u16) -> bool {
        let (mut at, mut left) = (0_usize, program.len() as i64);
        while left > 0 {
            let no = i64::from(native_u16(program, at + 2).unwrap());
            let port = native_u16(program, at + 6);
            let held = match program[at] {
                SOURCE_EQUALS => port == Some(source),
                DESTINATION_EQUALS => port == Some(destination),
                JUMP => false,
                other => panic!("instruction {other}"),
            };
            let step = if held { i64::from(program[at + 1]) } else { no };
            (at, left) = (at + step as usize, left - step);
        }
        left == 0
    }

    #[test]
    fn filter_takes_sockets_with_a_wanted_port_at_either_end() {
        for ports in [&[3260][..], &[3260, 860], &[1, 2, 3, 4, 5]] {
            let program = port_filter(ports);
            for port in ports {
                assert!(takes(&program, *port, 50_000), "{ports:?} {port}");
                assert!(takes(&program, 50_000, *port), "{ports:?} {port}");
            }
            assert!(!takes(&program, 50_000, 50_001), "{ports:?}");
        }
        assert!(port_filter(&[]).is_empty());
    }

    #[test]
    fn request_names_a_socket_as_the_answer_did() {
        let local = "[::1]:3260".parse().unwrap();
        let peer = "[fd00::2]:40000".parse().unwrap();
        let id = SocketId::new(local, peer, 7, 0x1234_5678_9abc_def0);
        assert_eq!((id.local(), id.peer()), (local, peer));
        assert_eq!(id.cookie(), 0x1234_5678_9abc_def0);
        let mut request = Vec::new();
        emit_request_of(&id, 5, &mut request);
        assert_eq!(request.len(), 72);
        assert_eq!(native_u32(&request, 0), Some(72));
        assert_eq!(request[24..], id.id);
    }

    #[test]
    fn mapped_addresses_are_reported_as_ipv4() {
        let id = SocketId::new(
            "[::ffff:10.0.0.1]:3260".parse().unwrap(),
            "[::ffff:10.0.0.2]:1".parse().unwrap(),
            0,
            1,
        );
        assert_eq!(id.local(), "10.0.0.1:3260".parse().unwrap());
    }

    fn message(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        emit_header(HEADER + body.len(), 0, sequence, &mut out);
        out[4..6].copy_from_slice(&kind.to_ne_bytes());
        out.extend_from_slice(body);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::from(((4 + value.len()) as u16).to_ne_bytes());
        out.extend_from_slice(&kind.to_ne_bytes());
        out.extend_from_slice(value);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    fn body() -> Vec<u8> {
        let local = "10.0.0.1:3260".parse().unwrap();
        let id = SocketId::new(local, "10.0.0.2:40000".parse().unwrap(), 0, 9);
        let mut body = vec![AF_INET, 1, 0, 0];
        body.extend_from_slice(&id.id);
        for number in [0_u32, 11, 22, 0, 0] {
            body.extend_from_slice(&number.to_ne_bytes());
        }
        body.extend(attribute(ATTRIBUTE_CONGESTION, b"cubic\0"));
        body.extend(attribute(99, &[1, 2, 3]));
        let memory = [1_u32, 2, 3, 4, 5, 6, 7, 8, 9];
        let memory: Vec<u8> = memory.iter().flat_map(|n| n.to_ne_bytes()).collect();
        body.extend(attribute(ATTRIBUTE_MEMORY, &memory));
        body.extend(attribute(ATTRIBUTE_INFO, &[1; 104]));
        body
    }

    #[test]
    fn datagram_of_several_messages_is_read_in_order() {
        let mut datagram = message(SOCK_DIAG_BY_FAMILY, 3, &body());
        datagram.extend(message(77, 3, &[0; 8]));
        datagram.extend(message(NLMSG_ERROR, 4, &(-2_i32).to_ne_bytes()));
        datagram.extend(message(NLMSG_DONE, 5, &[0; 4]));
        let read: Vec<(u32, Answer)> = answers(&datagram).collect();
        let (3, Answer::Socket(socket)) = &read[0] else {
            panic!("{read:?}");
        };
        assert_eq!(socket.id.local(), "10.0.0.1:3260".parse().unwrap());
        assert_eq!(socket.id.cookie(), 9);
        assert_eq!(
            (socket.receive_queue_bytes, socket.send_queue_bytes),
            (11, 22)
        );
        assert_eq!(socket.congestion_control.as_deref(), Some("cubic"));
        let memory = socket.memory.unwrap();
        assert_eq!(
            (memory.send_bytes, memory.send_limit_bytes, memory.drops),
            (6, 4, Some(9))
        );
        assert_eq!(socket.info.congestion_window_segments, Some(0x0101_0101));
        assert_eq!(socket.info.acked_bytes, None);
        assert_eq!(read[1], (4, Answer::Refused(2)));
        assert_eq!(read[2], (5, Answer::Done { interrupted: false }));
        assert_eq!(read.len(), 3);
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let datagram = message(SOCK_DIAG_BY_FAMILY, 3, &body());
        for length in 0..datagram.len() {
            let _ = answers(&datagram[..length]).count();
        }
        // Sets every byte to the values that are hardest to handle as lengths.
        for at in 0..datagram.len() {
            for value in [0, 1, 3, 0x7f, 0xff] {
                let mut bad = datagram.clone();
                bad[at] = value;
                // A message takes 16 bytes at least.
                assert!(answers(&bad).count() <= datagram.len() / HEADER);
            }
        }
    }
}
