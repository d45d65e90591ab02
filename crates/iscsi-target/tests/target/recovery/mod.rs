//! Task management, logout, reinstatement and recovery against the target in virtual time, one
//! function per case of docs/reference/faults.md. Each function tries its case many times, asserts
//! the behaviour that the table there states, and returns the number of tries.
//!
//! `cargo test -p hakaru-iscsi-target --test target recovery -- --nocapture` prints the table.

mod abort;
mod end;
mod reinstate;
mod reset;
mod scene;

/// Id, description and function of a case.
type Case = (&'static str, &'static str, fn() -> u64);

const CASES: &[Case] = &[
    (
        "T-01",
        "ABORT TASK of a random command among 128",
        abort::of_random_commands,
    ),
    (
        "T-02",
        "resets and CLEAR TASK SET under load from four initiators",
        reset::under_load,
    ),
    (
        "T-03",
        "ABORT TASK of writes in every stage",
        abort::in_every_stage,
    ),
    (
        "T-04",
        "logout with commands in flight, for each reason",
        end::logout_under_load,
    ),
    (
        "T-05",
        "reinstatement while 128 writes are with the storage",
        reinstate::under_load,
    ),
    (
        "T-06",
        "reinstatement while the storage is stalled",
        reinstate::while_storage_is_stalled,
    ),
    (
        "T-07",
        "the end of the target while the storage is stalled",
        end::shut_down_while_stalled,
    ),
    (
        "T-08",
        "two initiators with one name and ISID, from two addresses",
        reinstate::by_turns,
    ),
    (
        "T-10",
        "initiators that request error recovery",
        end::error_recovery_levels,
    ),
    (
        "T-11",
        "two paths, and a reset by one of them",
        reset::on_one_of_two_paths,
    ),
];

#[test]
fn every_case_ends_as_the_table_states() {
    let mut failed = Vec::new();
    println!("{:<6} {:>7}  description", "case", "tried");
    for (id, description, case) in CASES {
        match std::panic::catch_unwind(case) {
            Ok(tried) => {
                assert!(tried > 0, "{id} has tried nothing");
                println!("{id:<6} {tried:>7}  {description}");
            }
            Err(_) => {
                println!("{id:<6}  FAILED  {description}");
                failed.push(*id);
            }
        }
    }
    println!("{} cases, {} failed", CASES.len(), failed.len());
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn every_case_is_listed_in_the_reference() {
    let reference = include_str!("../../../../../docs/reference/faults.md");
    for (id, ..) in CASES {
        assert!(reference.contains(&format!("| {id} |")), "{id}");
    }
}
