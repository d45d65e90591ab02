//! The paths of a host: their states and timers, and the path of each command. It has no session and
//! no clock: [`super::MultipathHost`] reports what its sessions do and carries out the actions.
//!
//! 1. [`PathSet::handle_login`], [`PathSet::handle_up`], [`PathSet::handle_lost`],
//!    [`PathSet::handle_states`] and [`PathSet::handle_refused`] report events of a path.
//! 2. While [`PathSet::has_room`], the caller may [`PathSet::submit`] commands. Then
//!    [`PathSet::poll_start`] returns the commands to send, each with its path.
//! 3. [`PathSet::handle_done`] ends a command.
//! 4. [`PathSet::poll_timeout`] returns when [`PathSet::handle_timeout`] is due. Afterwards
//!    [`PathSet::poll_action`] and [`PathSet::poll_change`] return what the caller must do, and what
//!    it may report.
use std::collections::VecDeque;
use std::time::Duration;

use hakaru_contract::initiator::Multipath;
use hakaru_units::Time;
use hakaru_wire::scsi::{AccessState, PortGroup};

use super::choice::Choice;
use super::figures::PathCounters;
use super::flights::{AttemptId, FLIGHTS_MAX, Flights, WriteRange};
use super::path::{Fence, Link, Path, PathChange, Usability};

/// Interval between checks of the access states while a state is in transition or no path is usable.
const TRANSITION_CHECK: Duration = Duration::from_millis(100);

/// A task for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathAction {
    /// Connect and log in with the session ID of this path. [`PathSet::handle_login`] or
    /// [`PathSet::handle_lost`] follows.
    Connect {
        /// Number of the path.
        path: usize,
        /// Path over whose portal to connect. If it is another one, the login only serves to end the
        /// lost session, and [`PathSet::handle_fenced`] follows instead.
        through: usize,
    },
    /// Read the access states of the ports over this path. [`PathSet::handle_states`] follows, or
    /// nothing if that fails.
    Check {
        /// Number of the path.
        path: usize,
    },
    /// Fail every command, because no path was usable for the time limit. The set has no commands
    /// any more.
    Fail,
}

/// Timers of the paths, as durations.
#[derive(Clone, Copy, Debug)]
struct Timers {
    recovery: Duration,
    retry: Duration,
    check: Duration,
    failback: Duration,
    no_path: Duration,
    stale: Duration,
}

/// The paths of a host and their commands, of type `C`. See the module's documentation.
#[derive(Debug)]
pub struct PathSet<C> {
    choice: Choice,
    timers: Timers,
    paths: Box<[Path]>,
    flights: Flights<C>,
    /// Instant since which no path is usable.
    unusable_since: Option<Time>,
    /// Instant of the next check of the access states.
    check_at: Time,
    actions: VecDeque<PathAction>,
    changes: VecDeque<PathChange>,
    counters: PathCounters,
}

impl<C> PathSet<C> {
    /// Creates a set of `paths` paths, which the caller connects. Each has at most `outstanding_max`
    /// outstanding commands. `config` was validated.
    ///
    /// # Panics
    /// Panics without a path.
    #[must_use]
    pub fn new(paths: usize, config: &Multipath, outstanding_max: u32) -> PathSet<C> {
        assert!(paths > 0, "a host needs a path");
        let seconds = Duration::from_secs_f64;
        PathSet {
            choice: Choice::new(config.policy, outstanding_max),
            timers: Timers {
                recovery: seconds(config.recovery_s),
                retry: seconds(config.retry_s),
                check: seconds(config.check_s),
                failback: seconds(config.failback_s),
                no_path: seconds(config.no_path_s),
                stale: seconds(config.stale_s),
            },
            paths: (0..paths).map(|_| Path::new()).collect(),
            flights: Flights::new(),
            unusable_since: None,
            check_at: Time::MAX,
            actions: VecDeque::new(),
            changes: VecDeque::new(),
            counters: PathCounters::default(),
        }
    }

    /// Handles a login over the path's own portal. The target has ended an older session of the path
    /// before. [`PathSet::handle_up`] or [`PathSet::handle_lost`] follows.
    pub fn handle_login(&mut self, path: usize, portal_group: Option<u16>) {
        self.flights.end_ghosts(path);
        let path = &mut self.paths[path];
        path.fence = Fence::Idle;
        path.portal_group = portal_group;
    }

    /// Handles a login with the session ID of `path` over another path, after which the caller ends
    /// the session. The target has ended the lost session.
    pub fn handle_fenced(&mut self, now: Time, path: usize) {
        self.flights.end_ghosts(path);
        let path = &mut self.paths[path];
        path.fence = Fence::Idle;
        path.wait(now, self.timers.retry);
    }

    /// Handles the first or a new session of a path, which was surveyed. `group` is the target port
    /// group of the port, if the target has port groups.
    pub fn handle_up(&mut self, now: Time, path: usize, group: Option<&PortGroup>) {
        if let Some(lost_ns) = self.paths[path].handle_up(now, group, self.timers.failback) {
            self.counters.add_failback(lost_ns);
        }
        self.flights.release(path);
        self.schedule_check(now);
        self.note_changes(now);
    }

    /// Handles the end of a path's session, or a failed attempt to begin one. The caller resets the
    /// connection before it sends anything, so that nothing of the session is sent any more.
    pub fn handle_lost(&mut self, now: Time, path: usize) {
        let entry = &mut self.paths[path];
        if entry.link == Link::Up {
            self.counters.path_losses += 1;
            entry.handle_lost(now, self.timers.recovery);
            self.flights.hold(path, now + self.timers.stale);
            if self.flights.has_ghosts(path) {
                entry.fence = Fence::Wanted;
            }
        } else if entry.fence == Fence::Underway {
            entry.fence = Fence::Idle;
        }
        entry.wait(now, self.timers.retry);
        self.note_changes(now);
    }

    /// Handles the states of target port groups, which a check has read.
    pub fn handle_states(&mut self, now: Time, groups: &[PortGroup]) {
        for path in &mut self.paths {
            let own = |group: &&PortGroup| Some(group.number) == path.group;
            if let Some(group) = groups.iter().find(own) {
                (path.access, path.preferred) = (group.state, group.preferred);
            }
        }
        self.note_changes(now);
        self.schedule_check(now);
    }

    /// Handles the answer that the port is in a state without access. The command was not executed
    /// and waits for a path.
    pub fn handle_refused(&mut self, now: Time, path: usize, id: AttemptId, access: AccessState) {
        let Some(slot) = self.flights.find(path, id) else {
            return;
        };
        self.flights.wait(slot);
        let entry = &mut self.paths[path];
        entry.handle_answer(now);
        entry.access = access;
        // A target that names no group is not asked for states, so its refusal does not last.
        if entry.group.is_none() {
            entry.usable_from = now + TRANSITION_CHECK;
            entry.access = AccessState::ActiveOptimized;
        }
        self.request_check(now);
        self.note_changes(now);
    }

    /// Requests a check of the access states, because a unit attention condition reports a change.
    pub fn request_check(&mut self, now: Time) {
        if self.paths.iter().any(|path| path.group.is_some()) {
            self.check_at = now;
        }
    }

    /// Returns whether a command may be submitted: a path has room, and no other command waits for
    /// it.
    #[must_use]
    pub fn has_room(&self, now: Time) -> bool {
        self.flights.len() < FLIGHTS_MAX
            && !self.flights.has_startable()
            && self.choice.of(&self.paths, now).is_some()
    }

    /// Adds a command. `range` is the range of a write in units of the caller; reads have none.
    pub fn submit(&mut self, now: Time, command: C, range: Option<WriteRange>) {
        self.flights.add(command, range);
        self.counters.begin(now);
    }

    /// Returns the next command to send and its path. The caller reads it with
    /// [`PathSet::command`].
    pub fn poll_start(&mut self, now: Time) -> Option<(usize, AttemptId)> {
        let slot = self.flights.first_startable()?;
        let path = self.choice.of(&self.paths, now)?;
        self.choice.advance(path, self.paths.len());
        self.paths[path].outstanding += 1;
        let (id, is_repetition) = self.flights.start(slot, path);
        self.counters.commands_repeated += u64::from(is_repetition);
        Some((path, id))
    }

    /// Returns the command of an attempt on a path.
    #[must_use]
    pub fn command(&self, path: usize, id: AttemptId) -> Option<&C> {
        self.flights.command(self.flights.find(path, id)?)
    }

    /// Ends a command that was answered over a path at `now`, and returns it. `None` for an attempt
    /// that the path no longer has: the answer is late.
    pub fn handle_done(&mut self, now: Time, path: usize, id: AttemptId) -> Option<C> {
        let slot = self.flights.find(path, id)?;
        self.paths[path].handle_answer(now);
        let command = self.flights.remove(slot);
        self.counters.end(now, self.flights.len() > 0);
        command
    }

    /// Returns the next instant at which [`PathSet::handle_timeout`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let no_path = self.unusable_since.map(|since| since + self.timers.no_path);
        let others = [Some(self.check_at), no_path, self.flights.next_expiry()];
        let times = self.paths.iter().map(Path::poll_timeout);
        let earliest = times.chain(others.into_iter().flatten()).min();
        earliest.filter(|&at| at < Time::MAX)
    }

    /// Handles expired timers. An early call has no effect.
    pub fn handle_timeout(&mut self, now: Time) {
        self.flights.expire_ghosts(now);
        for path in 0..self.paths.len() {
            let entry = &mut self.paths[path];
            if entry.held_until.is_some_and(|until| until <= now) {
                entry.held_until = None;
                self.counters.add_failover(now.ns_since(entry.last_answer));
                self.flights.release(path);
            }
            if matches!(self.paths[path].link, Link::Down { retry_at } if retry_at <= now) {
                self.connect(now, path);
            } else if self.paths[path].fence == Fence::Wanted {
                // The attempt over the path itself waits, but the other portal can be used at once.
                self.fence(now, path);
            }
        }
        self.note_changes(now);
        if self.check_at <= now {
            self.check(now);
        }
        let since = self.unusable_since;
        if since.is_some_and(|since| since + self.timers.no_path <= now) {
            self.unusable_since = None;
            self.flights.clear();
            self.actions.push_back(PathAction::Fail);
        }
    }

    /// Returns the next action.
    pub fn poll_action(&mut self) -> Option<PathAction> {
        self.actions.pop_front()
    }

    /// Returns the next change of a path.
    pub fn poll_change(&mut self) -> Option<PathChange> {
        self.changes.pop_front()
    }

    /// Returns the counters, complete until `now`.
    #[must_use]
    pub fn counters(&self, now: Time) -> PathCounters {
        self.counters.until(now)
    }

    /// Returns the counters as [`PathSet::counters`], and begins a new interval of the recent gap.
    pub fn take_counters(&mut self, now: Time) -> PathCounters {
        self.counters.take(now)
    }

    /// Returns whether a path is usable now.
    #[must_use]
    pub fn is_usable(&self, now: Time, path: usize) -> bool {
        self.paths[path].usability(now) == Usability::Usable
    }

    fn connect(&mut self, now: Time, path: usize) {
        if self.paths[path].fence == Fence::Wanted && self.fence(now, path) {
            return;
        }
        let entry = &mut self.paths[path];
        entry.fence = Fence::Idle;
        entry.link = Link::Connecting;
        entry.attempted = now;
        let through = path;
        self.actions
            .push_back(PathAction::Connect { path, through });
    }

    /// Begins to end the lost session of a path over another path of the same target portal group.
    /// Returns whether there is one.
    fn fence(&mut self, now: Time, path: usize) -> bool {
        let group = self.paths[path].portal_group;
        let leads_there = |other: &&Path| other.link == Link::Up && other.portal_group == group;
        let through = self.paths.iter().position(|other| leads_there(&other));
        let is_needed = group.is_some() && self.flights.has_ghosts(path);
        let Some(through) = through.filter(|_| is_needed) else {
            return false;
        };
        let entry = &mut self.paths[path];
        entry.fence = Fence::Underway;
        entry.link = Link::Connecting;
        // The path itself is tried as soon as the other login has ended.
        entry.attempted = Time(
            now.as_ns()
                .saturating_sub(self.timers.retry.as_nanos() as u64),
        );
        self.actions
            .push_back(PathAction::Connect { path, through });
        true
    }

    /// Requests the access states over a path with a session.
    fn check(&mut self, now: Time) {
        let mut up = (0..self.paths.len()).filter(|&path| self.paths[path].link == Link::Up);
        // A path in use answers most surely.
        let path = up
            .clone()
            .find(|&path| self.is_usable(now, path))
            .or_else(|| up.next());
        if let Some(path) = path {
            self.actions.push_back(PathAction::Check { path });
        }
        self.schedule_check(now);
    }

    /// Sets the instant of the next check.
    fn schedule_check(&mut self, now: Time) {
        let mut up = self.paths.iter().filter(|path| path.is_checked());
        let changes = |path: &Path| path.access == AccessState::Transitioning;
        self.check_at = if up.clone().next().is_none() {
            Time::MAX
        } else if self.unusable_since.is_some() || up.any(changes) {
            now + TRANSITION_CHECK.min(self.timers.check)
        } else {
            now + self.timers.check
        };
    }

    /// Counts and reports paths that have become usable or unusable.
    fn note_changes(&mut self, now: Time) {
        let mut usable = 0;
        for (path, entry) in self.paths.iter_mut().enumerate() {
            let (before, usability) = entry.update(now);
            usable += u64::from(usability == Usability::Usable);
            if before == usability {
                continue;
            }
            if before == Usability::Usable {
                self.counters.path_switches += 1;
            } else if usability == Usability::Usable {
                self.counters.path_returns += 1;
            }
            self.changes.push_back(PathChange {
                at: now,
                path,
                usability,
            });
        }
        self.counters.paths_usable = usable;
        if usable > 0 {
            self.unusable_since = None;
        } else {
            self.unusable_since.get_or_insert(now);
        }
    }
}
