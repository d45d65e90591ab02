//! The model against results calculated by hand, each within a stated tolerance.
use std::collections::BTreeMap;

use hakaru_contract::drive::{ArrayModel, Controller, Drive, Group, Hdd, Model, Port, Raid};
use hakaru_drive::{Array, Completion, Op, Request};
use hakaru_units::{GIB, KIB, MIB, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Returns a 15 000 rpm drive with one zone, so that its rate is the same everywhere.
fn hdd() -> Hdd {
    Hdd {
        capacity_bytes: 100 * GIB,
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
    }
}

fn array_of(raid: Raid, drives: u32, hdd: Hdd) -> ArrayModel {
    ArrayModel {
        controller: Controller {
            command_us: 0.0,
            data_us_per_mib: 0.0,
            latency_us: 0.0,
        },
        port: None,
        cache: None,
        groups: vec![Group {
            raid,
            drives,
            stripe_unit_bytes: 64 * 1024,
            extents: None,
            drive: Drive::Hdd(hdd),
        }],
    }
}

fn jdsf_2011() -> ArrayModel {
    hakaru_drive::resolve(&Model::Preset {
        name: "jdsf-2011".to_owned(),
    })
    .expect("a preset is valid")
    .expect("it is an array")
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

/// Runs an array until it is idle. Returns the completions.
fn drain(array: &mut Array) -> Vec<Completion> {
    while let Some(at) = array.poll_timeout() {
        array.handle_timeout(at);
    }
    std::iter::from_fn(|| array.poll_completion()).collect()
}

fn counters(array: &mut Array, now: Time) -> BTreeMap<(String, String), f64> {
    let mut all = BTreeMap::new();
    array.visit_counters(now, &mut |entity, name, value| {
        all.insert((entity.to_owned(), name.to_owned()), value);
    });
    all
}

/// Returns the sum of a counter over the entities that begin with `prefix`.
fn total(counters: &BTreeMap<(String, String), f64>, prefix: &str, name: &str) -> f64 {
    counters
        .iter()
        .filter(|((e, n), _)| e.starts_with(prefix) && n == name)
        .map(|(_, v)| v)
        .sum()
}

/// Keeps `depth` requests outstanding until `count` have completed. Returns the instant of the last
/// completion.
fn closed_loop(
    array: &mut Array,
    depth: u64,
    count: u64,
    mut next: impl FnMut(u64) -> Request,
) -> Time {
    for i in 0..depth {
        array.handle_request(Time::ZERO, next(i));
    }
    let (mut issued, mut last) = (depth, Time::ZERO);
    while let Some(at) = array.poll_timeout() {
        array.handle_timeout(at);
        while let Some(done) = array.poll_completion() {
            last = done.at;
            if issued < count {
                array.handle_request(done.at, next(issued));
                issued += 1;
            }
        }
    }
    last
}

#[track_caller]
fn assert_within(measured: f64, expected: f64, share: f64) {
    // A line of the table that `make calibrate` prints.
    println!("calibration: {measured} {expected} {}", expected * share);
    let error = measured / expected - 1.0;
    assert!(
        error.abs() <= share,
        "measured {measured}, expected {expected}: off by {:.2} %",
        error * 100.0
    );
}

#[test]
fn random_sector_reads_one_at_a_time_take_average_seek_half_a_turn_and_transfer() {
    let mut array = Array::new(&array_of(Raid::Raid0, 1, hdd()), 1).expect("valid");
    let sectors = array.group_capacity_bytes(0).expect("a group") / 512;
    let mut rng = Pcg64::seed_from_u64(1);
    let count = 20_000;
    let end = closed_loop(&mut array, 1, count, |id| {
        request(id, Op::Read, rng.random_range(0..sectors) * 512, 512)
    });
    let transfer_ms = 512.0 / 128e6 * 1e3;
    assert_within(
        end.as_secs_f64() * 1e3 / count as f64,
        3.5 + 2.0 + transfer_ms,
        0.02,
    );
}

#[test]
fn random_sector_writes_settle_for_longer() {
    let mut array = Array::new(&array_of(Raid::Raid0, 1, hdd()), 1).expect("valid");
    let sectors = array.group_capacity_bytes(0).expect("a group") / 512;
    let mut rng = Pcg64::seed_from_u64(1);
    let count = 20_000;
    let end = closed_loop(&mut array, 1, count, |id| {
        request(id, Op::Write, rng.random_range(0..sectors) * 512, 512)
    });
    assert_within(
        end.as_secs_f64() * 1e3 / count as f64,
        3.5 + 0.5 + 2.0 + 0.004,
        0.02,
    );
}

#[test]
fn sequential_reads_run_at_the_media_rate_of_their_zone_less_the_switches_between_tracks() {
    let zoned = Hdd {
        rate_outer_bytes_per_s: 171e6,
        rate_inner_bytes_per_s: 112e6,
        zones: 16,
        ..hdd()
    };
    let model = array_of(Raid::Raid0, 1, zoned);
    let capacity = Array::new(&model, 1)
        .expect("valid")
        .group_capacity_bytes(0)
        .expect("a group");
    for (first, rate) in [(0, 171e6), (capacity - GIB, 112e6)] {
        let mut array = Array::new(&model, 1).expect("valid");
        let count = GIB / (256 * KIB);
        let end = closed_loop(&mut array, 4, count, |id| {
            request(id, Op::Read, first + id * 256 * KIB, 256 * KIB)
        });
        let (turn_ms, skew_ms) = (4.0, 0.2 + 0.5);
        assert_within(
            GIB as f64 / end.as_secs_f64(),
            rate * turn_ms / (turn_ms + skew_ms),
            0.01,
        );
    }
}

#[test]
fn a_raid5_small_write_is_four_drive_commands_and_a_read_is_one() {
    let mut array = Array::new(&array_of(Raid::Raid5, 5, hdd()), 1).expect("valid");
    let end = closed_loop(&mut array, 8, 1000, |id| {
        request(id, Op::Write, id * 7 * MIB, 32 * KIB)
    });
    let after_writes = counters(&mut array, end);
    assert_eq!(total(&after_writes, "drive/", "reads"), 2000.0);
    assert_eq!(total(&after_writes, "drive/", "writes"), 2000.0);
    for id in 0..1000 {
        array.handle_request(end, request(id, Op::Read, id * 7 * MIB, 32 * KIB));
    }
    drain(&mut array);
    assert_eq!(total(&counters(&mut array, end), "drive/", "ops"), 5000.0);
}

#[test]
fn full_stripe_writes_cost_one_write_per_drive() {
    let mut array = Array::new(&array_of(Raid::Raid5, 5, hdd()), 1).expect("valid");
    let end = closed_loop(&mut array, 8, 100, |id| {
        request(id, Op::Write, id * MIB, MIB)
    });
    let all = counters(&mut array, end);
    assert_eq!(
        (
            total(&all, "drive/", "reads"),
            total(&all, "drive/", "writes")
        ),
        (0.0, 500.0)
    );
    assert_eq!(
        total(&all, "drive/", "write_bytes"),
        100.0 * 1.25 * MIB as f64
    );
}

/// Runs a heavy mixed load on the study's array, with a port, until every request has completed.
/// Between arrivals it calls the array at every instant that the array requests if `prompt`, else
/// not at all. Returns the array, the completions, and the sum of the instants of arrival, ns.
fn mixed_load(prompt: bool) -> (Array, Vec<Completion>, f64) {
    let mut model = jdsf_2011();
    model.cache = None;
    model.port = Some(Port {
        rate_bytes_per_s: 117e6,
        shared: false,
        command_us: 0.0,
    });
    let mut array = Array::new(&model, 9).expect("valid");
    let mut rng = Pcg64::seed_from_u64(9);
    let (mut now, mut arrivals_ns) = (Time::ZERO, 0.0);
    for id in 0..5000 {
        now = Time(now.0 + rng.random_range(0..800_000));
        while let Some(at) = array.poll_timeout().filter(|at| prompt && *at <= now) {
            array.handle_timeout(at);
        }
        let op = if rng.random_range(0..10) < 7 {
            Op::Read
        } else {
            Op::Write
        };
        let length_bytes = rng.random_range(1..200) * 4 * KIB;
        let offset_bytes = rng.random_range(0..100 * GIB / 512) * 512;
        arrivals_ns += now.0 as f64;
        array.handle_request(
            now,
            Request {
                id,
                group: (id % 2) as u32,
                op,
                offset_bytes,
                length_bytes,
                fua: false,
                received_bytes: None,
                unmapped: false,
            },
        );
    }
    if !prompt {
        array.handle_timeout(Time::from_secs_f64(1e6));
    }
    let completions = drain(&mut array);
    (array, completions, arrivals_ns)
}

#[test]
fn every_request_completes_once_and_every_layer_counts_the_same() {
    let (mut array, completions, _) = mixed_load(true);
    let mut ids: Vec<u64> = completions.iter().map(|c| c.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..5000).collect::<Vec<_>>());
    let all = counters(&mut array, completions.last().expect("some").at);
    for name in ["reads", "writes", "ops", "read_bytes", "write_bytes"] {
        let controller = total(&all, "controller", name);
        assert_eq!(total(&all, "group/", name), controller, "{name}");
        assert_eq!(total(&all, "port/", name), controller, "{name}");
    }
    assert!(total(&all, "drive/", "read_bytes") > total(&all, "controller", "read_bytes"));
}

#[test]
fn queue_times_of_the_layers_add_up_to_the_response_times() {
    let (mut array, completions, arrivals_ns) = mixed_load(true);
    let latencies: f64 = completions.iter().map(|c| c.at.0 as f64).sum::<f64>() - arrivals_ns;
    let all = counters(&mut array, completions.last().expect("some").at);
    let present: f64 = ["controller", "port/", "group/"]
        .iter()
        .map(|layer| total(&all, layer, "queue_ns"))
        .sum();
    assert_within(present, latencies, 1e-9);
}

#[test]
fn nothing_is_busier_than_time_allows_and_a_drive_serves_one_command_at_a_time() {
    let (mut array, completions, _) = mixed_load(true);
    let end = completions.last().expect("some").at;
    for ((entity, name), value) in counters(&mut array, end) {
        if name == "busy_ns" {
            assert!(value > 0.0 && value <= end.0 as f64, "{entity}");
        }
    }
    let all = counters(&mut array, end);
    for layer in ["drive/", "controller"] {
        assert_eq!(
            total(&all, layer, "busy_ns"),
            total(&all, layer, "service_ns"),
            "{layer}"
        );
    }
}

#[test]
fn late_calls_change_no_completion() {
    assert_eq!(mixed_load(false).1, mixed_load(true).1);
}

/// Returns the response time of one distant command while sixteen near ones are always outstanding,
/// ms.
fn wait_of_a_distant_command(age_limit_ms: f64) -> f64 {
    let drive = Hdd {
        age_limit_ms,
        overdue_every: 3,
        ..hdd()
    };
    let mut array = Array::new(&array_of(Raid::Raid0, 1, drive), 1).expect("valid");
    let mut rng = Pcg64::seed_from_u64(1);
    let distant = u64::MAX;
    let mut near = move |id| request(id, Op::Read, rng.random_range(0..2 * MIB / 512) * 512, 512);
    for id in 0..16 {
        array.handle_request(Time::ZERO, near(id));
    }
    array.handle_request(Time::ZERO, request(distant, Op::Read, 90 * GIB, 512));
    while let Some(at) = array.poll_timeout().filter(|at| at.as_secs_f64() < 20.0) {
        array.handle_timeout(at);
        while let Some(done) = array.poll_completion() {
            if done.id == distant {
                return done.at.as_secs_f64() * 1e3;
            }
            array.handle_request(done.at, near(done.id));
        }
    }
    f64::INFINITY
}

#[test]
fn a_distant_command_starves_without_an_age_limit_and_waits_little_longer_than_it_with_one() {
    assert_eq!(wait_of_a_distant_command(60_000.0), f64::INFINITY);
    // In the worst case 16 commands are older. Each of them, and the distant one, takes three
    // selections of at most a full stroke and a revolution.
    let at_worst = 200.0 + 17.0 * 3.0 * (7.4 + 4.0);
    let waited = wait_of_a_distant_command(200.0);
    assert!((200.0..at_worst).contains(&waited), "waited {waited} ms");
}

#[test]
fn a_deeper_queue_lets_the_drive_serve_more() {
    let rate = |queue_depth| {
        let mut array = Array::new(
            &array_of(
                Raid::Raid0,
                1,
                Hdd {
                    queue_depth,
                    ..hdd()
                },
            ),
            1,
        )
        .expect("valid");
        let mut rng = Pcg64::seed_from_u64(1);
        let sectors = array.group_capacity_bytes(0).expect("a group") / 512;
        let end = closed_loop(&mut array, 64, 4000, |id| {
            request(id, Op::Read, rng.random_range(0..sectors) * 512, 512)
        });
        4000.0 / end.as_secs_f64()
    };
    let [single, four, sixteen, sixty_four] = [1, 4, 16, 64].map(rate);
    assert_within(single, 1e3 / 5.504, 0.03);
    assert!(
        four > 1.2 * single && sixteen > 1.2 * four && sixty_four > 1.2 * sixteen,
        "{four} {sixteen} {sixty_four}"
    );
}

/// Returns the rate of half reads, half writes through a port of 100 MB/s, and the array at the
/// end.
fn rate_through_a_port(shared: bool) -> (f64, Array, Time) {
    let mut model = array_of(Raid::Raid0, 8, hdd());
    model.port = Some(Port {
        rate_bytes_per_s: 100e6,
        shared,
        command_us: 0.0,
    });
    let mut array = Array::new(&model, 1).expect("valid");
    let half = |id: u64| {
        if id.is_multiple_of(2) {
            Op::Read
        } else {
            Op::Write
        }
    };
    let end = closed_loop(&mut array, 64, 2000, |id| {
        request(id, half(id), id * MIB, MIB)
    });
    (2000.0 * MIB as f64 / end.as_secs_f64(), array, end)
}

#[test]
fn a_port_carries_its_rate_in_each_direction() {
    assert_within(rate_through_a_port(false).0, 200e6, 0.05);
}

#[test]
fn both_directions_of_a_shared_port_carry_its_rate_together() {
    let (rate, mut array, end) = rate_through_a_port(true);
    assert_within(rate, 100e6, 0.01);
    let all = counters(&mut array, end);
    let port = |name: &str| total(&all, "port/", name);
    assert_eq!(port("busy_ns"), port("service_ns"));
    assert_within(port("busy_ns"), end.0 as f64, 0.01);
    assert_eq!(
        port("read_bytes") + port("write_bytes"),
        2000.0 * MIB as f64
    );
}

/// The port receives for 100 times as long as it then sends. Over the second part, it only sends.
#[test]
fn each_direction_of_a_port_has_its_own_busy_time() {
    let mut model = array_of(Raid::Raid0, 8, hdd());
    let port = Port {
        rate_bytes_per_s: 100e6,
        shared: false,
        command_us: 0.0,
    };
    model.port = Some(port.clone());
    let mut array = Array::new(&model, 1).expect("valid");
    for id in 0..100 {
        array.handle_request(Time::ZERO, request(id, Op::Write, id * MIB, MIB));
    }
    drain(&mut array);
    let begin = Time::from_secs_f64(10.0);
    let before = counters(&mut array, begin);
    array.handle_request(begin, request(100, Op::Read, 0, MIB));
    drain(&mut array);
    let after = counters(&mut array, Time::from_secs_f64(20.0));
    let grown = |name: &str| total(&after, "port/", name) - total(&before, "port/", name);
    assert_eq!(total(&before, "port/", "receive_busy_ns"), 1_048_576_000.0);
    assert_eq!(grown("receive_busy_ns"), 0.0);
    assert_eq!(grown("send_busy_ns"), 10_485_760.0);
    assert_eq!(grown("busy_ns"), 10_485_760.0);

    let shared = Port {
        shared: true,
        ..port
    };
    model.port = Some(shared);
    let mut array = Array::new(&model, 1).expect("valid");
    let all = counters(&mut array, begin);
    assert!(all.keys().all(|(_, name)| !name.ends_with("_busy_ns")));
}

/// The drives of a RAID 0 serve the read at once. Its data then waits for the transfers of the
/// writes that arrived before.
#[test]
fn a_shared_port_serves_both_directions_in_order_of_arrival() {
    let completion_of_a_read = |shared| {
        let mut model = array_of(Raid::Raid0, 8, hdd());
        model.port = Some(Port {
            rate_bytes_per_s: 1e6,
            shared,
            command_us: 0.0,
        });
        let mut array = Array::new(&model, 1).expect("valid");
        for id in 0..4 {
            array.handle_request(Time::ZERO, request(id, Op::Write, id * MIB, 100_352));
        }
        array.handle_request(Time::ZERO, request(4, Op::Read, GIB, 51_200));
        let completions = drain(&mut array);
        let read = completions.iter().find(|c| c.id == 4).expect("it ended");
        read.at.0
    };
    assert_eq!(completion_of_a_read(true), 4 * 100_352_000 + 51_200_000);
    assert!(completion_of_a_read(false) < 70_000_000);
}

/// The array writes 1 MiB for the one block of 512 bytes that it receives (WRITE SAME), and reads and
/// writes as much for a copy inside it.
#[test]
fn a_port_carries_only_the_data_that_is_received_or_sent() {
    let mut model = array_of(Raid::Raid0, 8, hdd());
    model.port = Some(Port {
        rate_bytes_per_s: 100e6,
        shared: false,
        command_us: 0.0,
    });
    let mut array = Array::new(&model, 1).expect("valid");
    for (id, op, received) in [
        (0, Op::Write, None),
        (1, Op::Write, Some(512)),
        (2, Op::Read, Some(0)),
        (3, Op::Write, Some(0)),
        (4, Op::Read, None),
    ] {
        let request = Request {
            received_bytes: received,
            ..request(id, op, id * MIB, MIB)
        };
        array.handle_request(Time::ZERO, request);
    }
    assert_eq!(drain(&mut array).len(), 5);
    let all = counters(&mut array, Time::from_secs_f64(1.0));
    let of = |entity: &str, name: &str| total(&all, entity, name);
    assert_eq!(of("port/", "write_bytes"), (MIB + 512) as f64);
    assert_eq!(of("port/", "read_bytes"), MIB as f64);
    assert_eq!(of("group/", "write_bytes"), 3.0 * MIB as f64);
    assert_eq!(of("group/", "read_bytes"), 2.0 * MIB as f64);
}

/// 1 MiB takes 10.48576 ms through the port and 0.2 ms in the controller, besides its command.
#[test]
fn a_read_of_an_unmapped_range_costs_the_controller_and_the_port_alone() {
    let mut model = array_of(Raid::Raid0, 1, hdd());
    model.controller.command_us = 50.0;
    model.controller.data_us_per_mib = 200.0;
    model.port = Some(Port {
        rate_bytes_per_s: 100e6,
        shared: false,
        command_us: 0.0,
    });
    let mut array = Array::new(&model, 1).expect("valid");
    let read = Request {
        group: 7,
        unmapped: true,
        ..request(0, Op::Read, 0, MIB)
    };
    array.handle_request(Time::ZERO, read);
    let at = drain(&mut array)[0].at;
    assert_eq!(at.0, 250_000 + 10_485_760);
    let all = counters(&mut array, at);
    assert_eq!(total(&all, "port/", "read_bytes"), MIB as f64);
    assert_eq!(total(&all, "controller", "read_bytes"), MIB as f64);
    assert_eq!(
        total(&all, "group/", "ops") + total(&all, "drive/", "ops"),
        0.0
    );
}

#[test]
fn the_latency_of_the_controller_delays_each_command_and_no_other() {
    let ends = |latency_us| {
        let mut model = array_of(Raid::Raid0, 1, hdd());
        model.controller.command_us = 50.0;
        model.controller.latency_us = latency_us;
        let mut array = Array::new(&model, 1).expect("valid");
        for id in 0..3 {
            array.handle_request(Time::ZERO, request(id, Op::Flush, 0, MIB));
        }
        let completions = drain(&mut array);
        completions.iter().map(|c| c.at.0).collect::<Vec<_>>()
    };
    assert_eq!(ends(0.0), [50_000, 100_000, 150_000]);
    assert_eq!(ends(2000.0), [2_050_000, 2_100_000, 2_150_000]);
}

#[test]
fn the_controller_spends_time_on_data_only_if_a_command_moves_some() {
    let took = |op, length| {
        let mut model = array_of(Raid::Raid5, 9, hdd());
        model.controller.command_us = 60.0;
        model.controller.data_us_per_mib = 1200.0;
        let mut array = Array::new(&model, 1).expect("valid");
        array.handle_request(Time::ZERO, request(1, op, 0, length));
        drain(&mut array);
        let all = counters(&mut array, Time::from_secs_f64(10.0));
        total(&all, "controller", "busy_ns") as u64
    };
    // A guest's file system flushes its whole disk with every commit of its journal.
    assert_eq!(took(Op::Flush, 2 * GIB), 60_000);
    assert_eq!(took(Op::Unmap, 2 * GIB), 60_000);
    assert_eq!(took(Op::Write, 2 * MIB), 60_000 + 2_400_000);
    assert_eq!(took(Op::Read, 2 * MIB), 60_000 + 2_400_000);
}

#[test]
fn mirrors_share_the_reads() {
    let mut array = Array::new(&array_of(Raid::Raid1, 2, hdd()), 1).expect("valid");
    let mut rng = Pcg64::seed_from_u64(1);
    let end = closed_loop(&mut array, 8, 2000, |id| {
        request(id, Op::Read, rng.random_range(0..GIB / 512) * 512, 512)
    });
    let all = counters(&mut array, end);
    assert_within(total(&all, "drive/0.0", "reads"), 1000.0, 0.1);
}

/// The stripe units of a pair that a read covers are adjacent on both of its drives.
#[test]
fn a_long_read_is_one_command_for_each_mirrored_pair() {
    for drives in [2, 4] {
        let mut array = Array::new(&array_of(Raid::Raid1, drives, hdd()), 1).expect("valid");
        array.handle_request(Time::ZERO, request(0, Op::Read, 0, MIB));
        drain(&mut array);
        let all = counters(&mut array, Time::from_secs_f64(1.0));
        assert_eq!(total(&all, "drive/", "reads"), f64::from(drives / 2));
    }
}

#[test]
fn the_same_seed_gives_the_same_instants_and_another_one_does_not() {
    let run = |seed| {
        let mut array = Array::new(&jdsf_2011(), seed).expect("valid");
        closed_loop(&mut array, 32, 500, |id| {
            request(id, Op::Read, id * 37 * MIB, 32 * KIB)
        })
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn an_empty_request_costs_the_controller_alone() {
    let mut model = jdsf_2011();
    model.controller.command_us = 60.0;
    model.controller.latency_us = 0.0;
    let mut array = Array::new(&model, 1).expect("valid");
    array.handle_request(Time(5), request(7, Op::Write, 0, 0));
    assert_eq!(
        drain(&mut array),
        [Completion {
            id: 7,
            at: Time(60_005)
        }]
    );
}

#[test]
fn presets_resolve_and_impossible_models_are_refused_by_name() {
    for name in hakaru_drive::array_presets() {
        assert!(
            hakaru_drive::resolve(&Model::Preset {
                name: (*name).to_owned()
            })
            .is_ok(),
            "{name}"
        );
    }
    let refused = |model: &ArrayModel| {
        hakaru_drive::resolve(&Model::Array(model.clone()))
            .expect_err("refused")
            .to_string()
    };
    let too_slow = Hdd {
        seek_average_ms: 6.0,
        ..hdd()
    };
    assert!(
        refused(&array_of(Raid::Raid0, 1, too_slow))
            .starts_with("groups[0].drive.seek_average_ms is 6")
    );
    assert!(refused(&array_of(Raid::Raid1, 3, hdd())).contains("groups[0].drives is 3"));
    assert!(refused(&array_of(Raid::Raid5, 2, hdd())).contains("groups[0].drives is 2"));
    let not_a_number = Hdd {
        rpm: f64::NAN,
        ..hdd()
    };
    assert!(refused(&array_of(Raid::Raid0, 1, not_a_number)).contains("rpm is NaN"));
    let unknown = hakaru_drive::resolve(&Model::Preset {
        name: "jdsf-1911".to_owned(),
    })
    .expect_err("refused")
    .to_string();
    assert_eq!(
        unknown,
        "unknown array preset \"jdsf-1911\"; known: jdsf-2011"
    );
}
