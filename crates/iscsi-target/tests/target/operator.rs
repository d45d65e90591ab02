//! Changes by the operator and the storage while initiators are logged in.

use crate::pair::control::{attentions, log_in_at};
use crate::pair::{Answer, INITIATOR, Initiator, Pair};
use hakaru_iscsi_target::LuDescription;
use hakaru_wire::scsi::{
    AccessState, Capacity16, Cdb, Designator, DesignatorKind, Inquiry, PageControl, Sense,
    Transfer, Vpd, page, parse_luns, parse_port_groups,
};

const OTHER: &str = "iqn.2026-01.net.example:vm2";

fn two_paths() -> (Pair, Initiator, Initiator) {
    let mut pair = Pair::new();
    let first = log_in_at(&mut pair, 0, INITIATOR, 1);
    let second = log_in_at(&mut pair, 1, INITIATOR, 1);
    (pair, first, second)
}

fn one_block() -> Cdb {
    Cdb::Read(Transfer {
        blocks: 1,
        ..Transfer::default()
    })
}

fn groups(initiator: &mut Initiator, pair: &mut Pair) -> Vec<(u16, AccessState, Vec<u16>)> {
    let cdb = Cdb::ReportTargetPortGroups {
        extended_header: false,
        allocation_length: 256,
    };
    let data = initiator.run_cdb(pair, 0, cdb, 256).good();
    let groups = parse_port_groups(&data).expect("port groups");
    groups
        .into_iter()
        .map(|group| (group.number, group.state, group.ports))
        .collect()
}

#[test]
fn one_initiator_port_has_a_session_on_each_portal_and_each_names_its_port() {
    let (mut pair, mut first, mut second) = two_paths();
    assert_eq!(
        pair.target.sessions_now(),
        2,
        "neither has replaced the other"
    );
    let mut designators = Vec::new();
    for initiator in [&mut first, &mut second] {
        let cdb = Cdb::Inquiry {
            page: Some(page::DEVICE_IDENTIFICATION),
            allocation_length: 512,
        };
        let data = initiator.run_cdb(&mut pair, 0, cdb, 512).good();
        let Ok(Vpd::DeviceIdentification(names)) = Vpd::parse(&data) else {
            panic!("{data:?}")
        };
        designators.push(names);
    }
    let designator = |number: usize, association: u8, kind: DesignatorKind| {
        designators[number]
            .iter()
            .find(|found| (found.association, found.kind) == (association, kind))
            .expect("the designator exists")
            .clone()
    };
    assert_eq!(
        designator(0, 0, DesignatorKind::Naa),
        designator(1, 0, DesignatorKind::Naa)
    );
    for (at, number) in [(0, 1), (1, 2)] {
        assert_eq!(
            designator(at, 1, DesignatorKind::RelativeTargetPort),
            Designator::relative_target_port(number)
        );
        assert_eq!(
            designator(at, 1, DesignatorKind::TargetPortGroup),
            Designator::target_port_group(number)
        );
        let name = designator(at, 1, DesignatorKind::ScsiName).bytes;
        let name = String::from_utf8(name).unwrap();
        assert!(
            name.trim_end_matches('\0')
                .ends_with(&format!(",t,0x000{number}"))
        );
    }
    let cdb = Cdb::Inquiry {
        page: None,
        allocation_length: 96,
    };
    let data = first.run_cdb(&mut pair, 0, cdb, 96).good();
    assert_eq!(Inquiry::parse(&data).unwrap().target_port_groups, 1);
}

#[test]
fn a_port_in_standby_reports_the_lu_and_gives_no_access_to_its_medium() {
    let (mut pair, mut first, mut second) = two_paths();
    pair.target.set_port_state(1, AccessState::Standby);
    for initiator in [&mut first, &mut second] {
        let changed = initiator.run_cdb(&mut pair, 0, one_block(), 512);
        assert_eq!(changed.sense(), Sense::ASYMMETRIC_ACCESS_STATE_CHANGED);
    }
    first.run_cdb(&mut pair, 0, one_block(), 512).good();
    let refused = second.run_cdb(&mut pair, 0, one_block(), 512);
    assert_eq!(refused.sense(), Sense::TARGET_PORT_IN_STANDBY_STATE);
    let not_ready = second.run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0);
    assert_eq!(not_ready.sense(), Sense::TARGET_PORT_IN_STANDBY_STATE);
    let expected = [
        (1, AccessState::ActiveOptimized, vec![1]),
        (2, AccessState::Standby, vec![2]),
    ];
    assert_eq!(groups(&mut first, &mut pair), expected);
    assert_eq!(groups(&mut second, &mut pair), expected);
    let mode = Cdb::ModeSense(hakaru_wire::scsi::ModeSense {
        ten: false,
        disable_block_descriptors: true,
        long_lba: false,
        control: PageControl::Current,
        page: 0x0a,
        subpage: 0,
        allocation_length: 64,
    });
    second.run_cdb(&mut pair, 0, mode, 64).good();

    pair.target.set_port_state(1, AccessState::Unavailable);
    attentions(&mut first, &mut pair, 0);
    assert_eq!(
        attentions(&mut second, &mut pair, 0),
        [Sense::ASYMMETRIC_ACCESS_STATE_CHANGED]
    );
    let refused = second.run_cdb(&mut pair, 0, mode, 64);
    assert_eq!(refused.sense(), Sense::TARGET_PORT_IN_UNAVAILABLE_STATE);
    pair.target
        .set_port_state(1, AccessState::ActiveNonOptimized);
    assert_eq!(
        attentions(&mut second, &mut pair, 0),
        [Sense::ASYMMETRIC_ACCESS_STATE_CHANGED]
    );
    second.run_cdb(&mut pair, 0, one_block(), 512).good();
}

#[test]
fn a_threshold_is_reported_once_to_each_nexus_that_is_logged_in() {
    let (mut pair, mut first, mut second) = two_paths();
    pair.target.raise_threshold(0);
    let mut late = pair.log_in_as(OTHER, 3, &[]);
    let attention = [Sense::THIN_PROVISIONING_SOFT_THRESHOLD_REACHED];
    assert_eq!(attentions(&mut first, &mut pair, 0), attention);
    assert_eq!(attentions(&mut second, &mut pair, 0), attention);
    assert_eq!(attentions(&mut late, &mut pair, 0), []);
    assert_eq!(
        attentions(&mut first, &mut pair, 5),
        [],
        "another LU has no condition"
    );
    pair.target.raise_threshold(0);
    pair.target.raise_threshold(0);
    assert_eq!(attentions(&mut first, &mut pair, 0), attention);
}

#[test]
fn a_grown_lu_has_the_reported_size() {
    let (mut pair, mut first, _) = two_paths();
    let last_lba = |initiator: &mut Initiator, pair: &mut Pair| {
        let cdb = Cdb::ReadCapacity16 {
            allocation_length: 32,
        };
        let data = initiator.run_cdb(pair, 0, cdb, 32).good();
        Capacity16::parse(&data).unwrap().last_lba
    };
    assert_eq!(last_lba(&mut first, &mut pair), 2047);
    pair.lus.get_mut(&0).unwrap().resize(2 << 20, 0);
    pair.target.set_capacity(0, 2 << 20);
    assert_eq!(
        attentions(&mut first, &mut pair, 0),
        [Sense::CAPACITY_DATA_CHANGED]
    );
    assert_eq!(last_lba(&mut first, &mut pair), 4095);
    let end = Cdb::Read(Transfer {
        lba: 4095,
        blocks: 1,
        ..Transfer::default()
    });
    first.run_cdb(&mut pair, 0, end, 512).good();
}

#[test]
fn lus_are_added_and_removed_and_commands_in_flight_end() {
    let (mut pair, mut first, mut second) = two_paths();
    let luns = |initiator: &mut Initiator, pair: &mut Pair| {
        let cdb = Cdb::ReportLuns {
            select_report: 0,
            allocation_length: 256,
        };
        let data = initiator.run_cdb(pair, 0, cdb, 256).good();
        let (luns, _) = parse_luns(&data).unwrap();
        luns.iter()
            .map(|lun| lun.number().unwrap())
            .collect::<Vec<_>>()
    };
    pair.lus.insert(3, vec![0; 1 << 20]);
    pair.target.add_lu(LuDescription::new(3, 1 << 20));
    assert_eq!(
        attentions(&mut second, &mut pair, 5),
        [Sense::REPORTED_LUNS_DATA_CHANGED]
    );
    assert_eq!(luns(&mut first, &mut pair), [0, 3, 5, 7]);
    // REPORT LUNS ends the condition of its nexus on every LU.
    assert_eq!(attentions(&mut first, &mut pair, 0), []);
    first.run_cdb(&mut pair, 3, one_block(), 512).good();

    pair.stalled = true;
    let command = first.command(3, &one_block().emit(), true, false, 512);
    first.send_command(&mut pair, &command, &[]);
    assert!(pair.target.remove_lu(pair.time, 3));
    assert!(!pair.target.remove_lu(pair.time, 3));
    assert!(
        pair.target.is_in_use(3),
        "the storage still executes the read"
    );
    pair.release();
    assert!(!pair.target.is_in_use(3));
    assert!(first.receive(&mut pair).is_empty());
    assert_eq!(luns(&mut first, &mut pair), [0, 5, 7]);
    let refused: Answer = first.run_cdb(&mut pair, 3, one_block(), 512);
    assert_eq!(refused.sense(), Sense::LOGICAL_UNIT_NOT_SUPPORTED);
}
