//! Calibration of the load: known service times in virtual time must yield known latencies, rates
//! and queue lengths.
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hakaru_contract::initiator::{Arrivals, Load as LoadConfig, Vm};
use hakaru_load::{Counters, Extent, Load, RequestId};
use hakaru_stats::{Histogram, Latencies};
use hakaru_units::Time;

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn vm(load: LoadConfig, read_percent: u8) -> Vm {
    serde_json::from_value(serde_json::json!({
        "name": "vm1",
        "destination": {"kind": "file", "path": "/virtual"},
        "region": {"offset_bytes": 0, "length_bytes": 1 << 30},
        "pattern": {"sizes": [{"bytes": 4096}], "read_percent": read_percent, "random_percent": 100},
        "load": load,
        "seed": 7,
    }))
    .unwrap()
}

fn closed(queue_depth: u32) -> LoadConfig {
    LoadConfig::Closed { queue_depth }
}

fn open(rate_per_s: f64, arrivals: Arrivals, in_flight_max: u32) -> LoadConfig {
    LoadConfig::Open {
        rate_per_s,
        arrivals,
        in_flight_max,
    }
}

struct Outcome {
    counters: Counters,
    reads: Histogram,
    writes: Histogram,
}

/// Ends of the requests in flight, with their slots.
type Ends = BinaryHeap<Reverse<(u64, u32)>>;

/// Runs a load from one instant until the first event at or after another. Returns its instant.
fn drive(
    load: &mut Load,
    (mut now, until): (u64, u64),
    ends: &mut Ends,
    latencies: &mut Latencies,
    mut serve: impl FnMut(u64, u64) -> u64,
) -> u64 {
    let mut issued = 0;
    while now < until {
        while let Some(request) = load.poll_request(Time(now)) {
            ends.push(Reverse((serve(now, issued), request.id.0)));
            issued += 1;
        }
        let end = ends.peek().map_or(u64::MAX, |&Reverse((at, _))| at);
        let due = load.poll_timeout().map_or(u64::MAX, |at| at.as_ns());
        now = end.min(due).max(now);
        complete(load, now, ends, latencies);
    }
    now
}

/// Completes the requests that have ended by `now`.
fn complete(load: &mut Load, now: u64, ends: &mut Ends, latencies: &mut Latencies) {
    while let Some(&Reverse((at, id))) = ends.peek()
        && at <= now
    {
        ends.pop();
        load.handle_done(Time(at), RequestId(id), true, latencies);
    }
}

/// Runs a load for `duration_ns` against a server. `serve(now, n)` returns the instant at which the
/// `n`th request ends.
fn run(vm: &Vm, duration_ns: u64, mut serve: impl FnMut(u64, u64) -> u64) -> Outcome {
    let mut load = Load::new(
        vm,
        Extent {
            offset_bytes: 0,
            length_bytes: 1 << 30,
        },
    );
    let mut latencies = Latencies::default();
    let mut ends = BinaryHeap::new();
    load.begin(Time(0));
    let now = drive(
        &mut load,
        (0, duration_ns),
        &mut ends,
        &mut latencies,
        &mut serve,
    );
    let counters = load.counters(Time(now));
    latencies.read.take_interval(true, |_| ());
    latencies.write.take_interval(true, |_| ());
    Outcome {
        counters,
        reads: latencies.read.total().clone(),
        writes: latencies.write.total().clone(),
    }
}

/// Checks a value against the expected one; `tolerance` is a share of the latter.
fn close_to(value: f64, expected: f64, tolerance: f64) {
    // A line of the table that `make calibrate` prints.
    println!("calibration: {value} {expected} {}", expected * tolerance);
    assert!(
        (value / expected - 1.0).abs() <= tolerance,
        "{value} is not within {tolerance} of {expected}"
    );
}

#[test]
fn closed_loop_on_a_constant_service_time_has_that_latency_and_the_matching_rate() {
    for depth in [1, 8, 64] {
        let out = run(&vm(closed(depth), 100), 10 * SECOND, |now, _| now + 4 * MS);
        close_to(
            out.counters.reads as f64,
            10.0 * 250.0 * f64::from(depth),
            0.001,
        );
        close_to(out.reads.mean_ns(), 4e6, 0.001);
        close_to(out.reads.quantile_ns(0.99) as f64, 4e6, 0.001);
        close_to(
            out.counters.outstanding_ns as f64,
            10e9 * f64::from(depth),
            1e-9,
        );
        assert_eq!(out.counters.late, 0);
    }
}

#[test]
fn two_service_times_yield_two_quantiles() {
    // 98 % take 1 ms, 2 % take 50 ms: p50 and p95 are 1 ms, p99 is 50 ms, the mean 1.98 ms.
    let out = run(&vm(closed(4), 0), 100 * SECOND, |now, n| {
        now + if n % 50 == 49 { 50 * MS } else { MS }
    });
    assert!(out.counters.reads == 0 && out.counters.writes > 0);
    close_to(out.writes.quantile_ns(0.50) as f64, 1e6, 0.001);
    close_to(out.writes.quantile_ns(0.95) as f64, 1e6, 0.001);
    close_to(out.writes.quantile_ns(0.99) as f64, 50e6, 0.001);
    close_to(out.writes.mean_ns(), 1.98e6, 0.01);
}

#[test]
fn littles_law_holds_in_closed_and_open_loops() {
    // One server that takes 1 ms per request: latency grows with the queue.
    for load in [
        closed(16),
        open(700.0, Arrivals::Poisson, 1024),
        open(900.0, Arrivals::Uniform, 1024),
    ] {
        let mut free_at = 0;
        let out = run(&vm(load, 70), 200 * SECOND, |now, _| {
            free_at = free_at.max(now) + MS;
            free_at
        });
        let counters = out.counters;
        let latency_sum = (counters.read_latency_ns_sum + counters.write_latency_ns_sum) as f64;
        close_to(counters.outstanding_ns as f64, latency_sum, 0.001);
        close_to(
            out.reads.count() as f64 + out.writes.count() as f64,
            (counters.reads + counters.writes) as f64,
            1e-12,
        );
    }
}

/// M/D/1: mean wait in the queue is rho / (2 mu (1 - rho)).
#[test]
fn poisson_arrivals_at_a_constant_server_wait_as_queueing_theory_predicts() {
    let (rate, service) = (700.0, 1e-3);
    let mut free_at = 0;
    let out = run(
        &vm(open(rate, Arrivals::Poisson, 1024), 100),
        1000 * SECOND,
        |now, _| {
            free_at = free_at.max(now) + MS;
            free_at
        },
    );
    let rho = rate * service;
    let expected_ns = (service + rho * service / (2.0 * (1.0 - rho))) * 1e9;
    close_to(out.reads.mean_ns(), expected_ns, 0.02);
    close_to(out.counters.reads as f64, 1000.0 * rate, 0.01);
}

/// Coordinated omission: a server that answers in 1 ms but stalls for one second in ten.
#[test]
fn a_stall_shows_in_the_open_loop_latency_of_every_delayed_request() {
    let stalled = |now: u64| {
        let end = now + MS;
        if end % (10 * SECOND) > 9 * SECOND {
            (end / (10 * SECOND) + 1) * 10 * SECOND
        } else {
            end
        }
    };
    let open = run(
        &vm(open(1000.0, Arrivals::Uniform, 1024), 100),
        100 * SECOND,
        |now, _| stalled(now),
    );
    // A tenth of all requests is due during a stall; they wait between 0 and 1 s, on average half.
    close_to(open.reads.quantile_ns(0.95) as f64, 0.5e9, 0.02);
    close_to(open.reads.quantile_ns(0.99) as f64, 0.9e9, 0.02);
    close_to(open.reads.mean_ns(), 0.9 * 1e6 + 0.1 * 0.5e9, 0.02);
    // The closed loop issues one request per stall, so its p99 does not show the stall. This is why
    // the open loop exists.
    let closed = run(&vm(closed(1), 100), 100 * SECOND, |now, _| stalled(now));
    close_to(closed.reads.quantile_ns(0.99) as f64, 1e6, 0.01);
}

#[test]
fn requests_beyond_the_in_flight_limit_wait_and_the_wait_counts() {
    // 100 requests per second, one in flight, 20 ms each: the server completes half of the offered
    // rate, and the backlog grows.
    let out = run(
        &vm(open(100.0, Arrivals::Uniform, 1), 100),
        10 * SECOND,
        |now, _| now + 20 * MS,
    );
    close_to(out.counters.reads as f64, 500.0, 0.01);
    // The last completed request was due at 5 s and ended at 10 s.
    close_to(out.reads.max_ns() as f64, 5e9, 0.01);
    // Request n is due at n × 10 ms and issued at n × 20 ms: the delay grows by 10 ms per request,
    // and a request's latency is its delay plus 20 ms.
    close_to(
        out.counters.late_ns_sum as f64,
        (0..500).map(|n| f64::from(n) * 10e6).sum(),
        0.01,
    );
    assert!(
        out.counters.late > 490,
        "{} of 500 were issued late",
        out.counters.late
    );
}

#[test]
fn open_loop_below_the_rate_of_the_server_is_never_late() {
    let out = run(
        &vm(open(5000.0, Arrivals::Poisson, 64), 100),
        20 * SECOND,
        |now, _| now + MS,
    );
    assert_eq!(out.counters.late, 0);
    close_to(out.reads.mean_ns(), 1e6, 0.001);
    close_to(out.counters.reads as f64, 100_000.0, 0.01);
}

#[test]
fn sum_of_histograms_and_counters_of_parts_equals_the_total() {
    let mut load = Load::new(
        &vm(closed(8), 50),
        Extent {
            offset_bytes: 0,
            length_bytes: 1 << 30,
        },
    );
    let (mut latencies, mut parts, mut previous) =
        (Latencies::default(), Histogram::new(), Counters::default());
    let mut sum = Counters::default();
    load.begin(Time(0));
    for second in 0..10u64 {
        for step in 0..100 {
            let now = Time(second * SECOND + step * 10 * MS);
            while load.poll_request(now).is_some() {}
            (0..8).for_each(|id| {
                load.handle_done(
                    now + std::time::Duration::from_micros(step),
                    RequestId(id),
                    true,
                    &mut latencies,
                )
            });
        }
        let counters = load.counters(Time((second + 1) * SECOND));
        sum.add(&counters.since(&previous));
        previous = counters;
        latencies.read.take_interval(true, |h| parts.merge(h));
        latencies.write.take_interval(true, |h| parts.merge(h));
    }
    let mut total = latencies.read.total().clone();
    total.merge(latencies.write.total());
    assert_eq!(parts, total);
    assert_eq!(parts.count(), 8000);
    assert_eq!(
        (sum.reads + sum.writes, sum.outstanding_ns),
        (8000, previous.outstanding_ns)
    );
    assert_eq!(sum.read_bytes + sum.write_bytes, 8000 * 4096);
}

#[test]
fn lost_requests_count_as_errors_and_have_no_latency() {
    let mut load = Load::new(
        &vm(closed(4), 100),
        Extent {
            offset_bytes: 0,
            length_bytes: 1 << 30,
        },
    );
    let mut latencies = Latencies::default();
    load.begin(Time(0));
    while load.poll_request(Time(0)).is_some() {}
    load.handle_lost(Time(30 * SECOND), &mut latencies);
    let counters = load.counters(Time(30 * SECOND));
    assert_eq!(
        (counters.errors, counters.reads, counters.in_flight_now),
        (4, 0, 0)
    );
    assert_eq!(counters.read_latency_ns_sum, 0);
    latencies
        .read
        .take_interval(true, |h| assert!(h.is_empty()));
    assert!(load.poll_request(Time(31 * SECOND)).is_none());
}

#[test]
fn the_mean_latency_of_a_load_with_failures_is_that_of_its_successful_requests() {
    let mut load = Load::new(
        &vm(closed(2), 100),
        Extent {
            offset_bytes: 0,
            length_bytes: 1 << 30,
        },
    );
    let mut latencies = Latencies::default();
    load.begin(Time(0));
    for round in 0..1000 {
        let now = round * 10 * MS;
        while load.poll_request(Time(now)).is_some() {}
        // One request succeeds after 1 ms, the other fails after 9 ms.
        load.handle_done(Time(now + MS), RequestId(0), true, &mut latencies);
        load.handle_done(Time(now + 9 * MS), RequestId(1), false, &mut latencies);
    }
    let counters = load.counters(Time(10 * SECOND));
    assert_eq!((counters.reads, counters.errors), (1000, 1000));
    let mean_ns = counters.read_latency_ns_sum as f64 / counters.reads as f64;
    close_to(mean_ns, 1e6, 1e-9);
    latencies.read.take_interval(true, |h| {
        assert_eq!(h.count(), 1000);
        close_to(h.mean_ns(), 1e6, 0.001);
    });
}

/// Runs an open load of 1000 requests per second with phases of 1 s (warm-up) and 9 s (measuring).
/// The server needs 1 ms, but answers nothing between the instants `stall`. Returns the counters at
/// the end and the latencies of the measuring phase.
fn measure_with_stall(stall: (u64, u64), in_flight_max: u32) -> (Counters, Histogram) {
    let (measure, end) = (SECOND, 10 * SECOND);
    let config = vm(open(1000.0, Arrivals::Uniform, in_flight_max), 100);
    let mut load = Load::new(
        &config,
        Extent {
            offset_bytes: 0,
            length_bytes: 1 << 30,
        },
    );
    let serve = |now: u64, _| {
        let end = now + MS;
        if (stall.0..stall.1).contains(&end) {
            stall.1
        } else {
            end
        }
    };
    let (mut latencies, mut ends) = (Latencies::default(), Ends::new());
    load.begin(Time(0));
    // A border is an instant of its own, even if no event happens there.
    let mut run = |load: &mut Load, latencies: &mut Latencies, from: u64, until: u64| {
        let mut now = from;
        while now < until {
            while let Some(request) = load.poll_request(Time(now)) {
                ends.push(Reverse((serve(now, 0), request.id.0)));
            }
            let end = ends.peek().map_or(until, |&Reverse((at, _))| at);
            let due = load.poll_timeout().map_or(until, |at| at.as_ns());
            now = end.min(due).min(until);
            complete(load, now, &mut ends, latencies);
        }
    };
    run(&mut load, &mut latencies, 0, measure);
    latencies.read.take_interval(false, |_| ());
    load.measure(Time(measure));
    run(&mut load, &mut latencies, measure, end);
    latencies.read.take_interval(true, |_| ());
    load.end(Time(end), &mut latencies);
    run(&mut load, &mut latencies, end, 20 * SECOND);
    latencies.read.take_interval(false, |_| ());
    assert_eq!(load.in_flight(), 0);
    let counters = load.counters(Time(20 * SECOND));
    (counters, latencies.read.total().clone())
}

#[test]
fn a_stall_that_outlasts_the_phase_shows_in_the_open_loop_latency() {
    let (counters, reads) = measure_with_stall((7 * SECOND, 12 * SECOND), 32);
    // 32 requests are due at 7 s and end at 12 s. Those due later are not issued, and count with
    // the time until 10 s.
    close_to(counters.unissued as f64, 2968.0, 0.001);
    close_to(reads.count() as f64, 9000.0, 0.001);
    close_to(reads.quantile_ns(0.50) as f64, 1e6, 0.001);
    close_to(reads.max_ns() as f64, 5e9, 0.001);
    // 90 requests are slower: the 32, and 58 of the others, which waited up to 2.968 s.
    close_to(reads.quantile_ns(0.99) as f64, 2.91e9, 0.002);
    // With a slot for every request, all of them are issued and end at 12 s.
    let (counters, reads) = measure_with_stall((7 * SECOND, 12 * SECOND), 4096);
    assert_eq!(counters.unissued, 0);
    close_to(reads.count() as f64, 9000.0, 0.001);
    close_to(reads.quantile_ns(0.99) as f64, 4.91e9, 0.002);
}

#[test]
fn requests_due_in_the_warm_up_do_not_count_in_the_measuring_phase() {
    let (counters, reads) = measure_with_stall((SECOND / 2, 3 * SECOND), 4096);
    assert_eq!(counters.unissued, 0);
    close_to(reads.count() as f64, 9000.0, 0.001);
    // The first request of the phase is due at 1 s and ends at 3 s.
    close_to(reads.max_ns() as f64, 2e9, 0.001);
}
