//! `docs/reference/array.md` lists the commands and pages that the target reports to initiators,
//! and the login keys that it negotiates.
use std::collections::BTreeSet;

use crate::pair::{INITIATOR, Initiator, LU_BYTES, Pair, config, names, value};
use hakaru_iscsi_target::{LuDescription, TargetConfig, Thin};
use hakaru_wire::iscsi::text::emit_pair;
use hakaru_wire::iscsi::{LoginStatus, Stage};
use hakaru_wire::scsi::{Cdb, ReportedCommands, parse_all_commands};

const PAGE: &str = include_str!("../../../../docs/reference/array.md");

/// Returns a target whose LU 0 supports every command, and whose LU 1 supports those of every LU.
fn target() -> Pair {
    let mut all = LuDescription::new(0, LU_BYTES as u64);
    all.thin = Some(Thin { page_bytes: 4096 });
    all.removable = true;
    all.sanitize = true;
    all.atomic_bytes = 64 << 10;
    all.explicit_access = true;
    Pair::with(TargetConfig {
        lus: vec![all, LuDescription::new(1, LU_BYTES as u64)],
        ..config()
    })
}

fn commands(pair: &mut Pair, initiator: &mut Initiator, lun: u8) -> BTreeSet<String> {
    let report = Cdb::ReportSupportedOpcodes {
        commands: ReportedCommands::All,
        timeouts: false,
        allocation_length: 65_536,
    };
    // Each LU may answer the first command of a new nexus with a unit attention condition.
    initiator.run_cdb(pair, lun, Cdb::TestUnitReady, 0);
    let data = initiator.run_cdb(pair, lun, report, 65_536).good();
    parse_all_commands(&data)
        .into_iter()
        .map(|(code, action, _)| match action {
            Some(action) => format!("{code:02X}h/{action:02X}"),
            None => format!("{code:02X}h"),
        })
        .collect()
}

/// Returns the page's table of commands: the code, and the LUs that support the command.
fn documented() -> Vec<(String, String)> {
    PAGE.lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [code, _, lus] = cells[..] else {
                return None;
            };
            let code = code.strip_prefix('`')?.strip_suffix('`')?;
            let is_code = code.as_bytes().get(2) == Some(&b'h')
                && u8::from_str_radix(code.get(..2)?, 16).is_ok();
            is_code.then(|| (code.to_owned(), lus.to_owned()))
        })
        .collect()
}

#[test]
fn the_page_lists_the_commands_that_the_target_reports_and_no_others() {
    let mut pair = target();
    let mut initiator = pair.log_in(&[]);
    let page = documented();
    let all_codes: BTreeSet<String> = page.iter().map(|(code, _)| code.clone()).collect();
    let common_codes = page
        .iter()
        .filter(|(_, lus)| lus == "every")
        .map(|(code, _)| code.clone())
        .collect::<BTreeSet<_>>();
    assert_eq!(page.len(), all_codes.len(), "a command is listed twice");
    assert_eq!(commands(&mut pair, &mut initiator, 0), all_codes);
    assert_eq!(commands(&mut pair, &mut initiator, 1), common_codes);
}

#[test]
fn no_command_is_in_the_list_of_what_is_not_supported() {
    let cells = |line: &str| -> Vec<String> {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    let codes: BTreeSet<String> = documented().into_iter().map(|(code, _)| code).collect();
    let rows = PAGE.lines().map(cells);
    let commands: BTreeSet<String> = rows
        .filter(|cells| cells.len() == 3 && codes.contains(cells[0].trim_matches('`')))
        .map(|cells| cells[1].clone())
        .collect();
    assert_eq!(commands.len(), codes.len());
    let list = PAGE.split("Not supported on disks: ").nth(1);
    let list = list.and_then(|text| text.split('.').next());
    let list = list.expect("the page has the list").replace('\n', " ");
    let items = list.split(", ").flat_map(|item| item.split(" and "));
    let both: Vec<&str> = items.filter(|item| commands.contains(*item)).collect();
    assert!(both.is_empty(), "{both:?}");
}

#[test]
fn the_page_lists_the_vpd_and_log_pages_that_the_target_reports() {
    let mut pair = target();
    let mut initiator = pair.log_in(&[]);
    initiator.run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0);
    for (cdb, head, word) in [
        (&[0x12, 1, 0, 0, 0xff, 0][..], 4, "VPD pages "),
        (&[0x4d, 0, 0x40, 0, 0, 0, 0, 0, 0xff, 0], 4, "log pages "),
    ] {
        let data = initiator.run(&mut pair, 0, cdb, 255).good();
        let reported: Vec<String> = data[head..].iter().map(|p| format!("{p:02X}h")).collect();
        let text = PAGE.split(word).nth(1).expect("the page lists them");
        let named: Vec<&str> = text
            .split(';')
            .next()
            .expect("a clause")
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|w| w.len() == 3 && w.ends_with('h') && u8::from_str_radix(&w[..2], 16).is_ok())
            .collect();
        assert_eq!(named, reported, "{word}");
    }
}

#[test]
fn the_page_states_what_the_target_agrees_to_at_login() {
    let mut pair = target();
    let connection = pair.connect();
    let mut initiator = Initiator::new(connection, 1);
    let mut text = names(INITIATOR);
    let offered = [
        ("MaxConnections", "8", "1:"),
        ("ErrorRecoveryLevel", "2", "0:"),
        ("HeaderDigest", "None,CRC32C", "CRC32C or None"),
        ("DataDigest", "CRC32C,None", "CRC32C or None"),
        ("InitialR2T", "No", "No, unless"),
        ("ImmediateData", "Yes", "Yes, unless"),
        ("MaxBurstLength", "16777215", "up to 1 048 576"),
        ("FirstBurstLength", "16777215", "up to 65 536"),
        ("MaxOutstandingR2T", "65535", "up to 8"),
        ("DefaultTime2Wait", "0", "0 offered"),
        ("DefaultTime2Retain", "60", "0 offered"),
        ("DataPDUInOrder", "No", "Yes"),
        ("DataSequenceInOrder", "No", "Yes"),
    ];
    for (key, offer, _) in offered {
        emit_pair(&mut text, key, offer);
    }
    let stage = Stage::OperationalNegotiation;
    let (response, keys) = initiator.login(&mut pair, stage, Some(Stage::FullFeaturePhase), &text);
    assert_eq!(response.status, LoginStatus::SUCCESS);
    let mut expected = offered
        .map(|(key, offer, stated)| (key, Some(offer), stated))
        .to_vec();
    expected.push(("MaxRecvDataSegmentLength", None, "262 144 declared"));
    for (key, offer, stated) in expected {
        let row = PAGE
            .lines()
            .find(|line| line.starts_with("| `") && line.contains(&format!("`{key}`")))
            .unwrap_or_else(|| panic!("{key} is not on the page"));
        assert!(row.contains(stated), "{row} does not contain {stated:?}");
        let agreed = value(&keys, key).unwrap_or_else(|| panic!("no answer to {key}: {keys:?}"));
        let first = stated.replace(' ', "").replace("upto", "");
        let choice = offer.and_then(|offer| offer.split(',').next());
        let holds = first.starts_with(agreed)
            || stated.contains("CRC32C or None") && Some(agreed) == choice;
        assert!(holds, "{key}={agreed}, the page states {stated:?}");
    }
}
