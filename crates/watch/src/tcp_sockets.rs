//! Watched sockets, their last readings, and the attribution of tracepoint events to them.
//!
//! Tracepoints fire for the sockets of all namespaces, and another network namespace may use the
//! same addresses. A socket's cookie is unique, so an event with a cookie belongs to this namespace
//! if `sock_diag` finds a socket with that cookie there.
//!
//! An event without a cookie has the socket's address in the kernel's memory, its *place*.
//! `tcp_probe` has both, so an event belongs to a watched socket if the last probe from that place
//! did and the addresses are the same. Until a socket's first probe, such an event is deferred: no
//! segment has been received since the watch began, and the first segments may be lost and
//! retransmitted. If the socket was read before the event, the place already belonged to it at the
//! event. Events that cannot be attributed are counted and not recorded.
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::net::SocketAddr;

use crate::series::Series;
use crate::sock_diag::{Socket, SocketId};
use crate::tcp_info::{TcpInfo, Unwrapped};
use crate::trace::{EventKind, TcpEvent};

/// Maximum number of watched sockets. A reading takes about 3 µs, so 1024 readings every 10 ms take
/// a third of a CPU.
pub const SOCKETS_MAX: usize = 1024;
/// Maximum number of cookies remembered as foreign. Above it all of them are forgotten, and each
/// costs another request.
const FOREIGN_MAX: usize = 65_536;
/// Maximum number of events per socket that wait for its first probe. A flow without any
/// acknowledgement retransmits only a few times.
const WAITING_MAX: usize = 256;

/// The watched sockets of a namespace. See the module's documentation.
#[derive(Default)]
pub struct TcpSockets {
    watched: HashMap<u64, WatchedSocket>,
    /// Cookies in the order in which sockets are read.
    order: Vec<u64>,
    /// Place in the kernel's memory → cookie.
    places: HashMap<u64, u64>,
    /// Local and remote address → cookie, for sockets without a known place.
    placeless: HashMap<(SocketAddr, SocketAddr), u64>,
    foreign: HashSet<u64>,
    last_number: u32,
    refused: HashSet<u64>,
    unattributed: u64,
}

struct WatchedSocket {
    id: SocketId,
    number: u32,
    unwrapped: Unwrapped,
    segment_bytes: Option<u64>,
    congestion_control: Option<String>,
    place: Option<u64>,
    /// Earliest instant at which the socket is known to exist.
    since_ns: u64,
    /// Events that wait for the first probe.
    waiting: Vec<TcpEvent>,
}

impl TcpSockets {
    /// Returns the sockets to be read, in order.
    #[must_use]
    pub fn ids(&self) -> Vec<SocketId> {
        self.order
            .iter()
            .map(|cookie| self.watched[cookie].id)
            .collect()
    }

    /// Returns whether the socket is watched.
    #[must_use]
    pub fn knows(&self, cookie: u64) -> bool {
        self.watched.contains_key(&cookie)
    }

    /// Returns the number of watched sockets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns whether no socket is watched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Returns the number of sockets seen so far.
    #[must_use]
    pub fn seen(&self) -> u32 {
        self.last_number
    }

    /// Returns the number of sockets not watched because [`SOCKETS_MAX`] were watched already.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.refused.len()
    }

    /// Returns the number of events of the given ports that could not be attributed: from other
    /// namespaces, or from sockets that ended before they were looked up.
    #[must_use]
    pub fn unattributed(&self) -> u64 {
        self.unattributed
    }

    /// Handles a socket that `sock_diag` returned, and records it. `at`: start and duration of the
    /// reading, ns.
    pub fn handle_socket(&mut self, at: (u64, u32), socket: &Socket, series: &mut Series) {
        let cookie = socket.id.cookie();
        if socket.info.state.is_none() {
            // A connection in TIME_WAIT has addresses and a cookie, but no TCP state.
            self.handle_gone(cookie);
            return;
        }
        if !self.watched.contains_key(&cookie) && !self.start_watching(at, cookie, socket) {
            return;
        }
        let watched = self.watched.get_mut(&cookie).expect("inserted above");
        let has_name = watched.congestion_control.is_some();
        if !has_name || watched.congestion_control != socket.congestion_control {
            // If the kernel returns no name, an empty one avoids recording the socket at every
            // reading.
            watched.congestion_control =
                Some(socket.congestion_control.clone().unwrap_or_default());
            series.add_socket(watched.number, socket);
        }
        let info: TcpInfo = watched.unwrapped.follow(socket.info);
        watched.segment_bytes = info.segment_bytes;
        series.add_reading(at, watched.number, socket, &info);
    }

    /// Starts watching a socket. Returns `false` if too many are watched already.
    fn start_watching(&mut self, at: (u64, u32), cookie: u64, socket: &Socket) -> bool {
        if self.order.len() >= SOCKETS_MAX {
            if self.refused.len() < FOREIGN_MAX {
                self.refused.insert(cookie);
            }
            return false;
        }
        self.last_number += 1;
        self.order.push(cookie);
        self.foreign.remove(&cookie);
        let watched = WatchedSocket {
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
        self.watched.insert(cookie, watched);
        true
    }

    /// Records that the namespace has no socket with that cookie (any more).
    pub fn handle_gone(&mut self, cookie: u64) {
        if let Some(watched) = self.watched.remove(&cookie) {
            self.order.retain(|known| *known != cookie);
            // A new socket may have the place or the addresses already.
            match watched.place {
                Some(place) => remove_if_of(&mut self.places, &place, cookie),
                None => remove_if_of(&mut self.placeless, &ends(&watched.id), cookie),
            }
            self.unattributed += watched.waiting.len() as u64;
        }
        if self.foreign.len() >= FOREIGN_MAX {
            self.foreign.clear();
        }
        self.foreign.insert(cookie);
    }

    /// Returns the sockets of `events` that are not known yet. The shell looks them up before it
    /// calls [`TcpSockets::handle_event`].
    #[must_use]
    pub fn unknown(&self, events: &[TcpEvent]) -> Vec<SocketId> {
        let mut requested = HashSet::new();
        let mut unknown = Vec::new();
        for event in events {
            let Some(cookie) = event.cookie else { continue };
            let is_new = !self.watched.contains_key(&cookie)
                && !self.foreign.contains(&cookie)
                && !self.refused.contains(&cookie);
            if is_new && requested.insert(cookie) {
                unknown.push(SocketId::new(event.local, event.peer, 0, cookie));
            }
        }
        unknown
    }

    /// Handles an event and records it if it belongs to a watched socket, possibly later. Events
    /// must be passed in chronological order.
    pub fn handle_event(&mut self, event: &TcpEvent, series: &mut Series) {
        let Some(cookie) = self.owner(event) else {
            if !self.defer(event) {
                self.unattributed += 1;
            }
            return;
        };
        let watched = self
            .watched
            .get_mut(&cookie)
            .expect("owners are watched sockets");
        for waiting in std::mem::take(&mut watched.waiting) {
            if waiting.place == watched.place {
                record(&waiting, watched, series);
            } else {
                self.unattributed += 1;
            }
        }
        record(event, watched, series);
    }

    /// Keeps an event that may belong to a socket without a known place. Returns false if there is
    /// no such socket or the event cannot be deferred.
    fn defer(&mut self, event: &TcpEvent) -> bool {
        if event.cookie.is_some() || event.place.is_none() {
            return false;
        }
        let cookie = self.placeless.get(&(event.local, event.peer));
        let Some(watched) = cookie.and_then(|cookie| self.watched.get_mut(cookie)) else {
            return false;
        };
        let has_room = event.at_ns >= watched.since_ns && watched.waiting.len() < WAITING_MAX;
        if has_room {
            watched.waiting.push(*event);
        }
        has_room
    }

    /// Ends the watch. Events still waiting are counted as unattributed.
    pub fn finish(&mut self) {
        for watched in self.watched.values_mut() {
            self.unattributed += std::mem::take(&mut watched.waiting).len() as u64;
        }
    }

    fn owner(&mut self, event: &TcpEvent) -> Option<u64> {
        if let Some(cookie) = event.cookie {
            let watched = self.watched.get_mut(&cookie);
            if let Some(place) = event.place {
                match &watched {
                    Some(_) => self.places.insert(place, cookie),
                    // The former socket of this place has ended.
                    None => self.places.remove(&place),
                };
            }
            let watched = watched?;
            if watched.place.is_none() && event.place.is_some() {
                remove_if_of(&mut self.placeless, &ends(&watched.id), cookie);
            }
            watched.place = event.place;
            return Some(cookie);
        }
        let cookie = *self.places.get(&event.place?)?;
        let watched = self.watched.get(&cookie)?;
        (ends(&watched.id) == (event.local, event.peer)).then_some(cookie)
    }
}

/// Removes an entry if it belongs to the socket with that cookie.
fn remove_if_of<K: Eq + Hash>(cookies: &mut HashMap<K, u64>, key: &K, cookie: u64) {
    if cookies.get(key) == Some(&cookie) {
        cookies.remove(key);
    }
}

fn ends(id: &SocketId) -> (SocketAddr, SocketAddr) {
    (id.local(), id.peer())
}

fn record(event: &TcpEvent, socket: &WatchedSocket, series: &mut Series) {
    match &event.kind {
        EventKind::Probe(probe) => {
            series.add_probe(event.at_ns, socket.number, probe, socket.segment_bytes);
        }
        EventKind::Retransmit => series.add_retransmit(event.at_ns, socket.number),
        EventKind::State(state) => series.add_state(event.at_ns, socket.number, state.0),
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

    fn event(cookie: Option<u64>, place: u64, kind: EventKind) -> TcpEvent {
        TcpEvent {
            at_ns: 1,
            local: LOCAL.parse().unwrap(),
            peer: PEER.parse().unwrap(),
            cookie,
            place: Some(place),
            kind,
        }
    }

    const PROBE: EventKind = EventKind::Probe(Probe {
        congestion_window_segments: Some(10),
        current_threshold_segments: None,
        rtt_us: None,
        unacked_bytes: None,
        peer_window_bytes: None,
        receive_window_bytes: None,
        data_bytes: None,
    });
    const LOSS: EventKind = EventKind::State(CongestionState::LOSS);

    fn recorded(series: &mut Series) -> u64 {
        series.take(&mut Vec::new())
    }

    #[test]
    fn event_is_attributed_by_cookie_and_later_by_place() {
        let (mut sockets, mut series) = (TcpSockets::default(), Series::default());
        sockets.handle_socket((1, 0), &socket(7), &mut series);
        assert_eq!(recorded(&mut series), 1);
        sockets.handle_event(&event(Some(7), 0x1000, PROBE), &mut series);
        sockets.handle_event(&event(None, 0x1000, LOSS), &mut series);
        assert_eq!(recorded(&mut series), 2);
        // These events have the same addresses, but come from another namespace.
        sockets.handle_event(&event(Some(8), 0x2000, PROBE), &mut series);
        sockets.handle_event(&event(None, 0x2000, EventKind::Retransmit), &mut series);
        assert_eq!(recorded(&mut series), 0);
        assert_eq!(sockets.unattributed(), 2);
    }

    #[test]
    fn event_before_the_first_probe_waits_for_it() {
        let (mut sockets, mut series) = (TcpSockets::default(), Series::default());
        sockets.handle_socket((1, 0), &socket(7), &mut series);
        recorded(&mut series);
        // The place is not known yet: the event may belong to a socket with these addresses in
        // another namespace.
        sockets.handle_event(&event(None, 0x1000, LOSS), &mut series);
        sockets.handle_event(&event(None, 0x2000, LOSS), &mut series);
        assert_eq!((recorded(&mut series), sockets.unattributed()), (0, 0));
        sockets.handle_event(&event(Some(7), 0x1000, PROBE), &mut series);
        assert_eq!((recorded(&mut series), sockets.unattributed()), (2, 1));
    }

    #[test]
    fn event_that_cannot_be_attributed_is_counted() {
        let (mut sockets, mut series) = (TcpSockets::default(), Series::default());
        // The first reading is later than the event: the socket of that place may have ended in
        // between.
        sockets.handle_socket((2, 0), &socket(7), &mut series);
        sockets.handle_event(&event(None, 0x1000, LOSS), &mut series);
        assert_eq!(sockets.unattributed(), 1);
        let mut later = event(None, 0x1000, EventKind::Retransmit);
        later.at_ns = 3;
        for _ in 0..WAITING_MAX + 2 {
            sockets.handle_event(&later, &mut series);
        }
        assert_eq!(
            sockets.unattributed(),
            3,
            "the number of waiting events is bounded"
        );
        sockets.finish();
        sockets.handle_gone(7);
        assert_eq!(sockets.unattributed(), 3 + WAITING_MAX as u64);
        sockets.handle_event(&later, &mut series);
        assert_eq!(sockets.unattributed(), 4 + WAITING_MAX as u64);
    }

    #[test]
    fn place_reused_by_another_socket_no_longer_belongs_to_the_first() {
        let (mut sockets, mut series) = (TcpSockets::default(), Series::default());
        sockets.handle_socket((1, 0), &socket(7), &mut series);
        sockets.handle_event(&event(Some(7), 0x1000, PROBE), &mut series);
        sockets.handle_event(&event(Some(8), 0x1000, PROBE), &mut series);
        recorded(&mut series);
        sockets.handle_event(&event(None, 0x1000, LOSS), &mut series);
        assert_eq!(recorded(&mut series), 0);
        // An event with other addresses would have been rejected too.
        sockets.handle_event(&event(Some(7), 0x1000, PROBE), &mut series);
        let mut other = event(None, 0x1000, LOSS);
        other.local = "10.0.0.1:40001".parse().unwrap();
        recorded(&mut series);
        sockets.handle_event(&other, &mut series);
        assert_eq!(recorded(&mut series), 0);
    }

    #[test]
    fn ended_socket_leaves_its_place_to_its_successor() {
        let (mut sockets, mut series) = (TcpSockets::default(), Series::default());
        sockets.handle_socket((1, 0), &socket(7), &mut series);
        sockets.handle_event(&event(Some(7), 0x1000, PROBE), &mut series);
        // The next connection with these addresses has the same place, before the end of the first
        // one is noticed.
        sockets.handle_socket((1, 0), &socket(8), &mut series);
        sockets.handle_event(&event(Some(8), 0x1000, PROBE), &mut series);
        sockets.handle_gone(7);
        recorded(&mut series);
        sockets.handle_event(&event(None, 0x1000, LOSS), &mut series);
        assert_eq!((recorded(&mut series), sockets.unattributed()), (1, 0));
    }

    #[test]
    fn ended_socket_leaves_events_that_wait_to_its_successor() {
        let (mut sockets, mut series) = (TcpSockets::default(), Series::default());
        sockets.handle_socket((1, 0), &socket(7), &mut series);
        sockets.handle_socket((1, 0), &socket(8), &mut series);
        // The first probe of the first socket leaves the addresses to the second one.
        sockets.handle_event(&event(Some(7), 0x2000, PROBE), &mut series);
        sockets.handle_event(&event(None, 0x1000, LOSS), &mut series);
        assert_eq!(sockets.unattributed(), 0);
        sockets.handle_gone(7);
        recorded(&mut series);
        sockets.handle_event(&event(Some(8), 0x1000, PROBE), &mut series);
        assert_eq!((recorded(&mut series), sockets.unattributed()), (2, 0));
    }

    #[test]
    fn ended_socket_without_a_place_leaves_its_addresses_to_its_successor() {
        let (mut sockets, mut series) = (TcpSockets::default(), Series::default());
        sockets.handle_socket((1, 0), &socket(7), &mut series);
        sockets.handle_socket((1, 0), &socket(8), &mut series);
        sockets.handle_gone(7);
        sockets.handle_event(&event(None, 0x1000, LOSS), &mut series);
        recorded(&mut series);
        sockets.handle_event(&event(Some(8), 0x1000, PROBE), &mut series);
        assert_eq!((recorded(&mut series), sockets.unattributed()), (2, 0));
    }

    #[test]
    fn unknown_sockets_are_requested_once_and_closed_ones_never_again() {
        let (mut sockets, mut series) = (TcpSockets::default(), Series::default());
        let events = [
            event(Some(7), 1, PROBE),
            event(Some(7), 1, PROBE),
            event(None, 1, LOSS),
        ];
        let requested_ids = sockets.unknown(&events);
        assert_eq!(requested_ids, [socket(7).id]);
        sockets.handle_gone(7);
        assert!(sockets.unknown(&events).is_empty());
        // A dump would still return the socket if it appeared later.
        sockets.handle_socket((1, 0), &socket(7), &mut series);
        assert_eq!(sockets.ids(), requested_ids);
        sockets.handle_gone(7);
        assert!(sockets.is_empty());
        assert_eq!(sockets.seen(), 1);
        let mut in_time_wait = socket(7);
        in_time_wait.info = TcpInfo::default();
        sockets.handle_socket((1, 0), &in_time_wait, &mut series);
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
