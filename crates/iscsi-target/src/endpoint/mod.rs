//! The endpoint: accepts connections, passes bytes and results to them, and settles the effects of
//! one connection on others.
//!
//! An entry point resolves a connection's id once. Functions below it take the connection and
//! [`Core`].

mod audit;
mod effects;
mod lent;
mod management;
mod operator;
mod resume;
mod sending;
mod timeouts;

use core::net::SocketAddr;

use hakaru_scsi_device::{Buffers, Io, IoId, IoResult, Returned};
use hakaru_send_queue::{Key, Slab};
use hakaru_units::Time;
use hakaru_wire::iscsi::frame::Framer;

use crate::config::{LOGIN_DATA_SEGMENT_BYTES, TASKS_MAX, TargetConfig};
use crate::connection::end::end;
use crate::connection::link::Link;
use crate::connection::receive::receive;
use crate::connection::{Active, Connection, Phase};
use crate::id::ConnectionId;
use crate::login::authentication::Entropy;
use crate::login::budget::Origin;
use crate::login::refusal::LoginRefusal;
use crate::shared::Core;
use crate::task::abort::finish_aborted;
use crate::task::answer::answer;
use crate::task::parameters::{end_keeping, finish_keeping};
use crate::task::program::handle_step_done;
use crate::task::read::start_waiting;
use crate::task::{Access, Stage, Task};
use crate::transmit::Transmit;

/// A connection and the state of its receive stream.
#[derive(Debug)]
struct Entry {
    framer: Framer,
    conn: Connection,
}

/// An iSCSI target with all its sessions. The crate's documentation lists its calls in order.
#[derive(Debug)]
pub struct Target {
    connections: Slab<Entry>,
    core: Core,
    /// Buffers that were sent to their end, on their way back to the pool.
    retired: Vec<Vec<u8>>,
    /// `shut_down` was called; sessions end at this time at the latest.
    shut_down_by: Option<Time>,
    /// The send queue of a connection that has ended.
    empty: Transmit,
}

impl Target {
    /// Creates a target without sessions, for an access list without CHAP users.
    ///
    /// # Panics
    /// If the configuration violates a documented bound, or has CHAP users, which need
    /// [`Self::with_entropy`].
    #[must_use]
    pub fn new(config: TargetConfig) -> Self {
        assert!(
            !config.access.asks_for_chap(),
            "CHAP needs a generator of random bytes"
        );
        Self::with_entropy(
            config,
            Box::new(|_| unreachable!("no initiator authenticates with CHAP")),
        )
    }

    /// Creates a target without sessions. `entropy` generates the challenges of CHAP, which must
    /// never repeat, not even after a restart (CVE-2024-45751): pass the operating system's
    /// generator.
    ///
    /// # Panics
    /// If the configuration violates a documented bound.
    #[must_use]
    pub fn with_entropy(config: TargetConfig, entropy: Entropy) -> Self {
        let limits = &config.limits;
        assert!(
            (1..u32::from(u16::MAX)).contains(&limits.sessions_max),
            "sessions_max must be 1 to 65 534, because each session has a TSIH"
        );
        assert!(
            (1..1 << 20).contains(&limits.commands_max),
            "commands_max must be 1 to 2^20 - 1"
        );
        assert!(
            (1..=TASKS_MAX).contains(&limits.tasks_max),
            "tasks_max must be 1 to 2^24 - 257, because each task has a Target Transfer Tag"
        );
        assert!(
            limits.session_write_buffer_bytes_max >= u64::from(limits.transfer_bytes_max),
            "session_write_buffer_bytes_max must be at least transfer_bytes_max"
        );
        assert!(
            limits.write_buffer_bytes_max >= limits.session_write_buffer_bytes_max,
            "write_buffer_bytes_max must be at least session_write_buffer_bytes_max"
        );
        assert!(
            (1..=256).contains(&config.portals.len()),
            "a target must have 1 to 256 portals"
        );
        let checked = config.access.check();
        assert_eq!(checked, Ok(()), "the access list must be consistent");
        Self {
            core: Core::new(config, entropy),
            connections: Slab::default(),
            retired: Vec::new(),
            shut_down_by: None,
            empty: Transmit::default(),
        }
    }

    /// Handles a connection that was accepted on portal `portal` (an index into
    /// [`TargetConfig::portals`]). Returns `None` if a limit is reached or the target is shutting
    /// down: close the connection.
    ///
    /// # Panics
    /// If there is no such portal.
    pub fn handle_connected(
        &mut self,
        now: Time,
        portal: usize,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> Option<ConnectionId> {
        let core = &mut self.core;
        let limits = &core.config.limits;
        assert!(
            portal < core.config.portals.len(),
            "the target has no portal {portal}"
        );
        let origin = Origin::of(peer.ip());
        let open = self.connections.len() as u32;
        if core.shutting_down || !core.logins.begin(origin, limits, open) {
            core.counters.sessions.logins_refused += 1;
            return None;
        }
        core.outbox.check_by(now + limits.login_timeout);
        let window = limits.commands_max;
        let (key, _) = self.connections.insert_with(|key| Entry {
            framer: Framer::new(LOGIN_DATA_SEGMENT_BYTES),
            conn: Connection {
                link: Link::new(now, key, portal, local, peer, window),
                phase: Phase::Login(None),
            },
        });
        Some(ConnectionId(key))
    }

    /// Handles received bytes and consumes all of them.
    pub fn handle_received(&mut self, now: Time, connection: ConnectionId, bytes: &[u8]) {
        let mut rest = bytes;
        let mut began = false;
        while let Some(entry) = self.connections.get_mut(connection.0) {
            let (conn, core) = (&mut entry.conn, &mut self.core);
            if !began {
                began = true;
                if conn.is_ending() {
                    return;
                }
                conn.link.clocks.received = now;
                conn.link.clocks.pinged = None;
                core.counters.ports[conn.link.portal].rx_bytes += bytes.len() as u64;
            }
            if !receive(&mut entry.framer, conn, core, now, &mut rest) {
                return conn.link.announce(&mut core.outbox);
            }
            self.settle(now);
        }
    }

    /// Handles the end of the connection's socket, for any reason. Its send queue is dropped.
    pub fn handle_closed(&mut self, now: Time, connection: ConnectionId) {
        if let Some(entry) = self.connections.get_mut(connection.0) {
            end(&mut entry.conn, &mut self.core, now);
        }
        self.forget(connection);
        self.core.outbox.freed = true;
        self.settle(now);
    }

    /// Handles a panic that the shell has caught in a call about this connection. Such a panic is a
    /// defect of the target and costs this session: the session ends and its send queue is dropped.
    /// Then the state that all sessions share (tables of connections, tasks and sessions, write
    /// budget) is checked. The other sessions continue only if it is consistent. A task or a share
    /// of a budget may leak until a restart.
    ///
    /// # Panics
    /// If the shared state contradicts itself, because then no session can be served correctly.
    pub fn handle_panicked(&mut self, now: Time, connection: ConnectionId) {
        let core = &mut self.core;
        core.counters.sessions.panics += 1;
        if let Some(entry) = self.connections.get_mut(connection.0) {
            end(&mut entry.conn, core, now);
            entry.conn.link.discard_transmit(&mut core.outbox);
        }
        if let Err(contradiction) = self.audit() {
            panic!("a defect in one session damaged the state of all: {contradiction}");
        }
    }

    /// Returns the next access to an LU. Accesses of long commands come last.
    pub fn poll_io(&mut self) -> Option<Io> {
        let mut unlimited = u64::MAX;
        self.poll_io_within(&mut unlimited)
    }

    /// Returns the next access to an LU. An access of a long command (WRITE SAME, SANITIZE, UNMAP,
    /// EXTENDED COPY, …) is returned only while `work_left_bytes` is not 0, and its work is
    /// subtracted. A shell resets `work_left_bytes` each time it has polled its sockets.
    pub fn poll_io_within(&mut self, work_left_bytes: &mut u64) -> Option<Io> {
        let accesses = &mut self.core.accesses;
        accesses
            .ready
            .pop_front()
            .or_else(|| accesses.background.pop(work_left_bytes))
    }

    /// Returns the iSCSI name of the initiator whose command an access belongs to. `None` if its
    /// session has ended, and for accesses that the LU makes by itself.
    #[must_use]
    pub fn initiator_of(&self, id: IoId) -> Option<&str> {
        let connection = self.core.tasks.get(id.0)?.connection?;
        let session = self.connections.get(connection.0)?.conn.session()?;
        Some(&session.name.nexus.initiator_name)
    }

    /// Whether [`Self::poll_io_within`] returns an access when `work_left_bytes` is not 0.
    #[must_use]
    pub fn has_io(&self) -> bool {
        let accesses = &self.core.accesses;
        !accesses.ready.is_empty() || accesses.background.is_ready()
    }

    /// Handles the result of an [`Io`].
    pub fn handle_io_done(&mut self, now: Time, id: IoId, result: IoResult) {
        let (key, core) = (id.0, &mut self.core);
        let Some(task) = core.tasks.get(key) else {
            return core.buffers.give_back(result);
        };
        let (stage, is_program) = (task.stage, task.job.is_some());
        let keeps = matches!(task.access, Access::Keep { .. });
        if let Some(job) = &task.job
            && job.background_bytes > 0
            && let Some(lu) = job.accessing
        {
            core.accesses.background.end(lu, job.background_bytes);
        }
        if let (Stage::Aborted, Some(job), IoResult::Failed(_)) = (stage, &task.job, &result) {
            job.program.lose();
        }
        let mut conn = owner(&mut self.connections, task);
        match (stage, conn.as_mut()) {
            (Stage::Aborted, conn) => {
                if keeps {
                    // The command gets no answer. The reservations are the stored ones, or the
                    // previous ones if storing failed.
                    end_keeping(core, key, &result);
                }
                core.buffers.give_back(result);
                finish_aborted(conn, core, key);
            }
            (Stage::Io, conn) if is_program && !keeps => handle_step_done(conn, core, key, result),
            (Stage::Io, Some(conn)) if keeps => finish_keeping(conn, core, key, &result),
            (Stage::Io, Some(conn)) => answer(conn, core, key, result),
            _ => unreachable!("an access is requested once and answered once"),
        }
        if let Some(conn) = &mut conn {
            start_waiting(conn, core);
            conn.link.announce(&mut core.outbox);
        }
        core.outbox.freed = true;
        self.settle(now);
    }

    /// Returns an access whose task was aborted. The shell may end it at once if it still waits for
    /// space, and reports its end with [`Target::handle_io_done`] in any case. A shell that cannot
    /// end accesses need not poll.
    pub fn poll_unwanted(&mut self) -> Option<IoId> {
        self.core.accesses.unwanted.pop_front()
    }

    /// Returns the next login that was refused. At most 16 are kept; the counter `logins_refused`
    /// counts all.
    pub fn poll_refusal(&mut self) -> Option<LoginRefusal> {
        self.core.refusals.pop()
    }

    /// Returns a connection to close now. Its send queue was sent or dropped, and its id is
    /// forgotten.
    pub fn poll_close(&mut self) -> Option<ConnectionId> {
        while let Some(connection) = self.core.outbox.to_close.pop_front() {
            if self.forget(connection) {
                return Some(connection);
            }
        }
        None
    }

    /// Returns the pool of buffers that commands and storage share.
    pub fn buffers(&mut self) -> &mut Buffers {
        &mut self.core.buffers
    }

    /// Returns an empty buffer of at least `capacity` bytes for [`crate::IoResult::ReadData`], from
    /// the pool if it has one.
    #[must_use]
    pub fn take_buffer(&mut self, capacity: usize) -> Vec<u8> {
        self.core.buffers.take(capacity)
    }

    /// Returns the number of sessions in full feature phase.
    #[must_use]
    pub fn sessions_now(&self) -> usize {
        self.core.sessions.by_tsih.len()
    }

    /// Visits each counter: entity (`lu/N`, `port/N`, `sessions`), name and cumulative value.
    pub fn visit_counters(&self, visit: &mut dyn FnMut(&str, &str, f64)) {
        let counters = &self.core.counters;
        for lun in self.core.device.units.numbers() {
            counters.lus[usize::from(lun)].visit(&format!("lu/{lun}"), visit);
        }
        let mut ports = counters.ports.clone();
        for (_, entry) in self.connections.iter() {
            let link = &entry.conn.link;
            ports[link.portal].add_pdus(link.pdus_in, link.pdus_out);
        }
        for (number, port) in ports.iter().enumerate() {
            port.visit(&format!("port/{number}"), visit);
        }
        counters.sessions.visit(visit);
        for (name, value) in [
            ("sessions_now", self.sessions_now() as f64),
            ("connections_now", self.connections.len() as f64),
            (
                "owed_attentions_now",
                self.core.sessions.owed_attentions() as f64,
            ),
            (
                "write_buffer_bytes_now",
                self.core.buffers.reserved_bytes() as f64,
            ),
        ] {
            visit("sessions", name, value);
        }
    }

    /// Removes a connection that has ended. Returns false if it was removed before.
    fn forget(&mut self, connection: ConnectionId) -> bool {
        let Some(Entry { conn, .. }) = self.connections.remove(connection.0) else {
            return false;
        };
        let link = conn.link;
        self.core.counters.ports[link.portal].add_pdus(link.pdus_in, link.pdus_out);
        let abandoned = link.lent.into_iter().map(|(_, lent)| lent);
        let returned = &mut self.core.outbox.returned;
        returned.extend(abandoned.map(Returned::Abandoned));
        true
    }

    /// Returns a connection, if it is not closed.
    fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.get_mut(id.0).map(|entry| &mut entry.conn)
    }
}

/// Returns the connection that a task came from, if it still has a session.
fn owner<'a>(connections: &'a mut Slab<Entry>, task: &Task) -> Option<Active<'a>> {
    let entry = connections.get_mut(task.connection?.0)?;
    entry.conn.active()
}

/// Returns the connection of a task, if the task exists and the connection still has a session.
fn owner_of<'a>(connections: &'a mut Slab<Entry>, core: &Core, task: Key) -> Option<Active<'a>> {
    owner(connections, core.tasks.get(task)?)
}
