//! The commands of a host with several paths: on a path, held by a lost path, or waiting for one.
//!
//! Every attempt to execute a command has an identifier of its own, so that a late answer over a
//! lost path does not complete a command that was sent again.
use std::collections::BTreeSet;

use hakaru_units::Time;

/// Maximum number of commands. The slot 65 535 is never used, so that the caller has tags of its own.
pub(super) const FLIGHTS_MAX: usize = 65_535;

/// Identifier of one attempt to execute a command, at most 32 bits. The low 16 bits are never all
/// ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttemptId(pub u32);

/// Range of a write in bytes or blocks of the LU; the end is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteRange {
    /// First byte or block.
    pub begin: u64,
    /// First one behind the range.
    pub end: u64,
}

impl WriteRange {
    fn overlaps(self, other: WriteRange) -> bool {
        self.begin < other.end && other.begin < self.end
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Free,
    /// Waits for a usable path.
    Waiting,
    /// Was sent over a path and is not answered.
    OnPath(usize),
    /// Was sent over a path that was lost, and waits for its return.
    Held(usize),
}

#[derive(Debug)]
struct Flight<C> {
    /// `None` in a free slot.
    command: Option<C>,
    /// Position among all commands in the order of submission.
    order: u64,
    /// Range of a write.
    range: Option<WriteRange>,
    stage: Stage,
    /// Number of attempts in this slot, modulo 2^16.
    generation: u16,
    /// Whether the command was sent before.
    was_sent: bool,
}

/// A write that was sent over a lost path and that may still take effect.
#[derive(Clone, Copy, Debug)]
struct Ghost {
    path: usize,
    order: u64,
    range: WriteRange,
    /// Instant from which the write can no longer take effect.
    until: Time,
}

/// The commands. See the module's documentation.
#[derive(Debug)]
pub(super) struct Flights<C> {
    slots: Vec<Flight<C>>,
    free: Vec<u16>,
    /// Order and slot of the waiting commands.
    waiting: BTreeSet<(u64, u16)>,
    ghosts: Vec<Ghost>,
    submitted: u64,
}

impl<C> Flights<C> {
    pub(super) fn new() -> Flights<C> {
        Flights {
            slots: Vec::new(),
            free: Vec::new(),
            waiting: BTreeSet::new(),
            ghosts: Vec::new(),
            submitted: 0,
        }
    }

    /// Returns the number of commands.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds a command, which waits. `range` is that of a write.
    ///
    /// # Panics
    /// Panics beyond [`FLIGHTS_MAX`] commands, a defect of the caller.
    pub(super) fn add(&mut self, command: C, range: Option<WriteRange>) -> u16 {
        let slot = self.free.pop().unwrap_or_else(|| {
            assert!(self.slots.len() < FLIGHTS_MAX, "too many commands");
            self.slots.push(Flight {
                command: None,
                order: 0,
                range: None,
                stage: Stage::Free,
                generation: 0,
                was_sent: false,
            });
            (self.slots.len() - 1) as u16
        });
        let flight = &mut self.slots[usize::from(slot)];
        flight.command = Some(command);
        flight.order = self.submitted;
        flight.range = range;
        flight.was_sent = false;
        self.submitted += 1;
        self.wait(slot);
        slot
    }

    /// Returns whether a command waits that no write of a lost path delays.
    pub(super) fn has_startable(&self) -> bool {
        self.first_startable().is_some()
    }

    /// Returns the oldest waiting command that no write of a lost path delays.
    pub(super) fn first_startable(&self) -> Option<u16> {
        let mut waiting = self.waiting.iter().map(|&(_, slot)| slot);
        waiting.find(|&slot| !self.is_delayed(slot))
    }

    /// Returns whether an older write, which may still take effect, overlaps a waiting write.
    fn is_delayed(&self, slot: u16) -> bool {
        let flight = &self.slots[usize::from(slot)];
        flight.range.is_some_and(|range| {
            let mut ghosts = self.ghosts.iter();
            ghosts.any(|ghost| ghost.order < flight.order && ghost.range.overlaps(range))
        })
    }

    /// Puts a waiting command on a path. Returns the attempt, and whether it is a repetition.
    pub(super) fn start(&mut self, slot: u16, path: usize) -> (AttemptId, bool) {
        let flight = &mut self.slots[usize::from(slot)];
        self.waiting.remove(&(flight.order, slot));
        flight.stage = Stage::OnPath(path);
        flight.generation = flight.generation.wrapping_add(1);
        let id = AttemptId(u32::from(flight.generation) << 16 | u32::from(slot));
        (id, std::mem::replace(&mut flight.was_sent, true))
    }

    /// Returns the slot of an attempt that is on this path.
    pub(super) fn find(&self, path: usize, id: AttemptId) -> Option<u16> {
        let slot = id.0 as u16;
        let flight = self.slots.get(usize::from(slot))?;
        let is_current =
            flight.stage == Stage::OnPath(path) && flight.generation == (id.0 >> 16) as u16;
        is_current.then_some(slot)
    }

    /// Returns the command in a slot.
    pub(super) fn command(&self, slot: u16) -> Option<&C> {
        self.slots.get(usize::from(slot))?.command.as_ref()
    }

    /// Removes a command that was found with [`Flights::find`].
    pub(super) fn remove(&mut self, slot: u16) -> Option<C> {
        let flight = &mut self.slots[usize::from(slot)];
        flight.stage = Stage::Free;
        self.free.push(slot);
        flight.command.take()
    }

    /// Lets a command wait.
    pub(super) fn wait(&mut self, slot: u16) {
        let flight = &mut self.slots[usize::from(slot)];
        flight.stage = Stage::Waiting;
        self.waiting.insert((flight.order, slot));
    }

    /// Holds the commands of a lost path. Its writes may take effect until `until`.
    pub(super) fn hold(&mut self, path: usize, until: Time) {
        for flight in &mut self.slots {
            if flight.stage != Stage::OnPath(path) {
                continue;
            }
            flight.stage = Stage::Held(path);
            if let Some(range) = flight.range {
                self.ghosts.push(Ghost {
                    path,
                    order: flight.order,
                    range,
                    until,
                });
            }
        }
    }

    /// Lets the held commands of a path wait for any path.
    pub(super) fn release(&mut self, path: usize) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].stage == Stage::Held(path) {
                self.wait(slot as u16);
            }
        }
    }

    /// Returns whether writes of a lost path may still take effect.
    pub(super) fn has_ghosts(&self, path: usize) -> bool {
        self.ghosts.iter().any(|ghost| ghost.path == path)
    }

    /// Records that no write of the lost session of a path can take effect any more.
    pub(super) fn end_ghosts(&mut self, path: usize) {
        self.ghosts.retain(|ghost| ghost.path != path);
    }

    /// Removes the writes that can no longer take effect.
    pub(super) fn expire_ghosts(&mut self, now: Time) {
        self.ghosts.retain(|ghost| ghost.until > now);
    }

    /// Returns the next instant at which a waiting command may become startable by itself.
    pub(super) fn next_expiry(&self) -> Option<Time> {
        if self.waiting.is_empty() {
            return None;
        }
        self.ghosts.iter().map(|ghost| ghost.until).min()
    }

    /// Removes every command, because no path remains.
    pub(super) fn clear(&mut self) {
        *self = Flights::new();
    }
}
