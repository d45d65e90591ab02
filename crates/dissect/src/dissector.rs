//! All connections of a capture.
use std::collections::BTreeMap;
use std::net::SocketAddr;

use hakaru_units::Time;
use hakaru_wire::iscsi::Opcode;
use hakaru_wire::iscsi::keys::Key;

use crate::Sender;
use crate::connection::Connection;
use crate::login::{Digests, Login};
use crate::packet::{Link, NotSeen, Segment, parse};
use crate::report::{DirectionReport, NotSeenReport, Report, SessionReport};

/// Connections that are followed at once. Sessions that have ended stay, since they are reported.
pub const CONNECTIONS_MAX: usize = 1024;
/// Captured bytes that wait behind holes, over all connections; beyond it every hole is given up.
const HELD_BYTES_MAX: usize = 256 << 20;

/// A pair of addresses, the lower first.
type Ends = (SocketAddr, SocketAddr);

/// Reads a capture.
#[derive(Debug)]
pub struct Dissector {
    target_ports: Vec<u16>,
    connections: Vec<(Ends, SocketAddr, Connection)>,
    /// The newest connection of each pair of addresses.
    newest: BTreeMap<Ends, usize>,
    now: Time,
    first: Option<Time>,
    packets: u64,
    packets_cut: u64,
    packets_back_in_time: u64,
    connections_not_followed: u64,
    others_ended: u64,
    not_seen: NotSeenReport,
}

impl Dissector {
    /// `target_ports`: what speaks on them is taken for iSCSI, and the end that has one for the target. What speaks on others is looked at as well, and recognised by
    /// its login, or by its PDUs.
    pub fn new(target_ports: &[u16]) -> Dissector {
        Dissector {
            target_ports: target_ports.to_vec(),
            connections: Vec::new(),
            newest: BTreeMap::new(),
            now: Time::ZERO,
            first: None,
            packets: 0,
            packets_cut: 0,
            packets_back_in_time: 0,
            connections_not_followed: 0,
            others_ended: 0,
            not_seen: NotSeenReport::default(),
        }
    }

    /// Takes the next packet. `link`: `None` where it is of a kind that is not read; `original_length`: as it was before the snap length cut it, bytes.
    pub fn handle_packet(
        &mut self,
        at: Time,
        link: impl Into<Option<Link>>,
        bytes: &[u8],
        original_length: u32,
    ) {
        self.packets += 1;
        self.packets_cut += u64::from(bytes.len() < original_length as usize);
        self.packets_back_in_time += u64::from(at < self.now);
        self.now = self.now.max(at);
        self.first.get_or_insert(at);
        let Some(link) = link.into() else {
            self.not_seen.unknown_link += 1;
            return;
        };
        match parse(link, bytes, original_length) {
            Ok(segment) => self.handle_segment(&segment),
            Err(cause) => {
                let count = match cause {
                    NotSeen::NotIp => &mut self.not_seen.not_ip,
                    NotSeen::NotTcp => &mut self.not_seen.not_tcp,
                    NotSeen::Fragment => &mut self.not_seen.fragments,
                    NotSeen::Cut => &mut self.not_seen.cut,
                    NotSeen::Malformed => &mut self.not_seen.malformed,
                };
                *count += 1;
            }
        }
    }

    fn handle_segment(&mut self, segment: &Segment<'_>) {
        let ends = (segment.from.min(segment.to), segment.from.max(segment.to));
        let known = self.newest.get(&ends).copied().filter(|&at| {
            let (_, first, connection) = &self.connections[at];
            !connection.is_begun_anew_by(usize::from(segment.from != *first), segment)
        });
        let Some(at) = known.or_else(|| self.begin(ends, segment)) else {
            return;
        };
        let (_, first, connection) = &mut self.connections[at];
        let direction = usize::from(segment.from != *first);
        connection.handle_segment(self.now, direction, segment);
        if connection.held_bytes() > 0 {
            self.bound_memory();
        }
    }

    fn begin(&mut self, ends: Ends, segment: &Segment<'_>) -> Option<usize> {
        if self.connections.len() >= CONNECTIONS_MAX {
            self.forget_others();
        }
        if self.connections.len() >= CONNECTIONS_MAX {
            self.connections_not_followed += 1;
            return None;
        }
        let is_target = |end: &SocketAddr| self.target_ports.contains(&end.port());
        let target = match (is_target(&segment.from), is_target(&segment.to)) {
            (from, to) if from != to => Some(from),
            _ => None,
        };
        let connection = Connection::new(self.now, segment, target);
        self.connections.push((ends, segment.from, connection));
        let at = self.connections.len() - 1;
        self.newest.insert(ends, at);
        Some(at)
    }

    /// Makes room: connections without a PDU are counted, and looked at no more.
    fn forget_others(&mut self) {
        let before = self.connections.len();
        self.connections
            .retain(|(_, _, connection)| connection.is_session());
        self.others_ended += (before - self.connections.len()) as u64;
        self.newest = self
            .connections
            .iter()
            .enumerate()
            .map(|(at, (ends, ..))| (*ends, at))
            .collect();
    }

    fn bound_memory(&mut self) {
        let held: usize = self
            .connections
            .iter()
            .map(|(_, _, connection)| connection.held_bytes())
            .sum();
        if held > HELD_BYTES_MAX {
            for (_, _, connection) in &mut self.connections {
                connection.give_up_holes();
            }
        }
    }

    /// The capture has ended.
    #[must_use]
    pub fn finish(mut self) -> Report {
        for (_, _, connection) in &mut self.connections {
            connection.finish();
        }
        let (sessions, others): (Vec<_>, Vec<_>) = self
            .connections
            .iter()
            .partition(|(_, _, connection)| connection.is_session());
        Report {
            packets: self.packets,
            packets_cut: self.packets_cut,
            packets_back_in_time: self.packets_back_in_time,
            first_ns: self.first.unwrap_or_default().0,
            last_ns: self.now.0,
            not_seen: self.not_seen,
            other_connections: self.others_ended + others.len() as u64,
            connections_not_followed: self.connections_not_followed,
            sessions: sessions.into_iter().map(report_session).collect(),
        }
    }
}

fn report_session((ends, first, connection): &(Ends, SocketAddr, Connection)) -> SessionReport {
    let second = if ends.0 == *first { ends.1 } else { ends.0 };
    let addresses = [*first, second];
    let (session, tally) = (&connection.session, &connection.session.tally);
    let login = session.login.as_ref();
    let said = |key| login.and_then(|login| Some(login.said(key, Sender::Initiator)?.to_owned()));
    let request = session.names.map(|(request, _)| request);
    SessionReport {
        initiator: addresses[connection.initiator()].to_string(),
        target: addresses[1 - connection.initiator()].to_string(),
        initiator_name: said(Key::InitiatorName),
        target_name: said(Key::TargetName),
        isid: request.map(|request| request.isid.0.map(|byte| format!("{byte:02x}")).concat()),
        cid: request.map(|request| request.cid),
        login_status: session
            .names
            .and_then(|(_, status)| status)
            .map(|status| format!("{:04x}", status.0)),
        from_start: session.is_from_start(),
        negotiated: login
            .filter(|login| login.is_complete())
            .map(Login::negotiated),
        digests: session
            .digests()
            .map(|Digests { header, data }| (header, data)),
        handshake_rtt_ns: connection.handshake_rtt_ns(),
        first_ns: connection.first.0,
        last_ns: connection.last.0,
        from_initiator: report_direction(connection, Sender::Initiator),
        from_target: report_direction(connection, Sender::Target),
        commands: tally.commands,
        commands_unfinished: tally.commands_unfinished,
        commands_without_response: tally.commands_without_response,
        commands_not_whole: tally.commands_not_whole,
        commands_not_followed: tally.commands_not_followed,
        pdus_without_command: tally.pdus_without_command,
        assumed_pdus: tally.assumed_pdus,
        malformed_pdus: tally.malformed_pdus,
        reads: tally.report_reads(),
        writes: tally.report_writes(),
        others: tally.report_others(),
    }
}

fn report_direction(connection: &Connection, sender: Sender) -> DirectionReport {
    let (stream, reader) = connection.side(sender);
    let pdus = connection.session.tally.pdus_by_opcode();
    let name = |code| {
        Opcode::from_code(code)
            .map_or_else(|| format!("{code:#04x}"), |opcode| format!("{opcode:?}"))
    };
    DirectionReport {
        pdus: pdus
            .filter(|&(from, ..)| from == sender as u8)
            .map(|(_, code, count)| (name(code), count))
            .collect(),
        stream: stream.counters.clone(),
        skipped_bytes: reader.skipped_bytes,
        lost_step: reader.losses,
        data_digest_errors: reader.digest_errors,
    }
}
