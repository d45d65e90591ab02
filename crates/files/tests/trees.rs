//! Trees by their description: totals, distributions, names, and golden checksums.
use std::collections::HashSet;

use hakaru_contract::files::{
    Alphabet, FileContent, FilePlacement, FileSizes, ParetoTail, SizeClass, TreesConfig,
};
use hakaru_files::{FileId, Forest, Role, Sizes};

const PUBLISHED_BYTES: u64 = 128_053_899_719;

/// Returns the trees of the published study of file servers, with an assumed distribution of sizes
/// that has the published mean and minimum.
fn published(seed: u64, divide_sizes_by: u64) -> TreesConfig {
    TreesConfig {
        seed,
        trees: 128,
        depth: 25,
        folders: 49,
        targets: 1000,
        dummies: 0,
        placement: FilePlacement::Even,
        sizes: FileSizes::Lognormal {
            median_bytes: 176_200,
            sigma: 1.5,
            min_bytes: 50_000,
            max_bytes: 1_000_000_000,
            tail: Some(ParetoTail {
                from_bytes: 10_000_000,
                alpha: 1.4,
                percent: 1.4,
            }),
        },
        dummy_sizes: None,
        total_bytes: Some(PUBLISHED_BYTES),
        divide_sizes_by,
        content: FileContent::default(),
    }
}

fn targets(forest: &Forest) -> impl Iterator<Item = FileId> + '_ {
    (0..forest.config().trees)
        .flat_map(|tree| forest.files(tree))
        .filter(|file| file.role == Role::Target)
}

/// Returns the largest distance between the sizes of all targets and a distribution, and the one
/// that is exceeded by chance in 1 % of cases (Kolmogorov and Smirnov).
fn distance(forest: &Forest, config: &FileSizes) -> (f64, f64) {
    let sizes = Sizes::new(config, "sizes").unwrap();
    let mut drawn: Vec<u64> = targets(forest).map(|file| forest.size(file)).collect();
    drawn.sort_unstable();
    let n = drawn.len() as f64;
    let mut largest: f64 = 0.0;
    for group in drawn.chunk_by(|a, b| a == b) {
        // Sizes are whole numbers: both sides of each step are compared with the function there.
        let below = drawn.partition_point(|size| *size < group[0]) as f64;
        let through = below + group.len() as f64;
        let before = group[0].checked_sub(1).map_or(0.0, |less| sizes.cdf(less));
        largest = largest.max((below / n - before).abs());
        largest = largest.max((through / n - sizes.cdf(group[0])).abs());
    }
    (largest, 1.6276 / n.sqrt())
}

#[test]
fn the_published_trees_have_the_published_totals_to_the_byte() {
    for seed in [1, 2, 3] {
        let forest = Forest::new(&published(seed, 1)).unwrap();
        let total = forest.targets();
        assert_eq!((total.files, total.bytes), (128_000, PUBLISHED_BYTES));
        assert!(targets(&forest).all(|file| forest.size(file) >= 50_000));
    }
}

#[test]
fn scaled_trees_keep_their_counts_and_have_the_scaled_total() {
    for divisor in [10, 1000, 100_000] {
        let total = Forest::new(&published(1, divisor)).unwrap().targets();
        assert_eq!(
            (total.files, total.bytes),
            (128_000, PUBLISHED_BYTES / divisor)
        );
    }
}

#[test]
fn sizes_follow_the_requested_distribution_at_one_percent() {
    for seed in 1..=5 {
        let config = published(seed, 1);
        let (largest, limit) = distance(&Forest::new(&config).unwrap(), &config.sizes);
        assert!(largest < limit, "seed {seed}: {largest} is above {limit}");
    }
}

#[test]
fn sizes_of_a_table_follow_the_table() {
    let classes = [
        (0, 50.0),
        (4096, 300.0),
        (5000, 0.0),
        (65_536, 200.0),
        (1 << 20, 10.0),
    ]
    .map(|(up_to_bytes, count)| SizeClass { up_to_bytes, count });
    let sizes = FileSizes::Table {
        classes: classes.to_vec(),
    };
    let config = TreesConfig {
        total_bytes: None,
        sizes: sizes.clone(),
        ..published(4, 1)
    };
    let (largest, limit) = distance(&Forest::new(&config).unwrap(), &sizes);
    assert!(largest < limit, "{largest} is above {limit}");
}

#[test]
fn a_wrong_distribution_is_detected() {
    let config = published(1, 1);
    let forest = Forest::new(&config).unwrap();
    let FileSizes::Lognormal {
        sigma,
        min_bytes,
        max_bytes,
        tail,
        ..
    } = config.sizes
    else {
        panic!("the published sizes are lognormal");
    };
    let other = FileSizes::Lognormal {
        median_bytes: 190_000,
        sigma,
        min_bytes,
        max_bytes,
        tail,
    };
    let (largest, limit) = distance(&forest, &other);
    assert!(largest > limit, "{largest} is below {limit}");
}

#[test]
fn files_are_spread_over_folders_as_described() {
    let even = Forest::new(&published(1, 1)).unwrap();
    let mut counts = [0; 49];
    targets(&even)
        .filter(|file| file.tree == 7)
        .for_each(|file| counts[even.folder(file) as usize] += 1);
    assert!(
        counts.iter().all(|count| (20..=21).contains(count)),
        "{counts:?}"
    );

    let weights = vec![1.0, 0.0, 3.0];
    let placement = FilePlacement::Levels { weights };
    let config = TreesConfig {
        depth: 5,
        folders: 21,
        placement,
        ..published(1, 1)
    };
    let forest = Forest::new(&config).unwrap();
    let mut levels = [0; 5];
    targets(&forest).for_each(|file| {
        levels[forest.shape().level(forest.folder(file)) as usize - 1] += 1;
    });
    assert_eq!((levels[1], levels[3], levels[4]), (0, 0, 0));
    assert!((31_400..32_600).contains(&levels[0]), "{levels:?}");
}

#[test]
fn paths_are_unique_and_end_in_the_folder_of_the_file() {
    let config = TreesConfig {
        trees: 2,
        dummies: 300,
        total_bytes: None,
        placement: FilePlacement::Random,
        ..published(1, 1)
    };
    let forest = Forest::new(&config).unwrap();
    let mut paths = HashSet::new();
    for file in (0..2).flat_map(|tree| forest.files(tree)) {
        let path = forest.path(file);
        let folder = forest.folder_path(file.tree, forest.folder(file));
        assert_eq!(path.rsplit_once('/').unwrap().0, folder);
        assert!(paths.insert(path));
    }
    assert_eq!(paths.len(), 2600);
}

/// These values must never change: trees that were built with another version would no longer be
/// verified. They are computed without the platform's mathematical library, so they are the same on
/// every machine.
#[test]
fn golden_names_sizes_and_checksums() {
    let config = TreesConfig {
        dummies: 10,
        placement: FilePlacement::Random,
        content: FileContent {
            alphabet: Alphabet::Binary,
            compressible_percent: 30,
            duplicate_percent: 20,
        },
        ..published(42, 1000)
    };
    let mut lines = Vec::new();
    for config in [published(42, 1000), config] {
        let forest = Forest::new(&config).unwrap();
        lines.push(forest.digest());
        for (tree, role, index) in [
            (0, Role::Target, 0),
            (3, Role::Target, 999),
            (127, Role::Target, 500),
            (64, Role::Dummy, 9),
        ] {
            let file = FileId { tree, role, index };
            let (path, size) = (forest.path(file), forest.size(file));
            lines.push(format!(
                "{} {size} {:032x}",
                path.len(),
                forest.checksum(file)
            ));
        }
    }
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn files_and_folders_take_whole_blocks() {
    let mut config = published(1, 1_000_000_000);
    (config.trees, config.targets, config.dummies) = (3, 7, 2);
    config.total_bytes = None;
    let forest = Forest::new(&config).unwrap();
    let files = (0..3).flat_map(|tree| forest.files(tree));
    let filled = files.filter(|file| forest.size(*file) > 0).count() as u128;
    // Divided by so much, no file is larger than a block.
    assert!(filled <= 27);
    let folders = 3 * u128::from(config.folders);
    assert_eq!(forest.space_bytes(), (filled + folders) * 4096);
    config.divide_sizes_by = 1;
    let forest = Forest::new(&config).unwrap();
    let bytes = u128::from(forest.targets().bytes + forest.dummies().bytes);
    let space = forest.space_bytes() - folders * 4096;
    assert!((bytes..bytes + 27 * 4096).contains(&space) && space.is_multiple_of(4096));
}

#[test]
fn sums_beyond_those_of_file_systems_are_refused() {
    let mut config = published(1, 1);
    config.total_bytes = None;
    config.sizes = FileSizes::Table {
        classes: vec![SizeClass {
            up_to_bytes: 1 << 50,
            count: 1.0,
        }],
    };
    (config.trees, config.targets) = (65, 1000);
    let refused = Forest::new(&config).unwrap_err();
    assert_eq!(refused.field, "sizes");
    assert!(refused.to_string().contains("bytes in all files"));
    config.total_bytes = Some(u64::MAX);
    assert!(Forest::new(&config).is_err());
    (config.trees, config.total_bytes) = (6, None);
    assert!(Forest::new(&config).is_ok());
}

#[test]
fn descriptions_that_cannot_be_built_are_refused_by_field() {
    type Case = (fn(&mut TreesConfig), &'static str);
    let cases: [Case; 14] = [
        (|c| c.trees = 0, "trees"),
        (|c| c.depth = 65, "depth"),
        (|c| c.folders = 24, "folders"),
        (|c| (c.depth, c.folders) = (1, 2), "folders"),
        (|c| c.targets = 0, "targets"),
        (|c| c.targets = 1_000_000, "targets"),
        (|c| c.dummies = 1_000_001, "dummies"),
        (|c| c.divide_sizes_by = 0, "divide_sizes_by"),
        (|c| c.total_bytes = Some(1), "total_bytes"),
        (|c| c.total_bytes = Some(u64::MAX), "total_bytes"),
        (
            |c| c.content.duplicate_percent = 101,
            "content.duplicate_percent",
        ),
        (
            |c| c.content.compressible_percent = 101,
            "content.compressible_percent",
        ),
        (
            |c| c.placement = FilePlacement::Levels { weights: vec![0.0] },
            "placement.weights",
        ),
        (
            |c| {
                c.placement = FilePlacement::Levels {
                    weights: vec![1.0; 26],
                }
            },
            "placement.weights",
        ),
    ];
    for (change, field) in cases {
        let mut config = published(1, 1);
        change(&mut config);
        assert_eq!(Forest::new(&config).unwrap_err().field, field);
    }
}
