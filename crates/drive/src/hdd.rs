//! One rotating drive: a queue of commands, a head at a cylinder, and a turning platter.
//!
//! It serves one command at a time. When a command has ended, the drive selects the command whose
//! transfer can start first (shortest access time first), unless the oldest command is overdue (see
//! `age_limit_ms` and `overdue_every`).
use std::collections::VecDeque;

use hakaru_units::Time;

use crate::command::Command;
use crate::geometry::{Geometry, Location};
use crate::request::Op;
use crate::seek::SeekCurve;
use crate::usage::Usage;
use hakaru_contract::drive::Hdd;

#[derive(Clone, Copy, Debug)]
struct Queued {
    command: Command,
    at: Location,
    arrived: Time,
}

#[derive(Clone, Copy, Debug)]
struct InService {
    command: Command,
    started: Time,
    ends: Time,
}

/// A rotating drive.
#[derive(Clone, Debug)]
pub(crate) struct HddDrive {
    geometry: Geometry,
    seek: SeekCurve,
    head_switch_ns: u64,
    write_settle_ns: u64,
    command_ns: u64,
    queue_depth: usize,
    age_limit_ns: u64,
    overdue_every: u32,
    /// Angle under the heads at the origin of time.
    phase_ns: u64,
    cylinder: u32,
    head: u32,
    /// Commands queued in the drive, at most `queue_depth`, in order of arrival.
    queue: Vec<Queued>,
    /// Commands queued in the array, in order of arrival.
    waiting: VecDeque<Queued>,
    in_service: Option<InService>,
    /// Number of selections by access time, while a command was overdue, since an overdue command
    /// was last served.
    choices_since_overdue: u32,
    pub(crate) usage: Usage,
}

impl HddDrive {
    /// Creates an idle drive with its head over the outermost cylinder. At the origin of time its
    /// platter is at `phase`, 0 to 1 of a revolution.
    pub(crate) fn new(hdd: &Hdd, phase: f64) -> HddDrive {
        let geometry = Geometry::new(hdd);
        HddDrive {
            seek: geometry.seek_curve(hdd),
            head_switch_ns: (hdd.head_switch_ms.unwrap_or(hdd.seek_track_ms) * 1e6) as u64,
            write_settle_ns: (hdd.write_settle_ms * 1e6) as u64,
            command_ns: (hdd.command_us * 1e3) as u64,
            queue_depth: hdd.queue_depth as usize,
            age_limit_ns: (hdd.age_limit_ms * 1e6) as u64,
            overdue_every: hdd.overdue_every,
            phase_ns: (phase * geometry.revolution_ns as f64) as u64,
            geometry,
            cylinder: 0,
            head: 0,
            queue: Vec::new(),
            waiting: VecDeque::new(),
            in_service: None,
            choices_since_overdue: 0,
            usage: Usage::default(),
        }
    }

    /// Returns the number of commands that wait or are in service.
    pub(crate) fn present(&self) -> usize {
        self.queue.len() + self.waiting.len() + usize::from(self.in_service.is_some())
    }

    /// Accepts a command. If the drive is idle, starts the command and returns its end.
    pub(crate) fn submit(&mut self, now: Time, command: Command) -> Option<Time> {
        self.usage.arrive(now);
        let queued = Queued {
            command,
            at: self.geometry.locate(command.offset),
            arrived: now,
        };
        if self.queue.len() < self.queue_depth {
            self.queue.push(queued);
        } else {
            self.waiting.push_back(queued);
        }
        match self.in_service {
            Some(_) => None,
            None => self.start_next(now, self.command_ns),
        }
    }

    /// Ends the command in service. Returns it, and the end of the next command if one is queued.
    /// Must be called exactly at the instant that `submit` or `end` returned.
    pub(crate) fn end(&mut self, now: Time) -> (Command, Option<Time>) {
        let done = self
            .in_service
            .take()
            .expect("an end was scheduled by the start of a command");
        debug_assert_eq!(done.ends, now);
        let Command { op, length, .. } = done.command;
        self.usage
            .leave(now, op, length, now.ns_since(done.started));
        // The overhead of the next command overlaps this one.
        (done.command, self.start_next(now, 0))
    }

    fn start_next(&mut self, now: Time, overhead_ns: u64) -> Option<Time> {
        if self.queue.is_empty() {
            return None;
        }
        let ready = Time(now.0 + overhead_ns);
        let place = self.choose(ready);
        let Queued { command, at, .. } = self.queue.remove(place);
        self.queue.extend(self.waiting.pop_front());
        let access_ns =
            self.positioning_ns(&at, command.op) + self.rotation_ns(ready, &at, command.op);
        let ends = Time(ready.0 + access_ns + self.geometry.transfer_ns(&at, command.length));
        let last = self
            .geometry
            .locate(command.offset + command.length.max(1) - 1);
        (self.cylinder, self.head) = (last.cylinder, last.head);
        self.in_service = Some(InService {
            command,
            started: now,
            ends,
        });
        Some(ends)
    }

    /// Returns the index of the command to serve next. The queue must not be empty.
    fn choose(&mut self, now: Time) -> usize {
        if now.ns_since(self.queue[0].arrived) >= self.age_limit_ns {
            self.choices_since_overdue += 1;
            if self.choices_since_overdue >= self.overdue_every {
                self.choices_since_overdue = 0;
                return 0;
            }
        }
        self.soonest(now)
    }

    /// Returns the index of the command whose transfer can start first, the oldest one if several
    /// can.
    fn soonest(&self, now: Time) -> usize {
        let mut best = (u64::MAX, 0);
        for (place, queued) in self.queue.iter().enumerate() {
            let positioning = self.positioning_ns(&queued.at, queued.command.op);
            if positioning >= best.0 {
                continue;
            }
            let access = positioning + self.rotation_ns(now, &queued.at, queued.command.op);
            if access < best.0 {
                best = (access, place);
            }
        }
        best.1
    }

    /// Returns the time of a seek or head switch, including settling.
    fn positioning_ns(&self, at: &Location, op: Op) -> u64 {
        let settle = if op == Op::Write {
            self.write_settle_ns
        } else {
            0
        };
        match (at.cylinder.abs_diff(self.cylinder), at.head == self.head) {
            (0, true) => 0,
            (0, false) => self.head_switch_ns + settle,
            (distance, _) => self.seek.ns(distance) + settle,
        }
    }

    /// Returns the rotational delay after positioning.
    fn rotation_ns(&self, now: Time, at: &Location, op: Op) -> u64 {
        let revolution = self.geometry.revolution_ns;
        let under_head = (now.0 + self.positioning_ns(at, op) + self.phase_ns) % revolution;
        (at.angle_ns + revolution - under_head) % revolution
    }
}
