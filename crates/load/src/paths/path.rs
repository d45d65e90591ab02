//! A path of a host: its connection, the access state of its port, and whether commands may use it.
use std::time::Duration;

use hakaru_units::Time;
use hakaru_wire::scsi::{AccessState, PortGroup};

/// Whether commands use a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usability {
    /// Commands use the path.
    Usable,
    /// The path has no session.
    Lost,
    /// The access state of the port does not permit its use.
    Refused(AccessState),
}

/// A change of a path, in the order of its occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathChange {
    /// Instant of the change.
    pub at: Time,
    /// Number of the path.
    pub path: usize,
    /// New state.
    pub usability: Usability,
}

/// Connection of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Without a connection.
    Down {
        /// Instant of the next attempt.
        retry_at: Time,
    },
    /// A connection attempt, a login or a survey is in progress.
    Connecting,
    /// The session is ready.
    Up,
}

/// End of the writes of a lost session by a login over another path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// Not needed, or not possible.
    Idle,
    /// To be tried at the next connection attempt.
    Wanted,
    /// Being tried.
    Underway,
}

/// A path.
#[derive(Debug)]
pub struct Path {
    /// Connection of the path.
    pub link: Link,
    /// End of the writes of its lost session.
    pub fence: Fence,
    /// Target port group of the port (ALUA), if the target reports one.
    pub group: Option<u16>,
    /// Target portal group of the portal (iSCSI), known after the first login.
    pub portal_group: Option<u16>,
    /// Access state of the port.
    pub access: AccessState,
    /// Whether the target prefers the group of the port (PREF).
    pub preferred: bool,
    /// Instant from which commands may use the path; zero once it was reached, because the times at
    /// which data arrived over different connections need not increase.
    pub usable_from: Time,
    /// State at the last change that was reported.
    pub usability: Usability,
    /// Number of commands on the path.
    pub outstanding: u32,
    /// Instant of the last answer.
    pub last_answer: Time,
    /// Instant of the loss, until the next session is ready.
    pub lost_at: Option<Time>,
    /// Instant at which the held commands are released to other paths.
    pub held_until: Option<Time>,
    /// Instant of the last connection attempt.
    pub attempted: Time,
}

impl Path {
    /// Creates a path that the caller connects.
    pub fn new() -> Path {
        Path {
            link: Link::Connecting,
            fence: Fence::Idle,
            group: None,
            portal_group: None,
            access: AccessState::ActiveOptimized,
            preferred: false,
            usable_from: Time::ZERO,
            usability: Usability::Lost,
            outstanding: 0,
            last_answer: Time::ZERO,
            lost_at: None,
            held_until: None,
            attempted: Time::ZERO,
        }
    }

    /// Returns whether commands may use the path at this instant.
    pub fn usability(&self, now: Time) -> Usability {
        match (self.link, self.access) {
            (Link::Up, AccessState::ActiveOptimized | AccessState::ActiveNonOptimized)
                if now >= self.usable_from =>
            {
                Usability::Usable
            }
            (Link::Up, AccessState::ActiveOptimized | AccessState::ActiveNonOptimized)
            | (Link::Down { .. } | Link::Connecting, _) => Usability::Lost,
            (Link::Up, state) => Usability::Refused(state),
        }
    }

    /// Returns the rank of the access over the path: the lower, the better. A preferred group is
    /// better than others with the same access state.
    pub fn rank(&self) -> (u8, bool) {
        (self.access as u8, !self.preferred)
    }

    /// Returns whether a session is ready and the target reports states of its port.
    pub fn is_checked(&self) -> bool {
        self.link == Link::Up && self.group.is_some()
    }

    /// Returns when the path must be considered next: it may connect, be used again, or its
    /// commands are released. `Time::MAX`: not before an event.
    pub fn poll_timeout(&self) -> Time {
        let retry = match self.link {
            Link::Down { retry_at } => retry_at,
            _ => Time::MAX,
        };
        let returns = self.usability == Usability::Lost && self.link == Link::Up;
        let usable_from = if returns { self.usable_from } else { Time::MAX };
        let held_until = self.held_until.unwrap_or(Time::MAX);
        retry.min(usable_from).min(held_until)
    }

    /// Handles the first or a new session, which was surveyed. Returns the duration of the loss
    /// before it, ns.
    pub fn handle_up(
        &mut self,
        now: Time,
        group: Option<&PortGroup>,
        failback: Duration,
    ) -> Option<u64> {
        self.link = Link::Up;
        self.group = group.map(|group| group.number);
        self.access = group.map_or(AccessState::default(), |group| group.state);
        self.preferred = group.is_some_and(|group| group.preferred);
        self.last_answer = now;
        self.held_until = None;
        let Some(lost_at) = self.lost_at.take() else {
            // The set-up is no change.
            self.usability = self.usability(now);
            return None;
        };
        self.usable_from = now + failback;
        Some(now.ns_since(lost_at))
    }

    /// Handles the end of a session that was ready.
    pub fn handle_lost(&mut self, now: Time, recovery: Duration) {
        self.lost_at = Some(now);
        self.held_until = Some(now + recovery);
        self.outstanding = 0;
    }

    /// Waits for the next attempt to connect, which follows the last one after `retry` at the
    /// earliest.
    pub fn wait(&mut self, now: Time, retry: Duration) {
        self.link = Link::Down {
            retry_at: now.max(self.attempted + retry),
        };
    }

    /// Handles an answer to a command.
    pub fn handle_answer(&mut self, now: Time) {
        self.outstanding -= 1;
        self.last_answer = now;
    }

    /// Updates the state of the path, and returns the one that was last reported and the new one.
    pub fn update(&mut self, now: Time) -> (Usability, Usability) {
        if self.usable_from <= now {
            self.usable_from = Time::ZERO;
        }
        let usability = self.usability(now);
        let before = std::mem::replace(&mut self.usability, usability);
        (before, usability)
    }
}
