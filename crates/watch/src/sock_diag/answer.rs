//! Answers of the kernel: sockets, end of a dump, refusals.
use super::netlink::{
    ATTRIBUTE_CONGESTION, ATTRIBUTE_INFO, ATTRIBUTE_MEMORY, HEADER, NLMSG_DONE, NLMSG_ERROR,
    SOCK_DIAG_BY_FAMILY, native_u16, native_u32,
};
use super::socket_id::{AF_INET, AF_INET6, SocketId};
use crate::tcp_info::TcpInfo;

/// Length of `struct inet_diag_msg`, bytes.
const MESSAGE: usize = 72;

/// Flag: the table changed during the dump, so sockets may be missing or duplicated.
const NLM_F_DUMP_INTR: u16 = 0x10;

/// The kernel's answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A socket.
    Socket(Box<Socket>),
    /// End of a dump.
    Done {
        /// Whether sockets were added or removed during the dump, so that some may be missing.
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
    /// TCP state. Fields that the kernel lacks are `None`.
    pub info: TcpInfo,
    /// Memory of the buffers (Linux 2.6.38).
    pub memory: Option<Memory>,
    /// Name of the congestion control algorithm.
    pub congestion_control: Option<String>,
}

/// `SK_MEMINFO`: memory used by a socket's buffers, with overhead, and its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Memory of received data, bytes.
    pub receive_bytes: u32,
    /// Limit of `receive_bytes` (`SO_RCVBUF` as stored by the kernel).
    pub receive_limit_bytes: u32,
    /// Memory of data to be sent, bytes.
    pub send_bytes: u32,
    /// Limit of `send_bytes` (`SO_SNDBUF` as stored by the kernel).
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

/// Parses a `struct inet_diag_msg` and the attributes after it.
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
        // Index 5 counts all queued data. Index 2 counts only data passed to lower layers and not
        // yet freed.
        send_bytes: at(5)?,
        drops: at(8),
    })
}

fn parse_name(value: &[u8]) -> Option<String> {
    let name = value.split(|byte| *byte == 0).next()?;
    let text = std::str::from_utf8(name).ok()?;
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::netlink::emit_header;
    use super::*;

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
    fn no_bytes_cause_a_panic() {
        let datagram = message(SOCK_DIAG_BY_FAMILY, 3, &body());
        for length in 0..datagram.len() {
            let _ = answers(&datagram[..length]).count();
        }
        // Sets every byte to the values that are hardest to handle as lengths.
        for at in 0..datagram.len() {
            for value in [0, 1, 3, 0x7f, 0xff] {
                let mut bad = datagram.clone();
                bad[at] = value;
                // A message has at least 16 bytes.
                assert!(answers(&bad).count() <= datagram.len() / HEADER);
            }
        }
    }
}
