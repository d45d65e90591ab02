//! Shares in virtual time: proportions, idle classes, depth, removal.
use hakaru_throttle::{Scope, Shares};
use hakaru_units::Time;

const MS: u64 = 1_000_000;

fn lu(lun: u8) -> Scope {
    Scope {
        lun: Some(lun),
        initiator: None,
    }
}

/// Serves accesses one after the other for 10 s, each for 1 ms, with `outstanding` accesses of each
/// LU in a closed loop, of `bytes` each. Returns how many of each LU were served.
fn served(shares: &[u32], outstanding: &[usize], bytes: &[u64]) -> Vec<u64> {
    let classes = shares.iter().zip(0..).map(|(share, lun)| (lu(lun), *share));
    let mut fair = Shares::new(1, classes, 1);
    for (lun, count) in outstanding.iter().enumerate() {
        for _ in 0..*count {
            fair.handle_access(Time::ZERO, lun, bytes[lun], lun);
        }
    }
    let mut counts = vec![0; shares.len()];
    for step in 0..10_000 {
        let now = Time(step * MS);
        let Some(lun) = fair.poll_dispatched(now) else {
            break;
        };
        assert_eq!(fair.poll_dispatched(now), None, "one at a time");
        counts[lun] += 1;
        fair.handle_done();
        fair.handle_access(now, lun, bytes[lun], lun);
    }
    counts
}

#[test]
fn backlogged_classes_are_served_in_proportion_to_their_shares() {
    let counts = served(&[400, 100, 100], &[4, 64, 4], &[4096; 3]);
    for (count, expected) in counts.iter().zip([6667, 1667, 1667]) {
        assert!(count.abs_diff(expected) <= 5, "{counts:?}");
    }
}

#[test]
fn larger_accesses_cost_more() {
    // 16 KiB and 48 KiB cost 32 KiB and 64 KiB.
    let counts = served(&[1, 1], &[8, 8], &[16 << 10, 48 << 10]);
    assert!(counts[0].abs_diff(2 * counts[1]) <= 4, "{counts:?}");
}

#[test]
fn a_class_alone_is_served_without_limit_by_its_share() {
    assert_eq!(served(&[1, 1000], &[2, 0], &[4096; 2]), [10_000, 0]);
}

#[test]
fn a_class_saves_nothing_up_while_it_is_idle() {
    let mut fair = Shares::new(1, [(lu(0), 1), (lu(1), 1)], 1);
    let serve = |fair: &mut Shares<usize>| {
        let lun = fair.poll_dispatched(Time::ZERO).expect("one waits");
        fair.handle_done();
        lun
    };
    for _ in 0..200 {
        fair.handle_access(Time::ZERO, 1, 4096, 1);
    }
    (0..100).for_each(|_| assert_eq!(serve(&mut fair), 1));
    for _ in 0..100 {
        fair.handle_access(Time::ZERO, 0, 4096, 0);
    }
    let first: usize = (0..20).map(|_| serve(&mut fair)).sum();
    assert!(
        (9..=11).contains(&first),
        "they take turns at once: {first}"
    );
}

#[test]
fn at_most_the_depth_is_in_flight_and_waits_are_counted() {
    let initiator = Scope {
        lun: None,
        initiator: Some("a".into()),
    };
    let mut fair = Shares::new(2, [(initiator, 100)], 100);
    assert_eq!(
        (fair.class_of(0, Some("a")), fair.class_of(0, Some("b"))),
        (0, 1)
    );
    for number in 0..4 {
        fair.handle_access(Time(MS), 0, 512, number);
    }
    let dispatched = |fair: &mut Shares<i32>, ms: u64| -> Vec<i32> {
        std::iter::from_fn(|| fair.poll_dispatched(Time(ms * MS))).collect()
    };
    assert_eq!(dispatched(&mut fair, 1), [0, 1]);
    assert_eq!(fair.remove(|number| *number == 2), Some(2));
    assert_eq!(fair.remove(|number| *number == 0), None, "it is in flight");
    fair.handle_done();
    assert_eq!(dispatched(&mut fair, 6), [3]);
    let counters: Vec<_> = fair.counters().collect();
    assert_eq!(
        (
            counters[0].accesses,
            counters[0].delayed,
            counters[0].wait_ns
        ),
        (3, 1, 5 * MS)
    );
    assert_eq!((counters[0].waiting_now, counters[1].accesses), (0, 0));
}

#[test]
fn a_class_is_not_charged_for_an_access_that_was_removed() {
    let mut fair = Shares::new(1, [(lu(0), 3), (lu(1), 1)], 1);
    let serve = |fair: &mut Shares<(usize, u32)>| {
        let item = fair.poll_dispatched(Time::ZERO).expect("one waits");
        fair.handle_done();
        item
    };
    // Class 0 has 100 large accesses, of which all but the last two are aborted.
    for number in 0..100 {
        fair.handle_access(Time::ZERO, 0, 1 << 20, (0, number));
        fair.handle_access(Time::ZERO, 1, 1 << 20, (1, number));
    }
    for number in 0..98 {
        assert!(fair.remove(|item| *item == (0, number)).is_some());
    }
    // An access that arrives now begins directly after these two.
    fair.handle_access(Time::ZERO, 0, 1 << 20, (0, 100));
    let first: Vec<(usize, u32)> = (0..5).map(|_| serve(&mut fair)).collect();
    assert_eq!(first, [(0, 98), (1, 0), (0, 99), (0, 100), (1, 1)]);
    // The class has used up nothing in advance: it begins at the virtual time again.
    fair.handle_access(Time::ZERO, 0, 1 << 20, (0, 101));
    assert!(fair.remove(|item| *item == (0, 101)).is_some());
    fair.handle_access(Time::ZERO, 0, 1 << 20, (0, 102));
    assert_eq!(serve(&mut fair), (0, 102));
}
