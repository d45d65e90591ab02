//! Prints the calibration table of the preset `jdsf-2011`, which compares the model with the
//! published study. Runs in virtual time.
//!
//! ```text
//! cargo run --release -p hakaru-drive --example vm_sweep            # three seeds, 20 s each
//! cargo run --release -p hakaru-drive --example vm_sweep -- 8 5.0   # eight seeds, 5 s each
//! ```
#[path = "../tests/sweep/mod.rs"]
mod sweep;

use sweep::{Load, PLACEMENT, PUBLISHED, Pattern, Point, Published, jdsf_2011, run};

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .map(|a| a.parse::<f64>().expect("a number"));
    let seeds = arguments.next().unwrap_or(3.0) as u64;
    let measure_s = arguments.next().unwrap_or(20.0);
    let random = Load {
        pattern: Pattern::Random32K,
        queue_depth: 32,
        warmup_s: 2.0,
        measure_s,
    };
    let sequential = Load {
        pattern: Pattern::Sequential1M,
        ..random
    };
    println!(
        "Random 32 KiB, 70 % reads, 32 outstanding per VM; range over {seeds} seeds, {measure_s} s each.\n"
    );
    println!(
        "| VMs | IOPS published | IOPS model | error % | mean latency ms published | model | error % \
         | read / write ms | busiest drive % | controller % |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    for published in PUBLISHED {
        print_random(published, &sweep_seeds(random, published.vms, seeds));
    }
    println!("\nSequential 1 MiB, 70 % reads, 32 outstanding per VM, no network.\n");
    println!("| VMs | MB/s read | MB/s written | MB/s |\n|---|---|---|---|");
    for published in PUBLISHED {
        print_sequential(
            published.vms,
            &sweep_seeds(sequential, published.vms, seeds),
        );
    }
}

fn sweep_seeds(load: Load, vms: usize, seeds: u64) -> Vec<Point> {
    (1..=seeds)
        .map(|seed| run(&jdsf_2011(), PLACEMENT, load, vms, seed))
        .collect()
}

fn print_random(published: Published, points: &[Point]) {
    let cell = |value: &dyn Fn(&Point) -> f64| range(points, value);
    println!(
        "| {} | {:.0} | {} | {} | {:.0} | {} | {} | {} / {} | {} | {} |",
        published.vms,
        published.iops,
        cell(&|p| p.iops),
        cell(&|p| (p.iops / published.iops - 1.0) * 100.0),
        published.mean_latency_ms,
        cell(&|p| p.mean_latency_ms),
        cell(&|p| (p.mean_latency_ms / published.mean_latency_ms - 1.0) * 100.0),
        cell(&|p| p.mean_read_latency_ms),
        cell(&|p| p.mean_write_latency_ms),
        cell(&|p| p.busiest_drive * 100.0),
        cell(&|p| p.controller * 100.0),
    );
}

fn print_sequential(vms: usize, points: &[Point]) {
    let mb = 1.048_576;
    let read = range(points, &|p| p.read_iops * mb);
    let written = range(points, &|p| (p.iops - p.read_iops) * mb);
    println!(
        "| {vms} | {read} | {written} | {} |",
        range(points, &|p| p.iops * mb)
    );
}

/// Returns the lowest and the highest value of a figure over the seeds, or one number if both print
/// the same.
fn range(points: &[Point], value: &dyn Fn(&Point) -> f64) -> String {
    let values: Vec<f64> = points.iter().map(value).collect();
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match (format!("{low:.0}"), format!("{high:.0}")) {
        (low, high) if low == high => low,
        (low, high) => format!("{low} to {high}"),
    }
}
