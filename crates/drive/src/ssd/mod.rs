//! A flash drive: controller and interface, a write buffer, channels, and dies that each serve one
//! operation at a time.
//!
//! A read passes through the controller, and then occupies each die that it accesses, the channel
//! and the interface. A write passes through the controller and the interface, and completes when
//! the buffer has room for it. Its data is then programmed, one page of all planes at a time, to
//! the dies in turn. The map (`ftl.rs`) determines the work of garbage collection (`collector.rs`).
//! Each page that the host writes causes its share of moves and erasures, so that space is freed as
//! fast as it is used. A die prefers reads, but after eight consecutive reads it serves other work.
//!
//! **Not modelled**: the real position of written data (reads are spread by address, writes in
//! turn), fast reads of buffered or unwritten data (each costs a page), suspension of a program or
//! erasure for a read, wear, retries, background scrubbing.
mod buffer;
mod collector;
mod dies;
mod ftl;
mod line;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::ops::Range;

use hakaru_units::Time;
use rand_pcg::Pcg64;

use crate::command::Command;
use crate::request::Op;
use crate::usage::Usage;
use buffer::WriteBuffer;
use collector::Collector;
use dies::{Dies, Work};
use hakaru_contract::drive::Ssd;
use line::Line;
use slab::Slab;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The controller has processed a command.
    Started { command: usize },
    /// The data of a write has arrived through the interface.
    Received { command: usize },
    /// A die has finished its work.
    DieDone { die: u32 },
    /// Part of a read has crossed its channel.
    Transferred { command: usize, bytes: u32 },
    /// Part of a read has left the drive, or an unmap has ended.
    PartDone { command: usize },
}

/// A command in progress.
#[derive(Clone, Copy, Debug)]
struct Active {
    command: Command,
    started: Time,
    /// Number of parts that have not ended: those of a read, reads before a write, or programs of a
    /// write without buffer.
    left: u32,
}

/// A flash drive.
#[derive(Clone, Debug)]
pub(crate) struct SsdDrive {
    config: Ssd,
    /// Length of a page of all planes.
    page_bytes: u64,
    controller: Line,
    inward: Line,
    outward: Line,
    dies: Dies,
    collector: Collector,
    /// Die that programs the next page.
    next_die: u32,
    buffer: WriteBuffer,
    active: Slab<Active>,
    active_count: u32,
    waiting: VecDeque<Command>,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    events_made: u64,
    /// Deadlines that the caller knows and that have not been handled.
    wakes: BTreeSet<Time>,
    done: Vec<usize>,
    /// Number of bytes that the host wrote to flash.
    programmed_bytes: u64,
    /// Number of bytes that garbage collection wrote to flash.
    moved_bytes: f64,
    usage: Usage,
}

impl SsdDrive {
    /// Creates an idle drive.
    pub(crate) fn new(ssd: &Ssd, rng: &mut Pcg64) -> SsdDrive {
        SsdDrive {
            page_bytes: u64::from(ssd.page_bytes) * u64::from(ssd.planes),
            controller: Line::default(),
            inward: Line::default(),
            outward: Line::default(),
            dies: Dies::new(ssd),
            collector: Collector::new(ssd, rng),
            next_die: 0,
            buffer: WriteBuffer::new(ssd),
            active: Slab::default(),
            active_count: 0,
            waiting: VecDeque::new(),
            events: BinaryHeap::new(),
            events_made: 0,
            wakes: BTreeSet::new(),
            done: Vec::new(),
            programmed_bytes: 0,
            moved_bytes: 0.0,
            usage: Usage::default(),
            config: ssd.clone(),
        }
    }

    /// Returns the number of commands that wait or are in service.
    pub(crate) fn present(&self) -> usize {
        self.active_count as usize + self.waiting.len()
    }

    /// Accepts a command.
    pub(crate) fn submit(&mut self, now: Time, command: Command) {
        self.usage.arrive(now);
        if self.active_count < self.config.queue_depth {
            self.start(now, command);
        } else {
            self.waiting.push_back(command);
        }
    }

    /// Handles all events that are due. Appends the commands that have ended to `ended`.
    pub(crate) fn handle_wake(&mut self, now: Time, ended: &mut Vec<Command>) {
        self.wakes.remove(&now);
        while let Some(&Reverse((at, _, event))) = self.events.peek() {
            if at > now {
                break;
            }
            self.events.pop();
            self.handle_event(now, event);
        }
        for key in std::mem::take(&mut self.done) {
            let Active {
                command, started, ..
            } = self.active.remove(key);
            self.usage
                .leave(now, command.op, command.length, now.ns_since(started));
            self.active_count -= 1;
            ended.push(command);
            if let Some(next) = self.waiting.pop_front() {
                self.start(now, next);
            }
        }
    }

    /// Returns the next deadline if it is earlier than all those that the caller knows.
    pub(crate) fn poll_wake(&mut self) -> Option<Time> {
        let Reverse((at, _, _)) = *self.events.peek()?;
        if self.wakes.first().is_some_and(|wake| *wake <= at) {
            return None;
        }
        self.wakes.insert(at);
        Some(at)
    }

    /// Returns the counters as of `now`. The busy time is that with a command present, which says
    /// little about a drive that serves many commands at once; see [`SsdDrive::visit_flash`].
    pub(crate) fn usage(&mut self, now: Time) -> &Usage {
        self.usage.advance(now);
        &self.usage
    }

    /// Calls `visit` for every counter that only flash drives have. Each part has its own busy
    /// time, because the busiest part of a window need not be the busiest one since the start.
    pub(crate) fn visit_flash(
        &self,
        now: Time,
        entity: &str,
        visit: &mut dyn FnMut(&str, &str, f64),
    ) {
        let parts = [
            ("controller_busy_ns", self.controller.busy_until(now)),
            ("receive_busy_ns", self.inward.busy_until(now)),
            ("send_busy_ns", self.outward.busy_until(now)),
            ("channels_busy_ns", self.dies.channels_busy_until(now)),
            ("dies_busy_ns", self.dies.busy_until(now)),
        ];
        for (name, busy_ns) in parts {
            visit(entity, name, busy_ns as f64);
        }
        visit(entity, "gc_ns", self.dies.gc_ns as f64);
        visit(
            entity,
            "flash_write_bytes",
            self.programmed_bytes as f64 + self.moved_bytes,
        );
        visit(
            entity,
            "write_amplification_now",
            self.collector.write_amplification(),
        );
    }

    fn schedule(&mut self, at: Time, event: Event) {
        self.events_made += 1;
        self.events.push(Reverse((at, self.events_made, event)));
    }

    fn start(&mut self, now: Time, command: Command) {
        self.active_count += 1;
        let key = self.active.insert(Active {
            command,
            started: now,
            left: 0,
        });
        let processed_at = self
            .controller
            .serve(now, (self.config.command_us * 1e3) as u64);
        let at = Time(processed_at.0 + (self.config.latency_us * 1e3) as u64);
        self.schedule(at, Event::Started { command: key });
    }

    fn handle_event(&mut self, now: Time, event: Event) {
        match event {
            Event::Started { command } => self.begin(now, command),
            Event::Received { command } => self.receive(now, command),
            Event::DieDone { die } => self.end_work(now, die),
            Event::Transferred { command, bytes } => {
                let ns = self.interface_ns(u64::from(bytes));
                let at = self.outward.serve(now, ns);
                self.schedule(at, Event::PartDone { command });
            }
            Event::PartDone { command } => self.end_part(command),
        }
    }

    fn interface_ns(&self, bytes: u64) -> u64 {
        (bytes as f64 * 1e9 / self.config.interface_bytes_per_s) as u64
    }

    fn begin(&mut self, now: Time, key: usize) {
        let Command {
            op, offset, length, ..
        } = self.active[key].command;
        match op {
            Op::Read => self.read_pages(now, key, offset..offset + length, true),
            Op::Write => {
                let ns = self.interface_ns(length);
                let at = self.inward.serve(now, ns);
                self.schedule(at, Event::Received { command: key });
            }
            Op::Unmap | Op::Flush => {
                let unit = u64::from(self.config.mapping_bytes);
                let units = offset.div_ceil(unit)..(offset + length) / unit;
                if op == Op::Unmap && !units.is_empty() {
                    self.collector.trim(units);
                }
                self.active[key].left = 1;
                self.end_part(key);
            }
        }
    }

    /// Reads every page that holds part of a range. `outward` is whether the bytes are for the
    /// host.
    fn read_pages(&mut self, now: Time, key: usize, range: Range<u64>, outward: bool) {
        let pages = range.start / self.page_bytes..range.end.div_ceil(self.page_bytes);
        self.active[key].left += (pages.end - pages.start) as u32;
        for page in pages {
            let begin = range.start.max(page * self.page_bytes);
            let end = range.end.min((page + 1) * self.page_bytes);
            let work = Work::Read {
                command: key,
                bytes: (end - begin) as u32,
                outward,
            };
            let die = (page % u64::from(self.dies.count())) as u32;
            self.submit_work(now, die, work);
        }
    }

    fn submit_work(&mut self, now: Time, die: u32, work: Work) {
        if let Some(at) = self.dies.submit(now, die, work) {
            self.schedule(at, Event::DieDone { die });
        }
    }

    fn end_work(&mut self, now: Time, die: u32) {
        let (work, next) = self.dies.end(now, die);
        if let Some(at) = next {
            self.schedule(at, Event::DieDone { die });
        }
        match work {
            Work::Read {
                command,
                bytes,
                outward: true,
            } => {
                let at = self.dies.transfer(now, die, u64::from(bytes));
                self.schedule(at, Event::Transferred { command, bytes });
            }
            Work::Read { command, .. } => {
                let active = &mut self.active[command];
                active.left -= 1;
                if active.left == 0 {
                    self.store(now, command);
                }
            }
            Work::Program { command } => {
                self.programmed_bytes += self.page_bytes;
                match command {
                    Some(command) => self.end_part(command),
                    None => {
                        self.buffer.release_page();
                        self.fill_buffer(now);
                    }
                }
            }
            Work::Move { .. } | Work::Erase => {}
        }
    }

    fn end_part(&mut self, key: usize) {
        let active = &mut self.active[key];
        active.left -= 1;
        if active.left == 0 {
            self.done.push(key);
        }
    }

    /// Handles the data of a write. The mapping units that it covers only in part are read first.
    fn receive(&mut self, now: Time, key: usize) {
        let unit = u64::from(self.config.mapping_bytes);
        let Command { offset, length, .. } = self.active[key].command;
        let end = offset + length;
        let (first, last) = (offset / unit, (end - 1) / unit);
        let head = !offset.is_multiple_of(unit) || end < (first + 1) * unit;
        let tail = !end.is_multiple_of(unit) && last > first;
        let page_of = |index: u64| index * unit / self.page_bytes;
        match (head, tail) {
            (false, false) => self.store(now, key),
            (true, true) if page_of(first) != page_of(last) => {
                self.read_pages(now, key, first * unit..(first + 1) * unit, false);
                self.read_pages(now, key, last * unit..(last + 1) * unit, false);
            }
            (true, true) => self.read_pages(now, key, first * unit..(last + 1) * unit, false),
            (true, false) => self.read_pages(now, key, first * unit..(first + 1) * unit, false),
            (false, true) => self.read_pages(now, key, last * unit..(last + 1) * unit, false),
        }
    }

    /// Moves the data of a write, now entire mapping units, to the buffer or directly to flash.
    fn store(&mut self, now: Time, key: usize) {
        let unit = u64::from(self.config.mapping_bytes);
        let Command { offset, length, .. } = self.active[key].command;
        let units = offset / unit..(offset + length).div_ceil(unit);
        let bytes = (units.end - units.start) * unit;
        self.collector.write(units);
        if self.config.buffer_bytes == 0 {
            let pages = bytes / self.page_bytes;
            self.active[key].left = pages as u32;
            for _ in 0..pages {
                self.program(now, Some(key));
            }
            return;
        }
        self.buffer.push(key, bytes);
        self.fill_buffer(now);
    }

    /// Admits waiting writes to the buffer, and programs full pages.
    fn fill_buffer(&mut self, now: Time) {
        while let Some(admitted) = self.buffer.admit() {
            self.done.extend(admitted.completed);
            for _ in 0..admitted.pages {
                self.program(now, None);
            }
        }
    }

    /// Programs a page, after the garbage collection that is due with it.
    fn program(&mut self, now: Time, command: Option<usize>) {
        let due = self.collector.charge_page();
        for _ in 0..due.moves {
            self.moved_bytes += self.page_bytes as f64;
            let die = self.take_turn();
            self.submit_work(now, die, Work::Move { reads: due.reads });
        }
        for _ in 0..due.erases {
            let die = self.take_turn();
            self.submit_work(now, die, Work::Erase);
        }
        let die = self.take_turn();
        self.submit_work(now, die, Work::Program { command });
    }

    /// Returns the die whose turn it is.
    fn take_turn(&mut self) -> u32 {
        let die = self.next_die;
        self.next_die = (die + 1) % self.dies.count();
        die
    }
}
