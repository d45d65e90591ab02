//! Prints the calibration tables of the preset `jdsf-2011`, which compare the model with the
//! published study, and the table of variants. Runs in virtual time.
//!
//! ```text
//! cargo run --release -p hakaru-drive --example vm_sweep             # three seeds, 3 s + 20 s each
//! cargo run --release -p hakaru-drive --example vm_sweep -- 8 60 120 # eight seeds, 60 s + 120 s
//! ```
#[path = "../tests/sweep/mod.rs"]
mod sweep;

use hakaru_contract::drive::{ArrayModel, Drive, Hdd};
use hakaru_units::GIB;
use sweep::{
    Load, PLACEMENT, PUBLISHED, Path, Pattern, Placement, Point, Published, SEQUENTIAL_VMS,
    jdsf_2011, run,
};

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .map(|a| a.parse::<f64>().expect("a number"));
    let seeds = arguments.next().unwrap_or(3.0) as u64;
    let random = Load {
        pattern: Pattern::Random32K,
        queue_depth: 32,
        path: Path::STUDY,
        warmup_s: arguments.next().unwrap_or(3.0),
        measure_s: arguments.next().unwrap_or(20.0),
    };
    print_random(random, seeds);
    print_sequential(
        Load {
            pattern: Pattern::Sequential1M,
            ..random
        },
        seeds,
    );
    print_variants(random);
}

fn sweep_seeds(load: Load, vms: usize, seeds: u64) -> Vec<Point> {
    (1..=seeds)
        .map(|seed| run(&jdsf_2011(), PLACEMENT, load, vms, seed))
        .collect()
}

fn print_random(load: Load, seeds: u64) {
    println!(
        "Random 32 KiB, 70 % reads, 32 requests outstanding per VM; range over {seeds} seeds, {} s \
         each after {} s:\n",
        load.measure_s, load.warmup_s
    );
    println!(
        "| VMs | IOPS published | model | error % | read ms published | model | error % | write ms \
         published | model | error % | MB/s | busiest drive % | port % | controller % |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    );
    for published in PUBLISHED {
        print_random_row(published, &sweep_seeds(load, published.vms, seeds));
    }
}

fn print_random_row(published: Published, points: &[Point]) {
    let compared = |published: f64, value: fn(&Point) -> f64| {
        let error = |point: &Point| (value(point) / published - 1.0) * 100.0;
        let (model, error) = (range(points, &value), range(points, &error));
        format!("{published:.0} | {model} | {error}")
    };
    println!(
        "| {} | {} | {} | {} | {} | {} | {} | {} |",
        published.vms,
        compared(published.iops, |p| p.iops),
        compared(published.read_latency_ms, |p| p.mean_read_latency_ms),
        compared(published.write_latency_ms, |p| p.mean_write_latency_ms),
        range(points, &Point::mb_per_s),
        range(points, &|p| p.busiest_drive() * 100.0),
        range(points, &|p| p.utilisation("port") * 100.0),
        range(points, &|p| p.controller() * 100.0),
    );
}

fn print_sequential(load: Load, seeds: u64) {
    println!("\nSequential 1 MiB, 70 % reads, 32 requests outstanding per VM:\n");
    println!(
        "| VMs | MB/s read | MB/s written | MB/s | busiest drive % | port % | controller % |\n\
         |---|---|---|---|---|---|---|"
    );
    for vms in SEQUENTIAL_VMS {
        let points = sweep_seeds(load, vms, seeds);
        let mb = 1.048_576;
        println!(
            "| {vms} | {} | {} | {} | {} | {} | {} |",
            range(&points, &|p| p.read_iops * mb),
            range(&points, &|p| (p.iops - p.read_iops) * mb),
            range(&points, &Point::mb_per_s),
            range(&points, &|p| p.busiest_drive() * 100.0),
            range(&points, &|p| p.utilisation("port") * 100.0),
            range(&points, &|p| p.controller() * 100.0),
        );
    }
}

fn print_variants(load: Load) {
    println!(
        "\n| variant (one seed) | {} |\n|---|{}",
        PUBLISHED.map(|p| p.vms.to_string()).join(" | "),
        "---|".repeat(PUBLISHED.len())
    );
    let published = PUBLISHED.map(|p| format!("{:.0}", p.iops)).join(" | ");
    println!("| published | {published} |");
    let print = |name: &str, model: &ArrayModel, placement: Placement, load: Load| {
        let iops = PUBLISHED
            .map(|p| format!("{:.0}", run(model, placement, load, p.vms, 1).iops))
            .join(" | ");
        println!("| {name} | {iops} |");
    };
    print("as preset", &jdsf_2011(), PLACEMENT, load);
    for (name, change) in VARIANTS {
        let mut model = jdsf_2011();
        change(&mut model);
        print(name, &model, PLACEMENT, load);
    }
    let small = Placement {
        region_bytes: 2 * GIB,
        ..PLACEMENT
    };
    let name = "each VM uses 2 GiB of its image";
    print(name, &jdsf_2011(), small, load);
    let path = Path::UNLIMITED;
    let name = "no limits in guests, hosts and link";
    print(name, &jdsf_2011(), PLACEMENT, Load { path, ..load });
}

type Change = fn(&mut ArrayModel);

const VARIANTS: [(&str, Change); 8] = [
    ("directions of the port independent", |model| {
        if let Some(port) = &mut model.port {
            port.shared = false;
        }
    }),
    ("no cache", |model| model.cache = None),
    ("no forced destaging", |model| {
        if let Some(cache) = &mut model.cache {
            cache.destage_forced = 0.0;
        }
    }),
    ("no age limit", |model| {
        each_hdd(model, &|hdd| hdd.age_limit_ms = 60_000.0);
    }),
    (
        "strictly oldest first once overdue (`overdue_every` 1)",
        |model| {
            each_hdd(model, &|hdd| hdd.overdue_every = 1);
        },
    ),
    ("no additional latency", |model| {
        model.controller.latency_us = 0.0;
    }),
    ("drive queue of 16", |model| {
        each_hdd(model, &|hdd| hdd.queue_depth = 16);
    }),
    ("drive queue of 1 (no choice)", |model| {
        each_hdd(model, &|hdd| hdd.queue_depth = 1);
    }),
];

fn each_hdd(model: &mut ArrayModel, change: &dyn Fn(&mut Hdd)) {
    for group in &mut model.groups {
        if let Drive::Hdd(hdd) = &mut group.drive {
            change(hdd);
        }
    }
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
