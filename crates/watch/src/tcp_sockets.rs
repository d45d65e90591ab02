//! The sockets that are watched: which there are, what each was last, and whose an event of the kernel's tracepoints is.
//!
//! Tracepoints know no namespaces: they fire for every socket of the machine, and another network namespace may have the same addresses. A socket's
//! cookie is unique, so an event with a cookie is ours if `sock_diag` of our namespace knows a socket of that cookie. Events without one tell
//! where the socket lies in the kernel's memory; `tcp_probe` tells both, so an event is ours if the last probe from that place was, and the
//! addresses are the same. Before a socket's first probe (nothing has come in since the watch began: its first segments may be lost and sent again) such an event waits
//! for that probe: the place that it tells was already this socket's when the event came, if the socket had been read before. What cannot be told to be ours is not
//! recorded, and counted.
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use crate::series::Series;
use crate::sock_diag::{Socket, SocketId};
use crate::tcp_info::{TcpInfo, Unwrapped};
use crate::trace::{TcpEvent, What};

/// Sockets watched at most. A reading takes some 3 µs: 1024 of them every 10 ms are a third of a CPU.
pub const SOCKETS_MAX: usize = 1024;
/// Sockets of others that are remembered as such; then all are forgotten, which costs a question each.
const FOREIGN_MAX: usize = 65_536;
/// Events of one socket that wait for its first probe: a flow whose acknowledgements all got lost sends again a handful of times.
const WAITING_MAX: usize = 256;

/// See above.
#[derive(Default)]
pub struct TcpSockets {
    known: HashMap<u64, Known>,
    /// Cookies in the order in which sockets are read.
    order: Vec<u64>,
    /// Place in the kernel's memory → cookie.
    places: HashMap<u64, u64>,
    /// Local and remote end → cookie of those whose place is not known yet.
    placeless: HashMap<(SocketAddr, SocketAddr), u64>,
    foreign: HashSet<u64>,
    last_number: u32,
    refused: HashSet<u64>,
    unattributed: u64,
}

struct Known {
    id: SocketId,
    number: u32,
    unwrapped: Unwrapped,
    segment_bytes: Option<u64>,
    congestion_control: Option<String>,
    place: Option<u64>,
    /// It was there from this instant on, for certain.
    since_ns: u64,
    /// See above.
    waiting: Vec<TcpEvent>,
}

impl TcpSockets {
    /// Those to be read, in order.
    #[must_use]
    pub fn ids(&self) -> Vec<SocketId> {
        self.order
            .iter()
            .map(|cookie| self.known[cookie].id)
            .collect()
    }

    /// It is watched.
    #[must_use]
    pub fn knows(&self, cookie: u64) -> bool {
        self.known.contains_key(&cookie)
    }

    /// How many are watched now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// None is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Sockets seen so far.
    #[must_use]
    pub fn seen(&self) -> u32 {
        self.last_number
    }

    /// Sockets that were not watched since there were [`SOCKETS_MAX`] already.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.refused.len()
    }

    /// Events of the wanted ports that could not be told to be a watched socket's: of other namespaces, of sockets that ended before they were asked for.
    #[must_use]
    pub fn unattributed(&self) -> u64 {
        self.unattributed
    }

    /// Takes a socket as `sock_diag` told of it between `at_ns` and `within_ns` later, and records it.
    pub fn handle_socket(&mut self, at: (u64, u32), socket: &Socket, series: &mut Series) {
        let cookie = socket.id.cookie();
        if socket.info.state.is_none() {
            // What is left of a connection in TIME_WAIT has addresses and cookie, and no TCP.
            self.handle_gone(cookie);
            return;
        }
        if !self.known.contains_key(&cookie) && !self.learn(at, cookie, socket) {
            return;
        }
        let known = self.known.get_mut(&cookie).expect("learned just now");
        let named = known.congestion_control.is_some();
        if !named || known.congestion_control != socket.congestion_control {
            // A kernel that tells no name is asked for it once.
            known.congestion_control = Some(socket.congestion_control.clone().unwrap_or_default());
            series.add_socket(known.number, socket);
        }
        let info: TcpInfo = known.unwrapped.follow(socket.info);
        known.segment_bytes = info.segment_bytes;
        series.add_reading(at, known.number, socket, &info);
    }

    /// Whether it is watched from now on.
    fn learn(&mut self, at: (u64, u32), cookie: u64, socket: &Socket) -> bool {
        if self.order.len() >= SOCKETS_MAX {
            if self.refused.len() < FOREIGN_MAX {
                self.refused.insert(cookie);
            }
            return false;
        }
        self.last_number += 1;
        self.order.push(cookie);
        self.foreign.remove(&cookie);
        let known = Known {
            id: socket.id,
            number: self.last_number,
            unwrapped: Unwrapped::default(),
            segment_bytes: None,
            congestion_control: None,
            place: None,
            since_ns: at.0 + u64::from(at.1),
            waiting: Vec::new(),
        };
        self.placeless.insert(ends(&socket.id), cookie);
        self.known.insert(cookie, known);
        true
    }

    /// The namespace has no socket of that cookie (any more).
    pub fn handle_gone(&mut self, cookie: u64) {
        if let Some(known) = self.known.remove(&cookie) {
            self.order.retain(|of| *of != cookie);
            match known.place {
                Some(place) => self.places.remove(&place),
                None => self.placeless.remove(&ends(&known.id)),
            };
            self.unattributed += known.waiting.len() as u64;
        }
        if self.foreign.len() >= FOREIGN_MAX {
            self.foreign.clear();
        }
        self.foreign.insert(cookie);
    }

    /// Sockets that events tell of and that nothing is known about: ask for them, then hand the events over.
    #[must_use]
    pub fn unknown(&self, events: &[TcpEvent]) -> Vec<SocketId> {
        let mut asked = HashSet::new();
        let mut unknown = Vec::new();
        for event in events {
            let Some(cookie) = event.cookie else { continue };
            let is_new = !self.known.contains_key(&cookie)
                && !self.foreign.contains(&cookie)
                && !self.refused.contains(&cookie);
            if is_new && asked.insert(cookie) {
                unknown.push(SocketId::new(event.local, event.peer, 0, cookie));
            }
        }
        unknown
    }

    /// Takes an event and records it if it is a watched socket's, or once it is known to be. Events in the order of their instants.
    pub fn handle_event(&mut self, event: &TcpEvent, series: &mut Series) {
        let Some(cookie) = self.owner(event) else {
            if !self.defer(event) {
                self.unattributed += 1;
            }
            return;
        };
        let known = self.known.get_mut(&cookie).expect("an owner is watched");
        for waiting in std::mem::take(&mut known.waiting) {
            if waiting.place == known.place {
                record(&waiting, known, series);
            } else {
                self.unattributed += 1;
            }
        }
        record(event, known, series);
    }

    /// Keeps an event that may be of a socket whose place is not known yet; whether it does.
    fn defer(&mut self, event: &TcpEvent) -> bool {
        if event.cookie.is_some() || event.place.is_none() {
            return false;
        }
        let cookie = self.placeless.get(&(event.local, event.peer));
        let Some(known) = cookie.and_then(|cookie| self.known.get_mut(cookie)) else {
            return false;
        };
        let keeps = event.at_ns >= known.since_ns && known.waiting.len() < WAITING_MAX;
        if keeps {
            known.waiting.push(*event);
        }
        keeps
    }

    /// No event comes any more: those that still wait are nobody's.
    pub fn finish(&mut self) {
        for known in self.known.values_mut() {
            self.unattributed += std::mem::take(&mut known.waiting).len() as u64;
        }
    }

    fn owner(&mut self, event: &TcpEvent) -> Option<u64> {
        if let Some(cookie) = event.cookie {
            let known = self.known.get_mut(&cookie);
            if let Some(place) = event.place {
                match &known {
                    Some(_) => self.places.insert(place, cookie),
                    // Whoever was there before is not any more.
                    None => self.places.remove(&place),
                };
            }
            let known = known?;
            if known.place.is_none() && event.place.is_some() {
                self.placeless.remove(&ends(&known.id));
            }
            known.place = event.place;
            return Some(cookie);
        }
        let cookie = *self.places.get(&event.place?)?;
        let known = self.known.get(&cookie)?;
        (ends(&known.id) == (event.local, event.peer)).then_some(cookie)
    }
}

fn ends(id: &SocketId) -> (SocketAddr, SocketAddr) {
    (id.local(), id.peer())
}

fn record(event: &TcpEvent, of: &Known, series: &mut Series) {
    match &event.what {
        What::Probe(probe) => {
            series.add_probe(event.at_ns, of.number, probe, of.segment_bytes);
        }
        What::Retransmit => series.add_retransmit(event.at_ns, of.number),
        What::State(state) => series.add_state(event.at_ns, of.number, state.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp_state::CongestionState;
    use crate::trace::Probe;

    const LOCAL: &str = "10.0.0.1:40000";
    const PEER: &str = "10.0.0.2:3260";

    fn socket(cookie: u64) -> Socket {
        Socket {
            id: SocketId::new(LOCAL.parse().unwrap(), PEER.parse().unwrap(), 0, cookie),
            receive_queue_bytes: 0,
            send_queue_bytes: 0,
            info: TcpInfo {
                state: Some(1),
                ..TcpInfo::default()
            },
            memory: None,
            congestion_control: Some("cubic".to_owned()),
        }
    }

    fn event(cookie: Option<u64>, place: u64, what: What) -> TcpEvent {
        TcpEvent {
            at_ns: 1,
            local: LOCAL.parse().unwrap(),
            peer: PEER.parse().unwrap(),
            cookie,
            place: Some(place),
            what,
        }
    }

    const PROBE: What = What::Probe(Probe {
        congestion_window_segments: Some(10),
        current_threshold_segments: None,
        rtt_us: None,
        unacked_bytes: None,
        peer_window_bytes: None,
        receive_window_bytes: None,
        data_bytes: None,
    });
    const LOSS: What = What::State(CongestionState::LOSS);

    fn recorded(series: &mut Series) -> u64 {
        series.take(&mut Vec::new())
    }

    #[test]
    fn event_is_a_sockets_by_its_cookie_and_later_by_its_place() {
        let (mut sockets, mut series) = (TcpSockets::default(), Series::default());
        sockets.handle_socket((1, 0), &socket(7), &mut series);
        assert_eq!(recorded(&mut series), 1);
        sockets.handle_event(&event(Some(7), 0x1000, PROBE), &mut series);
        sockets.handle_event(&event(None, 0x1000, LOSS), &mut series);
        assert_eq!(recorded(&mut series), 2);
        // The same addresses in another namespace.
        sockets.handle_event(&event(Some(8), 0x2000, PROBE), &mut series);
        sockets.handle_event(&event(None, 0x2000, What::Retransmit), &mut series);
        assert_eq!(recorded(&mut series), 0);
        assert_eq!(sockets.unattributed(), 2);
    }

    #[test]
    fn event_before_the_first_probe_waits_for_it() {
        let (mut sockets, mut series) = (TcpSockets::default(), Series::default());
        sockets.handle_socket((1, 0), &socket(7), &mut series);
        recorded(&mut series);
        // Its place is not known yet: somebody else with these addresses might have sent again, and one of these two has.
        sockets.handle_event(&event(None, 0x1000, LOSS), &mut series);
        sockets.handle_event(&event(None, 0x2000, LOSS), &mut series);
        assert_eq!((recorded(&mut series), sockets.unattributed()), (0, 0));
        sockets.handle_event(&event(Some(7), 0x1000, PROBE), &mut series);
        assert_eq!((recorded(&mut series), sockets.unattributed()), (2, 1));
    }

    #[test]
    fn event_that_waits_for_nothing_is_counted() {
        let (mut sockets, mut series) = (TcpSockets::default(), Series::default());
        // First read after the event: whoever was at that place then may be gone.
        sockets.handle_socket((2, 0), &socket(7), &mut series);
        sockets.handle_event(&event(None, 0x1000, LOSS), &mut series);
        assert_eq!(sockets.unattributed(), 1);
        let mut later = event(None, 0x1000, What::Retransmit);
        later.at_ns = 3;
        for _ in 0..WAITING_MAX + 2 {
            sockets.handle_event(&later, &mut series);
        }
        assert_eq!(
            sockets.unattributed(),
            3,
            "it does not keep them without end"
        );
        sockets.finish();
        sockets.handle_gone(7);
        assert_eq!(sockets.unattributed(), 3 + WAITING_MAX as u64);
        sockets.handle_event(&later, &mut series);
        assert_eq!(sockets.unattributed(), 4 + WAITING_MAX as u64);
    }

    #[test]
    fn place_that_another_socket_has_taken_is_not_the_firsts_any_more() {
        let (mut sockets, mut series) = (TcpSockets::default(), Series::default());
        sockets.handle_socket((1, 0), &socket(7), &mut series);
        sockets.handle_event(&event(Some(7), 0x1000, PROBE), &mut series);
        sockets.handle_event(&event(Some(8), 0x1000, PROBE), &mut series);
        recorded(&mut series);
        sockets.handle_event(&event(None, 0x1000, LOSS), &mut series);
        assert_eq!(recorded(&mut series), 0);
        // Of other addresses it would not have been taken either.
        sockets.handle_event(&event(Some(7), 0x1000, PROBE), &mut series);
        let mut other = event(None, 0x1000, LOSS);
        other.local = "10.0.0.1:40001".parse().unwrap();
        recorded(&mut series);
        sockets.handle_event(&other, &mut series);
        assert_eq!(recorded(&mut series), 0);
    }

    #[test]
    fn unknown_sockets_are_asked_for_once_and_gone_ones_not_again() {
        let (mut sockets, mut series) = (TcpSockets::default(), Series::default());
        let events = [
            event(Some(7), 1, PROBE),
            event(Some(7), 1, PROBE),
            event(None, 1, LOSS),
        ];
        let asked = sockets.unknown(&events);
        assert_eq!(asked, [socket(7).id]);
        sockets.handle_gone(7);
        assert!(sockets.unknown(&events).is_empty());
        // A dump finds it all the same, should it ever be there.
        sockets.handle_socket((1, 0), &socket(7), &mut series);
        assert_eq!(sockets.ids(), asked);
        sockets.handle_gone(7);
        assert!(sockets.is_empty());
        assert_eq!(sockets.seen(), 1);
        let mut left = socket(7);
        left.info = TcpInfo::default();
        sockets.handle_socket((1, 0), &left, &mut series);
        assert!(sockets.is_empty(), "TIME_WAIT");
    }

    #[test]
    fn sockets_beyond_the_limit_are_counted() {
        let (mut sockets, mut series) = (TcpSockets::default(), Series::default());
        for cookie in 0..SOCKETS_MAX as u64 + 3 {
            sockets.handle_socket((1, 0), &socket(cookie), &mut series);
            sockets.handle_socket((2, 0), &socket(cookie), &mut series);
        }
        assert_eq!((sockets.len(), sockets.refused()), (SOCKETS_MAX, 3));
    }
}
