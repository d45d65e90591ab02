//! The RAID groups and their accesses in flight. An access becomes drive commands, in rounds, and
//! ends with the last command.
//!
//! Only `array.rs`, which owns the queue of events, calls this module. After every call it polls
//! the deadlines of drives ([`Groups::poll_wake`]) and then the accesses that have ended
//! ([`Groups::poll_done`]).
use std::collections::VecDeque;

use hakaru_units::Time;
use rand_pcg::Pcg64;

use crate::command::Command;
use crate::drive::Drive;
use crate::extents::Extents;
use crate::raid::{Layout, Piece, Stage, plan};
use crate::request::Op;
use crate::usage::Usage;
use hakaru_contract::drive as config;
use slab::Slab;

/// An access to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// Origin, which is notified at the end.
    pub(crate) owner: Owner,
    pub(crate) group: u32,
    pub(crate) op: Op,
    pub(crate) offset_bytes: u64,
    pub(crate) length_bytes: u64,
}

/// Origin of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A request, by its key.
    Request(usize),
    /// The cache, by its token.
    Cache(usize),
}

/// An access in flight.
#[derive(Clone, Copy, Debug)]
struct Active {
    access: Access,
    stages_left: u32,
}

/// A stage in flight.
#[derive(Clone, Debug, Default)]
struct ActiveStage {
    /// Key of the access.
    access: usize,
    /// Number of drive commands of the current round that have not ended.
    left: u32,
    /// Drive commands of the second round, if it has not started.
    second: Vec<Piece>,
}

/// A new deadline of a drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wake {
    pub(crate) at: Time,
    pub(crate) group: u32,
    pub(crate) drive: u32,
}

/// All groups of an array.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    groups: Vec<Group>,
    active: Slab<Active>,
    stages: Slab<ActiveStage>,
    wakes: VecDeque<Wake>,
    done: VecDeque<Access>,
    /// Commands that ended in one call. A field only to reuse its memory.
    ended: Vec<Command>,
}

#[derive(Clone, Debug)]
struct Group {
    layout: Layout,
    extents: Option<Extents>,
    capacity_bytes: u64,
    drives: Vec<Drive>,
    /// Whether unmaps are passed on to the drives.
    trims: bool,
    usage: Usage,
    /// Half of a mirrored pair to read if both are equally busy, 0 or 1. Alternates with every
    /// choice.
    mirror_turn: u32,
}

impl Groups {
    /// Creates idle groups. The presets of their drives must be resolved.
    pub(crate) fn new(groups: &[config::Group], rng: &mut Pcg64) -> Groups {
        Groups {
            groups: groups.iter().map(|group| Group::new(group, rng)).collect(),
            active: Slab::default(),
            stages: Slab::default(),
            wakes: VecDeque::new(),
            done: VecDeque::new(),
            ended: Vec::new(),
        }
    }

    /// Returns the usable capacity of a group, bytes. `None` if the group does not exist.
    pub(crate) fn capacity_bytes(&self, group: u32) -> Option<u64> {
        self.groups.get(group as usize).map(|g| g.capacity_bytes)
    }

    /// Returns the capacity of each group and, if it has parity, the length of its rows, bytes. A
    /// complete row is written without reads.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = (u64, Option<u64>)> {
        self.groups
            .iter()
            .map(|g| (g.capacity_bytes, g.layout.parity_row_bytes()))
    }

    /// Starts an access, whose range must be within its group.
    pub(crate) fn submit(&mut self, now: Time, access: Access) {
        let Access {
            group,
            op,
            offset_bytes,
            length_bytes,
            ..
        } = access;
        let stages = self.groups[group as usize].plan(now, op, offset_bytes, length_bytes);
        if stages.is_empty() {
            return self.leave(now, access);
        }
        let key = self.active.insert(Active {
            access,
            stages_left: stages.len() as u32,
        });
        for Stage { first, second } in stages {
            let stage = self.stages.insert(ActiveStage {
                access: key,
                left: first.len() as u32,
                second,
            });
            self.submit_pieces(now, group, stage, &first);
        }
    }

    /// Handles the deadline of a drive.
    pub(crate) fn handle_wake(&mut self, now: Time, group: u32, drive: u32) {
        let mut ended = std::mem::take(&mut self.ended);
        let next = self.groups[group as usize].drives[drive as usize].handle_wake(now, &mut ended);
        self.wakes.extend(next.map(|at| Wake { at, group, drive }));
        for command in ended.drain(..) {
            self.end_command(now, group, command.stage);
        }
        self.ended = ended;
    }

    /// Returns the next new deadline of a drive.
    pub(crate) fn poll_wake(&mut self) -> Option<Wake> {
        self.wakes.pop_front()
    }

    /// Returns the next access that has ended.
    pub(crate) fn poll_done(&mut self) -> Option<Access> {
        self.done.pop_front()
    }

    /// Calls `visit` for every counter of every group and drive as of `now`.
    pub(crate) fn visit_counters(&mut self, now: Time, visit: &mut dyn FnMut(&str, &str, f64)) {
        for (g, group) in self.groups.iter_mut().enumerate() {
            group.usage.advance(now);
            let drives = group.drives.iter_mut();
            group.usage.service_ns = drives.map(|d| d.usage(now).service_ns).sum();
            group.usage.visit(&format!("group/{g}"), visit);
            for (d, drive) in group.drives.iter_mut().enumerate() {
                drive.visit_counters(now, &format!("drive/{g}.{d}"), visit);
            }
        }
    }

    fn submit_pieces(&mut self, now: Time, group: u32, stage: usize, pieces: &[Piece]) {
        for &Piece {
            drive,
            op,
            offset,
            length,
        } in pieces
        {
            let command = Command {
                stage,
                op,
                offset,
                length,
            };
            let wake = self.groups[group as usize].drives[drive as usize].submit(now, command);
            self.wakes.extend(wake.map(|at| Wake { at, group, drive }));
        }
    }

    fn end_command(&mut self, now: Time, group: u32, key: usize) {
        let stage = &mut self.stages[key];
        stage.left -= 1;
        if stage.left > 0 {
            return;
        }
        let second = std::mem::take(&mut stage.second);
        if second.is_empty() {
            self.end_stage(now, key);
        } else {
            stage.left = second.len() as u32;
            self.submit_pieces(now, group, key, &second);
        }
    }

    fn end_stage(&mut self, now: Time, stage: usize) {
        let key = self.stages.remove(stage).access;
        let active = &mut self.active[key];
        active.stages_left -= 1;
        if active.stages_left == 0 {
            let access = self.active.remove(key).access;
            self.leave(now, access);
        }
    }

    fn leave(&mut self, now: Time, access: Access) {
        self.groups[access.group as usize]
            .usage
            .leave(now, access.op, access.length_bytes, 0);
        self.done.push_back(access);
    }
}

impl Group {
    fn new(group: &config::Group, rng: &mut Pcg64) -> Group {
        let (drive_bytes, trims) = match &group.drive {
            config::Drive::Hdd(hdd) => (hdd.capacity_bytes, false),
            config::Drive::Ssd(ssd) => (ssd.capacity_bytes, true),
            config::Drive::Preset { .. } => unreachable!("presets have been resolved"),
        };
        let layout = Layout::new(group);
        let capacity_bytes = layout.capacity_bytes(drive_bytes);
        Group {
            layout,
            extents: group
                .extents
                .as_ref()
                .map(|e| Extents::new(e, capacity_bytes)),
            capacity_bytes,
            trims,
            drives: Drive::make(&group.drive, group.drives, rng),
            usage: Usage::default(),
            mirror_turn: 0,
        }
    }

    /// Counts an access and plans its drive commands. There are none if it costs the drives
    /// nothing.
    fn plan(&mut self, now: Time, op: Op, offset: u64, length: u64) -> Vec<Stage> {
        self.usage.arrive(now);
        let mut stages = Vec::new();
        if op == Op::Flush || (op == Op::Unmap && !self.trims) {
            return stages;
        }
        let (drives, turn) = (&self.drives, &mut self.mirror_turn);
        // One half per pair: the units of a pair are adjacent on its drives, so that those of one
        // half become one command.
        let mut halves: Vec<(u32, u32)> = Vec::new();
        let mut half_of = |pair| match halves.iter().find(|(known, _)| *known == pair) {
            Some((_, half)) => *half,
            None => {
                let half = less_busy_half(drives, turn, pair);
                halves.push((pair, half));
                half
            }
        };
        let mut done = 0;
        while done < length {
            let rest = (offset + done, length - done);
            let (start, together) = self.extents.map_or(rest, |e| e.locate(rest.0, rest.1));
            stages.extend(plan(&self.layout, op, start, together, &mut half_of));
            done += together;
        }
        stages
    }
}

/// Returns the half of a mirrored pair that should read, 0 or 1: the one with fewer commands, or
/// `turn` if both have the same number.
fn less_busy_half(drives: &[Drive], turn: &mut u32, pair: u32) -> u32 {
    let [first, second] = [2 * pair, 2 * pair + 1].map(|d| drives[d as usize].present());
    *turn ^= 1;
    match first.cmp(&second) {
        std::cmp::Ordering::Less => 0,
        std::cmp::Ordering::Equal => *turn,
        std::cmp::Ordering::Greater => 1,
    }
}
