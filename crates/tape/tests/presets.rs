//! The figures of the generations, as `docs/reference/array.md` lists them with their sources.

use hakaru_tape::Generation;
use hakaru_tape::timing::Parameters;

const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/array.md");
const HEADING: &str = "### Times of tape drives\n";
const TABLE: &str = "| figure |";

type Figure = (&'static str, fn(&Parameters) -> f64);

const FIGURES: [Figure; 12] = [
    ("native rate r_max, MB/s", |of| {
        of.rate_max_bytes_per_s / 1e6
    }),
    ("lowest rate r_min, MB/s", |of| {
        of.rate_min_bytes_per_s / 1e6
    }),
    ("buffer B, MB", |of| of.buffer_bytes / 1e6),
    ("largest rate of the initiator, MB/s", |of| {
        of.host_bytes_per_s / 1e6
    }),
    ("load, s", |of| of.load_s),
    ("unload, s", |of| of.unload_s),
    ("backhitch, s", |of| of.backhitch_s),
    ("beginning and end of positioning, s", |of| of.settle_s),
    ("positioning, m/s", |of| of.seek_m_per_s),
    ("recorded length, m", |of| of.length_m),
    ("wraps", |of| of.wraps),
    ("capacity, GB", |of| of.capacity_bytes / 1e9),
];

#[test]
fn the_reference_lists_every_figure_with_its_source() {
    let page = std::fs::read_to_string(REFERENCE).expect("the reference of arrays");
    let section = page
        .split(HEADING)
        .nth(1)
        .expect("the heading of the times");
    let table = section.lines().skip_while(|line| !line.starts_with(TABLE));
    let rows: Vec<Vec<&str>> = table
        .skip(2)
        .take_while(|line| line.starts_with("| "))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let expected: Vec<Vec<String>> = FIGURES.iter().map(cells).collect();
    let listed: Vec<&[&str]> = rows.iter().map(|row| &row[..row.len() - 1]).collect();
    assert!(
        listed == expected,
        "the table should begin with these cells: {expected:#?}"
    );
    for row in &rows {
        let source = row[row.len() - 1];
        assert!(
            source.len() > 3,
            "{} has no source, nor is it `**not verified**`",
            row[0]
        );
    }
}

/// Returns the name of a figure and its values, in the order of the generations.
fn cells((name, figure): &Figure) -> Vec<String> {
    let parameters = Generation::ALL.map(Parameters::of);
    let values = parameters.iter().map(|of| format!("{:.0}", figure(of)));
    std::iter::once((*name).to_owned()).chain(values).collect()
}
