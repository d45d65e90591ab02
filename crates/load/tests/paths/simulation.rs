//! Hosts with several paths, in virtual time: for any order of failures, returns, changes of access
//! states, late answers and late writes of lost paths, every command completes exactly once, or all
//! are reported failed, and no acknowledged write is lost.
//!
//! The target is hostile in what it may do, not in what it may not: it carries out a write of a lost
//! session at any time within `stale_s`, but never after it has accepted a login that ends that
//! session.
use std::collections::HashMap;

use hakaru_contract::initiator::{Multipath, PathPolicy};
use hakaru_load::{AttemptId, PathAction, PathSet, WriteRange};
use hakaru_units::Time;
use hakaru_wire::scsi::{AccessState, PortGroup};

use crate::group;

const BLOCKS: u64 = 12;
const IN_FLIGHT: usize = 6;
const STEPS: usize = 1500;
const STALE_S: f64 = 0.5;

/// Returns how many seeds to try.
fn seeds() -> u64 {
    if std::env::var_os("HAKARU_LONG").is_some() {
        20_000
    } else {
        500
    }
}

struct Random(u64);

impl Random {
    /// Returns a number below `limit` (SplitMix64).
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    number: u64,
    block: u64,
    /// Value of a write; `None` reads.
    value: Option<u64>,
}

/// A command on its way to the target and back.
#[derive(Clone, Copy, Debug)]
struct Transit {
    id: AttemptId,
    request: Request,
    /// Answer, once the target has executed the command: the value read, or the refusing state.
    answer: Option<Result<u64, AccessState>>,
}

/// A write of a lost session that the target may still carry out.
#[derive(Clone, Copy, Debug)]
struct Late {
    request: Request,
    until: Time,
}

struct Link {
    is_cut: bool,
    transits: Vec<Transit>,
    late: Vec<Late>,
    access: AccessState,
    is_up: bool,
    /// Portal of the connection attempt in progress.
    connecting: Option<usize>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Figures {
    completed: u64,
    repeated: u64,
    losses: u64,
    switches: u64,
    fences: u64,
    late_writes: u64,
    failed: u64,
}

impl Figures {
    fn add(&mut self, other: &Figures) {
        self.completed += other.completed;
        self.repeated += other.repeated;
        self.losses += other.losses;
        self.switches += other.switches;
        self.fences += other.fences;
        self.late_writes += other.late_writes;
        self.failed += other.failed;
    }
}

/// A defect that a simulation found.
#[derive(Debug, PartialEq, Eq)]
struct LostWrite {
    block: u64,
    acknowledged: u64,
    found: u64,
}

struct Simulation {
    random: Random,
    time: Time,
    set: PathSet<Request>,
    links: Vec<Link>,
    /// Whether all portals belong to one portal group, so that a login over any of them ends a lost
    /// session.
    one_group: bool,
    /// Time for which the target carries out writes of a lost session.
    lives_ns: u64,
    /// Whether the target violates RFC 7143: a login over another portal ends nothing.
    ignores_fences: bool,
    blocks: [u64; BLOCKS as usize],
    acknowledged: [u64; BLOCKS as usize],
    in_flight: HashMap<u64, Request>,
    next: u64,
    has_failed: bool,
    figures: Figures,
}

impl Simulation {
    fn new(seed: u64, paths: usize, policy: PathPolicy, one_group: bool) -> Simulation {
        let config = Multipath {
            policy,
            recovery_s: [0.0, 0.1, 0.4][(seed % 3) as usize],
            retry_s: 0.05,
            check_s: 0.2,
            failback_s: [0.0, 0.1][(seed % 2) as usize],
            no_path_s: 5.0,
            stale_s: STALE_S,
            ..Multipath::default()
        };
        let link = |_| Link {
            is_cut: false,
            transits: Vec::new(),
            late: Vec::new(),
            access: AccessState::ActiveOptimized,
            is_up: false,
            connecting: None,
        };
        let mut simulation = Simulation {
            random: Random(seed),
            time: Time(1_000_000),
            set: PathSet::new(paths, &config, 4),
            links: (0..paths).map(link).collect(),
            one_group,
            lives_ns: (STALE_S * 1e9) as u64,
            ignores_fences: false,
            blocks: [0; BLOCKS as usize],
            acknowledged: [0; BLOCKS as usize],
            in_flight: HashMap::new(),
            next: 1,
            has_failed: false,
            figures: Figures::default(),
        };
        for path in 0..paths {
            simulation.log_in(path);
        }
        simulation
    }

    /// Completes a login of a path over its own portal.
    fn log_in(&mut self, path: usize) {
        let link = &mut self.links[path];
        link.late.clear();
        let portal_group = if self.one_group { 1 } else { path as u16 + 1 };
        self.set.handle_login(path, Some(portal_group));
        link.is_up = true;
        let group = group(path as u16 + 1, link.access);
        self.set.handle_up(self.time, path, Some(&group));
    }

    fn lose(&mut self, path: usize) {
        let until = Time(self.time.as_ns() + self.lives_ns);
        let link = &mut self.links[path];
        link.is_up = false;
        self.figures.losses += 1;
        let transits = std::mem::take(&mut link.transits);
        self.set.handle_lost(self.time, path);
        for transit in transits {
            if transit.answer.is_none() && transit.request.value.is_some() {
                let request = transit.request;
                self.links[path].late.push(Late { request, until });
            }
            let late = self.set.handle_done(self.time, path, transit.id);
            assert_eq!(late, None, "a late answer completes nothing");
        }
    }

    fn execute(&mut self, request: Request) -> u64 {
        let block = &mut self.blocks[request.block as usize];
        if let Some(value) = request.value {
            *block = value;
        }
        *block
    }

    fn complete(&mut self, request: Request, value: u64) -> Result<(), LostWrite> {
        let known = self.in_flight.remove(&request.number);
        assert_eq!(known, Some(request), "a command completes exactly once");
        self.figures.completed += 1;
        let acknowledged = &mut self.acknowledged[request.block as usize];
        match request.value {
            Some(written) => *acknowledged = written,
            None if value != *acknowledged => {
                return Err(LostWrite {
                    block: request.block,
                    acknowledged: *acknowledged,
                    found: value,
                });
            }
            None => {}
        }
        Ok(())
    }

    /// Lets the set act on the time and the events so far.
    fn settle(&mut self) {
        loop {
            self.set.handle_timeout(self.time);
            let mut acted = false;
            while let Some(action) = self.set.poll_action() {
                acted = true;
                match action {
                    PathAction::Connect { path, through } => {
                        assert!(!self.links[path].is_up);
                        self.links[path].connecting = Some(through);
                    }
                    PathAction::Check { path } => self.check(path),
                    PathAction::Fail => {
                        self.has_failed = true;
                        self.figures.failed += self.in_flight.len() as u64;
                        self.in_flight.clear();
                        return;
                    }
                }
            }
            if !acted {
                break;
            }
        }
        while self.set.poll_change().is_some() {}
        self.issue();
    }

    fn check(&mut self, path: usize) {
        if self.links[path].is_cut || !self.links[path].is_up {
            return;
        }
        let groups: Vec<PortGroup> = (1..)
            .zip(&self.links)
            .map(|(number, link)| group(number, link.access))
            .collect();
        self.set.handle_states(self.time, &groups);
    }

    fn issue(&mut self) {
        loop {
            while let Some((path, id)) = self.set.poll_start(self.time) {
                assert!(self.links[path].is_up, "commands use paths with a session");
                let request = *self.set.command(path, id).expect("it was started");
                let answer = None;
                let transit = Transit {
                    id,
                    request,
                    answer,
                };
                self.links[path].transits.push(transit);
            }
            if self.in_flight.len() == IN_FLIGHT || !self.set.has_room(self.time) {
                return;
            }
            let block = self.random.below(BLOCKS);
            if self.in_flight.values().any(|other| other.block == block) {
                return;
            }
            let number = self.next;
            self.next += 1;
            let request = Request {
                number,
                block,
                value: (!self.random.one_in(3)).then_some(number),
            };
            self.in_flight.insert(number, request);
            let range = request.value.map(|_| WriteRange {
                begin: block,
                end: block + 1,
            });
            self.set.submit(self.time, request, range);
        }
    }

    /// Moves a command of a path one step on: the target executes it, or its answer arrives.
    fn deliver(&mut self, path: usize) -> Result<(), LostWrite> {
        let count = self.links[path].transits.len() as u64;
        if self.links[path].is_cut || count == 0 {
            return Ok(());
        }
        let at = self.random.below(count) as usize;
        let transit = self.links[path].transits[at];
        let Some(answer) = transit.answer else {
            let access = self.links[path].access;
            let answer = match access {
                AccessState::ActiveOptimized | AccessState::ActiveNonOptimized => {
                    Ok(self.execute(transit.request))
                }
                state => Err(state),
            };
            self.links[path].transits[at].answer = Some(answer);
            return Ok(());
        };
        self.links[path].transits.remove(at);
        match answer {
            Ok(value) => {
                let request = self.set.handle_done(self.time, path, transit.id);
                self.complete(request.expect("the path has the command"), value)
            }
            Err(state) => {
                self.set.handle_refused(self.time, path, transit.id, state);
                Ok(())
            }
        }
    }

    /// Ends a connection attempt.
    fn connect(&mut self, path: usize) {
        let Some(through) = self.links[path].connecting.take() else {
            return;
        };
        if self.links[through].is_cut || self.random.one_in(8) {
            self.set.handle_lost(self.time, path);
        } else if through == path {
            self.log_in(path);
        } else {
            assert!(
                self.one_group,
                "only a login to the same group ends a session"
            );
            self.figures.fences += 1;
            if !self.ignores_fences {
                self.links[path].late.clear();
            }
            self.set.handle_fenced(self.time, path);
        }
    }

    /// Carries out a write of a lost session.
    fn execute_late(&mut self, path: usize) {
        let time = self.time;
        let late = &mut self.links[path].late;
        late.retain(|late| late.until > time);
        if let Some(late) = late.pop() {
            self.figures.late_writes += 1;
            self.execute(late.request);
        }
    }

    fn step(&mut self) -> Result<(), LostWrite> {
        let path = self.random.below(self.links.len() as u64) as usize;
        match self.random.below(40) {
            0 => self.links[path].is_cut = true,
            1 | 2 => self.links[path].is_cut = false,
            3 if self.links[path].is_up && self.links[path].is_cut => self.lose(path),
            4 if self.links[path].is_up && self.random.one_in(3) => self.lose(path),
            5 => {
                let state = self.random.below(10) as usize;
                let state = *AccessState::ALL
                    .get(state)
                    .unwrap_or(&AccessState::default());
                self.links[path].access = state;
                if self.links[path].is_up && self.random.one_in(2) {
                    self.set.request_check(self.time);
                }
            }
            6..9 => self.connect(path),
            9..12 => self.execute_late(path),
            12..16 => self.time = Time(self.time.as_ns() + self.random.below(60_000_000)),
            _ => {
                self.time = Time(self.time.as_ns() + self.random.below(300_000));
                self.deliver(path)?;
            }
        }
        if !self.has_failed {
            self.settle();
        }
        Ok(())
    }

    /// Runs the storm, then repairs everything and waits for all commands.
    fn run(mut self) -> Result<Figures, LostWrite> {
        for _ in 0..STEPS {
            self.step()?;
            if self.has_failed {
                self.figures.repeated = self.set.counters(self.time).commands_repeated;
                return Ok(self.figures);
            }
        }
        for link in &mut self.links {
            link.is_cut = false;
            link.access = AccessState::ActiveOptimized;
        }
        let mut turns = 0;
        while !self.in_flight.is_empty() {
            turns += 1;
            assert!(
                turns < 10_000,
                "commands never complete: {:?}",
                self.in_flight
            );
            self.time = Time(self.time.as_ns() + 1_000_000);
            for path in 0..self.links.len() {
                self.connect(path);
                self.execute_late(path);
                for _ in 0..2 * IN_FLIGHT {
                    self.deliver(path)?;
                }
            }
            // No new requests: only those in flight are left.
            self.set.handle_timeout(self.time);
            while let Some(action) = self.set.poll_action() {
                match action {
                    PathAction::Connect { path, through } => {
                        self.links[path].connecting = Some(through);
                    }
                    PathAction::Check { path } => self.check(path),
                    // The paths were unusable for nearly the time limit before.
                    PathAction::Fail => {
                        self.figures.failed += self.in_flight.len() as u64;
                        return Ok(self.figures);
                    }
                }
            }
            while let Some((path, id)) = self.set.poll_start(self.time) {
                let request = *self.set.command(path, id).expect("it was started");
                let answer = None;
                self.links[path].transits.push(Transit {
                    id,
                    request,
                    answer,
                });
            }
        }
        for path in 0..self.links.len() {
            (0..IN_FLIGHT * 100).for_each(|_| self.execute_late(path));
        }
        for block in 0..BLOCKS {
            let (acknowledged, found) = (
                self.acknowledged[block as usize],
                self.blocks[block as usize],
            );
            if acknowledged != found {
                return Err(LostWrite {
                    block,
                    acknowledged,
                    found,
                });
            }
        }
        let counters = self.set.counters(self.time);
        self.figures.repeated = counters.commands_repeated;
        self.figures.switches = counters.path_switches;
        Ok(self.figures)
    }
}

const POLICIES: [PathPolicy; 3] = [
    PathPolicy::RoundRobin,
    PathPolicy::LeastQueueDepth,
    PathPolicy::Failover,
];

fn simulation(seed: u64, one_group: bool) -> Simulation {
    let policy = POLICIES[(seed / 4 % 3) as usize];
    Simulation::new(seed, 1 + (seed % 4) as usize, policy, one_group)
}

fn storm(one_group: bool) -> Figures {
    let mut sum = Figures::default();
    for seed in 0..seeds() {
        match simulation(seed, one_group).run() {
            Ok(figures) => sum.add(&figures),
            Err(lost) => panic!("seed {seed}: {lost:?}"),
        }
    }
    println!("{sum:?}");
    assert!(sum.completed > 50 * seeds(), "{sum:?}");
    assert!(sum.repeated > seeds() && sum.losses > seeds(), "{sum:?}");
    assert!(sum.late_writes > 0 && sum.switches > 0, "{sum:?}");
    sum
}

#[test]
fn no_acknowledged_write_is_lost_if_a_login_over_any_portal_ends_a_lost_session() {
    assert!(storm(true).fences > 0);
}

#[test]
fn no_acknowledged_write_is_lost_if_portals_belong_to_groups_of_their_own() {
    assert_eq!(storm(false).fences, 0);
}

/// The simulation notices the faults that it is for: a target that carries out old writes longer
/// than the host expects, and one that does not end them when it should.
#[test]
fn simulation_notices_writes_that_take_effect_too_late() {
    let loses = |change: fn(&mut Simulation), one_group: bool| {
        (0..seeds()).any(|seed| {
            let mut simulation = simulation(seed, one_group);
            change(&mut simulation);
            simulation.run().is_err()
        })
    };
    assert!(loses(
        |simulation| simulation.lives_ns = 20_000_000_000,
        false
    ));
    assert!(loses(|simulation| simulation.ignores_fences = true, true));
}

#[test]
fn same_seed_gives_the_same_figures() {
    for seed in 0..20 {
        let run = || simulation(seed, true).run();
        assert_eq!(run(), run());
    }
}
