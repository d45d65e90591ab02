//! Effects of one connection on others, and the queues that the shell polls.

use std::collections::VecDeque;

use hakaru_scsi_device::{Outcome, Returned, Verdict};
use hakaru_send_queue::Key;
use hakaru_units::Time;
use hakaru_wire::iscsi::TaskManagementRequest;

use crate::id::ConnectionId;
use crate::shared::barriers::AfterAbort;

/// An effect on connections other than the one that caused it. The endpoint settles it before the
/// next PDU.
#[derive(Debug)]
pub(crate) enum Effect {
    /// A task management function was requested.
    Manage {
        connection: ConnectionId,
        request: TaskManagementRequest,
    },
    /// A login has requested full feature phase. An older session of the same name ends first.
    BeginSession { connection: ConnectionId },
    /// A command has left notices for other nexuses in the device server. `resume` is the task that
    /// then continues with this outcome.
    Notify {
        connection: ConnectionId,
        resume: Option<(Key, Outcome)>,
    },
    /// An operation has ended, and the command that waited for it ends.
    FinishTask { task: Key, verdict: Verdict },
    /// The last of a set of aborted tasks has ended.
    AfterAbort(AfterAbort),
}

/// Effects on other connections, and connections and memory that the shell polls.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) effects: VecDeque<Effect>,
    /// Write budget, or a range, may have become free for a command that waits.
    pub(crate) freed: bool,
    /// Connections with something to send.
    pub(crate) to_transmit: VecDeque<ConnectionId>,
    pub(crate) to_close: VecDeque<ConnectionId>,
    /// Memory that returns to the storage.
    pub(crate) returned: VecDeque<Returned>,
    /// Lower bound of all deadlines.
    pub(crate) next_check: Time,
}

impl Default for Outbox {
    fn default() -> Self {
        Self {
            effects: VecDeque::new(),
            freed: false,
            to_transmit: VecDeque::new(),
            to_close: VecDeque::new(),
            returned: VecDeque::new(),
            next_check: Time::MAX,
        }
    }
}

impl Outbox {
    /// Whether the endpoint has something to settle.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.freed || !self.effects.is_empty()
    }

    /// Schedules the check of deadlines at `at` or earlier.
    pub(crate) fn check_by(&mut self, at: Time) {
        self.next_check = self.next_check.min(at);
    }
}
