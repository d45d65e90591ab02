//! The preset `jdsf-2011` against the published VM sweep, for every published VM count, through the
//! study's path (`sweep/path.rs`).
//!
//! `docs/concepts/drive-model.md` promises the tolerances. They hold for each seed, with the short
//! warm-up and measuring time of a quick study.
mod sweep;

use sweep::{
    Load, PLACEMENT, PUBLISHED, Path, Pattern, Point, Published, SEQUENTIAL_VMS, jdsf_2011, run,
};

const QUICK: Load = Load {
    pattern: Pattern::Random32K,
    queue_depth: 32,
    path: Path::STUDY,
    warmup_s: 2.0,
    measure_s: 5.0,
};

fn sweep_of(load: Load, seed: u64) -> Vec<Point> {
    PUBLISHED
        .iter()
        .map(|p| run(&jdsf_2011(), PLACEMENT, load, p.vms, seed))
        .collect()
}

/// Returns the mean over three seeds of a figure at each VM count, over its published value less 1.
fn errors(
    sweeps: &[Vec<Point>],
    published: fn(&Published) -> f64,
    model: fn(&Point) -> f64,
) -> Vec<(usize, f64)> {
    PUBLISHED
        .iter()
        .enumerate()
        .map(|(i, p)| {
            let sum: f64 = sweeps.iter().map(|points| model(&points[i])).sum();
            (p.vms, sum / sweeps.len() as f64 / published(p) - 1.0)
        })
        .collect()
}

#[track_caller]
fn assert_all_within(errors: &[(usize, f64)], tolerance: f64, name: &str) {
    for (vms, error) in errors {
        assert!(
            error.abs() < tolerance,
            "{vms} VMs: {name} off by {:.1} %",
            error * 100.0
        );
    }
}

#[test]
fn the_vm_sweep_matches_the_published_figures() {
    let sweeps: Vec<Vec<Point>> = (1..=3).map(|seed| sweep_of(QUICK, seed)).collect();
    for sweep in &sweeps {
        let of_one_seed = errors(std::slice::from_ref(sweep), |p| p.iops, |p| p.iops);
        assert_all_within(&of_one_seed, 0.09, "IOPS of one seed");
        assert_shape(sweep);
    }
    let iops = errors(&sweeps, |p| p.iops, |p| p.iops);
    assert_all_within(&iops, 0.08, "IOPS");
    let mean = errors(&sweeps, |p| p.mean_latency_ms, |p| p.mean_latency_ms);
    assert_all_within(&mean, 0.08, "mean latency");
    let read = errors(&sweeps, |p| p.read_latency_ms, |p| p.mean_read_latency_ms);
    assert_all_within(&read, 0.08, "read latency");
    let write = errors(&sweeps, |p| p.write_latency_ms, |p| p.mean_write_latency_ms);
    assert_all_within(&write, 0.10, "write latency");
}

fn assert_shape(points: &[Point]) {
    let (peak_at, peak) = PUBLISHED
        .iter()
        .zip(points)
        .map(|(published, point)| (published.vms, point.iops))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .expect("there are points");
    assert!((6..=8).contains(&peak_at), "the peak is at {peak_at} VMs");
    let below = 1.0 - points.last().expect("there are points").iops / peak;
    assert!(
        (0.20..=0.40).contains(&below),
        "{:.1} % below the peak at 16 VMs",
        below * 100.0
    );
    for (published, point) in PUBLISHED.iter().zip(points) {
        let (vms, busiest) = (published.vms, point.busiest_drive());
        assert!(busiest <= 1.0, "{vms} VMs");
        assert!(
            vms < 9 || busiest > 0.99,
            "{vms} VMs: the busiest drive is {:.1} % busy",
            busiest * 100.0
        );
        assert!(
            (0.04..0.35).contains(&point.controller()),
            "{vms} VMs: the controller is {:.0} % busy",
            point.controller() * 100.0
        );
        assert!(point.mb_per_s() < 120.0, "{vms} VMs");
    }
}

#[test]
fn a_quick_measurement_agrees_with_a_long_one() {
    let long = sweep_of(
        Load {
            warmup_s: 20.0,
            measure_s: 40.0,
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

/// The array recorded at most 124 MB/s, reads and writes together.
#[test]
fn sequential_access_fills_the_shared_port() {
    let load = Load {
        pattern: Pattern::Sequential1M,
        ..QUICK
    };
    let rates: Vec<f64> = SEQUENTIAL_VMS
        .iter()
        .map(|&vms| run(&jdsf_2011(), PLACEMENT, load, vms, 1).mb_per_s())
        .collect();
    let highest = rates.iter().copied().fold(0.0, f64::max);
    assert!((118.0..=130.0).contains(&highest), "{rates:?}");
    assert!(rates[0] < 0.5 * highest, "{rates:?}");
}

#[test]
fn the_drives_alone_are_faster_than_the_port_for_sequential_access_from_four_vms_on() {
    let load = Load {
        pattern: Pattern::Sequential1M,
        path: Path::UNLIMITED,
        ..QUICK
    };
    let mut model = jdsf_2011();
    (model.port, model.cache) = (None, None);
    for vms in [4, 7, 16] {
        let point = run(&model, PLACEMENT, load, vms, 1);
        let read_mb_per_s = point.read_iops * 1.048_576;
        assert!(
            read_mb_per_s > 2.0 * 118.0,
            "{vms} VMs: {read_mb_per_s:.0} MB/s"
        );
    }
}

#[test]
fn the_table_matches_its_snapshot() {
    let mut table = String::from(
        "VMs   IOPS  reads/s  mean ms  read ms  write ms  drive %  port %  controller %\n",
    );
    for (published, p) in PUBLISHED.iter().zip(sweep_of(QUICK, 1)) {
        table += &format!(
            "{:>3} {:>6.0} {:>8.0} {:>8.1} {:>8.1} {:>9.1} {:>8.1} {:>7.1} {:>13.1}\n",
            published.vms,
            p.iops,
            p.read_iops,
            p.mean_latency_ms,
            p.mean_read_latency_ms,
            p.mean_write_latency_ms,
            p.busiest_drive() * 100.0,
            p.utilisation("port") * 100.0,
            p.controller() * 100.0,
        );
    }
    insta::assert_snapshot!("vm_sweep_random_32k_seed_1", table);
}
