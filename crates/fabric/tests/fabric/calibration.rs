//! The model against calculated results: rates, delays, loss, queues.
use std::time::Duration;

use crate::net::*;
use hakaru_contract::fabric::{Direction, Jitter, Loss};
use hakaru_fabric::Fabric;
use hakaru_units::Time;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;

/// Checks a value against the expected one.
#[track_caller]
fn assert_near(value: f64, expected: f64, tolerance: f64, what: &str) {
    // A line of the table that `make calibrate` prints.
    println!("calibration: {value} {expected} {tolerance}");
    assert!(
        (value - expected).abs() <= tolerance,
        "{what}: {value}, expected {expected} within {tolerance}"
    );
}

#[test]
fn rates_are_exact_from_ten_kilobits_to_a_terabit() {
    for bits_per_s in [
        10_000,
        10_000_000,
        GIGABIT,
        10 * GIGABIT,
        999_999_937,
        1000 * GIGABIT,
    ] {
        let mut fabric = Fabric::new(&wire(rate(bits_per_s))).unwrap();
        let (frames, wire_bytes) = (3000_u64, 1538);
        for _ in 0..frames {
            fabric.handle_frame(Time::ZERO, 0, frame(1, 2, 1518));
        }
        let seen = run(&mut fabric, 2);
        // The gap after the last frame is not part of its arrival time.
        let exact_ns = (frames * wire_bytes - 20) as f64 * 8e9 / bits_per_s as f64;
        let took_ns = seen.last().unwrap().0.as_ns() as f64;
        assert_near(took_ns, exact_ns, 2.0, &format!("{bits_per_s} bit/s, ns"));
        assert_conserved(&mut fabric);
    }
}

#[test]
fn a_lone_frame_is_late_by_serialisation_and_delay_to_the_nanosecond() {
    let direction = Direction {
        delay_us: 10_000.0,
        ..rate(GIGABIT)
    };
    let mut fabric = Fabric::new(&wire(direction)).unwrap();
    fabric.handle_frame(Time(5), 0, frame(1, 2, 1518));
    let (at, port, _) = &run(&mut fabric, 2)[0];
    assert_near(
        at.as_ns() as f64,
        f64::from(5 + 1518 * 8 + 10_000_000),
        0.0,
        "ns",
    );
    assert_eq!(*port, 1);
}

#[test]
fn random_loss_lies_in_its_binomial_interval() {
    for percent in [0.01, 1.0, 20.0, 100.0] {
        let loss = Loss::Random { percent };
        let mut fabric = Fabric::new(&wire(Direction {
            loss,
            ..Direction::default()
        }))
        .unwrap();
        let frames = 400_000_u64;
        for n in 0..frames {
            fabric.handle_frame(Time(n), 0, frame(1, 2, 64));
            fabric.handle_timeout(Time(n));
            while fabric.poll_frame(1, Time::MAX).is_some() {}
        }
        let lost = counters(&mut fabric, "wire/a-b").drops.loss as f64;
        let p = percent / 100.0;
        let (mean, deviation) = (p * frames as f64, (p * (1.0 - p) * frames as f64).sqrt());
        assert_near(lost, mean, 4.0 * deviation, &format!("{percent} % lost"));
        assert_conserved(&mut fabric);
    }
}

#[test]
fn bursts_lose_the_configured_share_in_runs_of_the_configured_length() {
    let loss = Loss::Bursts {
        percent: 2.0,
        burst_frames: 8.0,
        bad_percent: 100.0,
    };
    let mut fabric = Fabric::new(&wire(Direction {
        loss,
        ..Direction::default()
    }))
    .unwrap();
    let frames = 1_000_000_u64;
    let (mut lost, mut runs, mut before) = (0_u64, 0_u64, true);
    for n in 0..frames {
        fabric.handle_frame(Time(n), 0, frame(1, 2, 64));
        fabric.handle_timeout(Time(n));
        let arrived = fabric.poll_frame(1, Time::MAX).is_some();
        lost += u64::from(!arrived);
        runs += u64::from(before && !arrived);
        before = arrived;
    }
    let (share, length) = (lost as f64 / frames as f64, lost as f64 / runs as f64);
    assert_near(share, 0.02, 0.0015, "share of lost frames");
    assert_near(length, 8.0, 0.4, "frames of a burst");
}

#[test]
fn a_share_of_lost_frames_that_no_bursts_of_that_length_give_is_refused() {
    let with_loss = |percent, burst_frames, bad_percent| {
        Fabric::new(&wire(Direction {
            loss: Loss::Bursts {
                percent,
                burst_frames,
                bad_percent,
            },
            ..Direction::default()
        }))
    };
    // One good frame between two bursts of one frame, or of two.
    assert!(with_loss(50.0, 1.0, 100.0).is_ok() && with_loss(51.0, 1.0, 100.0).is_err());
    assert!(with_loss(13.3, 2.0, 20.0).is_ok() && with_loss(13.4, 2.0, 20.0).is_err());
}

/// Returns the mean wait in a queue that serves one frame of 1518 bytes in `1538 * 8` ns, ns.
fn mean_wait_ns(gaps_ns: impl Iterator<Item = u64>) -> f64 {
    let mut fabric = Fabric::new(&wire(rate(GIGABIT))).unwrap();
    let (mut now, mut sent, mut waits) = (Time::ZERO, Vec::new(), Vec::new());
    let mut take = |fabric: &mut Fabric, until: Time, sent: &[Time]| {
        while let Some(at) = fabric.poll_timeout().filter(|at| *at <= until) {
            fabric.handle_timeout(at);
            while fabric.poll_frame(1, Time::MAX).is_some() {
                waits.push(at.ns_since(sent[waits.len()]) - 1518 * 8);
            }
        }
    };
    for gap in gaps_ns {
        now += Duration::from_nanos(gap);
        take(&mut fabric, now, &sent);
        sent.push(now);
        fabric.handle_frame(now, 0, frame(1, 2, 1518));
    }
    take(&mut fabric, Time::MAX, &sent);
    waits.iter().map(|wait| *wait as f64).sum::<f64>() / waits.len() as f64
}

#[test]
fn no_frame_waits_if_arrivals_and_service_are_regular() {
    assert_eq!(
        mean_wait_ns((0..10_000).map(|_| 1538 * 8)),
        0.0,
        "D/D/1 at full load"
    );
}

#[test]
fn poisson_arrivals_wait_as_the_pollaczek_khinchine_formula_predicts() {
    let service = 1538.0 * 8.0;
    for load in [0.3, 0.6, 0.8] {
        let mut rng = Pcg64::seed_from_u64(7);
        let gaps =
            (0..400_000).map(|_| (-(1.0 - rng.random::<f64>()).ln() * service / load) as u64);
        let (wait, exact) = (mean_wait_ns(gaps), load * service / (2.0 * (1.0 - load)));
        assert_near(
            wait,
            exact,
            0.03 * exact,
            &format!("wait of M/D/1 at {load}, ns"),
        );
    }
}

#[test]
fn jitter_has_the_configured_mean_and_keeps_frames_in_order() {
    for (jitter, mean_us) in [
        (Jitter::Uniform { max_us: 100.0 }, 50.0),
        (Jitter::Exponential { mean_us: 50.0 }, 50.0),
        (
            Jitter::Normal {
                mean_us: 50.0,
                deviation_us: 10.0,
            },
            50.0,
        ),
    ] {
        let mut fabric = Fabric::new(&wire(Direction {
            jitter,
            ..Direction::default()
        }))
        .unwrap();
        let frames = 20_000_u64;
        // The frames are so far apart that none could overtake another.
        let (mut sum_us, mut got) = (0.0, 0);
        for n in 0..frames {
            let sent = Time(n * 10_000_000);
            fabric.handle_frame(sent, 0, frame(1, 2, 64));
            let at = fabric.poll_timeout().unwrap();
            for at in [at, Time(sent.as_ns() + 9_999_999)] {
                fabric.handle_timeout(at);
                while fabric.poll_frame(1, Time::MAX).is_some() {
                    got += 1;
                }
                if let Some(next) = fabric.poll_timeout() {
                    sum_us += next.ns_since(sent) as f64 / 1e3;
                }
            }
        }
        let mean = sum_us / frames as f64;
        assert_eq!(got, frames);
        assert_near(mean, mean_us, 1.5, &format!("{jitter:?}, µs"));
    }
}
