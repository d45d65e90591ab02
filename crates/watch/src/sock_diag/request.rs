//! Requests for one socket, or for all sockets with given ports.
use super::netlink::{ATTRIBUTE_CONGESTION, ATTRIBUTE_INFO, ATTRIBUTE_MEMORY, HEADER, emit_header};
use super::socket_id::{AF_INET, AF_INET6, SocketId};

/// Length of `struct inet_diag_req_v2`, bytes.
const REQUEST: usize = 56;

const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_DUMP: u16 = 0x300;

const IPPROTO_TCP: u8 = 6;

/// Bits of the requested attributes.
const ATTRIBUTES: u8 =
    1 << (ATTRIBUTE_INFO - 1) | 1 << (ATTRIBUTE_CONGESTION - 1) | 1 << (ATTRIBUTE_MEMORY - 1);

/// States in which a connection can have data in flight: not LISTEN, TIME_WAIT, SYN_RECEIVED,
/// CLOSED.
const STATES: u32 = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11;

const REQUEST_BYTECODE: u16 = 1;
const SOURCE_EQUALS: u8 = 11;
const DESTINATION_EQUALS: u8 = 12;
const JUMP: u8 = 1;

/// Maximum number of ports in a request. The program allows more, but a tracepoint's filter is
/// limited to a page of text.
pub const PORTS_MAX: usize = 64;

/// Address family of sockets. Each family needs a separate request.
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

/// Appends the request for one socket, answered by one [`super::Answer::Socket`] or
/// [`super::Answer::Refused`] under `sequence`.
pub fn emit_request_of(socket: &SocketId, sequence: u32, out: &mut Vec<u8>) {
    emit_header(HEADER + REQUEST, NLM_F_REQUEST, sequence, out);
    out.extend_from_slice(&[socket.family, IPPROTO_TCP, ATTRIBUTES, 0]);
    out.extend_from_slice(&u32::MAX.to_ne_bytes());
    out.extend_from_slice(&socket.id);
}

/// Appends the request for all sockets of a family that have one of `ports` at either end (all
/// sockets if `ports` is empty). It is answered by any number of [`super::Answer::Socket`] and one
/// [`super::Answer::Done`] or [`super::Answer::Refused`].
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
    out.extend_from_slice(&[family.number(), IPPROTO_TCP, ATTRIBUTES, 0]);
    out.extend_from_slice(&STATES.to_ne_bytes());
    out.extend_from_slice(&[0; 48]);
    if attribute > 0 {
        out.extend_from_slice(&(attribute as u16).to_ne_bytes());
        out.extend_from_slice(&REQUEST_BYTECODE.to_ne_bytes());
        out.extend_from_slice(&program);
    }
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
        // A false comparison skips the jump that follows. After the last comparison that leads
        // beyond the end, so the kernel rejects the socket.
        instruction(*code, 8, 12);
        instruction(0, 0, *port);
        if after > 0 {
            // Length of this jump and of the remaining comparisons: 12 bytes each, 8 for the last.
            instruction(JUMP, 4, (4 + 12 * after - 4) as u16);
        }
    }
    program
}

#[cfg(test)]
mod tests {
    use super::super::netlink::{native_u16, native_u32};
    use super::*;

    /// Runs a program as `inet_diag_bc_run` does (net/ipv4/inet_diag.c), for the instructions used
    /// here.
    fn accepts(program: &[u8], source: u16, destination: u16) -> bool {
        let (mut at, mut left) = (0_usize, program.len() as i64);
        while left > 0 {
            let no = i64::from(native_u16(program, at + 2).unwrap());
            let port = native_u16(program, at + 6);
            let matches = match program[at] {
                SOURCE_EQUALS => port == Some(source),
                DESTINATION_EQUALS => port == Some(destination),
                JUMP => false,
                other => panic!("instruction {other}"),
            };
            let step = if matches {
                i64::from(program[at + 1])
            } else {
                no
            };
            (at, left) = (at + step as usize, left - step);
        }
        left == 0
    }

    #[test]
    fn filter_accepts_sockets_with_a_requested_port_at_either_end() {
        for ports in [&[3260][..], &[3260, 860], &[1, 2, 3, 4, 5]] {
            let program = port_filter(ports);
            for port in ports {
                assert!(accepts(&program, *port, 50_000), "{ports:?} {port}");
                assert!(accepts(&program, 50_000, *port), "{ports:?} {port}");
            }
            assert!(!accepts(&program, 50_000, 50_001), "{ports:?}");
        }
        assert!(port_filter(&[]).is_empty());
    }

    #[test]
    fn request_repeats_the_socket_id_of_the_answer() {
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
}
