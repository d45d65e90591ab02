//! The path of the VMs' requests: guest disk queues, iSCSI sessions that the VMs of a host share,
//! and the array's link.
//!
//! A request is split into pieces. A piece waits, in order, until the ring of its guest's disk has
//! descriptors for it, and then until the session has a command free. The link carries the data of
//! one piece at a time in each direction.
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use hakaru_drive::{Array, Op, Request};
use hakaru_units::Time;

/// Bytes of a segment: a page of the guest's memory.
const SEGMENT_BYTES: u64 = 4096;

/// Limits of the path.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Descriptors of a guest's disk ring. A piece takes one per segment and two more.
    pub ring: u64,
    /// Longest piece.
    pub piece_bytes: u64,
    /// Number of hosts. VM `i` is on host `i mod hosts`.
    pub hosts: usize,
    /// Commands in flight per host and LU.
    pub session_commands: u32,
    /// Latency of a piece in guest, host and switches, both ways together.
    pub latency_us: f64,
    /// Rate of the link in each direction.
    pub link_bytes_per_s: f64,
}

impl Path {
    /// The path of the study. The guests have virtio-blk's ring of 128 descriptors without indirect
    /// ones, so a piece has at most 126 segments. The sessions are those of open-iscsi, with 32
    /// commands per LU. The link is 1 GbE.
    pub const STUDY: Path = Path {
        ring: 128,
        piece_bytes: 126 * SEGMENT_BYTES,
        hosts: 4,
        session_commands: 32,
        latency_us: 300.0,
        link_bytes_per_s: 117e6,
    };

    /// A path without limits.
    pub const UNLIMITED: Path = Path {
        ring: u64::MAX,
        piece_bytes: u64::MAX,
        hosts: 1,
        session_commands: u32::MAX,
        latency_us: 0.0,
        link_bytes_per_s: f64::INFINITY,
    };
}

/// A request of a guest.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub group: u32,
    pub op: Op,
    pub offset_bytes: u64,
    pub length_bytes: u64,
}

/// A request that has completed.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    pub vm: usize,
    pub op: Op,
    pub since: Time,
}

#[derive(Clone, Copy, Debug)]
struct Issued {
    done: Done,
    pieces_left: u64,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    request: usize,
    access: Access,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A read, or a write with its data, has reached the array.
    Arrived { piece: usize },
    /// The data of a read has reached its host.
    Returned { piece: usize },
}

#[derive(Clone, Debug, Default)]
struct Ring {
    used: u64,
    waiting: VecDeque<usize>,
}

#[derive(Clone, Debug, Default)]
struct Session {
    in_flight: u32,
    waiting: VecDeque<usize>,
}

/// All guests, hosts and the link.
pub struct Hosts {
    path: Path,
    groups: usize,
    requests: Vec<Issued>,
    free_requests: Vec<usize>,
    pieces: Vec<Piece>,
    free_pieces: Vec<usize>,
    rings: Vec<Ring>,
    /// By host and LU.
    sessions: Vec<Session>,
    /// Instants until which the link is busy: towards the array, towards the hosts.
    link_free: [Time; 2],
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    events_made: u64,
    completed: VecDeque<Done>,
}

impl Hosts {
    pub fn new(path: Path, vms: usize, groups: usize) -> Hosts {
        Hosts {
            path,
            groups,
            requests: Vec::new(),
            free_requests: Vec::new(),
            pieces: Vec::new(),
            free_pieces: Vec::new(),
            rings: vec![Ring::default(); vms],
            sessions: vec![Session::default(); path.hosts * groups],
            link_free: [Time::ZERO; 2],
            events: BinaryHeap::new(),
            events_made: 0,
            completed: VecDeque::new(),
        }
    }

    /// Issues a request of a VM.
    pub fn issue(&mut self, now: Time, vm: usize, access: Access) {
        let length = self.path.piece_bytes.min(access.length_bytes);
        let issued = Issued {
            done: Done {
                vm,
                op: access.op,
                since: now,
            },
            pieces_left: access.length_bytes.div_ceil(length),
        };
        let request = insert(&mut self.requests, &mut self.free_requests, issued);
        let mut at = 0;
        while at < access.length_bytes {
            let piece = Piece {
                request,
                access: Access {
                    offset_bytes: access.offset_bytes + at,
                    length_bytes: length.min(access.length_bytes - at),
                    ..access
                },
            };
            at += piece.access.length_bytes;
            let piece = insert(&mut self.pieces, &mut self.free_pieces, piece);
            self.rings[vm].waiting.push_back(piece);
        }
        self.fill_ring(now, vm);
    }

    /// Returns the instant of the next event of path or array.
    pub fn next_event(&self, array: &Array) -> Option<Time> {
        let own = self.events.peek().map(|Reverse((at, _, _))| *at);
        own.into_iter().chain(array.poll_timeout()).min()
    }

    /// Handles the events due by `now`. Returns a request that has completed, until there are no
    /// more.
    pub fn poll(&mut self, array: &mut Array, now: Time) -> Option<Done> {
        loop {
            if let Some(done) = self.completed.pop_front() {
                return Some(done);
            }
            array.handle_timeout(now);
            while let Some(done) = array.poll_completion() {
                self.leave_array(now, done.id as usize);
            }
            match self.events.peek() {
                Some(&Reverse((at, _, event))) if at <= now => {
                    self.events.pop();
                    match event {
                        Event::Arrived { piece } => self.enter_array(array, now, piece),
                        Event::Returned { piece } => self.end_piece(now, piece),
                    }
                }
                _ if self.completed.is_empty() => return None,
                _ => {}
            }
        }
    }

    fn fill_ring(&mut self, now: Time, vm: usize) {
        while let Some(&piece) = self.rings[vm].waiting.front() {
            let descriptors = descriptors(&self.pieces[piece]);
            let ring = &mut self.rings[vm];
            if ring.used + descriptors > self.path.ring {
                break;
            }
            ring.used += descriptors;
            ring.waiting.pop_front();
            let session = self.session_of(piece);
            self.sessions[session].waiting.push_back(piece);
            self.fill_session(now, session);
        }
    }

    fn session_of(&self, piece: usize) -> usize {
        let Piece { request, access } = self.pieces[piece];
        let host = self.requests[request].done.vm % self.path.hosts;
        host * self.groups + access.group as usize
    }

    fn fill_session(&mut self, now: Time, session: usize) {
        while self.sessions[session].in_flight < self.path.session_commands {
            let Some(piece) = self.sessions[session].waiting.pop_front() else {
                break;
            };
            self.sessions[session].in_flight += 1;
            match self.pieces[piece].access.op {
                Op::Write => self.carry(now, 0, piece, Event::Arrived { piece }),
                _ => self.schedule(now, self.path.latency_us, Event::Arrived { piece }),
            }
        }
    }

    /// Carries the data of a piece over the link in one direction.
    fn carry(&mut self, now: Time, direction: usize, piece: usize, event: Event) {
        let bytes = self.pieces[piece].access.length_bytes as f64;
        let free = &mut self.link_free[direction];
        let ns = (bytes / self.path.link_bytes_per_s * 1e9) as u64;
        *free = Time(now.max(*free).0 + ns);
        let at = *free;
        let latency_us = match event {
            Event::Arrived { .. } => self.path.latency_us,
            Event::Returned { .. } => 0.0,
        };
        self.schedule(at, latency_us, event);
    }

    fn schedule(&mut self, at: Time, latency_us: f64, event: Event) {
        let at = Time(at.0 + (latency_us * 1e3) as u64);
        self.events_made += 1;
        self.events.push(Reverse((at, self.events_made, event)));
    }

    fn enter_array(&mut self, array: &mut Array, now: Time, piece: usize) {
        let Access {
            group,
            op,
            offset_bytes,
            length_bytes,
        } = self.pieces[piece].access;
        array.handle_request(
            now,
            Request {
                id: piece as u64,
                group,
                op,
                offset_bytes,
                length_bytes,
                fua: false,
                received_bytes: None,
                unmapped: false,
            },
        );
    }

    fn leave_array(&mut self, now: Time, piece: usize) {
        match self.pieces[piece].access.op {
            Op::Read => self.carry(now, 1, piece, Event::Returned { piece }),
            _ => self.end_piece(now, piece),
        }
    }

    fn end_piece(&mut self, now: Time, piece: usize) {
        let session = self.session_of(piece);
        let Piece { request, .. } = self.pieces[piece];
        let vm = self.requests[request].done.vm;
        self.rings[vm].used -= descriptors(&self.pieces[piece]);
        self.free_pieces.push(piece);
        self.sessions[session].in_flight -= 1;
        self.fill_session(now, session);
        self.fill_ring(now, vm);
        let issued = &mut self.requests[request];
        issued.pieces_left -= 1;
        if issued.pieces_left == 0 {
            self.completed.push_back(issued.done);
            self.free_requests.push(request);
        }
    }
}

fn descriptors(piece: &Piece) -> u64 {
    piece.access.length_bytes.div_ceil(SEGMENT_BYTES) + 2
}

/// Stores a value in a free slot and returns its index.
fn insert<T>(slots: &mut Vec<T>, free: &mut Vec<usize>, value: T) -> usize {
    match free.pop() {
        Some(slot) => {
            slots[slot] = value;
            slot
        }
        None => {
            slots.push(value);
            slots.len() - 1
        }
    }
}
