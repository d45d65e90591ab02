//! Dissection of all connections of a capture.
use std::collections::BTreeMap;
use std::net::SocketAddr;

use hakaru_units::Time;
use hakaru_wire::iscsi::Opcode;
use hakaru_wire::iscsi::keys::Key;

use crate::Sender;
use crate::clock::{Clock, Stamp};
use crate::connection::Connection;
use crate::login::{Digests, Login};
use crate::packet::{Link, NotSeen, Segment, parse};
use crate::report::{DirectionReport, NotSeenReport, Report, SessionReport};

/// Maximum number of tracked connections. Sessions that have ended count, because they are
/// reported.
pub const CONNECTIONS_MAX: usize = 1024;
/// Maximum number of captured bytes that wait behind holes, over all connections. Beyond it every
/// hole is given up.
const HELD_BYTES_MAX: usize = 256 << 20;

/// A pair of addresses, the lower first.
type Ends = (SocketAddr, SocketAddr);

/// Default number of slowest commands per connection that are reported individually.
const SLOWEST: usize = 10;

/// Dissector of a capture.
#[derive(Debug)]
pub struct Dissector {
    target_ports: Vec<u16>,
    slowest_max: usize,
    connections: Vec<(Ends, SocketAddr, Connection)>,
    /// Index of the newest connection of each pair of addresses.
    newest: BTreeMap<Ends, usize>,
    clock: Clock,
    /// Addresses of the newest packet, if it belongs to a connection.
    last: Option<Ends>,
    first: Option<Time>,
    packets_cut: u64,
    payload_bytes_max: u64,
    connections_not_followed: u64,
    others_ended: u64,
    not_seen: NotSeenReport,
}

impl Dissector {
    /// Creates a dissector. `target_ports`: a connection with one of these ports counts as iSCSI,
    /// and the end with that port as the target. Connections on other ports are recognised by their
    /// login or their PDUs.
    pub fn new(target_ports: &[u16]) -> Dissector {
        Dissector {
            target_ports: target_ports.to_vec(),
            slowest_max: SLOWEST,
            connections: Vec::new(),
            newest: BTreeMap::new(),
            clock: Clock::default(),
            last: None,
            first: None,
            packets_cut: 0,
            payload_bytes_max: 0,
            connections_not_followed: 0,
            others_ended: 0,
            not_seen: NotSeenReport::default(),
        }
    }

    /// Sets how many of the slowest commands of each connection are reported individually; default
    /// 10.
    #[must_use]
    pub fn with_slowest(mut self, commands: usize) -> Dissector {
        self.slowest_max = commands;
        self
    }

    /// Handles the next packet. `link`: `None` for an unsupported link layer. `original_length`:
    /// length before the snap length cut it, bytes.
    pub fn handle_packet(
        &mut self,
        at: Time,
        link: impl Into<Option<Link>>,
        bytes: &[u8],
        original_length: u32,
    ) {
        let (now, last_is_wrong) = self.clock.handle_packet(at);
        if last_is_wrong && let Some(number) = self.last.and_then(|ends| self.newest.get(&ends)) {
            self.connections[*number].2.distrust(now.packet - 1);
        }
        self.last = None;
        self.packets_cut += u64::from(bytes.len() < original_length as usize);
        self.first.get_or_insert(at);
        let Some(link) = link.into() else {
            self.not_seen.unknown_link += 1;
            return;
        };
        match parse(link, bytes, original_length) {
            Ok(segment) => self.handle_segment(now, &segment),
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

    fn handle_segment(&mut self, now: Stamp, segment: &Segment<'_>) {
        self.payload_bytes_max = self.payload_bytes_max.max(segment.payload.len() as u64);
        let ends = (segment.from.min(segment.to), segment.from.max(segment.to));
        let known = self.newest.get(&ends).copied().filter(|&at| {
            let (_, first, connection) = &self.connections[at];
            !connection.is_restarted_by(usize::from(segment.from != *first), segment)
        });
        let Some(at) = known.or_else(|| self.begin(now, ends, segment)) else {
            return;
        };
        let (_, first, connection) = &mut self.connections[at];
        let direction = usize::from(segment.from != *first);
        connection.handle_segment(now, direction, segment);
        self.last = Some(ends);
        if connection.held_bytes() > 0 {
            self.bound_memory();
        }
    }

    fn begin(&mut self, now: Stamp, ends: Ends, segment: &Segment<'_>) -> Option<usize> {
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
        let connection = Connection::new(now, segment, target, self.slowest_max);
        self.connections.push((ends, segment.from, connection));
        let at = self.connections.len() - 1;
        self.newest.insert(ends, at);
        Some(at)
    }

    /// Makes room by discarding connections without a PDU; they are counted.
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

    /// Ends the capture and returns the report.
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
            packets: self.clock.last().packet,
            packets_cut: self.packets_cut,
            packets_back_in_time: self.clock.packets_back,
            payload_bytes_max: self.payload_bytes_max,
            first_ns: self.first.unwrap_or_default().0,
            last_ns: self.clock.last().at.0,
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
    let declared = |key| {
        login.and_then(|login| Some(login.declared_value(key, Sender::Initiator)?.to_owned()))
    };
    let trip = connection.handshake.round_trip();
    let request = session.names.map(|(request, _)| request);
    SessionReport {
        initiator: addresses[connection.initiator()].to_string(),
        target: addresses[1 - connection.initiator()].to_string(),
        initiator_name: declared(Key::InitiatorName),
        target_name: declared(Key::TargetName),
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
            .digests
            .known()
            .map(|Digests { header, data }| (header, data)),
        handshake_rtt_ns: trip.map(|trip| trip.target_side + trip.initiator_side),
        target_side_rtt_ns: trip.map(|trip| trip.target_side),
        initiator_side_rtt_ns: trip.map(|trip| trip.initiator_side),
        handshake_retransmissions: connection.handshake.retransmissions,
        handshake_ns: connection.handshake.duration_ns(),
        first_ns: connection.first.0,
        last_ns: connection.last.at.0,
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
        slowest: tally.report_slowest(),
        luns: tally.report_luns(),
        statuses: tally.report_statuses(),
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
