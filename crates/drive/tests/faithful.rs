//! The preset `jdsf-2011` against the published VM sweep, for every published VM count.
//!
//! `docs/concepts/drive-model.md` promises the tolerances: IOPS within 15 %, mean latency within 20
//! %, the peak at 6 to 8 VMs, 20 to 40 % below the peak at 16 VMs, and a drive that is 100 % busy
//! from 9 VMs on. They hold for each seed, with the short warm-up and measuring time of a quick
//! study.
mod sweep;

use sweep::{Load, PLACEMENT, PUBLISHED, Pattern, Point, jdsf_2011, run};

const QUICK: Load = Load {
    pattern: Pattern::Random32K,
    queue_depth: 32,
    warmup_s: 2.0,
    measure_s: 5.0,
};

fn sweep_of(load: Load, seed: u64) -> Vec<Point> {
    PUBLISHED
        .iter()
        .map(|p| run(&jdsf_2011(), PLACEMENT, load, p.vms, seed))
        .collect()
}

#[test]
fn the_vm_sweep_matches_the_published_figures_for_every_seed() {
    for seed in 1..=3 {
        let points = sweep_of(QUICK, seed);
        for (published, point) in PUBLISHED.iter().zip(&points) {
            let iops = point.iops / published.iops - 1.0;
            assert!(
                iops.abs() < 0.15,
                "seed {seed}, {} VMs: IOPS off by {:.1} %",
                published.vms,
                iops * 100.0
            );
            let latency = point.mean_latency_ms / published.mean_latency_ms - 1.0;
            assert!(
                latency.abs() < 0.20,
                "seed {seed}, {} VMs: latency off by {:.1} %",
                published.vms,
                latency * 100.0
            );
        }
        assert_shape(seed, &points);
    }
}

fn assert_shape(seed: u64, points: &[Point]) {
    let (peak_at, peak) = PUBLISHED
        .iter()
        .zip(points)
        .map(|(published, point)| (published.vms, point.iops))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .expect("there are points");
    assert!(
        (6..=8).contains(&peak_at),
        "seed {seed}: the peak is at {peak_at} VMs"
    );
    let below = 1.0 - points.last().expect("there are points").iops / peak;
    assert!(
        (0.20..=0.40).contains(&below),
        "seed {seed}: {:.1} % below the peak at 16 VMs",
        below * 100.0
    );
    for (published, point) in PUBLISHED.iter().zip(points) {
        assert!(
            point.busiest_drive <= 1.0,
            "seed {seed}, {} VMs",
            published.vms
        );
        assert!(
            published.vms < 9 || point.busiest_drive > 0.99,
            "seed {seed}, {} VMs",
            published.vms
        );
        assert!(
            point.controller < 0.35,
            "seed {seed}, {} VMs: the controller is at least 35 % busy",
            published.vms
        );
    }
}

#[test]
fn the_mean_over_seeds_leaves_room_for_the_noise_of_a_real_run() {
    let sweeps: Vec<Vec<Point>> = (1..=3).map(|seed| sweep_of(QUICK, seed)).collect();
    for (i, published) in PUBLISHED.iter().enumerate() {
        let mean = sweeps.iter().map(|points| points[i].iops).sum::<f64>() / 3.0;
        let error = mean / published.iops - 1.0;
        assert!(
            error.abs() < 0.08,
            "{} VMs: off by {:.1} %",
            published.vms,
            error * 100.0
        );
    }
}

/// The largest difference is at 10 VMs, where nearly every command becomes overdue after some
/// seconds.
#[test]
fn a_quick_measurement_agrees_with_a_long_one() {
    let long = sweep_of(
        Load {
            warmup_s: 10.0,
            measure_s: 20.0,
            ..QUICK
        },
        1,
    );
    for ((quick, long), published) in sweep_of(QUICK, 1).iter().zip(&long).zip(PUBLISHED) {
        let difference = quick.iops / long.iops - 1.0;
        assert!(
            difference.abs() < 0.10,
            "{} VMs: {:.1} %",
            published.vms,
            difference * 100.0
        );
    }
}

#[test]
fn sequential_access_is_faster_than_gigabit_ethernet_from_four_vms_on() {
    let load = Load {
        pattern: Pattern::Sequential1M,
        ..QUICK
    };
    for vms in [4, 7, 16] {
        let point = run(&jdsf_2011(), PLACEMENT, load, vms, 1);
        let read_mb_per_s = point.read_iops * 1.048_576;
        assert!(
            read_mb_per_s > 2.0 * 118.0,
            "{vms} VMs: {read_mb_per_s:.0} MB/s"
        );
    }
}

#[test]
fn the_table_matches_its_snapshot() {
    let mut table =
        String::from("VMs   IOPS  reads/s  mean ms  read ms  write ms  drive %  controller %\n");
    for (published, p) in PUBLISHED.iter().zip(sweep_of(QUICK, 1)) {
        table += &format!(
            "{:>3} {:>6.0} {:>8.0} {:>8.1} {:>8.1} {:>9.1} {:>8.1} {:>13.1}\n",
            published.vms,
            p.iops,
            p.read_iops,
            p.mean_latency_ms,
            p.mean_read_latency_ms,
            p.mean_write_latency_ms,
            p.busiest_drive * 100.0,
            p.controller * 100.0,
        );
    }
    insta::assert_snapshot!("vm_sweep_random_32k_seed_1", table);
}
