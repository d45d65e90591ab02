//! One TCP connection, with two streams, two readers and one session.
//!
//! The SYN or a target's well-known port shows which end is the initiator. Without either, the
//! first bytes that can only be a PDU's header show it.
use hakaru_units::Time;
use hakaru_wire::iscsi::{BHS_LENGTH, Bhs};

use crate::Sender;
use crate::clock::Stamp;
use crate::handshake::Handshake;
use crate::packet::Segment;
use crate::plausible;
use crate::reader::Reader;
use crate::session::Session;
use crate::stream::{Content, Piece, Stream};

/// Maximum number of bytes of a connection searched for PDUs. Without a PDU in them it counts as
/// another protocol.
const SEARCHED_BYTES_MAX: u64 = 4 << 20;

/// Longest delay of a segment that reordering on the path explains, ns. Half the round trip applies
/// if it is known and shorter. The limit is Wireshark's.
const OVERTAKING_MAX_NS: u64 = 3_000_000;

/// The ends of a connection, as far as they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Roles {
    /// The roles are not known yet.
    Unknown,
    /// Direction of the initiator, 0 or 1.
    Initiator(usize),
    /// The connection is not iSCSI.
    Neither,
}

/// A connection between two addresses. Direction 0 is that of the first packet seen.
#[derive(Debug)]
pub(crate) struct Connection {
    streams: [Stream; 2],
    readers: [Reader; 2],
    pub(crate) session: Session,
    pub(crate) handshake: Handshake,
    roles: Roles,
    /// One end has a target port, so the connection always counts as iSCSI.
    expected: bool,
    searched_bytes: u64,
    pub(crate) first: Time,
    pub(crate) last: Stamp,
}

impl Connection {
    /// Creates a connection from its first packet. `target`: whether that packet came from the
    /// target, if its ports show it.
    pub(crate) fn new(
        now: Stamp,
        segment: &Segment<'_>,
        target: Option<bool>,
        slowest_max: usize,
    ) -> Connection {
        let opening = segment.syn;
        let roles = match (target, opening, segment.acknowledged) {
            (Some(from_target), ..) => Roles::Initiator(from_target.into()),
            (None, true, None) => Roles::Initiator(0),
            (None, true, Some(_)) => Roles::Initiator(1),
            (None, false, _) => Roles::Unknown,
        };
        let mut connection = Connection {
            streams: Default::default(),
            readers: [Reader::new(opening), Reader::new(opening)],
            session: Session::new(opening, slowest_max),
            handshake: Handshake::default(),
            roles,
            expected: target.is_some(),
            searched_bytes: 0,
            first: now.at,
            last: now,
        };
        connection.set_overtaking_max(OVERTAKING_MAX_NS);
        connection
    }

    fn set_overtaking_max(&mut self, ns: u64) {
        for stream in &mut self.streams {
            stream.set_overtaking_max(ns);
        }
    }

    /// Returns whether the segment begins another connection between the same addresses.
    pub(crate) fn is_restarted_by(&self, direction: usize, segment: &Segment<'_>) -> bool {
        let (own, peer) = (&self.streams[direction], &self.streams[1 - direction]);
        let is_syn_alone = segment.syn && segment.acknowledged.is_none();
        own.is_restarted_by(segment) || is_syn_alone && own.is_silent() && peer.began_before()
    }

    /// Returns the number of captured bytes held behind holes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.streams.iter().map(Stream::held_bytes).sum()
    }

    /// Returns whether any PDU was decoded.
    pub(crate) fn is_session(&self) -> bool {
        self.session.has_pdus() && matches!(self.roles, Roles::Initiator(_))
    }

    /// Returns the number of the initiator's direction.
    pub(crate) fn initiator(&self) -> usize {
        match self.roles {
            Roles::Initiator(direction) => direction,
            Roles::Unknown | Roles::Neither => 0,
        }
    }

    pub(crate) fn side(&self, sender: Sender) -> (&Stream, &Reader) {
        let direction = self.initiator() ^ sender as usize;
        (&self.streams[direction], &self.readers[direction])
    }

    /// Handles a segment of a direction.
    pub(crate) fn handle_segment(&mut self, now: Stamp, direction: usize, segment: &Segment<'_>) {
        self.last = now;
        self.handshake.handle_segment(now, segment);
        if let Some(trip) = self.handshake.round_trip() {
            let half = (trip.target_side + trip.initiator_side) / 2;
            self.set_overtaking_max(half.min(OVERTAKING_MAX_NS));
        }
        if self.roles == Roles::Neither {
            return;
        }
        // The acknowledged bytes were sent before this segment.
        if let Some(number) = segment.acknowledged {
            self.pass(1 - direction, |stream, out| {
                stream.handle_acknowledged(now, number, out);
            });
        }
        self.pass(direction, |stream, out| {
            stream.handle_segment(now, segment, out);
        });
    }

    /// Marks the time of packet `packet`, the newest so far, as wrong.
    pub(crate) fn distrust(&mut self, packet: u64) {
        self.handshake.distrust(packet);
        self.session.distrust(packet);
    }

    /// Reads the data that waits behind holes, because the holes will not be filled or memory is
    /// short.
    pub(crate) fn give_up_holes(&mut self) {
        let now = self.last.inexact();
        for direction in 0..2 {
            self.pass(direction, |stream, out| stream.drain(now, true, out));
        }
    }

    /// Handles the end of the capture.
    pub(crate) fn finish(&mut self) {
        self.give_up_holes();
        self.session.finish();
    }

    /// Passes the in-order bytes of a stream to the reader of its direction.
    fn pass(
        &mut self,
        direction: usize,
        emit: impl FnOnce(&mut Stream, &mut dyn FnMut(Piece<'_>)),
    ) {
        let Connection {
            streams,
            readers,
            session,
            roles,
            searched_bytes,
            expected,
            ..
        } = self;
        let reader = &mut readers[direction];
        emit(&mut streams[direction], &mut |piece| {
            if *roles == Roles::Unknown {
                *searched_bytes += length(&piece);
                *roles = identify(&piece, direction);
            }
            let Roles::Initiator(initiator) = *roles else {
                return;
            };
            let sender = if direction == initiator {
                Sender::Initiator
            } else {
                Sender::Target
            };
            if !session.has_pdus() {
                *searched_bytes += length(&piece);
            }
            reader.handle_piece(sender, piece, session);
        });
        let starts_with_other_data = session.is_from_start() && !reader.in_step();
        if !*expected
            && !session.has_pdus()
            && (starts_with_other_data || *searched_bytes > SEARCHED_BYTES_MAX)
        {
            *roles = Roles::Neither;
        }
    }
}

fn length(piece: &Piece<'_>) -> u64 {
    match piece.content {
        Content::Bytes(bytes) => bytes.len() as u64,
        Content::Cut(length) => u64::from(length),
        Content::Hole(length) => length,
    }
}

/// Identifies the roles if the piece begins with a PDU or contains two consecutive ones.
fn identify(piece: &Piece<'_>, direction: usize) -> Roles {
    let Content::Bytes(bytes) = piece.content else {
        return Roles::Unknown;
    };
    for at in 0..bytes.len().saturating_sub(BHS_LENGTH - 1) {
        let Some(bhs) = header_at(bytes, at) else {
            continue;
        };
        let sender = bhs.opcode().map(Sender::of);
        let length = bhs.data_segment_length() as usize;
        let end = at + BHS_LENGTH + bhs.ahs_length() + length.next_multiple_of(4);
        // The PDU may have no digest, one digest, or both.
        let followed = [0, 4, 8].iter().any(|digests| {
            header_at(bytes, end + digests)
                .is_some_and(|next| next.opcode().map(Sender::of) == sender)
        });
        match sender {
            Some(Sender::Initiator) if at == 0 || followed => return Roles::Initiator(direction),
            Some(Sender::Target) if at == 0 || followed => return Roles::Initiator(1 - direction),
            _ => {}
        }
    }
    Roles::Unknown
}

fn header_at(bytes: &[u8], at: usize) -> Option<Bhs> {
    let bhs = Bhs::new(*bytes.get(at..)?.first_chunk()?);
    plausible::is_header(&bhs, None).then_some(bhs)
}
