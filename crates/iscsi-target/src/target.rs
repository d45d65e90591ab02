//! The target: owns every connection, session and task. What a shell calls is public here, in `receive.rs` (bytes that came in) and in
//! `command.rs` (storage that answered); what is sent and said between them lies in the other files, as further methods.

use core::net::SocketAddr;
use hakaru_scsi_device::{
    Background, Buffers, Io, IoId, LogicalUnits, Notice, Port, Ranges, Returned,
};
use hakaru_send_queue::{Key, Slab};
use std::collections::{HashMap, HashSet, VecDeque};

use hakaru_units::Time;
use hakaru_wire::iscsi::ScsiCommand;

use crate::authentication::Entropy;

use crate::config::{TASKS_MAX, TargetConfig};
use crate::connection::{Connection, Phase};
use crate::counters::Counters;
use crate::id::ConnectionId;

use crate::login_budget::{LoginBudget, Origin};
use crate::management::Barrier;
use crate::session::SessionName;

use crate::refusal::{LoginRefusal, Refusals};
use crate::remains::Remains;

use crate::task::{Ended, Task};
use crate::transmit::Transmit;

/// Unit attention conditions for initiators that TARGET COLD RESET has logged out, until they log in again.
#[derive(Debug, Default)]
struct OwedAttentions {
    names: HashSet<SessionName>,
    /// There were too many names to remember: every session gets the condition. One too many does no harm, one too few may.
    everyone: bool,
}

/// Initiators that are remembered after a reset.
const OWED_MAX: usize = 4096;

/// Sessions in full feature phase by what names them.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    pub(crate) by_name: HashMap<SessionName, ConnectionId>,
    pub(crate) by_tsih: HashMap<u16, ConnectionId>,
    owed: OwedAttentions,
    last_tsih: u16,
}

impl Sessions {
    /// The session of this name is logged out by a reset.
    pub(crate) fn owe_attention(&mut self, name: &SessionName) {
        if self.owed.everyone || self.owed.names.len() >= OWED_MAX {
            self.owed.everyone = true;
            self.owed.names = HashSet::new();
        } else {
            self.owed.names.insert(name.clone());
        }
    }

    /// Whether a session that begins is to be told of a reset.
    pub(crate) fn take_owed_attention(&mut self, name: &SessionName) -> bool {
        self.owed.names.remove(name) || self.owed.everyone
    }

    pub(crate) fn owed_attentions(&self) -> usize {
        self.owed.names.len()
    }

    /// Gives a session its TSIH: not 0, and not one in use. There are fewer sessions than TSIHs, which [`Target::new`] checks.
    pub(crate) fn insert(&mut self, name: SessionName, connection: ConnectionId) -> u16 {
        loop {
            self.last_tsih = self.last_tsih.wrapping_add(1);
            if self.last_tsih != 0 && !self.by_tsih.contains_key(&self.last_tsih) {
                break;
            }
        }
        self.by_tsih.insert(self.last_tsih, connection);
        self.by_name.insert(name, connection);
        self.last_tsih
    }
}

/// An iSCSI target with all its sessions.
///
/// ```text
/// loop {
///     accept            → handle_connected        (None: close the socket at once)
///     socket readable   → handle_received         unless !wants_received: then leave the bytes in the socket
///     socket ended      → handle_closed
///     timer             → handle_timeout          at poll_timeout, or any time
///     while poll_io       → do it, now or later   → handle_io_done
///     while poll_transmit → writev of transmit(c).segments() → handle_transmitted; on EAGAIN when writable again
///                           or, where may_lend: lend an LU's memory to the kernel → handle_lent, then handle_transmitted
///     while poll_unwanted → end the access early, if it waits for space
///     while poll_refusal  → log who was refused and why
///     while poll_returned → what was lent may be changed again
///     while poll_close    → close the socket      the id is forgotten: no handle_closed
/// }
/// ```
/// Calls with the id of a connection that has ended do nothing: a shell may be late.
#[derive(Debug)]
pub struct Target {
    pub(crate) config: TargetConfig,
    pub(crate) lus: LogicalUnits,
    /// One for each portal.
    pub(crate) ports: Vec<Port>,
    pub(crate) connections: Slab<Connection>,
    pub(crate) sessions: Sessions,
    pub(crate) tasks: Slab<Task>,
    pub(crate) buffers: Buffers,
    /// Writes that wait for budget, in turn. May name tasks that have ended.
    pub(crate) budget_queue: VecDeque<Key>,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) remains: Remains,
    pub(crate) ranges: Ranges,
    pub(crate) ios: VecDeque<Io>,
    pub(crate) background: Background,
    /// Accesses of tasks that were aborted.
    pub(crate) unwanted: VecDeque<IoId>,
    pub(crate) to_transmit: VecDeque<ConnectionId>,
    to_close: VecDeque<ConnectionId>,
    pub(crate) logins: LoginBudget,
    pub(crate) refusals: Refusals,
    /// Parameter data of the command under way.
    pub(crate) scratch: Vec<u8>,
    /// What it means to other initiators.
    pub(crate) notices: Vec<Notice>,
    /// Memory that comes back to the storage.
    pub(crate) returned: VecDeque<Returned>,
    pub(crate) retired: Vec<Vec<u8>>,
    pub(crate) counters: Counters,
    /// No deadline lies before this.
    pub(crate) next_check: Time,
    /// `shut_down` was called; sessions end at the latest at `shut_down_by`.
    pub(crate) shutting_down: bool,
    pub(crate) shut_down_by: Time,
    pub(crate) nothing: Transmit,
    pub(crate) entropy: Generator,
}

/// The shell's generator.
pub(crate) struct Generator(pub(crate) Entropy);

impl core::fmt::Debug for Generator {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Generator")
    }
}

impl Target {
    /// A target without sessions, for an access list without CHAP users.
    ///
    /// # Panics
    /// If the configuration breaks a bound its documentation names, or has CHAP users: they need [`Self::with_entropy`].
    #[must_use]
    pub fn new(config: TargetConfig) -> Self {
        assert!(
            !config.access.asks_for_chap(),
            "CHAP needs a generator of random bytes"
        );
        Self::with_entropy(
            config,
            Box::new(|_| unreachable!("nobody is asked to prove anything")),
        )
    }

    /// A target without sessions. `entropy` makes the challenges of CHAP: they must never come twice, not even after a restart
    /// (CVE-2024-45751), so that it is the operating system's generator.
    ///
    /// # Panics
    /// If the configuration breaks a bound its documentation names.
    #[must_use]
    pub fn with_entropy(config: TargetConfig, entropy: Entropy) -> Self {
        let limits = &config.limits;
        assert!(
            (1..u32::from(u16::MAX)).contains(&limits.sessions_max),
            "1 to 65 534 sessions: each has a TSIH"
        );
        assert!(
            (1..1 << 20).contains(&limits.commands_max),
            "1 to 2^20 - 1 commands in flight"
        );
        assert!(
            (1..=TASKS_MAX).contains(&limits.tasks_max),
            "1 to 2^24 - 257 tasks: each has a Target Transfer Tag"
        );
        assert!(
            limits.session_write_buffer_bytes_max >= u64::from(limits.transfer_bytes_max),
            "a whole write fits its session"
        );
        assert!(
            limits.write_buffer_bytes_max >= limits.session_write_buffer_bytes_max,
            "a session's share fits the whole"
        );
        assert!(
            (1..=256).contains(&config.portals.len()),
            "1 to 256 portals"
        );
        let checked = config.access.check();
        assert_eq!(checked, Ok(()), "an access list that makes sense");
        Self {
            lus: LogicalUnits::new(&config.target_name, &config.lus),
            ports: vec![Port::default(); config.portals.len()],
            connections: Slab::default(),
            sessions: Sessions::default(),
            tasks: Slab::default(),
            buffers: Buffers::new(limits.write_buffer_bytes_max),
            budget_queue: VecDeque::new(),
            barriers: Vec::new(),
            remains: Remains::default(),
            ranges: Ranges::default(),
            ios: VecDeque::new(),
            background: Background::default(),
            unwanted: VecDeque::new(),
            to_transmit: VecDeque::new(),
            to_close: VecDeque::new(),
            logins: LoginBudget::default(),
            refusals: Refusals::default(),
            scratch: Vec::new(),
            notices: Vec::new(),
            returned: VecDeque::new(),
            retired: Vec::new(),
            counters: Counters::new(config.portals.len()),
            next_check: Time::MAX,
            shutting_down: false,
            shut_down_by: Time::MAX,
            nothing: Transmit::default(),
            entropy: Generator(entropy),
            config,
        }
    }

    /// A connection came in on portal `portal` (an index into [`TargetConfig::portals`]). `None` if a limit is reached, or the target
    /// is shutting down: close it.
    pub fn handle_connected(
        &mut self,
        now: Time,
        portal: usize,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> Option<ConnectionId> {
        assert!(
            portal < self.config.portals.len(),
            "there is a portal {portal}"
        );
        let limits = &self.config.limits;
        let (max, per_origin_max) = (limits.logins_max, limits.logins_per_address_max);
        let origin = Origin::of(peer.ip());
        if self.shutting_down || !self.logins.begin(origin, max, per_origin_max) {
            self.counters.sessions.logins_refused += 1;
            return None;
        }
        self.check_by(now + self.config.limits.login_timeout);
        let window = self.config.limits.commands_max;
        let (key, _) = self
            .connections
            .insert_with(|key| Connection::new(now, key, portal, local, peer, window));
        Some(ConnectionId(key))
    }

    /// The connection's socket ended, however. What was queued to it is dropped.
    pub fn handle_closed(&mut self, now: Time, connection: ConnectionId) {
        self.end(now, connection);
        self.forget(connection);
        self.start_budgeted(now);
    }

    /// The shell has caught a panic in a call that was about this connection: a defect of ours, which costs this session. The session is ended and
    /// what it had queued is dropped. Then the state that sessions share (tables of connections, tasks and sessions, the budget for write
    /// data) is checked; the other sessions go on only if it holds together. A task or a share of a budget may be lost to it until a restart.
    ///
    /// # Panics
    /// If the shared state contradicts itself: then no session can be served correctly.
    pub fn handle_panicked(&mut self, now: Time, connection: ConnectionId) {
        self.counters.sessions.panics += 1;
        self.end(now, connection);
        self.discard_transmit(connection);
        if let Err(contradiction) = self.audit() {
            panic!("a defect in one session damaged what all share: {contradiction}");
        }
    }

    /// The next access to an LU that is to be done, those of long commands last.
    pub fn poll_io(&mut self) -> Option<Io> {
        let mut unlimited = u64::MAX;
        self.poll_io_within(&mut unlimited)
    }

    /// The next access to an LU that is to be done. One of a long command (WRITE SAME, SANITIZE, UNMAP, EXTENDED COPY, …) is given only while
    /// `work_left_bytes` is not 0, and its work is taken off: a shell sets it anew whenever it has looked at its sockets.
    pub fn poll_io_within(&mut self, work_left_bytes: &mut u64) -> Option<Io> {
        self.ios
            .pop_front()
            .or_else(|| self.background.pop(work_left_bytes))
    }

    /// Whether [`Self::poll_io_within`] gives something as soon as there is work left.
    #[must_use]
    pub fn has_io(&self) -> bool {
        !self.ios.is_empty() || self.background.is_ready()
    }

    /// An access that was given out and whose task was aborted: one that is still held (for space) may be ended at once. It is answered by
    /// [`Target::handle_io_done`] all the same. A shell that cannot end accesses need not ask.
    pub fn poll_unwanted(&mut self) -> Option<IoId> {
        self.unwanted.pop_front()
    }

    /// The next login that was refused. Of a flood only the first are kept; `logins_refused` counts all.
    pub fn poll_refusal(&mut self) -> Option<LoginRefusal> {
        self.refusals.pop()
    }

    /// A connection to close now: what it had to send is sent, or was given up. Its id is forgotten.
    pub fn poll_close(&mut self) -> Option<ConnectionId> {
        while let Some(connection) = self.to_close.pop_front() {
            if self.forget(connection) {
                return Some(connection);
            }
        }
        None
    }

    /// The buffers that commands and storage use again.
    pub fn buffers(&mut self) -> &mut Buffers {
        &mut self.buffers
    }

    /// An empty buffer of at least `capacity` bytes for [`crate::IoResult::ReadData`]: one used before, if there is one.
    #[must_use]
    pub fn take_buffer(&mut self, capacity: usize) -> Vec<u8> {
        self.buffers.take(capacity)
    }

    /// Sessions in full feature phase.
    #[must_use]
    pub fn sessions_now(&self) -> usize {
        self.sessions.by_tsih.len()
    }

    /// Gives each counter as entity (`lu/N`, `port/N`, `sessions`), name and cumulative value.
    pub fn visit_counters(&self, visit: &mut dyn FnMut(&str, &str, f64)) {
        for lun in self.lus.numbers() {
            self.counters.lus[usize::from(lun)].visit(&format!("lu/{lun}"), visit);
        }
        let mut ports = self.counters.ports.clone();
        for (_, conn) in self.connections.iter() {
            ports[conn.portal].add_pdus(conn);
        }
        for (number, port) in ports.iter().enumerate() {
            port.visit(&format!("port/{number}"), visit);
        }
        self.counters.sessions.visit(visit);
        visit("sessions", "sessions_now", self.sessions_now() as f64);
        visit("sessions", "connections_now", self.connections.len() as f64);
        let owed = self.sessions.owed_attentions();
        visit("sessions", "owed_attentions_now", owed as f64);
        visit(
            "sessions",
            "write_buffer_bytes_now",
            self.buffers.reserved_bytes() as f64,
        );
    }

    pub(crate) fn queue_close(&mut self, connection: ConnectionId) {
        if let Some(conn) = self.connections.get_mut(connection.0)
            && !conn.closing
        {
            conn.closing = true;
            self.to_close.push_back(connection);
        }
    }

    /// Removes a connection that has ended.
    fn forget(&mut self, connection: ConnectionId) -> bool {
        let Some(conn) = self.connections.remove(connection.0) else {
            return false;
        };
        self.counters.ports[conn.portal].add_pdus(&conn);
        let abandoned = conn.lent.into_iter().map(|(_, lent)| lent);
        self.returned.extend(abandoned.map(Returned::Abandoned));
        true
    }

    /// Ends a connection and with it its session or login. What is queued is sent before it is closed; nothing more is received.
    pub(crate) fn end(&mut self, now: Time, connection: ConnectionId) {
        match self.connections.get(connection.0).map(|conn| &conn.phase) {
            None | Some(Phase::Ending) => return,
            Some(Phase::Login(_)) => self.count_login_ended(connection),
            Some(Phase::FullFeature(session)) => {
                let (name, tsih) = (session.name.clone(), session.tsih);
                self.sessions.by_tsih.remove(&tsih);
                self.sessions.by_name.remove(&name);
                self.lus.lose(&name.nexus);
                let left = self.abort_session(connection);
                self.remains.add(name, connection, left);
            }
        }
        let linger = now + self.config.limits.linger;
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return;
        };
        conn.phase = Phase::Ending;
        conn.clocks.ending = Some(now);
        if conn.transmit.is_empty() {
            self.queue_close(connection);
        }
        self.check_by(linger);
        self.announce(connection);
    }

    /// Gives up what is queued to a connection that has ended, and closes it.
    pub(crate) fn discard_transmit(&mut self, connection: ConnectionId) {
        if let Some(conn) = self.connections.get_mut(connection.0) {
            conn.transmit = Transmit::default();
        }
        self.queue_close(connection);
    }

    /// A connection is in login phase no more.
    pub(crate) fn count_login_ended(&mut self, connection: ConnectionId) {
        let Some(conn) = self.connections.get(connection.0) else {
            return;
        };
        if let Phase::Login(login) = &conn.phase {
            self.logins
                .end(Origin::of(conn.peer.ip()), login.held_bytes);
        }
    }

    /// Takes up a command as a task, which `make` makes.
    pub(crate) fn insert_task(
        &mut self,
        connection: ConnectionId,
        command: &ScsiCommand,
        make: impl FnOnce() -> Task,
    ) -> Key {
        let (key, _) = self.tasks.insert_with(|_| make());
        if let Some(conn) = self.connections.get_mut(connection.0) {
            conn.take_up(command, key);
        }
        key
    }

    /// Removes a task and gives back all it holds.
    #[inline]
    pub(crate) fn remove_task(&mut self, key: Key) -> Option<Ended> {
        let ended = self.tasks.discard(key, |task| {
            task.release(&mut self.buffers);
            if let Some(conn) = self.connections.get_mut(task.connection.0) {
                conn.let_go(task);
            }
            task.ended()
        });
        if !self.ranges.is_idle() {
            self.ranges.release(key);
        }
        ended
    }
}
