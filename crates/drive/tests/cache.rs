//! The cache against results calculated by hand, each within a stated tolerance.
use std::collections::BTreeMap;

use hakaru_contract::drive::{
    ArrayModel, Cache, Controller, Drive, Group, Hdd, Port, Raid, WritePolicy,
};
use hakaru_drive::{Array, Completion, Op, Request};
use hakaru_units::{KIB, MIB, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const HIT_US: f64 = 50.0;
const SEGMENT: u64 = 16 * KIB;

fn cache(segments: u64) -> Cache {
    Cache {
        size_bytes: segments * SEGMENT,
        segment_bytes: SEGMENT as u32,
        write: WritePolicy::Back,
        nonvolatile: true,
        write_pending_limit_percent: 50.0,
        destage_high_percent: 80.0,
        destage_low_percent: 60.0,
        destage_idle_ms: 1000.0,
        destage_writes: 16,
        destage_forced: 0.0,
        destage_bytes_max: MIB as u32,
        hit_us: HIT_US,
        read_ahead_bytes: 0,
        read_ahead_after: 3,
    }
}

/// Returns an array of drives with one zone at 128 MB/s. A revolution takes 4 ms, a track switch
/// 0.7 ms.
fn array_of(raid: Raid, drives: u32, cache: Option<Cache>) -> ArrayModel {
    ArrayModel {
        controller: Controller {
            command_us: 0.0,
            data_us_per_mib: 0.0,
            latency_us: 0.0,
        },
        port: None,
        cache,
        groups: vec![Group {
            raid,
            drives,
            stripe_unit_bytes: 64 * 1024,
            extents: None,
            drive: Drive::Hdd(Hdd {
                capacity_bytes: 8 << 30,
                rpm: 15_000.0,
                heads: 4,
                rate_outer_bytes_per_s: 128e6,
                rate_inner_bytes_per_s: 128e6,
                zones: 1,
                seek_track_ms: 0.2,
                seek_average_ms: 3.5,
                seek_full_ms: 7.4,
                write_settle_ms: 0.5,
                head_switch_ms: None,
                command_us: 0.0,
                queue_depth: 32,
                age_limit_ms: 60_000.0,
                overdue_every: 1,
            }),
        }],
    }
}

fn request(id: u64, op: Op, offset_bytes: u64, length_bytes: u64) -> Request {
    Request {
        id,
        group: 0,
        op,
        offset_bytes,
        length_bytes,
        fua: false,
        received_bytes: None,
        unmapped: false,
    }
}

fn drain(array: &mut Array) -> Vec<Completion> {
    while let Some(at) = array.poll_timeout() {
        array.handle_timeout(at);
    }
    std::iter::from_fn(|| array.poll_completion()).collect()
}

/// Submits one request at `now` and returns its response time, µs.
fn time_of(array: &mut Array, now: Time, request: Request) -> f64 {
    array.handle_request(now, request);
    loop {
        if let Some(done) = array.poll_completion() {
            return done.at.ns_since(now) as f64 / 1e3;
        }
        let at = array.poll_timeout().expect("the request is in flight");
        array.handle_timeout(at);
    }
}

fn counters(array: &mut Array, now: Time) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    array.visit_counters(now, &mut |entity, name, value| {
        let kind = entity.split('/').next().expect("a split has a first part");
        *all.entry(format!("{kind} {name}")).or_default() += value;
    });
    all
}

/// Keeps `depth` requests outstanding. Calls `on_completion` with the request and instant of each
/// completion until it returns `false`.
fn closed_loop(
    array: &mut Array,
    depth: u64,
    mut next: impl FnMut(u64) -> Request,
    mut on_completion: impl FnMut(u64, Time) -> bool,
) {
    for id in 0..depth {
        array.handle_request(Time::ZERO, next(id));
    }
    let mut issued = depth;
    while let Some(at) = array.poll_timeout() {
        array.handle_timeout(at);
        while let Some(done) = array.poll_completion() {
            if !on_completion(done.id, done.at) {
                return;
            }
            array.handle_request(done.at, next(issued));
            issued += 1;
        }
    }
}

#[track_caller]
fn assert_within(measured: f64, expected: f64, share: f64) {
    let error = measured / expected - 1.0;
    assert!(
        error.abs() <= share,
        "measured {measured}, expected {expected}: off by {:.2} %",
        error * 100.0
    );
}

/// Returns the hit rate of reads of one segment each, after the cache has filled.
fn hit_rate(segments: u64, mut pick: impl FnMut(&mut Pcg64) -> u64) -> f64 {
    let mut array = Array::new(&array_of(Raid::Raid0, 1, Some(cache(segments))), 1).expect("valid");
    let mut rng = Pcg64::seed_from_u64(1);
    let mut counts = [0.0; 2];
    let (warm, end) = (30 * segments, 30 * segments + 40_000);
    let mut done = 0;
    let mut before = 0.0;
    closed_loop(
        &mut array,
        1,
        |id| request(id, Op::Read, pick(&mut rng) * SEGMENT, SEGMENT),
        |_, _| {
            done += 1;
            done < warm
        },
    );
    drain(&mut array);
    let now = Time::from_secs_f64(1e5);
    before += counters(&mut array, now)["cache read_hits"];
    for id in warm..end {
        time_of(
            &mut array,
            Time(now.0 + id * 100_000_000),
            request(id, Op::Read, pick(&mut rng) * SEGMENT, SEGMENT),
        );
    }
    let all = counters(&mut array, Time::from_secs_f64(1e6));
    counts[0] = all["cache read_hits"] - before;
    counts[1] = (end - warm) as f64;
    assert_eq!(
        all["cache read_hits"] + all["cache read_misses"],
        all["cache reads"]
    );
    counts[0] / counts[1]
}

#[test]
fn uniform_reads_hit_as_often_as_the_cache_is_large() {
    for (segments, places) in [(200, 800), (600, 800), (64, 6400)] {
        let rate = hit_rate(segments, |rng| rng.random_range(0..places));
        assert!(
            (rate - segments as f64 / places as f64).abs() < 0.01,
            "{segments} of {places}: {rate}"
        );
    }
}

/// H. Che, Y. Tung, Z. Wang, "Hierarchical Web Caching Systems: Modeling, Design and Experimental
/// Results", IEEE JSAC 20 (7), 2002: with least-recently-used eviction, a place of probability `p`
/// is in the cache with probability `1 − exp(−p·T)`, where `T` makes these probabilities sum to the
/// size of the cache.
#[test]
fn reads_of_unequal_popularity_hit_as_ches_approximation_predicts() {
    let places = 2000;
    let weights: Vec<f64> = (1..=places).map(|i| 1.0 / f64::from(i)).collect();
    let sum: f64 = weights.iter().sum();
    let cumulative: Vec<f64> = weights
        .iter()
        .scan(0.0, |at, w| {
            *at += w / sum;
            Some(*at)
        })
        .collect();
    for segments in [64, 300] {
        let held = |t: f64| -> f64 { weights.iter().map(|w| 1.0 - (-w / sum * t).exp()).sum() };
        let (mut low, mut high) = (0.0, 1e6);
        for _ in 0..100 {
            let middle = (low + high) / 2.0;
            if held(middle) < segments as f64 {
                low = middle;
            } else {
                high = middle;
            }
        }
        let expected: f64 = weights
            .iter()
            .map(|w| w / sum * (1.0 - (-w / sum * low).exp()))
            .sum();
        let rate = hit_rate(segments, |rng| {
            let draw = rng.random::<f64>();
            cumulative.partition_point(|c| *c < draw).min(1999) as u64
        });
        assert!(
            (rate - expected).abs() < 0.01,
            "measured {rate}, expected {expected}"
        );
    }
}

#[test]
fn cached_sectors_are_served_from_memory_and_others_from_the_drives() {
    let mut array = Array::new(&array_of(Raid::Raid0, 1, Some(cache(256))), 1).expect("valid");
    let mut at = 0;
    let mut took = |op, offset, length| {
        at += 100_000_000;
        time_of(&mut array, Time(at), request(at, op, offset, length))
    };
    assert_eq!(took(Op::Write, 5 * KIB, 4 * KIB), HIT_US);
    assert_eq!(
        took(Op::Read, 5 * KIB, 4 * KIB),
        HIT_US,
        "the sectors are dirty, in part of a segment"
    );
    assert!(
        took(Op::Read, 4 * KIB, 4 * KIB) > 2.0 * HIT_US,
        "the first KiB is not cached"
    );
    assert_eq!(took(Op::Read, 4 * KIB, 4 * KIB), HIT_US);
    assert_eq!(took(Op::Unmap, 6 * KIB, KIB), 0.0);
    assert!(
        took(Op::Read, 4 * KIB, 4 * KIB) > 2.0 * HIT_US,
        "the third KiB was dropped"
    );
}

/// Writes 64 KiB at a time in order to five drives with parity. The drives write complete rows,
/// each at its media rate less track switches.
#[test]
fn a_burst_is_absorbed_at_the_speed_of_memory_and_then_falls_to_the_rate_of_destaging() {
    let limit = 64 * MIB;
    let model = array_of(Raid::Raid5, 5, Some(cache(2 * limit / SEGMENT)));
    let mut array = Array::new(&model, 1).expect("valid");
    let mut done = Vec::new();
    closed_loop(
        &mut array,
        8,
        |id| request(id, Op::Write, id * 64 * KIB, 64 * KIB),
        |_, at| {
            done.push(at);
            done.len() < 24_000
        },
    );
    // Until the limit is reached, eight writes at a time take the time of a hit, regardless of
    // destages.
    let absorbed = (limit / (64 * KIB)) as usize;
    for (i, at) in done.iter().take(absorbed).enumerate() {
        assert_eq!(at.0, (i as u64 / 8 + 1) * 50_000, "write {i}");
    }
    let half = done.len() / 2;
    let seconds = (done[done.len() - 1].0 - done[half].0) as f64 / 1e9;
    let rate = (done.len() - 1 - half) as f64 * 65_536.0 / seconds;
    assert_within(rate, 4.0 * 128e6 * 4.0 / 4.7, 0.02);
    let all = counters(&mut array, *done.last().expect("some"));
    assert!(all["cache stalls"] > 10_000.0);
    assert_eq!(all["cache write_pending_limit_bytes_now"], limit as f64);
    assert!(all["cache write_pending_bytes_now"] <= limit as f64);
    assert_eq!(all["drive reads"], 0.0, "complete rows need no reads");
}

#[test]
fn small_writes_in_order_become_whole_rows_and_scattered_ones_do_not() {
    let written = |stride: u64| {
        let model = array_of(Raid::Raid5, 5, Some(cache(4096)));
        let mut array = Array::new(&model, 1).expect("valid");
        for id in 0..1024 {
            array.handle_request(Time::ZERO, request(id, Op::Write, id * stride, 4 * KIB));
        }
        drain(&mut array);
        counters(&mut array, Time::from_secs_f64(1e3))
    };
    let in_order = written(4 * KIB);
    assert_eq!(in_order["drive reads"], 0.0);
    assert_eq!(in_order["drive write_bytes"], 1.25 * 4.0 * MIB as f64);
    // Each destage of 1 MiB writes four rows, with one command on each of five drives.
    assert_eq!(in_order["cache destages"], 4.0);
    assert_eq!(in_order["drive writes"], 20.0);
    let scattered = written(260 * KIB);
    assert_eq!(scattered["cache destages"], 1024.0);
    assert_eq!(scattered["drive reads"], 2048.0);
    assert_eq!(scattered["drive writes"], 2048.0);
}

#[test]
fn the_elevator_makes_scattered_writes_faster() {
    let end = |cache| {
        let mut array = Array::new(&array_of(Raid::Raid0, 1, cache), 1).expect("valid");
        let mut rng = Pcg64::seed_from_u64(3);
        for id in 0..2000 {
            let at = rng.random_range(0..(7 << 30) / SEGMENT) * SEGMENT;
            array.handle_request(Time::ZERO, request(id, Op::Write, at, 4 * KIB));
        }
        drain(&mut array);
        let mut last = 0.0;
        array.visit_counters(Time::from_secs_f64(1e3), &mut |e, n, v| {
            if e == "drive/0.0" && n == "busy_ns" {
                last = v;
            }
        });
        last
    };
    let without = end(None);
    let with = end(Some(Cache {
        destage_idle_ms: 0.0,
        ..cache(16_384)
    }));
    assert!(with < 0.8 * without, "{with} and {without} ns");
}

/// In a full cache, as many destages are in flight as `destage_writes` and `destage_forced` allow:
/// by Little's law, the number of drive commands present per drive of a RAID 0.
#[test]
fn forced_destaging_starts_destages_for_each_write_that_waits() {
    let in_flight = |destage_forced| {
        let config = Cache {
            destage_writes: 2,
            destage_forced,
            ..cache(1024)
        };
        let mut array = Array::new(&array_of(Raid::Raid0, 1, Some(config)), 1).expect("valid");
        let mut rng = Pcg64::seed_from_u64(3);
        let next = move |id| {
            let at = rng.random_range(0..(7 << 30) / SEGMENT) * SEGMENT;
            request(id, Op::Write, at, 4 * KIB)
        };
        // The array has 16 writes; those that wait for space are nearly all of them.
        let end = Time::from_secs_f64(20.0);
        closed_loop(&mut array, 16, next, |_, at| at < end);
        let mut queue_ns = 0.0;
        array.visit_counters(end, &mut |entity, name, value| {
            if entity == "drive/0.0" && name == "queue_ns" {
                queue_ns = value;
            }
        });
        queue_ns / end.0 as f64
    };
    assert_within(in_flight(0.0), 2.0, 0.1);
    assert_within(in_flight(0.5), 2.0 + 8.0, 0.1);
    assert_within(in_flight(2.0), 2.0 + 32.0, 0.1);
}

#[test]
fn a_volatile_cache_completes_a_flush_after_earlier_writes_are_on_drives() {
    let volatile = Cache {
        nonvolatile: false,
        destage_idle_ms: 3.6e6,
        ..cache(4096)
    };
    let mut array = Array::new(&array_of(Raid::Raid0, 1, Some(volatile)), 1).expect("valid");
    for id in 0..100 {
        array.handle_request(Time::ZERO, request(id, Op::Write, id * MIB, 4 * KIB));
    }
    let now = Time(1_000_000);
    let half = time_of_flush(&mut array, now, 0, 50 * MIB);
    let all = counters(&mut array, Time(now.0 + half));
    assert_eq!(
        all["cache destaged_bytes"],
        50.0 * 4096.0,
        "only those of the range"
    );
    assert_eq!(all["cache dirty_bytes_now"], 50.0 * 4096.0);
    assert_eq!(all["drive write_bytes"], 50.0 * 4096.0);
    let again = time_of_flush(&mut array, Time(now.0 + half), 0, 50 * MIB);
    assert_eq!(again, 0, "nothing is left to do");
    assert!(half > 1_000_000);
}

/// Returns the response time of a flush, ns. Drops the completions of earlier writes.
fn time_of_flush(array: &mut Array, now: Time, offset: u64, length: u64) -> u64 {
    array.handle_timeout(now);
    while array.poll_completion().is_some() {}
    (time_of(array, now, request(u64::MAX, Op::Flush, offset, length)) * 1e3) as u64
}

#[test]
fn an_emptied_cache_reads_from_the_drives_again_and_keeps_what_they_lack() {
    let model = array_of(Raid::Raid0, 1, Some(cache(256)));
    let mut array = Array::new(&model, 1).expect("valid");
    let read = |id| request(id, Op::Read, 64 * MIB, 64 * KIB);
    let (first, again) = (
        time_of(&mut array, Time::ZERO, read(1)),
        time_of(&mut array, Time::from_secs_f64(1.0), read(2)),
    );
    assert!(first > HIT_US && again == HIT_US, "{first} {again}");
    let write = request(3, Op::Write, 1 << 30, 64 * KIB);
    time_of(&mut array, Time::from_secs_f64(2.0), write);
    let now = Time::from_secs_f64(2.0) + std::time::Duration::from_millis(1);
    let emptied = array.empty_cache(now);
    assert_eq!(
        (emptied.dropped_bytes, emptied.write_pending_bytes),
        (64 * KIB, 64 * KIB)
    );
    let cold = time_of(&mut array, Time::from_secs_f64(3.0), read(4));
    assert!(cold > HIT_US, "{cold}");
    let kept = time_of(
        &mut array,
        Time::from_secs_f64(4.0),
        request(5, Op::Read, 1 << 30, 64 * KIB),
    );
    assert_eq!(kept, HIT_US);
    let now = Time::from_secs_f64(60.0);
    // The write was destaged while the array was idle.
    let emptied = array.empty_cache(now);
    assert_eq!(
        (emptied.dropped_bytes, emptied.write_pending_bytes),
        (128 * KIB, 0)
    );
    let all = counters(&mut array, now);
    assert_eq!(
        (all["cache emptied"], all["cache emptied_bytes"]),
        (2.0, 192.0 * 1024.0)
    );
}

#[test]
fn forced_unit_access_waits_for_the_drives_only_if_the_cache_is_volatile() {
    let forced = |nonvolatile| {
        let model = array_of(
            Raid::Raid0,
            1,
            Some(Cache {
                nonvolatile,
                ..cache(256)
            }),
        );
        let mut array = Array::new(&model, 1).expect("valid");
        let mut write = request(1, Op::Write, 64 * MIB, 4 * KIB);
        let lazy = time_of(&mut array, Time::ZERO, write);
        write.fua = true;
        let took = time_of(&mut array, Time(1_000_000), write);
        let flush = request(2, Op::Flush, 0, 1 << 30);
        array.handle_timeout(Time(50_000_000));
        (lazy, took, time_of(&mut array, Time(50_000_000), flush))
    };
    assert_eq!(forced(true), (HIT_US, HIT_US, 0.0));
    let (lazy, took, flush) = forced(false);
    assert_eq!((lazy, flush), (HIT_US, 0.0));
    assert!(
        took > 1000.0,
        "{took} µs, which should include a seek and part of a revolution"
    );
}

#[test]
fn a_flush_waits_for_a_write_that_arrived_while_its_segment_was_destaged() {
    let volatile = Cache {
        nonvolatile: false,
        ..cache(256)
    };
    let mut array = Array::new(&array_of(Raid::Raid0, 1, Some(volatile)), 1).expect("valid");
    let flush = |id| request(id, Op::Flush, 0, 1 << 30);
    let write = |id| request(id, Op::Write, 64 * MIB, 4 * KIB);
    array.handle_request(Time(0), write(1));
    array.handle_request(Time(10), flush(2));
    array.handle_request(Time(20), write(3));
    array.handle_request(Time(30), flush(4));
    let done: Vec<u64> = drain(&mut array).iter().map(|c| c.id).collect();
    assert_eq!(done, [1, 3, 2, 4]);
    let all = counters(&mut array, Time::from_secs_f64(10.0));
    assert_eq!(all["drive writes"], 2.0);
}

#[test]
fn write_through_is_as_slow_as_the_drives_and_keeps_what_it_wrote() {
    let through = Cache {
        write: WritePolicy::Through,
        ..cache(256)
    };
    let [with, without] = [Some(through), None].map(|cache| {
        let mut array = Array::new(&array_of(Raid::Raid5, 3, cache), 1).expect("valid");
        let write = time_of(&mut array, Time::ZERO, request(1, Op::Write, 0, 8 * KIB));
        let at = Time(100_000_000);
        (
            write,
            time_of(&mut array, at, request(2, Op::Read, 0, 8 * KIB)),
        )
    });
    assert_eq!(with.0, without.0);
    assert_eq!(with.1, HIT_US);
    assert!(without.1 > 10.0 * HIT_US);
}

#[test]
fn every_dirty_byte_is_destaged_once_unless_it_was_rewritten_or_discarded() {
    let mut rewritten = 0.0;
    for seed in 0..60 {
        let mut rng = Pcg64::seed_from_u64(seed);
        let config = Cache {
            nonvolatile: rng.random(),
            write_pending_limit_percent: rng.random_range(1.0..=100.0),
            destage_idle_ms: rng.random_range(0.0..20.0),
            ..cache(rng.random_range(64..300))
        };
        let mut array = Array::new(&array_of(Raid::Raid0, 2, Some(config)), 1).expect("valid");
        let mut now = Time::ZERO;
        for id in 0..600 {
            now = Time(now.0 + rng.random_range(0..3_000_000));
            let op = [
                Op::Write,
                Op::Write,
                Op::Write,
                Op::Read,
                Op::Unmap,
                Op::Flush,
            ][rng.random_range(0..6)];
            let length = rng.random_range(1..200) * 512;
            let at = rng.random_range(0..8 * MIB / 512) * 512;
            let fua = rng.random_range(0..10) == 0;
            array.handle_request(
                now,
                Request {
                    fua,
                    ..request(id, op, at, length)
                },
            );
        }
        assert_eq!(drain(&mut array).len(), 600, "seed {seed}");
        let all = counters(&mut array, Time::from_secs_f64(1e3));
        let of = |name: &str| all[&format!("cache {name}")];
        assert_eq!(
            of("write_bytes"),
            of("rewritten_bytes") + of("discarded_bytes") + of("destaged_bytes"),
            "seed {seed}"
        );
        assert_eq!(of("dirty_bytes_now"), 0.0, "seed {seed}");
        assert_eq!(of("write_pending_bytes_now"), 0.0, "seed {seed}");
        assert_eq!(
            all["drive write_bytes"],
            of("destaged_bytes"),
            "seed {seed}"
        );
        rewritten += of("rewritten_bytes");
    }
    assert!(
        rewritten > MIB as f64,
        "only {rewritten} bytes were rewritten"
    );
}

#[test]
fn sequential_reads_run_at_the_media_rate_only_with_read_ahead() {
    let rate = |read_ahead_bytes| {
        let config = Cache {
            read_ahead_bytes,
            ..cache(1024)
        };
        let mut model = array_of(Raid::Raid0, 1, Some(config));
        model.controller.command_us = 100.0;
        let mut array = Array::new(&model, 1).expect("valid");
        let mut last = Time::ZERO;
        closed_loop(
            &mut array,
            1,
            |id| request(id, Op::Read, id * 64 * KIB, 64 * KIB),
            |id, at| {
                last = at;
                id < 4000
            },
        );
        (4000.0 * 65_536.0 / last.as_secs_f64(), array, last)
    };
    let (without, ..) = rate(0);
    // When the next read reaches the drive, its first sector has just passed. Each read costs a
    // revolution and the track switches.
    assert_within(without, 65_536.0 / (4e-3 + 0.7e-3 * 65_536.0 / 512e3), 0.15);
    let (with, mut array, last) = rate(MIB as u32);
    assert_within(with, 128e6 * 4.0 / 4.7, 0.02);
    let all = counters(&mut array, last);
    assert_eq!(all["cache read_misses"], 3.0);
    assert_eq!(all["cache readahead_hits"], all["cache read_hits"]);
    // At most two chunks were read ahead beyond the last read.
    let beyond = all["cache readahead_bytes"] - all["cache read_bytes"];
    assert!(beyond <= 2.0 * MIB as f64, "{beyond}");
}

#[test]
fn queue_times_of_port_controller_and_cache_add_up_to_the_response_times() {
    let mut model = array_of(Raid::Raid5, 4, Some(cache(128)));
    model.port = Some(Port {
        rate_bytes_per_s: 117e6,
        shared: false,
        command_us: 0.0,
    });
    model.controller.command_us = 60.0;
    model.controller.latency_us = 700.0;
    let mut array = Array::new(&model, 1).expect("valid");
    let mut rng = Pcg64::seed_from_u64(9);
    let (mut now, mut arrivals_ns) = (Time::ZERO, 0.0);
    for id in 0..3000 {
        now = Time(now.0 + rng.random_range(0..4_000_000));
        let op = [Op::Read, Op::Write][rng.random_range(0..2)];
        let at = rng.random_range(0..64 * MIB / 512) * 512;
        arrivals_ns += now.0 as f64;
        array.handle_request(now, request(id, op, at, rng.random_range(1..64) * 512));
    }
    let completions = drain(&mut array);
    let latencies: f64 = completions.iter().map(|c| c.at.0 as f64).sum::<f64>() - arrivals_ns;
    let all = counters(&mut array, Time::from_secs_f64(1e3));
    let present: f64 = ["controller", "port", "cache"]
        .iter()
        .map(|layer| all[&format!("{layer} queue_ns")])
        .sum();
    assert_within(present, latencies, 1e-9);
}

#[test]
fn a_configured_cache_needs_only_size_and_speed_and_invalid_ones_are_refused_by_name() {
    let text = |more: &str| {
        format!(
            r#"{{"kind": "array", "controller": {{"command_us": 50, "data_us_per_mib": 500}},
            "cache": {{"size_bytes": 1073741824, "hit_us": 30{more}}}, "groups": [
            {{"raid": "raid5", "drives": 5, "stripe_unit_bytes": 65536, "drive": {{"kind": "preset", "name": "sas-15k-300"}}}}]}}"#
        )
    };
    let resolve = |more: &str| {
        hakaru_drive::resolve(&serde_json::from_str(&text(more)).expect("it parses"))
            .map_err(|e| e.to_string())
    };
    let array = resolve("").expect("within bounds").expect("an array");
    let cache = array.cache.expect("the cache is configured");
    assert!(cache.nonvolatile && cache.write == WritePolicy::Back);
    for (more, parameter) in [
        (r#", "segment_bytes": 6144"#, "cache.segment_bytes"),
        (r#", "segment_bytes": 131072"#, "cache.segment_bytes"),
        (
            r#", "destage_low_percent": 90"#,
            "cache.destage_low_percent",
        ),
        (
            r#", "write_pending_limit_percent": 0"#,
            "cache.write_pending_limit_percent",
        ),
        (r#", "destage_forced": 17"#, "cache.destage_forced"),
        (r#", "read_ahead_bytes": 100"#, "cache.read_ahead_bytes"),
    ] {
        let refused = resolve(more).expect_err("refused");
        assert!(refused.starts_with(parameter), "{refused}");
    }
}
