//! Frames reported ahead of their arrival, which must not change any arrival.
use std::time::Duration;

use crate::net::*;
use hakaru_contract::fabric::{Direction, FabricConfig};
use hakaru_fabric::{Fabric, Packet};
use hakaru_units::Time;
use proptest::prelude::*;

const AHEAD: Duration = Duration::from_micros(20);
/// Instant at which the observed frame is sent, ns.
const SENT: u64 = 1_000_000_000;

/// Returns hosts `1`, `2`, … on one switch. Each has a delay on its link to the switch, µs; `down`
/// is the rate of all links from the switch.
fn star(delays_us: &[f64], down: Option<u64>) -> FabricConfig {
    let links = delays_us.iter().zip(1..).map(|(delay_us, n)| {
        let up = Direction {
            delay_us: *delay_us,
            ..Direction::default()
        };
        let down = Direction {
            rate_bits_per_s: down,
            ..Direction::default()
        };
        host(&format!("{n}"), "s", up, down)
    });
    FabricConfig {
        switches: vec![switch("s")],
        links: links.collect(),
        seed: 1,
    }
}

/// Returns the time by which the frame from host 1 to host 2 was reported before its arrival, ns.
/// Host 3 sends a frame to host 2 at each of `others`, ns after that frame.
fn reported_ahead_ns(config: &FabricConfig, others: &[u64]) -> u64 {
    let mut fabric = Fabric::new(config).unwrap();
    fabric.handle_frame(Time::ZERO, 1, frame(2, 1, 64));
    fabric.handle_frame(Time::ZERO, 0, frame(1, 2, 64));
    run(&mut fabric, config.links.len());
    fabric.report_ahead(AHEAD);
    fabric.handle_timeout(Time(SENT));
    fabric.handle_frame(Time(SENT), 0, frame(1, 2, 1518));
    for after in others {
        fabric.handle_frame(Time(SENT + after), 2, frame(3, 2, 1518));
    }
    let seen = run(&mut fabric, config.links.len());
    assert_conserved(&mut fabric);
    assert_eq!(seen.len(), 1 + others.len());
    let our_frame = seen.iter().find(|(_, _, out)| bytes_of(out)[11] == 1);
    let (at, port, out) = our_frame.expect("the frame left");
    assert_eq!(*port, 1);
    out.due().ns_since(*at)
}

#[test]
fn a_lone_frame_is_reported_ahead_through_a_switch_if_no_frame_can_precede_it() {
    let ahead = AHEAD.as_nanos() as u64;
    let delay = 10_000.0;
    assert_eq!(reported_ahead_ns(&star(&[delay, 0.0], None), &[]), ahead);
    let wire_ns = 12_144;
    assert_eq!(
        reported_ahead_ns(&star(&[delay, 0.0], Some(GIGABIT)), &[]),
        ahead
    );
    // Without a rate frames do not meet in a queue. With a rate, a frame of the third host might be
    // first, unless its link is long.
    assert_eq!(
        reported_ahead_ns(&star(&[delay, 0.0, 0.0], None), &[]),
        ahead
    );
    assert_eq!(
        reported_ahead_ns(&star(&[delay, 0.0, 20.0], Some(GIGABIT)), &[]),
        ahead
    );
    assert_eq!(
        reported_ahead_ns(&star(&[delay, 0.0, 19.0], Some(GIGABIT)), &[]),
        wire_ns
    );
    // A frame that is known to arrive first delays the report.
    let before = [10_000_000 - 30_000];
    assert_eq!(
        reported_ahead_ns(&star(&[delay, 0.0, 20.0], Some(GIGABIT)), &before),
        wire_ns
    );
}

#[test]
fn frames_are_reported_ahead_of_their_arrival_but_not_before_they_are_on_the_line() {
    let ahead = Duration::from_micros(20);
    for (delay_us, reported_at) in [(10_000.0, 10_012_144 - 20_000), (0.0, 0)] {
        let mut line = rate(GIGABIT);
        line.delay_us = delay_us;
        let mut fabric = Fabric::new(&wire(line)).unwrap();
        fabric.report_ahead(ahead);
        fabric.handle_frame(Time::ZERO, 0, frame(1, 2, 1518));
        fabric.handle_timeout(Time::ZERO);
        assert_eq!(fabric.frame_due(1).is_some(), reported_at == 0);
        let seen = run(&mut fabric, 2);
        let reported: Vec<_> = seen
            .iter()
            .map(|(at, port, out)| (at.as_ns(), *port, out.due().as_ns()))
            .collect();
        // At 1 Gbit/s, 1518 bytes take 12.144 µs.
        assert_eq!(reported.len(), 1, "{reported:?}");
        let (at, port, due) = reported[0];
        assert_eq!(port, 1);
        assert_eq!(due, (delay_us * 1e3) as u64 + 12_144);
        assert_eq!(at, reported_at);
        assert_conserved(&mut fabric);
    }
}

/// Frames that arrived at each interface, and their instants.
type Arrivals = Vec<Vec<(Time, Vec<u8>)>>;

/// Returns the arrivals, and the number of frames that entered late. `late` is the delay with which
/// the fabric receives each frame. A send is sender, receiver, payload bytes, and ns since the
/// previous send.
fn arrivals(
    config: &FabricConfig,
    sends: &[(usize, u8, usize, u64)],
    ahead: Duration,
    late: Duration,
) -> (Arrivals, u64) {
    let mut fabric = Fabric::new(config).unwrap();
    fabric.report_ahead(ahead);
    let mut seen: Arrivals = vec![Vec::new(); config.links.len()];
    // Works like a shell: advances to the next event or frame, and takes no frame before it is due.
    let mut pass = |fabric: &mut Fabric, until: Time| loop {
        let dues = (0..seen.len()).filter_map(|port| fabric.frame_due(port));
        let next = dues.chain(fabric.poll_timeout()).min();
        let Some(now) = next.filter(|next| *next <= until) else {
            return;
        };
        fabric.handle_timeout(now);
        for (port, seen) in seen.iter_mut().enumerate() {
            while fabric.frame_due(port).is_some_and(|due| due <= now) {
                let out = fabric.poll_frame(port, now);
                let out = out.expect("a due frame can be polled");
                seen.push((out.due(), bytes_of(&out)));
            }
        }
    };
    let mut now = Time::ZERO;
    for (from, to, payload, gap) in sends {
        now += Duration::from_nanos(*gap);
        pass(&mut fabric, now + late);
        fabric.handle_timeout(now + late);
        let packet: Packet = tcp(*from as u8 + 1, *to, *payload);
        fabric.handle_frame(now, *from, packet);
    }
    pass(&mut fabric, Time::MAX);
    assert_conserved(&mut fabric);
    seen.iter_mut().for_each(|arrivals| arrivals.sort());
    (seen, fabric.lateness().packets)
}

#[test]
fn frames_of_a_super_frame_that_is_reported_ahead_leave_one_by_one() {
    let mut config = star(&[0.0, 0.0], Some(GIGABIT));
    let links = config.links.iter_mut();
    links.for_each(|link| link.b_to_a.delay_us = 100.0);
    let arrivals_with = |ahead_us| {
        let ahead = Duration::from_micros(ahead_us);
        arrivals(&config, &[(0, 2, 8000, 0)], ahead, Duration::ZERO)
    };
    let exact = arrivals_with(0);
    assert!(exact.0[1].len() > 3, "{exact:?}");
    assert_eq!(exact, arrivals_with(60));
}

fn sends() -> impl Strategy<Value = Vec<(usize, u8, usize, u64)>> {
    prop::collection::vec((0..3_usize, 1..4_u8, 0..8000_usize, 0..300_000_u64), 1..60)
}

fn rates() -> impl Strategy<Value = Option<u64>> {
    prop::sample::select(vec![None, Some(GIGABIT)])
}

proptest! {
    /// Reporting ahead changes neither frames nor interfaces nor instants of arrivals.
    #[test]
    fn reporting_ahead_changes_no_arrival(
        sends in sends(),
        delays_us in prop::collection::vec(prop::sample::select(vec![0.0, 5.0, 30.0, 200.0]), 3),
        down in rates(),
        ahead_us in 0..60_u64,
    ) {
        let config = star(&delays_us, down);
        let arrivals_with = |ahead_us| {
            arrivals(&config, &sends, Duration::from_micros(ahead_us), Duration::ZERO)
        };
        prop_assert_eq!(arrivals_with(0), arrivals_with(ahead_us));
    }

    /// A frame over a link whose delay exceeds that of the call arrives as if the call had been on
    /// time. Other frames count as late.
    #[test]
    fn a_late_call_changes_no_arrival_over_a_longer_link(
        sends in sends(),
        delays_us in prop::collection::vec(prop::sample::select(vec![0.0, 30.0, 31.0, 200.0]), 3),
        (up, down) in (rates(), rates()),
        ahead_us in prop::sample::select(vec![0, 0, 20]),
        late_us in 0..40_u64,
    ) {
        let mut config = star(&delays_us, down);
        config.links.iter_mut().for_each(|link| link.a_to_b.rate_bits_per_s = up);
        let ahead = Duration::from_micros(ahead_us);
        let (on_time, no_late_frames) = arrivals(&config, &sends, ahead, Duration::ZERO);
        prop_assert_eq!(no_late_frames, 0);
        let (later, late_frames) = arrivals(&config, &sends, ahead, Duration::from_micros(late_us));
        let is_short = |delay_us: &f64| *delay_us < late_us as f64;
        if late_frames == 0 {
            prop_assert_eq!(on_time, later);
        } else {
            prop_assert!(ahead_us > 0 || delays_us.iter().any(is_short));
        }
    }
}
