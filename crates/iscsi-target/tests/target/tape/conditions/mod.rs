//! The conditions of tape drives and changers that an initiator meets. Each is provoked on the
//! target, and a table in `docs/reference/array.md` has its status and the bytes of its sense data.

mod device;
mod drive;
mod nexus;
mod store;

use hakaru_wire::scsi::SenseKey;

use super::*;

const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/array.md");
const HEADING: &str = "### Status and sense data of a library\n";

/// A condition of the table.
struct Row {
    condition: &'static str,
    /// Provokes the condition on a new target. Returns the answer of the command that meets it.
    provoke: fn() -> Answer,
}

const fn row(condition: &'static str, provoke: fn() -> Answer) -> Row {
    Row { condition, provoke }
}

#[test]
fn the_reference_lists_every_condition_with_its_sense_data() {
    let groups = [drive::ROWS, device::ROWS, nexus::ROWS, store::ROWS];
    let rows: Vec<String> = groups
        .into_iter()
        .flatten()
        .map(|row| {
            let (words, bytes) = described(&(row.provoke)());
            format!("| {} | {words} | {bytes} |", row.condition)
        })
        .collect();
    let page = std::fs::read_to_string(REFERENCE).expect("the reference of arrays");
    let section = page
        .split(HEADING)
        .nth(1)
        .expect("the heading of the table");
    let section = section.split("\n#").next().unwrap_or_default();
    let listed: Vec<&str> = section
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(1)
        .collect();
    assert!(
        listed == rows,
        "the table should have these rows:\n{}",
        rows.join("\n")
    );
}

/// Returns status and sense data in words, and the bytes of the sense data.
fn described(answer: &Answer) -> (String, String) {
    let status = match Status(answer.status) {
        Status::CHECK_CONDITION => {
            let sense = answer.sense.expect("CHECK CONDITION has sense data");
            return (in_words(&sense), in_bytes(&sense));
        }
        Status::BUSY => "BUSY",
        Status::RESERVATION_CONFLICT => "RESERVATION CONFLICT",
        _ => panic!("no condition: {answer:?}"),
    };
    assert_eq!(answer.sense, None);
    (
        format!("status {status} ({:02X}h)", answer.status),
        "none".to_owned(),
    )
}

fn in_words(sense: &Sense) -> String {
    let key = match sense.key {
        SenseKey::NoSense => "NO SENSE",
        SenseKey::NotReady => "NOT READY",
        SenseKey::MediumError => "MEDIUM ERROR",
        SenseKey::IllegalRequest => "ILLEGAL REQUEST",
        SenseKey::UnitAttention => "UNIT ATTENTION",
        SenseKey::DataProtect => "DATA PROTECT",
        SenseKey::BlankCheck => "BLANK CHECK",
        SenseKey::VolumeOverflow => "VOLUME OVERFLOW",
        other => panic!("no words for {other:?}"),
    };
    let additional = sense.additional;
    let mut words = format!(
        "{key}, {:02X}h/{:02X}h",
        additional.code, additional.qualifier
    );
    for (set, name) in [
        (sense.stream.filemark, "FILEMARK"),
        (sense.stream.end_of_medium, "EOM"),
        (sense.stream.incorrect_length, "ILI"),
        (sense.deferred, "deferred"),
    ] {
        if set {
            words += &format!(", {name}");
        }
    }
    if let Some(information) = sense.information {
        words += &format!(", INFORMATION {}", information as i64);
    }
    if let Some(field) = sense.field {
        let place = if field.in_cdb { "CDB" } else { "list" };
        let bit = field.bit.map_or(String::new(), |bit| format!(" bit {bit}"));
        words += &format!(", byte {}{bit} of the {place}", field.byte);
    }
    words
}

/// Returns the bytes of fixed sense data that are not always the same: 0, 2, 3 to 6, 12 and 13, 15
/// to 17.
fn in_bytes(sense: &Sense) -> String {
    let bytes = sense.emit_fixed();
    let constant = [&bytes[1..2], &bytes[7..12], &bytes[14..15]].concat();
    assert_eq!(constant, [0, 10, 0, 0, 0, 0, 0]);
    let hex = |range: std::ops::RangeInclusive<usize>| -> String {
        bytes[range]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    };
    let groups = [0..=0, 2..=2, 3..=6, 12..=13, 15..=17];
    format!("`{}`", groups.map(hex).join(" "))
}
