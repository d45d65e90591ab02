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

/// Returns a target port group.
fn group(number: u16, state: AccessState) -> PortGroup {
    PortGroup {
        number,
        state,
        ..PortGroup::default()
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

/// Returns a set of paths that are all up, in port groups 1, 2, ….
fn set_of(paths: usize, policy: PathPolicy, config: Multipath) -> PathSet<u32> {
    let config = Multipath { policy, ..config };
    let mut set = PathSet::new(paths, &config, 8);
    for path in 0..paths {
        set.handle_login(path, Some(path as u16 + 1));
        let group = group(path as u16 + 1, AccessState::ActiveOptimized);
        set.handle_up(Time(0), path, Some(&group));
    }
    set
}

/// Submits `count` commands and returns their paths.
fn paths_of(set: &mut PathSet<u32>, now: Time, count: u32) -> Vec<usize> {
    let mut paths = Vec::new();
    for command in 0..count {
        set.submit(now, command, None);
        paths.extend(set.poll_start(now).map(|(path, _)| path));
    }
    paths
}

#[test]
fn round_robin_takes_turns_and_least_queue_depth_avoids_the_busy_path() {
    let config = Multipath::default;
    let mut set = set_of(3, PathPolicy::RoundRobin, config());
    assert_eq!(paths_of(&mut set, Time(1), 7), [0, 1, 2, 0, 1, 2, 0]);

    let mut set = set_of(2, PathPolicy::LeastQueueDepth, config());
    set.submit(Time(1), 0, None);
    let (first, id) = set.poll_start(Time(1)).unwrap();
    assert_eq!(first, 0);
    assert_eq!(paths_of(&mut set, Time(1), 3), [1, 0, 1]);
    assert!(set.handle_done(Time(2), first, id).is_some());
    assert_eq!(paths_of(&mut set, Time(2), 1), [0]);

    let mut set = set_of(2, PathPolicy::Failover, config());
    assert_eq!(paths_of(&mut set, Time(1), 4), [0; 4]);
}

#[test]
fn optimized_ports_are_preferred_and_standby_ports_are_not_used() {
    let mut set = set_of(3, PathPolicy::RoundRobin, Multipath::default());
    let groups = [
        group(1, AccessState::Standby),
        group(2, AccessState::ActiveNonOptimized),
        group(3, AccessState::ActiveOptimized),
    ];
    set.handle_states(Time(1), &groups);
    assert_eq!(paths_of(&mut set, Time(1), 2), [2, 2]);
    set.handle_states(Time(2), &[group(3, AccessState::Unavailable)]);
    assert_eq!(paths_of(&mut set, Time(2), 2), [1, 1]);
    set.handle_states(Time(3), &[group(2, AccessState::Standby)]);
    assert!(!set.has_room(Time(3)));
    // A path fails if none is usable for 30 s.
    set.handle_timeout(Time::from_secs_f64(29.9));
    let fails = |set: &mut PathSet<u32>| {
        std::iter::from_fn(|| set.poll_action()).any(|action| action == PathAction::Fail)
    };
    assert!(!fails(&mut set));
    set.handle_timeout(Time::from_secs_f64(30.1));
    assert!(fails(&mut set));
}

#[test]
fn paths_of_the_preferred_group_come_first_among_those_with_its_state() {
    let mut set = PathSet::new(4, &Multipath::default(), 8);
    let of = |number, state, preferred| PortGroup {
        preferred,
        ..group(number, state)
    };
    let optimized = AccessState::ActiveOptimized;
    // Paths 0 and 2 lead to group 1, and 1 and 3 to group 2.
    for path in 0..4 {
        set.handle_login(path, Some(path as u16 + 1));
        let group = of(path as u16 % 2 + 1, optimized, path % 2 == 1);
        set.handle_up(Time(0), path, Some(&group));
    }
    assert_eq!(paths_of(&mut set, Time(1), 4), [1, 3, 1, 3]);
    // An optimized path is better than a preferred one that is not optimized.
    set.handle_states(Time(2), &[of(2, AccessState::ActiveNonOptimized, true)]);
    assert_eq!(paths_of(&mut set, Time(2), 4), [0, 2, 0, 2]);
    set.handle_states(Time(3), &[of(2, optimized, false)]);
    assert_eq!(paths_of(&mut set, Time(3), 4), [3, 0, 1, 2]);
}

#[test]
fn commands_of_a_lost_path_move_when_the_recovery_time_is_over() {
    let s = Time::from_secs_f64;
    let mut set = set_of(2, PathPolicy::Failover, Multipath::default());
    assert_eq!(paths_of(&mut set, s(1.0), 3), [0; 3]);
    set.handle_lost(s(10.0), 0);
    set.handle_timeout(s(10.0));
    let retry = PathAction::Connect {
        path: 0,
        through: 0,
    };
    assert_eq!(set.poll_action(), Some(retry));
    assert_eq!(set.poll_start(s(10.0)), None);
    // New commands use the other path at once.
    assert_eq!(paths_of(&mut set, s(10.1), 1), [1]);
    set.handle_timeout(s(14.9));
    assert_eq!(set.poll_start(s(14.9)), None);
    set.handle_timeout(s(15.0));
    let moved: Vec<usize> = std::iter::from_fn(|| set.poll_start(s(15.0)))
        .map(|(path, _)| path)
        .collect();
    assert_eq!(moved, [1; 3]);
    let counters = set.counters(s(15.0));
    assert_eq!((counters.path_losses, counters.commands_repeated), (1, 3));
    assert_eq!(counters.failover_ns_sum, 15_000_000_000);
    assert_eq!(counters.longest_gap_ns, 14_000_000_000);
}

#[test]
fn recent_gap_is_the_longest_that_lasts_or_ended_after_the_counters_were_taken() {
    let s = Time::from_secs_f64;
    let mut set = set_of(1, PathPolicy::RoundRobin, Multipath::default());
    let gaps = |set: &mut PathSet<u32>, at: f64| {
        let taken = set.take_counters(s(at));
        (taken.recent_gap_ns, taken.longest_gap_ns)
    };
    set.submit(s(1.0), 0, None);
    set.submit(s(1.0), 1, None);
    let (path, first) = set.poll_start(s(1.0)).unwrap();
    let (_, second) = set.poll_start(s(1.0)).unwrap();
    assert_eq!(gaps(&mut set, 1.5), (500_000_000, 500_000_000));
    set.handle_done(s(3.0), path, first);
    assert_eq!(gaps(&mut set, 3.25), (2_000_000_000, 2_000_000_000));
    set.handle_done(s(3.5), path, second);
    assert_eq!(gaps(&mut set, 9.0), (500_000_000, 2_000_000_000));
    assert_eq!(gaps(&mut set, 10.0), (0, 2_000_000_000));
}

#[test]
fn path_that_returns_in_time_keeps_its_commands() {
    let s = Time::from_secs_f64;
    let mut set = set_of(2, PathPolicy::Failover, Multipath::default());
    paths_of(&mut set, s(1.0), 2);
    set.handle_lost(s(2.0), 0);
    set.handle_login(0, Some(1));
    set.handle_up(s(3.0), 0, Some(&group(1, AccessState::ActiveOptimized)));
    let again: Vec<usize> = std::iter::from_fn(|| set.poll_start(s(3.0)))
        .map(|(path, _)| path)
        .collect();
    assert_eq!(again, [0; 2]);
    assert_eq!(set.counters(s(3.0)).failback_ns_sum, 1_000_000_000);
}

#[test]
fn path_that_has_returned_stays_usable_for_data_that_arrived_before() {
    let s = Time::from_secs_f64;
    for failback_s in [0.0, 1.0] {
        let config = Multipath {
            failback_s,
            ..Multipath::default()
        };
        let mut set = set_of(2, PathPolicy::Failover, config);
        set.handle_lost(s(2.0), 0);
        set.handle_login(0, Some(1));
        set.handle_up(s(3.0), 0, Some(&group(1, AccessState::ActiveOptimized)));
        set.handle_timeout(s(3.0 + failback_s));
        // The kernel received this data of the other path first, although it is handled last.
        set.handle_timeout(s(2.9));
        assert!(set.is_usable(s(2.9), 0));
        let counters = set.counters(s(4.0));
        assert_eq!((counters.path_switches, counters.path_returns), (1, 1));
    }
}
