//! Commands that query or set an LU's state other than its blocks: mode pages, the medium, logs,
//! and the lists of supported commands.

use crate::pair::control::{attentions, with_list};
use crate::pair::{Answer, Initiator, Pair, config};
use hakaru_iscsi_target::{LuDescription, Space, TargetConfig, Thin};
use hakaru_wire::scsi::{
    Cdb, LogPage, LogSense, ModeData, ModePage, ModeSelect, ModeSense, PageControl,
    ReportedCommands, Sense, StartStopUnit, Transfer, log_page, opcode, parse_all_commands,
    provisioning_parameter,
};

const OTHER: &str = "iqn.2026-01.net.example:vm2";
const CONTROL: u8 = 0x0a;
const CACHING: u8 = 0x08;

/// Returns a configuration in which LU 0 is thin and removable and LU 5 has a volatile cache.
fn thin() -> TargetConfig {
    let mut config = config();
    config.lus[0] = LuDescription {
        thin: Some(Thin { page_bytes: 65_536 }),
        removable: true,
        ..config.lus[0].clone()
    };
    config
}

fn two_sessions() -> (Pair, Initiator, Initiator) {
    let mut pair = Pair::with(thin());
    let first = pair.log_in(&[]);
    let second = pair.log_in_as(OTHER, 2, &[]);
    (pair, first, second)
}

fn mode_page(initiator: &mut Initiator, pair: &mut Pair, lun: u8, page: u8) -> Vec<u8> {
    let sense = ModeSense {
        ten: false,
        disable_block_descriptors: true,
        long_lba: false,
        control: PageControl::Current,
        page,
        subpage: 0,
        allocation_length: 255,
    };
    initiator
        .run_cdb(pair, lun, Cdb::ModeSense(sense), 255)
        .good()
}

fn select(initiator: &mut Initiator, pair: &mut Pair, lun: u8, list: &[u8]) -> Answer {
    let cdb = Cdb::ModeSelect(ModeSelect {
        ten: false,
        page_format: true,
        save_pages: false,
        parameter_list_length: list.len() as u16,
    });
    with_list(initiator, pair, lun, cdb, list)
}

/// Returns the control mode page as a parameter list, with these SWP and D_SENSE bits.
fn control(initiator: &mut Initiator, pair: &mut Pair, swp: bool, d_sense: bool) -> Vec<u8> {
    let mut list = mode_page(initiator, pair, 0, CONTROL);
    list[..4].fill(0);
    list[4 + 2] = u8::from(d_sense) << 2;
    list[4 + 4] = u8::from(swp) << 3;
    list
}

fn write(initiator: &mut Initiator, pair: &mut Pair, lun: u8, bytes: usize) -> Answer {
    let transfer = Transfer {
        blocks: 1,
        ..Transfer::default()
    };
    with_list(initiator, pair, lun, Cdb::Write(transfer), &vec![1; bytes])
}

fn start_stop(initiator: &mut Initiator, pair: &mut Pair, load_eject: bool, start: bool) -> Answer {
    let request = StartStopUnit {
        load_eject,
        start,
        ..StartStopUnit::default()
    };
    initiator.run_cdb(pair, 0, Cdb::StartStopUnit(request), 0)
}

#[test]
fn software_write_protection_holds_for_all_initiators_and_the_others_are_notified() {
    let (mut pair, mut first, mut second) = two_sessions();
    let list = control(&mut first, &mut pair, true, false);
    select(&mut first, &mut pair, 0, &list).good();
    assert_eq!(
        attentions(&mut second, &mut pair, 0),
        [Sense::MODE_PARAMETERS_CHANGED]
    );
    for initiator in [&mut first, &mut second] {
        let refused = write(initiator, &mut pair, 0, 512);
        assert_eq!(
            refused.sense(),
            Sense::LOGICAL_UNIT_SOFTWARE_WRITE_PROTECTED
        );
        let data = mode_page(initiator, &mut pair, 0, CONTROL);
        assert!(ModeData::parse(&data, false).unwrap().write_protected);
    }
    write(&mut first, &mut pair, 5, 4096).good();
    let list = control(&mut first, &mut pair, false, false);
    select(&mut first, &mut pair, 0, &list).good();
    write(&mut first, &mut pair, 0, 512).good();
}

#[test]
fn descriptor_sense_carries_information_that_fixed_sense_has_no_room_for() {
    let (mut pair, mut first, _) = two_sessions();
    let beyond = Cdb::Read(Transfer {
        lba: 1 << 40,
        blocks: 1,
        ..Transfer::default()
    });
    let fixed = first.run_cdb(&mut pair, 0, beyond, 512).sense.unwrap();
    assert_eq!(fixed.information, None, "2^40 has no room in four bytes");
    let list = control(&mut first, &mut pair, false, true);
    select(&mut first, &mut pair, 0, &list).good();
    let descriptor = first.run_cdb(&mut pair, 0, beyond, 512).sense.unwrap();
    assert_eq!(
        descriptor,
        Sense::LBA_OUT_OF_RANGE.with_information(1 << 40)
    );
}

#[test]
fn a_list_with_a_bit_that_cannot_be_changed_changes_nothing() {
    let (mut pair, mut first, mut second) = two_sessions();
    let good = control(&mut first, &mut pair, true, true);
    let mut cases = vec![(good[..3].to_vec(), Sense::PARAMETER_LIST_LENGTH_ERROR)];
    cases.push((
        good[..good.len() - 1].to_vec(),
        Sense::PARAMETER_LIST_LENGTH_ERROR,
    ));
    for (at, bits) in [(4 + 3, 0x20), (4 + 5, 0x40), (4, 0x20), (5, 0x01)] {
        let mut list = good.clone();
        list[at] ^= bits;
        let sense = match at {
            5 => Sense::PARAMETER_LIST_LENGTH_ERROR,
            _ => Sense::INVALID_FIELD_IN_PARAMETER_LIST,
        };
        cases.push((list, sense));
    }
    // A valid page before an invalid one is not applied either.
    let mut both = good.clone();
    both.extend_from_slice(&mode_page(&mut first, &mut pair, 0, CACHING)[4..]);
    *both.last_mut().unwrap() = 1;
    cases.push((both, Sense::INVALID_FIELD_IN_PARAMETER_LIST));
    for (list, sense) in cases {
        assert_eq!(
            select(&mut first, &mut pair, 0, &list).sense(),
            sense,
            "{list:02x?}"
        );
    }
    write(&mut first, &mut pair, 0, 512).good();
    assert_eq!(attentions(&mut second, &mut pair, 0), []);
}

#[test]
fn a_cache_that_is_switched_off_is_flushed_and_writes_bypass_it() {
    let (mut pair, mut first, _) = two_sessions();
    let mut list = mode_page(&mut first, &mut pair, 5, CACHING);
    let page = ModeData::parse(&list, false).unwrap().pages[0].clone();
    assert!(matches!(
        page,
        ModePage::Caching {
            write_cache: true,
            ..
        }
    ));
    list[..4].fill(0);
    list[4 + 2] = 0;
    pair.stalled = true;
    let cdb = Cdb::ModeSelect(ModeSelect {
        ten: false,
        page_format: true,
        save_pages: false,
        parameter_list_length: list.len() as u16,
    });
    let command = first.command(5, &cdb.emit(), false, true, list.len() as u32);
    first.send_command(&mut pair, &command, &list);
    assert!(matches!(pair.held[0].op, hakaru_iscsi_target::IoOp::Flush));
    pair.release();
    Answer::of(first.receive(&mut pair), command.itt).good();
    pair.stalled = true;
    let blocks = Cdb::Write(Transfer {
        blocks: 1,
        ..Transfer::default()
    });
    let command = first.command(5, &blocks.emit(), false, true, 4096);
    first.send_command(&mut pair, &command, &[1; 4096]);
    assert!(matches!(
        pair.held[0].op,
        hakaru_iscsi_target::IoOp::Write { fua: true, .. }
    ));
    pair.release();
    Answer::of(first.receive(&mut pair), command.itt).good();
}

#[test]
fn a_command_with_more_data_than_it_announces_changes_nothing() {
    let (mut pair, mut initiator, _) = two_sessions();
    let eject = Cdb::StartStopUnit(StartStopUnit {
        load_eject: true,
        ..StartStopUnit::default()
    });
    let command = initiator.command(0, &eject.emit(), false, true, 512);
    initiator.send_command(&mut pair, &command, &[1; 1024]);
    let answer = Answer::of(initiator.receive(&mut pair), command.itt);
    assert_eq!(answer.sense(), Sense::UNEXPECTED_UNSOLICITED_DATA);
    initiator
        .run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0)
        .good();
}

#[test]
fn a_medium_is_ejected_only_if_no_session_prevents_its_removal() {
    let (mut pair, mut first, mut second) = two_sessions();
    let prevent = |prevent| Cdb::PreventAllowMediumRemoval { prevent };
    first.run_cdb(&mut pair, 0, prevent(1), 0).good();
    for initiator in [&mut first, &mut second] {
        let refused = start_stop(initiator, &mut pair, true, false);
        assert_eq!(refused.sense(), Sense::MEDIUM_REMOVAL_PREVENTED);
    }
    second.run_cdb(&mut pair, 0, prevent(0), 0).good();
    let refused = start_stop(&mut second, &mut pair, true, false);
    assert_eq!(refused.sense(), Sense::MEDIUM_REMOVAL_PREVENTED);
    pair.target.handle_closed(pair.time, first.connection);
    start_stop(&mut second, &mut pair, true, false).good();
    let blocks = Cdb::Read(Transfer {
        blocks: 1,
        ..Transfer::default()
    });
    for cdb in [Cdb::TestUnitReady, Cdb::ReadCapacity10, blocks] {
        let refused = second.run_cdb(&mut pair, 0, cdb, 512);
        assert_eq!(refused.sense(), Sense::MEDIUM_NOT_PRESENT, "{cdb:?}");
    }
    let mut third = pair.log_in_as(OTHER, 3, &[]);
    start_stop(&mut second, &mut pair, true, true).good();
    assert_eq!(attentions(&mut second, &mut pair, 0), []);
    assert_eq!(
        attentions(&mut third, &mut pair, 0),
        [Sense::MEDIUM_MAY_HAVE_CHANGED]
    );
    write(&mut third, &mut pair, 0, 512).good();
    let fixed = second.run_cdb(&mut pair, 5, prevent(1), 0);
    assert_eq!(fixed.sense(), Sense::INVALID_COMMAND_OPERATION_CODE);
}

#[test]
fn the_log_reports_the_space_that_is_left() {
    let (mut pair, mut first, _) = two_sessions();
    let query = |initiator: &mut Initiator, pair: &mut Pair, lun, page, parameter_pointer| {
        let cdb = Cdb::LogSense(LogSense {
            save: false,
            control: PageControl::Changeable,
            page,
            subpage: 0,
            parameter_pointer,
            allocation_length: 256,
        });
        initiator.run_cdb(pair, lun, cdb, 256)
    };
    let pages = query(&mut first, &mut pair, 0, log_page::SUPPORTED_PAGES, 0).good();
    assert_eq!(
        LogPage::parse(&pages),
        Ok(LogPage::SupportedPages(vec![0, 0x0c, 0x2f]))
    );
    let provisioning = log_page::LOGICAL_BLOCK_PROVISIONING;
    pair.target.set_space(
        0,
        Space {
            used_bytes: 3 * 65_536,
            available_bytes: 7 * 65_536 + 1,
        },
    );
    let page = query(&mut first, &mut pair, 0, provisioning, 0).good();
    let Ok(LogPage::Parameters { parameters, .. }) = LogPage::parse(&page) else {
        panic!("{page:?}")
    };
    let counts: Vec<_> = parameters
        .iter()
        .map(|parameter| (parameter.code, parameter.as_resource_count()))
        .collect();
    assert_eq!(
        counts,
        [
            (provisioning_parameter::AVAILABLE, Some((7, 2))),
            (provisioning_parameter::USED, Some((3, 1)))
        ]
    );
    let from_second = query(&mut first, &mut pair, 0, provisioning, 2).good();
    assert_eq!(from_second.len(), 4 + 12);
    for (lun, page, pointer) in [(0, provisioning, 3), (5, provisioning, 0), (0, 0x11, 0)] {
        let refused = query(&mut first, &mut pair, lun, page, pointer);
        assert_eq!(refused.sense(), Sense::INVALID_FIELD_IN_CDB);
    }
}

#[test]
fn the_list_of_commands_is_that_of_the_addressed_lu() {
    let (mut pair, mut first, _) = two_sessions();
    let all = |timeouts| Cdb::ReportSupportedOpcodes {
        commands: ReportedCommands::All,
        timeouts,
        allocation_length: 65_535,
    };
    let commands = |data: Vec<u8>| parse_all_commands(&data);
    let removable = commands(first.run_cdb(&mut pair, 0, all(false), 65_535).good());
    let fixed = commands(first.run_cdb(&mut pair, 5, all(true), 65_535).good());
    let has =
        |list: &[(u8, Option<u16>, u16)], opcode| list.iter().any(|command| command.0 == opcode);
    for (opcode, on_removable, on_fixed) in [
        (opcode::PREVENT_ALLOW_MEDIUM_REMOVAL, true, false),
        (opcode::UNMAP, true, false),
        (opcode::SANITIZE, false, false),
        (opcode::READ_16, true, true),
    ] {
        assert_eq!(
            (has(&removable, opcode), has(&fixed, opcode)),
            (on_removable, on_fixed),
            "{opcode:#04x}"
        );
    }
    let query = |initiator: &mut Initiator, pair: &mut Pair, commands| {
        let cdb = Cdb::ReportSupportedOpcodes {
            commands,
            timeouts: false,
            allocation_length: 64,
        };
        initiator.run_cdb(pair, 0, cdb, 64)
    };
    let supported = query(
        &mut first,
        &mut pair,
        ReportedCommands::Opcode(opcode::READ_10),
    )
    .good();
    assert_eq!(supported[..5], [0, 3, 0, 10, opcode::READ_10]);
    let unsupported = query(&mut first, &mut pair, ReportedCommands::Opcode(0xff)).good();
    assert_eq!(unsupported, [0, 1, 0, 0]);
    let service_in = opcode::SERVICE_ACTION_IN_16;
    for wrong in [
        ReportedCommands::Opcode(service_in),
        ReportedCommands::ServiceAction(opcode::READ_10, 0),
    ] {
        assert_eq!(
            query(&mut first, &mut pair, wrong).sense(),
            Sense::INVALID_FIELD_IN_CDB
        );
    }
    let either = ReportedCommands::Either(service_in, 0x10);
    assert_eq!(query(&mut first, &mut pair, either).good()[4], service_in);
}
