//! Tasks of a session: what was asked, how far it is, and the tags that name them on the wire.
use std::sync::Arc;

use hakaru_units::Time;
use hakaru_wire::iscsi::{Itt, Lun};

use super::phases::{Clock, Phases};
use crate::error::TaskError;

/// Data of a task. Which kind takes four bytes: fewer would leave padding, which is moved byte by
/// byte.
#[derive(Clone, Debug)]
#[repr(u32)]
pub enum TaskData {
    /// None.
    None,
    /// From the target.
    In {
        /// Bytes expected at most.
        length: u32,
        /// Hand the bytes out with [`Done`]; otherwise they are counted and dropped where they lie.
        keep: bool,
    },
    /// To the target.
    Out {
        /// How many bytes.
        length: u32,
        /// Holds them; referenced until they are sent.
        buffer: Arc<Vec<u8>>,
        /// Where in it they begin.
        begin: usize,
    },
}

impl TaskData {
    /// Expected Data Transfer Length.
    #[inline]
    pub(super) fn length(&self) -> u32 {
        match *self {
            TaskData::None => 0,
            TaskData::In { length, .. } | TaskData::Out { length, .. } => length,
        }
    }
}

/// A SCSI command to carry out.
#[derive(Clone, Debug)]
pub struct Task {
    /// The caller's name of the task, returned in [`Done`].
    pub tag: u32,
    /// Logical unit.
    pub lun: Lun,
    /// Command descriptor block.
    pub cdb: [u8; 16],
    /// Its data.
    pub data: TaskData,
}

/// A task has ended, in this slot.
#[derive(Debug)]
pub(super) struct Ended {
    pub slot: u16,
    pub result: Result<u32, TaskError>,
}

/// A task has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The caller's name.
    pub tag: u32,
    /// Bytes moved, or how it failed.
    pub result: Result<u32, TaskError>,
    /// How long it was where.
    pub phases: Phases,
    /// Data of a read that the caller asked to keep. [`super::Session::recycle`] takes the buffer
    /// back.
    pub data: Vec<u8>,
}

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// To be sent, for the first time or again.
    Waiting,
    /// Sent, and not yet answered.
    Sent,
    /// It has ended, or none has begun yet.
    Over,
}

/// A task and how far it is.
#[derive(Debug)]
pub(super) struct Live {
    pub task: Task,
    pub clock: Clock,
    /// By then the task must have ended.
    pub deadline: Time,
    stage: Stage,
    /// Bytes of the Data-In PDUs that have begun (in), or queued to be sent (out).
    pub moved: u32,
    /// Next DataSN (in) or R2TSN (out).
    pub next_sn: u32,
    /// Bytes received, where they are kept.
    pub kept: Vec<u8>,
    /// Retries after UNIT ATTENTION.
    pub attentions: u8,
    /// Retries after BUSY or TASK SET FULL.
    pub busies: u8,
}

impl Live {
    /// Initial content of a slot.
    fn nothing() -> Live {
        Live {
            task: Task {
                tag: 0,
                lun: Lun(0),
                cdb: [0; 16],
                data: TaskData::None,
            },
            clock: Clock::new(Time::ZERO, 0),
            deadline: Time::ZERO,
            stage: Stage::Over,
            moved: 0,
            next_sn: 0,
            kept: Vec::new(),
            attentions: 0,
            busies: 0,
        }
    }

    /// Becomes a task that was just submitted. The one before has given away what it has kept.
    #[inline]
    fn begin(&mut self, now: Time, task: Task, deadline: Time) {
        let sends = match task.data {
            TaskData::Out { length, .. } => length,
            _ => 0,
        };
        self.task = task;
        self.clock = Clock::new(now, sends);
        self.deadline = deadline;
        self.stage = Stage::Waiting;
        self.moved = 0;
        self.next_sn = 0;
        self.attentions = 0;
        self.busies = 0;
    }

    /// As before it was sent for the first time.
    pub(super) fn rewind(&mut self, now: Time) {
        self.clock.rewind(now);
        self.stage = Stage::Waiting;
        self.moved = 0;
        self.next_sn = 0;
        self.kept.clear();
    }

    /// Ends the task: its tag becomes invalid and its sent data are released. The result stays here
    /// until the caller takes it.
    #[inline]
    pub(super) fn end(&mut self, now: Time) {
        self.clock.end(now);
        self.task.data = TaskData::None;
        self.stage = Stage::Over;
    }
}

/// A slot for a task. Tasks are too large to move, so each begins and ends in its slot.
#[derive(Debug)]
struct Slot {
    /// Counts the uses of the slot, so that a tag of the past never names a task of the present.
    generation: u16,
    live: Live,
}

/// Tasks by slot. An Initiator Task Tag is `generation << 16 | slot`.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    slots: Vec<Slot>,
    free: Vec<u16>,
}

/// Slots from here on name no tasks: the session's own exchanges have their tags there.
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
    /// Panics beyond 65 280 tasks; a VM has at most 1024.
    #[inline]
    pub(super) fn insert(&mut self, now: Time, task: Task, deadline: Time) -> u16 {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => self.add_slot(),
        };
        let there = &mut self.slots[usize::from(slot)];
        there.live.begin(now, task, deadline);
        slot
    }

    #[cold]
    fn add_slot(&mut self) -> u16 {
        assert!(
            self.slots.len() < usize::from(SLOTS_MAX),
            "more tasks than tags"
        );
        self.slots.push(Slot {
            generation: 0,
            live: Live::nothing(),
        });
        (self.slots.len() - 1) as u16
    }

    /// Takes away a task that has ended; its slot is free then.
    #[inline]
    pub(super) fn take(&mut self, slot: u16, result: Result<u32, TaskError>) -> Done {
        self.free.push(slot);
        let live = &mut self.slots[usize::from(slot)].live;
        Done {
            tag: live.task.tag,
            result,
            phases: live.clock.phases(),
            data: std::mem::take(&mut live.kept),
        }
    }

    /// Gives the task in `slot` a new tag, under which it counts as sent.
    ///
    /// # Panics
    /// Panics if the slot holds no task: a defect of the caller.
    #[inline]
    pub(super) fn send(&mut self, slot: u16) -> (Itt, &mut Live) {
        let there = &mut self.slots[usize::from(slot)];
        assert!(
            there.live.stage == Stage::Waiting,
            "queued slots hold a task"
        );
        there.generation = there.generation.wrapping_add(1);
        there.live.stage = Stage::Sent;
        let itt = Itt(u32::from(there.generation) << 16 | u32::from(slot));
        (itt, &mut there.live)
    }

    /// The task that was sent under this tag and not yet answered, and its slot.
    #[inline]
    pub(super) fn find(&mut self, itt: Itt) -> Option<(u16, &mut Live)> {
        let (generation, slot) = ((itt.0 >> 16) as u16, itt.0 as u16);
        let there = self.slots.get_mut(usize::from(slot))?;
        let is_current = there.generation == generation && there.live.stage == Stage::Sent;
        is_current.then_some((slot, &mut there.live))
    }

    /// The task in `slot`, if one is there that has not ended.
    #[inline]
    pub(super) fn get_mut(&mut self, slot: u16) -> Option<&mut Live> {
        let live = &mut self.slots.get_mut(usize::from(slot))?.live;
        (live.stage != Stage::Over).then_some(live)
    }

    /// All tasks that have not ended.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Live> {
        let lives = self.slots.iter().map(|slot| &slot.live);
        lives.filter(|live| live.stage != Stage::Over)
    }

    /// Number of tasks, with those that have ended and were not taken away.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
