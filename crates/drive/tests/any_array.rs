//! Random arrays under random requests: nothing panics, every request completes once, completions
//! are in order of time, and no byte is lost. Configurations in JSON: defaults are filled in, and
//! unknown fields are refused.
use hakaru_contract::drive::{
    ArrayModel, Cache, Controller, Drive, Extents, Group, Hdd, Model, Port, Raid, Ssd, WritePolicy,
};
use hakaru_drive::{Array, Op, Request};
use hakaru_units::{MIB, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

fn any_hdd(rng: &mut Pcg64) -> Hdd {
    let outer = rng.random_range(50e6..300e6);
    let seek_track_ms = rng.random_range(0.1..1.0);
    let stroke = rng.random_range(1.0..20.0);
    Hdd {
        capacity_bytes: rng.random_range(64..4096) * MIB,
        rpm: rng.random_range(4000.0..20_000.0),
        heads: rng.random_range(1..=16),
        rate_outer_bytes_per_s: outer,
        rate_inner_bytes_per_s: outer * rng.random_range(0.4..=1.0),
        zones: rng.random_range(1..=40),
        seek_track_ms,
        seek_average_ms: seek_track_ms + stroke * rng.random_range(0.34..0.53),
        seek_full_ms: seek_track_ms + stroke,
        write_settle_ms: rng.random_range(0.0..1.0),
        head_switch_ms: rng.random::<bool>().then(|| rng.random_range(0.0..1.0)),
        command_us: rng.random_range(0.0..300.0),
        queue_depth: rng.random_range(1..=64),
        age_limit_ms: rng.random_range(0.0..300.0),
        overdue_every: rng.random_range(1..=8),
    }
}

fn any_ssd(rng: &mut Pcg64) -> Ssd {
    let (planes, page_bytes) = (1 << rng.random_range(0..3), 1024 << rng.random_range(0..5));
    let page = u64::from(planes * page_bytes);
    let has_buffer = rng.random_range(0..4) > 0;
    let mapping_bytes = if has_buffer {
        512 << rng.random_range(0..=(page / 512).ilog2())
    } else {
        page as u32
    };
    Ssd {
        capacity_bytes: rng.random_range(64..512) * MIB,
        over_provisioning_percent: rng.random_range(5.0..100.0),
        channels: rng.random_range(1..8),
        dies_per_channel: rng.random_range(1..4),
        planes,
        page_bytes,
        pages_per_block: rng.random_range(16..512),
        read_us: rng.random_range(1.0..100.0),
        program_us: rng.random_range(10.0..2000.0),
        erase_us: rng.random_range(100.0..5000.0),
        channel_bytes_per_s: rng.random_range(1e8..1e9),
        mapping_bytes,
        buffer_bytes: if has_buffer {
            page * rng.random_range(2..100)
        } else {
            0
        },
        interface_bytes_per_s: rng.random_range(1e8..1e10),
        command_us: rng.random_range(0.0..20.0),
        latency_us: rng.random_range(0.0..50.0),
        queue_depth: rng.random_range(1..200),
        preconditioned: rng.random_range(0..8) == 0,
    }
}

fn any_drive(rng: &mut Pcg64) -> Drive {
    if rng.random() {
        Drive::Hdd(any_hdd(rng))
    } else {
        Drive::Ssd(any_ssd(rng))
    }
}

fn any_group(rng: &mut Pcg64) -> Group {
    let (raid, drives) = match rng.random_range(0..3) {
        0 => (Raid::Raid0, rng.random_range(1..=6)),
        1 => (Raid::Raid1, 2 * rng.random_range(1..=3)),
        _ => (Raid::Raid5, rng.random_range(3..=8)),
    };
    let data_drives = u64::from(match raid {
        Raid::Raid0 => drives,
        Raid::Raid1 => drives / 2,
        Raid::Raid5 => drives - 1,
    });
    let stripe_unit_bytes = 512 << rng.random_range(0..10);
    let extent_bytes = u64::from(stripe_unit_bytes) * data_drives * rng.random_range(1..5);
    let extents = Extents {
        extent_bytes,
        span_bytes: extent_bytes * rng.random_range(1..8),
    };
    let extents = rng.random::<bool>().then_some(extents);
    Group {
        raid,
        drives,
        stripe_unit_bytes,
        extents,
        drive: any_drive(rng),
    }
}

fn any_cache(rng: &mut Pcg64) -> Cache {
    let segment_bytes = 4096 << rng.random_range(0..5);
    let high = rng.random_range(0.0..=100.0);
    Cache {
        size_bytes: u64::from(segment_bytes) * rng.random_range(64..512),
        segment_bytes,
        write: if rng.random_range(0..4) > 0 {
            WritePolicy::Back
        } else {
            WritePolicy::Through
        },
        nonvolatile: rng.random(),
        write_pending_limit_percent: rng.random_range(1.0..=100.0),
        destage_high_percent: high,
        destage_low_percent: high * rng.random::<f64>(),
        destage_idle_ms: rng.random_range(0.0..50.0),
        destage_writes: rng.random_range(1..=20),
        destage_forced: rng.random_range(0.0..3.0),
        destage_bytes_max: segment_bytes * rng.random_range(1..=32),
        hit_us: rng.random_range(0.0..100.0),
        read_ahead_bytes: 512 * rng.random_range(0..512),
        read_ahead_after: rng.random_range(2..5),
    }
}

fn any_array(rng: &mut Pcg64) -> ArrayModel {
    ArrayModel {
        controller: Controller {
            command_us: rng.random_range(0.0..100.0),
            data_us_per_mib: rng.random_range(0.0..1000.0),
            latency_us: 0.0,
        },
        port: rng.random::<bool>().then(|| Port {
            rate_bytes_per_s: rng.random_range(1e6..1e9),
            shared: rng.random(),
            command_us: rng.random_range(0.0..100.0),
        }),
        cache: rng.random::<bool>().then(|| any_cache(rng)),
        groups: (0..rng.random_range(1..=3))
            .map(|_| any_group(rng))
            .collect(),
    }
}

fn any_request(rng: &mut Pcg64, array: &Array, groups: usize, id: u64) -> Request {
    let group = rng.random_range(0..groups) as u32;
    let capacity = array.group_capacity_bytes(group).expect("the group exists");
    let length_bytes = rng.random_range(0..=(MIB / 4).min(capacity) / 512) * 512;
    let offset_bytes = rng.random_range(0..=(capacity - length_bytes) / 512) * 512;
    // Half of the requests overlap within a few MiB.
    let offset_bytes = offset_bytes % (if rng.random() { 4 * MIB } else { capacity });
    let op = [Op::Read, Op::Write, Op::Unmap, Op::Flush]
        [rng.random_range(0..22) / 10 + usize::from(rng.random_range(0..20) == 0)];
    Request {
        id,
        group,
        op,
        offset_bytes,
        length_bytes,
        fua: rng.random_range(0..8) == 0,
        received_bytes: None,
        unmapped: false,
    }
}

#[test]
fn every_request_to_any_array_completes_once_and_in_order_of_time() {
    for seed in 0..150 {
        let mut rng = Pcg64::seed_from_u64(seed);
        let model = any_array(&mut rng);
        let mut array = Array::new(&model, seed).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let (mut now, mut at, mut ids) = (Time::ZERO, Time::ZERO, Vec::new());
        let mut drain = |array: &mut Array, now: Time| {
            while let Some(done) = array.poll_completion() {
                assert!(done.at >= at && done.at <= now, "seed {seed}");
                at = done.at;
                ids.push(done.id);
            }
        };
        for id in 0..200 {
            now = Time(now.0 + rng.random_range(0..2_000_000));
            let request = any_request(&mut rng, &array, model.groups.len(), id);
            array.handle_request(now, request);
            drain(&mut array, now);
        }
        while let Some(at) = array.poll_timeout() {
            array.handle_timeout(at);
            drain(&mut array, at);
        }
        ids.sort_unstable();
        assert_eq!(ids, (0..200).collect::<Vec<_>>(), "seed {seed}");
    }
}

#[test]
fn drives_read_exactly_the_bytes_requested_and_write_no_fewer() {
    for seed in 0..150 {
        let mut rng = Pcg64::seed_from_u64(seed);
        let model = ArrayModel {
            cache: None,
            ..any_array(&mut rng)
        };
        let reads_only = rng.random::<bool>();
        let mut array = Array::new(&model, seed).expect("within bounds");
        let mut requested = [0, 0];
        for id in 0..50 {
            let mut request = any_request(&mut rng, &array, model.groups.len(), id);
            request.op = if reads_only || request.op == Op::Read {
                Op::Read
            } else {
                Op::Write
            };
            requested[usize::from(request.op == Op::Write)] += request.length_bytes;
            array.handle_request(Time::ZERO, request);
        }
        let mut moved = [0.0, 0.0];
        array.visit_counters(Time::from_secs_f64(1e5), &mut |entity, name, value| {
            if entity.starts_with("drive/") {
                moved[0] += if name == "read_bytes" { value } else { 0.0 };
                moved[1] += if name == "write_bytes" { value } else { 0.0 };
            }
        });
        assert!(moved[1] >= requested[1] as f64, "seed {seed}");
        if reads_only {
            assert_eq!(moved[0], requested[0] as f64, "seed {seed}");
        }
    }
}

#[test]
fn a_configured_drive_needs_only_the_figures_of_a_data_sheet() {
    let text = r#"{"kind": "array", "controller": {"command_us": 50, "data_us_per_mib": 500}, "groups": [
        {"raid": "raid5", "drives": 5, "stripe_unit_bytes": 65536, "drive": {"kind": "preset", "name": "sas-15k-300"}},
        {"raid": "raid0", "drives": 1, "stripe_unit_bytes": 65536, "drive": {"kind": "hdd", "capacity_bytes": 4000000000000,
         "rpm": 7200, "heads": 8, "rate_outer_bytes_per_s": 180e6, "rate_inner_bytes_per_s": 90e6, "seek_track_ms": 0.5,
         "seek_average_ms": 8.2, "seek_full_ms": 18, "write_settle_ms": 0.6, "queue_depth": 32, "age_limit_ms": 500}}]}"#;
    let model: Model = serde_json::from_str(text).expect("every default is filled in");
    let array = hakaru_drive::resolve(&model)
        .expect("within bounds")
        .expect("an array");
    let Drive::Hdd(first) = &array.groups[0].drive else {
        panic!("the preset is replaced")
    };
    assert_eq!(first.rpm, 15_000.0);
    let Drive::Hdd(second) = &array.groups[1].drive else {
        panic!("the drive is as configured")
    };
    assert_eq!(
        (second.zones, second.overdue_every, second.head_switch_ms),
        (16, 1, None)
    );
    let misspelt = text.replace("seek_average_ms", "seek_mean_ms");
    assert!(serde_json::from_str::<Model>(&misspelt).is_err());
}
