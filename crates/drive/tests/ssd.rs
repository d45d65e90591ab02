//! The flash drive against closed formulas, published write amplification and data sheets.
mod sheet;

use std::collections::BTreeMap;

use hakaru_contract::drive::{Drive, Model, Raid, Ssd};
use hakaru_drive::{Array, Op, Request};
use hakaru_units::{GIB, KIB, MIB, Time};
use sheet::{Load, SHEETS, alone, run};

/// Returns a drive with 4 channels of 4 dies, where a page of all planes is 32 KiB. The controller
/// and the interface take almost no time, so they hide no other parameter.
fn ssd() -> Ssd {
    Ssd {
        capacity_bytes: 16 * GIB,
        over_provisioning_percent: 28.0,
        channels: 4,
        dies_per_channel: 4,
        planes: 2,
        page_bytes: 16 << 10,
        pages_per_block: 256,
        read_us: 50.0,
        program_us: 600.0,
        erase_us: 3000.0,
        channel_bytes_per_s: 1e9,
        mapping_bytes: 4096,
        buffer_bytes: 4 * MIB,
        interface_bytes_per_s: 1e11,
        command_us: 0.0,
        latency_us: 0.0,
        queue_depth: 1024,
        preconditioned: false,
    }
}

const fn load(op: Op, random: bool, bytes: u64, depth: u64, warm: u64, count: u64) -> Load {
    Load {
        op,
        random,
        bytes,
        depth,
        warm,
        count,
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

/// Submits one request at `now` and returns its response time, ns.
fn time_of(array: &mut Array, now: Time, request: Request) -> u64 {
    array.handle_request(now, request);
    loop {
        if let Some(done) = array.poll_completion() {
            return done.at.ns_since(now);
        }
        let at = array.poll_timeout().expect("the request is in flight");
        array.handle_timeout(at);
    }
}

fn counters(array: &mut Array, now: Time) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    array.visit_counters(now, &mut |entity, name, value| {
        if entity == "drive/0.0" {
            all.insert(name.to_owned(), value);
        }
    });
    all
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

/// Returns `1/(1 − u)`, where `u = exp(−(1 + spare)·(1 − u))`; see `src/ssd/ftl.rs`.
fn published_amplification(spare: f64) -> f64 {
    let mut u = 0.0_f64;
    for _ in 0..10_000 {
        u = (-(1.0 + spare) * (1.0 - u)).exp();
    }
    1.0 / (1.0 - u)
}

#[test]
fn a_lone_read_takes_all_of_its_stages_and_a_lone_write_only_those_before_the_buffer() {
    let drive = Ssd {
        command_us: 5.0,
        latency_us: 10.0,
        interface_bytes_per_s: 1e9,
        ..ssd()
    };
    let mut array = Array::new(&alone(Drive::Ssd(drive)), 1).expect("valid");
    let read = time_of(&mut array, Time(0), request(1, Op::Read, 8 * KIB, 4 * KIB));
    assert_eq!(read, 5_000 + 10_000 + 50_000 + 4096 + 4096);
    let write = time_of(&mut array, Time(1 << 30), request(2, Op::Write, 0, 4 * KIB));
    assert_eq!(write, 5_000 + 10_000 + 4096);
    // 256 KiB lie on eight dies of four channels. The first pieces arrive together; after that the
    // interface is the bottleneck.
    let wide = time_of(
        &mut array,
        Time(2 << 30),
        request(3, Op::Read, 0, 256 * KIB),
    );
    assert_eq!(wide, 15_000 + 50_000 + 32_768 + 262_144);
}

#[test]
fn a_write_of_part_of_a_mapping_unit_reads_it_first() {
    let mut array = Array::new(&alone(Drive::Ssd(ssd())), 1).expect("valid");
    let aligned = time_of(&mut array, Time(0), request(1, Op::Write, 0, 4 * KIB));
    let ragged = time_of(
        &mut array,
        Time(1 << 30),
        request(2, Op::Write, 512, 4 * KIB),
    );
    assert!(aligned < 1000, "{aligned}");
    assert!(
        (50_000..51_000).contains(&ragged),
        "one page holds both ends: {ragged}"
    );
}

#[test]
fn random_reads_keep_every_die_busy_when_enough_are_outstanding() {
    let outcome = run(
        Drive::Ssd(ssd()),
        load(Op::Read, true, 4 * KIB, 512, 1000, 50_000),
    );
    assert_within(outcome.per_s, 16.0 / 50e-6, 0.03);
}

#[test]
fn sequential_writes_of_a_fresh_drive_go_at_the_rate_of_its_dies() {
    let outcome = run(
        Drive::Ssd(ssd()),
        load(Op::Write, false, 128 * KIB, 16, 500, 4000),
    );
    let page_us = 600.0 + 32_768.0 / 1e3;
    assert_within(
        outcome.per_s * 131_072.0,
        16.0 * 32_768.0 / (page_us * 1e-6),
        0.02,
    );
}

/// A page written by the host takes its program, moves of `WA − 1` pages, and its share of an
/// erasure. A move takes the reads that collect a page, transfers out and back, and a program.
#[test]
fn steady_random_writes_run_at_the_rate_that_published_write_amplification_predicts() {
    for percent in [7.0, 28.0, 100.0] {
        let drive = Ssd {
            over_provisioning_percent: percent,
            preconditioned: true,
            ..ssd()
        };
        let spare = percent / 100.0;
        let amplification = published_amplification(spare);
        let across_us = 32_768.0 / 1e3;
        let moves = amplification - 1.0;
        // Share of valid data in an emptied block.
        let valid_share = moves / amplification;
        let page_us = 600.0
            + across_us
            + moves * (50.0 / valid_share + 2.0 * across_us + 600.0)
            + amplification * 3000.0 / 256.0;
        let outcome = run(
            Drive::Ssd(drive),
            load(Op::Write, true, 4 * KIB, 32, 100_000, 300_000),
        );
        let expected = 16.0 * 8.0 / (page_us * 1e-6);
        assert_within(outcome.per_s, expected, 0.05);
    }
}

#[test]
fn the_counters_of_flash_writes_and_garbage_collection_match_their_cost() {
    let drive = Ssd {
        preconditioned: true,
        ..ssd()
    };
    let mut array = Array::new(&alone(Drive::Ssd(drive)), 1).expect("valid");
    let mut now = Time::ZERO;
    let units = 16 * GIB / (4 * KIB);
    for id in 0..200_000 {
        let at = id * 2_654_435_761 % units * 4 * KIB;
        now = Time(now.0 + 20_000);
        array.handle_request(now, request(id, Op::Write, at, 4 * KIB));
        while array.poll_completion().is_some() {}
    }
    while let Some(at) = array.poll_timeout() {
        array.handle_timeout(at);
        now = at.max(now);
    }
    let all = counters(&mut array, now);
    let published = published_amplification(0.28);
    assert_within(
        all["flash_write_bytes"] / all["write_bytes"],
        published,
        0.05,
    );
    assert_within(all["write_amplification_now"], published, 0.1);
    let share = all["gc_ns"] / (16.0 * now.0 as f64);
    let page_us = |pages: f64| pages * all["write_bytes"] / 32_768.0;
    let moves = published - 1.0;
    let expected =
        page_us(moves) * (50.0 * published / moves + 665.5) + page_us(published) / 256.0 * 3000.0;
    assert_within(share * 16.0 * now.0 as f64 / 1e3, expected, 0.06);
    assert!(all["dies_busy_ns"] <= now.0 as f64 && all["dies_busy_ns"] > all["gc_ns"] / 16.0);
}

/// A drive that serves one command at a time is never idle, and none of its parts is near its limit.
#[test]
fn one_command_at_a_time_fills_no_part_of_a_drive() {
    let drive = Drive::Ssd(sheet::preset("sata-ssd-960"));
    let mut array = Array::new(&alone(drive), 1).expect("valid");
    let mut now = Time::ZERO;
    for id in 0..1000 {
        let read = request(id, Op::Read, id * 7919 * 4 * KIB, 4 * KIB);
        now = Time(now.0 + time_of(&mut array, now, read));
    }
    let all = counters(&mut array, now);
    let percent = |name: &str| 100.0 * all[name] / now.0 as f64;
    assert_within(percent("busy_ns"), 100.0, 1e-6);
    // 13.9 us in the controller, 30 us of latency, 48 us on one of 40 dies, and 4 KiB at 400 MB/s
    // over one of 8 channels and at 500 MB/s over the interface.
    let command_us = 13.9 + 30.0 + 48.0 + 10.24 + 8.192;
    assert_within(percent("controller_busy_ns"), 1390.0 / command_us, 0.001);
    assert_within(percent("dies_busy_ns"), 4800.0 / 40.0 / command_us, 0.001);
    assert_within(
        percent("channels_busy_ns"),
        1024.0 / 8.0 / command_us,
        0.001,
    );
    assert_within(percent("send_busy_ns"), 819.2 / command_us, 0.001);
    assert_eq!(all["receive_busy_ns"], 0.0);
}

/// The interface receives for longer than it then sends. Over the second part, it only sends.
#[test]
fn the_busy_time_of_a_part_grows_while_another_one_has_been_busy_for_longer() {
    let drive = Ssd {
        interface_bytes_per_s: 100e6,
        ..ssd()
    };
    let mut array = Array::new(&alone(Drive::Ssd(drive)), 1).expect("valid");
    let mut now = Time::ZERO;
    let run = |array: &mut Array, now: &mut Time, op, count: u64| {
        for id in 0..count {
            *now = Time(now.0 + time_of(array, *now, request(id, op, id * MIB, MIB)));
        }
    };
    run(&mut array, &mut now, Op::Write, 64);
    let (before, begin) = (counters(&mut array, now), now);
    run(&mut array, &mut now, Op::Read, 16);
    let after = counters(&mut array, now);
    let percent = |name: &str| 100.0 * (after[name] - before[name]) / now.ns_since(begin) as f64;
    assert_eq!(percent("receive_busy_ns"), 0.0);
    assert_within(percent("send_busy_ns"), 98.0, 0.02);
}

#[test]
fn a_fresh_drive_and_one_that_was_unmapped_write_without_garbage_collection() {
    let random = load(Op::Write, true, 4 * KIB, 32, 20_000, 50_000);
    let rate = |preconditioned| {
        let drive = Ssd {
            preconditioned,
            ..ssd()
        };
        run(Drive::Ssd(drive), random).per_s
    };
    let (fresh, steady) = (rate(false), rate(true));
    assert_within(fresh, 16.0 * 8.0 / 632.768e-6, 0.02);
    assert!(fresh > 2.0 * steady, "{fresh} {steady}");

    let drive = Ssd {
        preconditioned: true,
        ..ssd()
    };
    let mut array = Array::new(&alone(Drive::Ssd(drive)), 1).expect("valid");
    array.handle_request(Time(0), request(0, Op::Unmap, 0, 16 * GIB));
    // The cost of garbage collection before the unmap is still charged.
    for id in 1..10_000 {
        let now = Time(id * 1_000_000);
        array.handle_request(now, request(id, Op::Write, id * 128 * KIB, 128 * KIB));
    }
    let all = counters(&mut array, Time::from_secs_f64(20.0));
    assert_within(all["write_amplification_now"], 1.0, 0.02);
    assert!(all["flash_write_bytes"] / all["write_bytes"] < 1.1);
}

#[test]
fn the_buffer_absorbs_a_burst_of_its_size_and_unbuffered_writes_take_the_time_of_flash() {
    let mut array = Array::new(&alone(Drive::Ssd(ssd())), 1).expect("valid");
    for id in 0..2048 {
        array.handle_request(Time(0), request(id, Op::Write, id * 4 * KIB, 4 * KIB));
    }
    array.handle_timeout(Time(100_000));
    let absorbed = std::iter::from_fn(|| array.poll_completion()).count();
    assert_eq!(absorbed as u64 * 4 * KIB, 4 * MIB);
    let unbuffered = Ssd {
        buffer_bytes: 0,
        mapping_bytes: 32 << 10,
        ..ssd()
    };
    let mut array = Array::new(&alone(Drive::Ssd(unbuffered)), 1).expect("valid");
    let took = time_of(&mut array, Time(0), request(1, Op::Write, 0, 32 * KIB));
    assert_eq!(took, 327 + 600_000 + 32_768);
}

#[test]
fn unmaps_reach_flash_drives_through_raid_and_cost_hard_disks_nothing() {
    let mut model = alone(Drive::Ssd(ssd()));
    model.groups[0].drives = 5;
    model.groups[0].raid = Raid::Raid5;
    let mut array = Array::new(&model, 1).expect("valid");
    time_of(&mut array, Time(0), request(1, Op::Unmap, 0, 64 * MIB));
    assert_eq!(counters(&mut array, Time(1))["ops"], 1.0);
    model.groups[0].drive = Drive::Preset {
        name: "sas-15k-146".to_owned(),
    };
    let mut array = Array::new(&model, 1).expect("valid");
    time_of(&mut array, Time(0), request(1, Op::Unmap, 0, 64 * MIB));
    assert_eq!(counters(&mut array, Time(1))["ops"], 0.0);
}

#[test]
fn presets_come_within_ten_percent_of_their_data_sheets() {
    for line in SHEETS {
        if let Some(sheet) = line.sheet {
            let error = line.model() / sheet - 1.0;
            assert!(
                error.abs() < 0.10,
                "{} {}: off by {:.0} %",
                line.preset,
                line.name,
                100.0 * error
            );
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_instants() {
    let drive = || {
        Drive::Ssd(Ssd {
            preconditioned: true,
            ..ssd()
        })
    };
    let random = load(Op::Write, true, 4 * KIB, 32, 1000, 20_000);
    let [first, second] = [0, 1].map(|_| run(drive(), random));
    assert_eq!(first.per_s.to_bits(), second.per_s.to_bits());
}

#[test]
fn impossible_drives_are_refused_by_name() {
    let refused = |drive: Ssd| {
        hakaru_drive::resolve(&Model::Array(alone(Drive::Ssd(drive))))
            .expect_err("refused")
            .to_string()
    };
    for (drive, parameter) in [
        (
            Ssd {
                over_provisioning_percent: 0.5,
                ..ssd()
            },
            "over_provisioning_percent",
        ),
        (
            Ssd {
                buffer_bytes: 0,
                ..ssd()
            },
            "mapping_bytes",
        ),
        (
            Ssd {
                buffer_bytes: 4096,
                ..ssd()
            },
            "buffer_bytes",
        ),
        (
            Ssd {
                mapping_bytes: 65_536,
                ..ssd()
            },
            "mapping_bytes",
        ),
        (Ssd { planes: 3, ..ssd() }, "planes"),
        (
            Ssd {
                read_us: f64::NAN,
                ..ssd()
            },
            "read_us",
        ),
    ] {
        let message = refused(drive);
        let name = format!("groups[0].drive.{parameter} is");
        assert!(message.starts_with(&name), "{message}");
    }
}
