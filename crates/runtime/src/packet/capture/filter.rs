//! The filter of a capture: it selects packets and truncates them to the snap length. It is a
//! classic BPF program that the kernel runs before it copies a packet.
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};

use super::options::{RingOptions, Selection};

const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF_INDEXED: u16 = 0x48;
const LOAD_INDEX_IPV4_HEADER: u16 = 0xb1;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_ANY: u16 = 0x45;
const RETURN: u16 = 0x06;
const TCP: u32 = 6;
/// Offset of an ancillary load, which yields the packet's direction instead of its bytes.
const PACKET_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;

/// Placeholders for the two final instructions while jumps are generated.
const ACCEPT: u8 = 254;
const REJECT: u8 = 255;

/// Attaches a filter program to a socket, in place of the previous one.
pub(crate) fn attach(socket: &OwnedFd, mut program: Vec<libc::sock_filter>) -> io::Result<()> {
    let filter = libc::sock_fprog {
        len: program.len() as libc::c_ushort,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: `filter` points to `program`, which outlives the call. The kernel copies and checks
    // it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Returns a program that keeps no packet.
pub(crate) fn nothing() -> Vec<libc::sock_filter> {
    vec![statement(RETURN, 0)]
}

/// Returns a program that keeps `snap_bytes` of each packet of the selection. With `loopback` it
/// drops outgoing packets, because each of them is also received.
pub(crate) fn program(
    selection: &Selection,
    snap_bytes: u32,
    loopback: bool,
) -> io::Result<Vec<libc::sock_filter>> {
    match selection {
        Selection::TcpPorts(ports) => tcp_ports(ports, snap_bytes, loopback),
        // A load beyond the end of a packet rejects the packet.
        Selection::Word { at, value } => {
            let equal = libc::sock_filter {
                code: JUMP_IF_EQUAL,
                jt: 0,
                jf: 1,
                k: *value,
            };
            Ok(vec![
                statement(LOAD_WORD, *at),
                equal,
                statement(RETURN, snap_bytes),
                statement(RETURN, 0),
            ])
        }
    }
}

fn tcp_ports(ports: &[u16], snap_bytes: u32, loopback: bool) -> io::Result<Vec<libc::sock_filter>> {
    if ports.len() > RingOptions::PORTS_MAX {
        let message = format!(
            "a capture filters at most {} ports, not {}",
            RingOptions::PORTS_MAX,
            ports.len()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let mut program = Vec::new();
    let mut add = |code, k: u32, jt, jf| program.push(libc::sock_filter { code, jt, jf, k });
    if loopback {
        add(LOAD_BYTE, PACKET_TYPE, 0, 0);
        add(JUMP_IF_EQUAL, libc::PACKET_OUTGOING.into(), REJECT, 0);
    }
    if !ports.is_empty() {
        // Each of the two port fields takes one load and one comparison per port.
        let compares = 2 * (ports.len() as u8 + 1);
        add(LOAD_HALF, 12, 0, 0);
        // Packets with a tag that the kernel left in place are rare. They are kept without further
        // checks.
        add(JUMP_IF_EQUAL, 0x8100, ACCEPT, 0);
        add(JUMP_IF_EQUAL, 0x0800, 0, 6 + compares);
        add(LOAD_BYTE, 23, 0, 0);
        add(JUMP_IF_EQUAL, TCP, 0, REJECT);
        // Only the first fragment of a packet has ports.
        add(LOAD_HALF, 20, 0, 0);
        add(JUMP_IF_ANY, 0x1fff, REJECT, 0);
        add(LOAD_INDEX_IPV4_HEADER, 14, 0, 0);
        for field in [14, 16] {
            add(LOAD_HALF_INDEXED, field, 0, 0);
            ports
                .iter()
                .for_each(|&port| add(JUMP_IF_EQUAL, port.into(), ACCEPT, 0));
        }
        add(RETURN, 0, 0, 0);
        // IPv6 without extension headers.
        add(JUMP_IF_EQUAL, 0x86dd, 0, REJECT);
        add(LOAD_BYTE, 20, 0, 0);
        add(JUMP_IF_EQUAL, TCP, 0, REJECT);
        for field in [54, 56] {
            add(LOAD_HALF, field, 0, 0);
            ports
                .iter()
                .for_each(|&port| add(JUMP_IF_EQUAL, port.into(), ACCEPT, 0));
        }
        add(RETURN, 0, 0, 0);
    }
    let accept = program.len();
    program.push(statement(RETURN, snap_bytes));
    program.push(statement(RETURN, 0));
    for (at, instruction) in program[..accept].iter_mut().enumerate() {
        for jump in [&mut instruction.jt, &mut instruction.jf] {
            let end = match *jump {
                ACCEPT => accept,
                REJECT => accept + 1,
                _ => continue,
            };
            *jump = (end - at - 1) as u8;
        }
    }
    Ok(program)
}

fn statement(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the program on a packet as classic BPF does and returns the number of bytes kept. A
    /// load beyond the end rejects the packet.
    fn kept_bytes(program: &[libc::sock_filter], packet: &[u8], outgoing: bool) -> u32 {
        let load = |at: usize, bytes: usize| {
            let field = packet.get(at..at + bytes)?;
            Some(
                field
                    .iter()
                    .fold(0, |sum, &byte| sum << 8 | u32::from(byte)),
            )
        };
        let (mut a, mut x, mut at) = (0_u32, 0_usize, 0);
        loop {
            let step = program[at];
            let k = step.k as usize;
            let value = match step.code {
                RETURN => return step.k,
                LOAD_BYTE if step.k == PACKET_TYPE => Some(if outgoing { 4 } else { 0 }),
                LOAD_BYTE => load(k, 1),
                LOAD_WORD => load(k, 4),
                LOAD_HALF => load(k, 2),
                LOAD_HALF_INDEXED => load(x + k, 2),
                LOAD_INDEX_IPV4_HEADER => load(k, 1).map(|byte| {
                    x = 4 * (byte & 15) as usize;
                    a
                }),
                JUMP_IF_EQUAL | JUMP_IF_ANY => {
                    let equal = step.code == JUMP_IF_EQUAL;
                    let yes = if equal { a == step.k } else { a & step.k != 0 };
                    at += usize::from(if yes { step.jt } else { step.jf });
                    Some(a)
                }
                code => panic!("instruction {code:#x}"),
            };
            let Some(value) = value else { return 0 };
            a = value;
            at += 1;
        }
    }

    fn ipv4(protocol: u8, options: usize, fragment: u16, ports: [u16; 2]) -> Vec<u8> {
        let mut packet = vec![0; 12];
        packet.extend([0x08, 0x00, 0x45 + (options / 4) as u8, 0, 0, 0, 0, 0]);
        packet.extend(fragment.to_be_bytes());
        packet.extend([64, protocol]);
        packet.resize(14 + 20 + options, 0);
        ports
            .iter()
            .for_each(|port| packet.extend(port.to_be_bytes()));
        packet
    }

    fn ipv6(next: u8, ports: [u16; 2]) -> Vec<u8> {
        let mut packet = vec![0; 12];
        packet.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, next, 64]);
        packet.resize(54, 0);
        ports
            .iter()
            .for_each(|port| packet.extend(port.to_be_bytes()));
        packet
    }

    #[test]
    fn only_segments_of_the_ports_are_kept() {
        let many: Vec<u16> = (3000..3000 + RingOptions::PORTS_MAX as u16).collect();
        for ports in [vec![3260], vec![860, 3260], [&many[1..], &[3260]].concat()] {
            let program = tcp_ports(&ports, 200, false).unwrap();
            let keeps = |packet: &[u8]| kept_bytes(&program, packet, false);
            assert_eq!(keeps(&ipv4(6, 0, 0x4000, [3260, 9])), 200);
            assert_eq!(keeps(&ipv4(6, 12, 0, [9, 3260])), 200);
            assert_eq!(keeps(&ipv6(6, [3260, 9])), 200);
            assert_eq!(keeps(&ipv6(6, [9, 3260])), 200);
            assert_eq!(keeps(&ipv4(6, 0, 0, [9, 10])), 0);
            assert_eq!(keeps(&ipv6(6, [9, 10])), 0);
            // UDP, a later fragment, ARP, a truncated header.
            assert_eq!(keeps(&ipv4(17, 0, 0, [3260, 3260])), 0);
            assert_eq!(keeps(&ipv6(17, [3260, 3260])), 0);
            assert_eq!(keeps(&ipv4(6, 0, 0x2001, [3260, 3260])), 0);
            assert_eq!(keeps(&[&[0; 12][..], &[0x08, 0x06], &[0; 40]].concat()), 0);
            assert_eq!(keeps(&ipv4(6, 0, 0, [3260, 9])[..30]), 0);
        }
    }

    #[test]
    fn without_ports_every_packet_is_kept_but_only_once_on_loopback() {
        let any = tcp_ports(&[], 96, false).unwrap();
        assert_eq!(kept_bytes(&any, &[0; 14], true), 96);
        let loopback = tcp_ports(&[], 96, true).unwrap();
        assert_eq!(kept_bytes(&loopback, &[0; 14], true), 0);
        assert_eq!(kept_bytes(&loopback, &[0; 14], false), 96);
        assert_eq!(kept_bytes(&nothing(), &[0; 14], false), 0);
        let too_many = [1; RingOptions::PORTS_MAX + 1];
        assert!(tcp_ports(&too_many, 96, false).is_err());
    }
    #[test]
    fn packets_with_a_word_are_kept() {
        let selection = Selection::Word {
            at: 2,
            value: 0x0102_0304,
        };
        let program = program(&selection, 80, false).unwrap();
        assert_eq!(kept_bytes(&program, &[9, 9, 1, 2, 3, 4], false), 80);
        assert_eq!(kept_bytes(&program, &[9, 9, 1, 2, 3, 5], false), 0);
        assert_eq!(kept_bytes(&program, &[9, 9, 1, 2, 3], false), 0);
    }
}
