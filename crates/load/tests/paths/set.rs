//! Choice of paths, moves of commands and gaps of one set of paths, step by step.
use hakaru_contract::initiator::{Multipath, PathPolicy};
use hakaru_load::{PathAction, PathSet};
use hakaru_units::Time;
use hakaru_wire::scsi::{AccessState, PortGroup};

use crate::group;

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
    // The path has not returned.
    assert_eq!((counters.failovers, counters.failbacks), (1, 0));
    assert_eq!(counters.longest_gap_ns, 14_000_000_000);
}

#[test]
fn failover_waits_for_a_full_path_and_leaves_the_others_idle() {
    let s = Time::from_secs_f64;
    let mut set = set_of(2, PathPolicy::Failover, Multipath::default());
    let paths = paths_of(&mut set, s(1.0), 20);
    assert!(!paths.is_empty() && paths.len() < 20, "{paths:?}");
    assert!(paths.iter().all(|path| *path == 0), "{paths:?}");
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
    set.handle_timeout(s(8.0));
    let counters = set.counters(s(8.0));
    assert_eq!(counters.failback_ns_sum, 1_000_000_000);
    assert_eq!((counters.path_losses, counters.failbacks), (1, 1));
    assert_eq!((counters.failovers, counters.failover_ns_sum), (0, 0));
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
