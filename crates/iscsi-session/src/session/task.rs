//! Tasks of a session: the request, its progress, and its tag on the wire.
use std::sync::Arc;

use hakaru_units::Time;
use hakaru_wire::iscsi::{Itt, Lun};

use super::phases::{Clock, Phases};
use crate::error::TaskError;

/// Data of a task. The discriminant has four bytes, because a smaller one leaves padding, which is
/// moved byte by byte.
#[derive(Clone, Debug)]
#[repr(u32)]
pub enum TaskData {
    /// No data.
    None,
    /// Data from the target.
    In {
        /// Maximum number of bytes expected.
        length: u32,
        /// Whether [`Done`] returns the bytes. Otherwise they are counted and dropped.
        keep: bool,
    },
    /// Data to the target.
    Out {
        /// Number of bytes.
        length: u32,
        /// Buffer that contains the bytes, referenced until they are sent.
        buffer: Arc<Vec<u8>>,
        /// Offset of the bytes in the buffer.
        begin: usize,
    },
}

impl TaskData {
    /// Returns the Expected Data Transfer Length, bytes.
    #[inline]
    pub(super) fn length(&self) -> u32 {
        match *self {
            TaskData::None => 0,
            TaskData::In { length, .. } | TaskData::Out { length, .. } => length,
        }
    }
}

/// A SCSI command to execute.
#[derive(Clone, Debug)]
pub struct Task {
    /// Caller's identifier of the task, returned in [`Done`].
    pub tag: u32,
    /// Logical unit.
    pub lun: Lun,
    /// Command descriptor block.
    pub cdb: [u8; 16],
    /// Data of the command.
    pub data: TaskData,
}

/// A task that has ended and was not polled yet.
#[derive(Debug)]
pub(super) struct Ended {
    pub slot: u16,
    pub result: Result<u32, TaskError>,
}

/// A completed task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Caller's identifier of the task.
    pub tag: u32,
    /// Number of bytes transferred, or the error.
    pub result: Result<u32, TaskError>,
    /// Arrival of the response.
    pub ended: Time,
    /// Time spent in each phase.
    pub phases: Phases,
    /// Number of BUSY and TASK SET FULL answers, at most 255, each followed by a retry.
    pub busies: u8,
    /// Data of a read with [`TaskData::In::keep`]; otherwise empty. [`super::Session::recycle`]
    /// accepts the buffer for reuse.
    pub data: Vec<u8>,
}

/// State of a slot's task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// To be sent, for the first time or again.
    Waiting,
    /// Sent and not yet answered.
    Sent,
    /// Ended, or never begun.
    Ended,
}

/// A task and its progress.
#[derive(Debug)]
pub(super) struct LiveTask {
    pub task: Task,
    pub clock: Clock,
    /// Instant by which the task must have ended.
    pub deadline: Time,
    stage: Stage,
    /// Bytes of the Data-In PDUs begun so far (in), or bytes queued for sending (out).
    pub moved: u32,
    /// Next DataSN (in) or R2TSN (out).
    pub next_sn: u32,
    /// Data received, if the task keeps it.
    pub read_data: Vec<u8>,
    /// Retries after UNIT ATTENTION.
    pub attentions: u8,
    /// Retries after BUSY or TASK SET FULL.
    pub busies: u8,
}

impl LiveTask {
    /// Returns the initial content of a slot.
    fn vacant() -> LiveTask {
        LiveTask {
            task: Task {
                tag: 0,
                lun: Lun(0),
                cdb: [0; 16],
                data: TaskData::None,
            },
            clock: Clock::new(Time::ZERO, 0),
            deadline: Time::ZERO,
            stage: Stage::Ended,
            moved: 0,
            next_sn: 0,
            read_data: Vec::new(),
            attentions: 0,
            busies: 0,
        }
    }

    /// Begins a task that was just submitted. `read_data` is empty, because the previous task
    /// returned its data.
    #[inline]
    fn begin(&mut self, now: Time, task: Task, deadline: Time) {
        let length_out = match task.data {
            TaskData::Out { length, .. } => length,
            _ => 0,
        };
        self.task = task;
        self.clock = Clock::new(now, length_out);
        self.deadline = deadline;
        self.stage = Stage::Waiting;
        self.moved = 0;
        self.next_sn = 0;
        self.attentions = 0;
        self.busies = 0;
    }

    /// Resets the task to its state before it was sent.
    pub(super) fn rewind(&mut self, now: Time) {
        self.clock.rewind(now);
        self.stage = Stage::Waiting;
        self.moved = 0;
        self.next_sn = 0;
        self.read_data.clear();
    }

    /// Ends the task: its tag becomes invalid and its outgoing data is released. The clock and the
    /// read data remain until the caller polls the result.
    #[inline]
    pub(super) fn end(&mut self, now: Time) {
        self.clock.end(now);
        self.task.data = TaskData::None;
        self.stage = Stage::Ended;
    }
}

/// A slot for a task. Tasks are too large to move, so each begins and ends in its slot.
#[derive(Debug)]
struct Slot {
    /// Number of uses of the slot, modulo 2^16, so that an old tag does not match a new task.
    generation: u16,
    live: LiveTask,
}

/// Tasks by slot. An Initiator Task Tag is `generation << 16 | slot`.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    slots: Vec<Slot>,
    free: Vec<u16>,
}

/// Maximum number of slots. Slot numbers from this value on are the tags of the session's own
/// exchanges.
const SLOTS_MAX: u16 = 0xff00;
/// Tag of the login.
pub(super) const LOGIN: Itt = Itt(0xff00);
/// Tag of a ping.
pub(super) const PING: Itt = Itt(0xff01);
/// Tag of a text exchange.
pub(super) const TEXT: Itt = Itt(0xff02);
/// Tag of the logout.
pub(super) const LOGOUT: Itt = Itt(0xff03);

impl Tasks {
    /// Puts a task into a free slot.
    ///
    /// # Panics
    /// Panics beyond 65 280 tasks. An initiator has at most 4096 per session
    /// ([`hakaru_contract::initiator::COMMANDS_MAX`]).
    #[inline]
    pub(super) fn insert(&mut self, now: Time, task: Task, deadline: Time) -> u16 {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => self.add_slot(),
        };
        let entry = &mut self.slots[usize::from(slot)];
        entry.live.begin(now, task, deadline);
        slot
    }

    #[cold]
    fn add_slot(&mut self) -> u16 {
        assert!(
            self.slots.len() < usize::from(SLOTS_MAX),
            "more than 65 280 tasks in a session"
        );
        self.slots.push(Slot {
            generation: 0,
            live: LiveTask::vacant(),
        });
        (self.slots.len() - 1) as u16
    }

    /// Removes a task that has ended and frees its slot.
    #[inline]
    pub(super) fn take(&mut self, slot: u16, result: Result<u32, TaskError>) -> Done {
        self.free.push(slot);
        let live = &mut self.slots[usize::from(slot)].live;
        Done {
            tag: live.task.tag,
            result,
            ended: live.clock.since(),
            phases: live.clock.phases(),
            busies: live.busies,
            data: std::mem::take(&mut live.read_data),
        }
    }

    /// Assigns a new tag to the task in `slot` and marks the task as sent.
    ///
    /// # Panics
    /// Panics if the slot has no waiting task, which is a defect of the caller.
    #[inline]
    pub(super) fn send(&mut self, slot: u16) -> (Itt, &mut LiveTask) {
        let entry = &mut self.slots[usize::from(slot)];
        assert!(
            entry.live.stage == Stage::Waiting,
            "a queued slot has a waiting task"
        );
        entry.generation = entry.generation.wrapping_add(1);
        entry.live.stage = Stage::Sent;
        let itt = Itt(u32::from(entry.generation) << 16 | u32::from(slot));
        (itt, &mut entry.live)
    }

    /// Returns the slot and the task that was sent with this tag and is not yet answered.
    #[inline]
    pub(super) fn find(&mut self, itt: Itt) -> Option<(u16, &mut LiveTask)> {
        let (generation, slot) = ((itt.0 >> 16) as u16, itt.0 as u16);
        let entry = self.slots.get_mut(usize::from(slot))?;
        let is_current = entry.generation == generation && entry.live.stage == Stage::Sent;
        is_current.then_some((slot, &mut entry.live))
    }

    /// Returns the task in `slot`, if it has not ended.
    #[inline]
    pub(super) fn get_mut(&mut self, slot: u16) -> Option<&mut LiveTask> {
        let live = &mut self.slots.get_mut(usize::from(slot))?.live;
        (live.stage != Stage::Ended).then_some(live)
    }

    /// Returns all tasks that have not ended.
    pub(super) fn iter(&self) -> impl Iterator<Item = &LiveTask> {
        let lives = self.slots.iter().map(|slot| &slot.live);
        lives.filter(|live| live.stage != Stage::Ended)
    }

    /// Returns the number of tasks, including those that have ended and were not removed.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
