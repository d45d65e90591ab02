//! Caps in virtual time: rates, bursts, order, removal.
use hakaru_throttle::{Cap, CapCounters, Scope, Throttle};
use hakaru_units::Time;

const SECOND: u64 = 1_000_000_000;

fn lu(lun: u8, cap: Cap) -> (Scope, Cap) {
    let scope = Scope {
        lun: Some(lun),
        initiator: None,
    };
    (scope, cap)
}

fn initiator(name: &str, cap: Cap) -> (Scope, Cap) {
    let scope = Scope {
        lun: None,
        initiator: Some(name.to_owned()),
    };
    (scope, cap)
}

fn accesses_per_s(rate: u64, burst_ns: u64) -> Cap {
    Cap {
        accesses_per_s: Some(rate),
        burst_ns,
        ..Cap::default()
    }
}

/// Keeps `depth` accesses of `bytes` waiting on LU 0 for `duration_ns`. Every deadline is served
/// `late_ns` too late. Returns the number of accesses that passed.
fn closed_loop(cap: Cap, depth: usize, bytes: u64, duration_ns: u64, late_ns: u64) -> u64 {
    let mut throttle = Throttle::new([lu(0, cap)]);
    let route = throttle.route(0, None);
    let mut now = Time(5 * SECOND);
    let end = now.0 + duration_ns;
    for _ in 0..depth {
        throttle.handle_access(now, bytes, route.clone(), ());
    }
    let mut passed = 0;
    loop {
        while throttle.poll_passed().is_some() {
            passed += 1;
            throttle.handle_access(now, bytes, route.clone(), ());
        }
        let at = throttle.poll_timeout().expect("accesses wait");
        now = Time(at.0.max(now.0) + late_ns);
        if at.0 > end {
            return passed;
        }
        throttle.handle_timeout(now);
    }
}

#[test]
fn a_cap_holds_its_rate_exactly_for_rates_that_do_not_divide_a_second() {
    for rate in [1, 7, 333, 1_000, 77_777, 999_983] {
        let seconds = if rate < 10 { 100 } else { 3 };
        let passed = closed_loop(accesses_per_s(rate, 0), 4, 4096, seconds * SECOND, 0);
        // The first access finds a full bucket, and one passes at the last instant.
        let expected = rate * seconds;
        assert!(
            (expected..=expected + 2).contains(&passed),
            "{rate} per second: {passed} in {seconds} s"
        );
    }
}

#[test]
fn a_caller_that_is_always_late_does_not_lower_the_rate() {
    // Deadlines are served 300 us late, which is a third of the interval of 1000 per second.
    let passed = closed_loop(accesses_per_s(1_000, 0), 8, 4096, 10 * SECOND, 300_000);
    assert!((10_000..=10_010).contains(&passed), "{passed}");
}

#[test]
fn bytes_are_capped_also_by_accesses_larger_than_the_burst() {
    let cap = Cap {
        bytes_per_s: Some(10_000_000),
        burst_ns: 1_000_000, // 10 kB
        ..Cap::default()
    };
    let bytes = 1 << 20;
    let passed = closed_loop(cap, 4, bytes, 10 * SECOND, 0) * bytes;
    let error = passed as f64 / 100e6 - 1.0;
    assert!((0.0..0.012).contains(&error), "{passed} bytes in 10 s");
}

#[test]
fn the_lower_of_both_rates_of_a_cap_applies() {
    let cap = Cap {
        accesses_per_s: Some(500),
        bytes_per_s: Some(4096 * 200),
        burst_ns: 0,
    };
    let of = |bytes| closed_loop(cap, 4, bytes, 10 * SECOND, 0);
    assert!((2_000..=2_002).contains(&of(4096)), "{}", of(4096));
    assert!((5_000..=5_002).contains(&of(512)), "{}", of(512));
}

#[test]
fn a_burst_passes_after_an_idle_time_and_no_more() {
    let mut throttle = Throttle::new([lu(0, accesses_per_s(1_000, 20_000_000))]);
    let route = throttle.route(0, None);
    for number in 0..50 {
        throttle.handle_access(Time(SECOND), 512, route.clone(), number);
    }
    // The content of the bucket, and the access that it may owe.
    let passed: Vec<i32> = std::iter::from_fn(|| throttle.poll_passed()).collect();
    assert_eq!(passed, (0..21).collect::<Vec<_>>());
    assert_eq!(throttle.poll_timeout(), Some(Time(SECOND + 1_000_000)));
    throttle.handle_timeout(Time(SECOND + 3_500_000));
    let passed: Vec<i32> = std::iter::from_fn(|| throttle.poll_passed()).collect();
    assert_eq!(passed, [21, 22, 23]);
    let counters = throttle.counters().next().expect("there is one cap");
    let expected = CapCounters {
        accesses: 24,
        bytes: 24 * 512,
        delayed: 3,
        wait_ns: 6_000_000,
        waiting_now: 26,
    };
    assert_eq!(counters, expected);
}

#[test]
fn an_access_that_waits_for_its_initiators_cap_does_not_use_the_cap_of_its_lu() {
    let caps = [
        initiator("slow", accesses_per_s(10, 0)),
        lu(0, accesses_per_s(1_000, 0)),
    ];
    let mut throttle = Throttle::new(caps);
    let (slow, fast) = (
        throttle.route(0, Some("slow")),
        throttle.route(0, Some("fast")),
    );
    let start = Time(SECOND);
    for _ in 0..100 {
        throttle.handle_access(start, 512, slow.clone(), "slow");
    }
    throttle.handle_access(start, 512, fast, "fast");
    throttle.handle_timeout(Time(SECOND + 1_000_000));
    let passed: Vec<&str> = std::iter::from_fn(|| throttle.poll_passed()).collect();
    assert_eq!(passed, ["slow", "fast"]);
    throttle.handle_timeout(Time(2 * SECOND));
    let passed = std::iter::from_fn(|| throttle.poll_passed()).count();
    assert_eq!(passed, 10, "one every 100 ms");
}

#[test]
fn a_removed_access_takes_no_token_and_the_others_keep_their_order() {
    let mut throttle = Throttle::new([lu(0, accesses_per_s(1_000, 0))]);
    let route = throttle.route(0, None);
    for number in 0..5 {
        throttle.handle_access(Time(SECOND), 512, route.clone(), number);
    }
    assert_eq!(throttle.poll_passed(), Some(0));
    assert_eq!(throttle.remove(|number| *number == 1), Some(1));
    assert_eq!(throttle.remove(|number| *number == 3), Some(3));
    assert_eq!(throttle.remove(|number| *number == 3), None);
    throttle.handle_timeout(Time(SECOND + 2_000_000));
    let passed: Vec<i32> = std::iter::from_fn(|| throttle.poll_passed()).collect();
    assert_eq!(passed, [2, 4]);
    assert_eq!(throttle.poll_timeout(), None);
}

#[test]
fn an_access_outside_every_scope_has_an_empty_route() {
    let mut throttle: Throttle<()> = Throttle::new([lu(3, accesses_per_s(10, 0))]);
    assert!(throttle.route(2, Some("a")).is_empty());
    assert!(!throttle.is_empty());
}
