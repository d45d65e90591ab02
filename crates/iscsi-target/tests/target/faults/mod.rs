//! Invalid input against the target in virtual time, one function per case of
//! docs/reference/faults.md. Each function tries its case in many forms and returns their number.
//! It asserts the behaviour that the table there states, and that the session of a bystander is not
//! affected.
//!
//! `cargo test -p hakaru-iscsi-target --test target faults -- --nocapture` prints the table.

mod commands;
mod framing;
mod load;
mod login;
mod scene;
mod tasks;
mod text;

/// Id, description and function of a case.
type Case = (&'static str, &'static str, fn() -> u64);

const CASES: &[Case] = &[
    (
        "M-01",
        "a first PDU that is not a Login Request",
        framing::first_pdu_is_no_login,
    ),
    (
        "M-02",
        "a connection cut inside a PDU",
        framing::cut_inside_a_pdu,
    ),
    (
        "M-03",
        "data segments too long for a login",
        framing::long_login,
    ),
    (
        "M-04",
        "data segments longer than declared",
        framing::longer_than_declared,
    ),
    (
        "M-05",
        "additional header segments of every length and type",
        framing::additional_headers,
    ),
    (
        "M-06",
        "text that never ends, or is contradictory",
        text::continued,
    ),
    ("M-07", "malformed keys", text::malformed_keys),
    (
        "M-08",
        "repeated keys, malformed numbers, contradictory values",
        text::values,
    ),
    ("M-09", "unknown keys by the thousand", text::unknown_keys),
    ("M-10", "stages in an impossible order", login::stages),
    ("M-11", "handles of other sessions", login::handles),
    (
        "M-12",
        "command numbers outside the window",
        tasks::command_numbers,
    ),
    ("M-13", "unsolicited Data-Out", tasks::data_out),
    (
        "M-14",
        "transfer lengths that do not fit the command",
        tasks::transfer_lengths,
    ),
    (
        "M-15",
        "every operation code",
        commands::every_operation_code,
    ),
    ("M-16", "allocation lengths", commands::allocation_lengths),
    (
        "M-17",
        "ranges beyond the end, inconsistent lists",
        commands::ranges,
    ),
    (
        "M-18",
        "UNMAP and WRITE SAME of a 64 TiB LU",
        commands::whole_lu,
    ),
    (
        "M-19",
        "COMPARE AND WRITE that race",
        commands::racing_compares,
    ),
    (
        "M-20",
        "PDUs that only targets send, tags that were never assigned",
        tasks::stray_pdus,
    ),
    (
        "D-03",
        "digests cut short at the end of a connection",
        framing::cut_digests,
    ),
    ("R-02", "logins that arrive byte by byte", load::slow_logins),
    (
        "R-03",
        "half-finished logins from one address",
        load::half_logins,
    ),
    ("R-04", "initiators that read nothing", load::unread),
    (
        "R-05",
        "more write data offered than fits in memory",
        load::write_flood,
    ),
    ("R-07", "an initiator that vanishes", load::vanished),
    (
        "R-10",
        "a panic in the handling of one session",
        load::panicking,
    ),
];

#[test]
fn every_case_ends_as_the_table_states() {
    let mut failed = Vec::new();
    let mut total = 0;
    println!("{:<6} {:>7}  description", "case", "tried");
    for (id, description, case) in CASES {
        match std::panic::catch_unwind(case) {
            Ok(tried) => {
                assert!(tried > 0, "{id} has tried nothing");
                total += tried;
                println!("{id:<6} {tried:>7}  {description}");
            }
            Err(_) => {
                println!("{id:<6}  FAILED  {description}");
                failed.push(*id);
            }
        }
    }
    println!(
        "{} cases, {total} inputs, {} failed",
        CASES.len(),
        failed.len()
    );
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn every_case_is_listed_in_the_reference() {
    let reference = include_str!("../../../../../docs/reference/faults.md");
    for (id, ..) in CASES {
        assert!(reference.contains(&format!("| {id} |")), "{id}");
    }
}
