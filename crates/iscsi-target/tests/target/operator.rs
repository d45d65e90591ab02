//! Changes by the operator and the storage while initiators are logged in.

use core::time::Duration;

use crate::pair::control::{attentions, log_in_at, with_list};
use crate::pair::{Answer, INITIATOR, Initiator, Pair, config};
use hakaru_iscsi_target::{LuDescription, PortGroupDescription};
use hakaru_wire::scsi::{
    AccessState, Capacity16, Cdb, Designator, DesignatorKind, Inquiry, PageControl, Sense,
    Transfer, Vpd, emit_port_states, page, parse_luns, parse_port_groups,
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

/// Returns a target whose LUs allow explicit access, with a session on each of two portals.
fn two_explicit_paths() -> (Pair, Initiator, Initiator) {
    let mut config = config();
    for lu in &mut config.lus {
        lu.explicit_access = true;
    }
    let mut pair = Pair::with(config);
    let first = log_in_at(&mut pair, 0, INITIATOR, 1);
    let second = log_in_at(&mut pair, 1, INITIATOR, 1);
    (pair, first, second)
}

fn set_states(initiator: &mut Initiator, pair: &mut Pair, list: &[u8]) -> Answer {
    let cdb = Cdb::SetTargetPortGroups {
        parameter_list_length: list.len() as u32,
    };
    with_list(initiator, pair, 0, cdb, list)
}

/// Returns STATUS CODE of each group.
fn causes(initiator: &mut Initiator, pair: &mut Pair) -> Vec<u8> {
    let cdb = Cdb::ReportTargetPortGroups {
        extended_header: false,
        allocation_length: 256,
    };
    let data = initiator.run_cdb(pair, 0, cdb, 256).good();
    let groups = parse_port_groups(&data).expect("port groups");
    groups.into_iter().map(|group| group.status).collect()
}

#[test]
fn an_initiator_sets_states_and_every_other_nexus_is_notified_on_every_lu() {
    let (mut pair, mut first, mut second) = two_explicit_paths();
    let cdb = Cdb::Inquiry {
        page: None,
        allocation_length: 96,
    };
    let data = first.run_cdb(&mut pair, 0, cdb, 96).good();
    assert_eq!(Inquiry::parse(&data).unwrap().target_port_groups, 3);
    let states = [
        (1, AccessState::ActiveNonOptimized),
        (2, AccessState::Standby),
    ];
    set_states(&mut first, &mut pair, &emit_port_states(&states)).good();
    let changed = [Sense::ASYMMETRIC_ACCESS_STATE_CHANGED];
    for lun in [0, 5] {
        assert_eq!(attentions(&mut first, &mut pair, lun), []);
        assert_eq!(attentions(&mut second, &mut pair, lun), changed);
    }
    let expected = [
        (1, AccessState::ActiveNonOptimized, vec![1]),
        (2, AccessState::Standby, vec![2]),
    ];
    assert_eq!(groups(&mut second, &mut pair), expected);
    assert_eq!(causes(&mut first, &mut pair), [1, 1]);
    first.run_cdb(&mut pair, 0, one_block(), 512).good();
    let refused = second.run_cdb(&mut pair, 0, one_block(), 512);
    assert_eq!(refused.sense(), Sense::TARGET_PORT_IN_STANDBY_STATE);
    // A port in standby still accepts the command, so a host can bring its own path back.
    let back = emit_port_states(&[(2, AccessState::ActiveOptimized)]);
    set_states(&mut second, &mut pair, &back).good();
    second.run_cdb(&mut pair, 0, one_block(), 512).good();
    pair.target.set_port_state(0, AccessState::ActiveOptimized);
    attentions(&mut first, &mut pair, 0);
    assert_eq!(causes(&mut first, &mut pair), [2, 1]);
}

#[test]
fn a_list_that_cannot_be_carried_out_changes_no_state() {
    let (mut pair, mut first, mut second) = two_explicit_paths();
    let mut unknown_group =
        emit_port_states(&[(1, AccessState::Standby), (3, AccessState::Standby)]);
    for (list, sense) in [
        (&unknown_group[..], Sense::INVALID_FIELD_IN_PARAMETER_LIST),
        (&unknown_group[..7], Sense::PARAMETER_LIST_LENGTH_ERROR),
        (&[0; 3], Sense::PARAMETER_LIST_LENGTH_ERROR),
        (
            &emit_port_states(&[(1, AccessState::Transitioning)]),
            Sense::INVALID_FIELD_IN_PARAMETER_LIST,
        ),
        // 4h is the state LBA DEPENDENT, which is not supported.
        (
            &[0, 0, 0, 0, 4, 0, 0, 1],
            Sense::INVALID_FIELD_IN_PARAMETER_LIST,
        ),
    ] {
        let refused = set_states(&mut first, &mut pair, list).sense();
        assert_eq!(refused.additional, sense.additional, "{list:?}");
    }
    unknown_group.truncate(4);
    set_states(&mut first, &mut pair, &unknown_group).good();
    assert_eq!(attentions(&mut second, &mut pair, 0), []);
    assert_eq!(causes(&mut first, &mut pair), [0, 0]);
}

#[test]
fn last_state_of_a_group_counts_if_a_list_names_it_twice() {
    let (mut pair, mut first, mut second) = two_explicit_paths();
    let there_and_back = [
        (2, AccessState::Standby),
        (2, AccessState::ActiveOptimized),
        (1, AccessState::Standby),
        (1, AccessState::ActiveNonOptimized),
    ];
    set_states(&mut first, &mut pair, &emit_port_states(&there_and_back)).good();
    let expected = [
        (1, AccessState::ActiveNonOptimized, vec![1]),
        (2, AccessState::ActiveOptimized, vec![2]),
    ];
    attentions(&mut second, &mut pair, 0);
    assert_eq!(groups(&mut second, &mut pair), expected);
    assert_eq!(causes(&mut first, &mut pair), [1, 0]);
}

/// Returns a target with three portals, of which the first and the last are the preferred group,
/// and a session on each portal. Initiators may set states.
fn grouped_paths() -> (Pair, [Initiator; 3]) {
    let mut config = config();
    for lu in &mut config.lus {
        lu.explicit_access = true;
    }
    config.portals.push("10.0.0.1:3262".parse().unwrap());
    config.port_groups = vec![PortGroupDescription {
        ports: vec![0, 2],
        preferred: true,
    }];
    let mut pair = Pair::with(config);
    let initiators = [0, 1, 2].map(|portal| log_in_at(&mut pair, portal, INITIATOR, 1));
    (pair, initiators)
}

#[test]
fn ports_of_a_group_are_reported_together_and_each_names_its_group() {
    let (mut pair, mut initiators) = grouped_paths();
    for (initiator, (port, group)) in initiators.iter_mut().zip([(1, 1), (2, 2), (3, 1)]) {
        let cdb = Cdb::Inquiry {
            page: Some(page::DEVICE_IDENTIFICATION),
            allocation_length: 512,
        };
        let data = initiator.run_cdb(&mut pair, 0, cdb, 512).good();
        let Ok(Vpd::DeviceIdentification(names)) = Vpd::parse(&data) else {
            panic!("{data:?}")
        };
        assert!(names.contains(&Designator::relative_target_port(port)));
        assert!(names.contains(&Designator::target_port_group(group)));
    }
    for extended_header in [false, true] {
        let cdb = Cdb::ReportTargetPortGroups {
            extended_header,
            allocation_length: 256,
        };
        let data = initiators[1].run_cdb(&mut pair, 0, cdb, 256).good();
        let begin = if extended_header { 8 } else { 4 };
        let groups = [
            0x80, 0x8f, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, // the preferred one
            0x00, 0x8f, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2,
        ];
        assert_eq!(data[begin..], groups);
    }
}

#[test]
fn a_state_is_that_of_the_whole_group() {
    let (mut pair, mut initiators) = grouped_paths();
    let set = emit_port_states(&[(1, AccessState::Standby)]);
    set_states(&mut initiators[0], &mut pair, &set).good();
    let expected = [
        (1, AccessState::Standby, vec![1, 3]),
        (2, AccessState::ActiveOptimized, vec![2]),
    ];
    let changed = [Sense::ASYMMETRIC_ACCESS_STATE_CHANGED];
    let [first, second, third] = &mut initiators;
    assert_eq!(attentions(first, &mut pair, 0), []);
    assert_eq!(attentions(second, &mut pair, 0), changed);
    assert_eq!(attentions(third, &mut pair, 0), changed);
    assert_eq!(groups(second, &mut pair), expected);
    for initiator in [&mut *first, &mut *third] {
        let refused = initiator.run_cdb(&mut pair, 0, one_block(), 512);
        assert_eq!(refused.sense(), Sense::TARGET_PORT_IN_STANDBY_STATE);
    }
    second.run_cdb(&mut pair, 0, one_block(), 512).good();
    // The operator names any portal of the group.
    let now = pair.time;
    let duration = Duration::from_secs(1);
    pair.target
        .begin_port_transition(now, 2, AccessState::Unavailable, duration);
    assert_eq!(pair.target.port_state(0), AccessState::Transitioning);
    pair.advance(1.1);
    assert_eq!(pair.target.port_state(0), AccessState::Unavailable);
    pair.target.set_port_state(0, AccessState::ActiveOptimized);
    assert_eq!(pair.target.port_state(2), AccessState::ActiveOptimized);
    assert_eq!(pair.target.port_state(1), AccessState::ActiveOptimized);
    assert_eq!(attentions(second, &mut pair, 0), changed);
    assert_eq!(causes(second, &mut pair), [2, 0]);
}

#[test]
fn a_port_in_transition_is_left_to_the_operator() {
    let (mut pair, mut first, mut second) = two_explicit_paths();
    let (now, duration) = (pair.time, Duration::from_secs(5));
    pair.target
        .begin_port_transition(now, 1, AccessState::Standby, duration);
    for initiator in [&mut first, &mut second] {
        attentions(initiator, &mut pair, 0);
    }
    let both = [
        (1, AccessState::ActiveNonOptimized),
        (2, AccessState::ActiveOptimized),
    ];
    for initiator in [&mut first, &mut second] {
        let refused = set_states(initiator, &mut pair, &emit_port_states(&both));
        assert_eq!(refused.sense(), Sense::ASYMMETRIC_ACCESS_STATE_TRANSITION);
    }
    assert_eq!(pair.target.port_state(0), AccessState::ActiveOptimized);
    set_states(&mut first, &mut pair, &emit_port_states(&both[..1])).good();
    pair.advance(5.1);
    assert_eq!(pair.target.port_state(1), AccessState::Standby);
    attentions(&mut first, &mut pair, 0);
    set_states(&mut first, &mut pair, &emit_port_states(&both)).good();
    pair.advance(5.1);
    assert_eq!(pair.target.port_state(1), AccessState::ActiveOptimized);
}

#[test]
fn without_explicit_access_the_command_does_not_exist() {
    let (mut pair, mut first, _second) = two_paths();
    let list = emit_port_states(&[(2, AccessState::Standby)]);
    let refused = set_states(&mut first, &mut pair, &list);
    assert_eq!(refused.sense(), Sense::INVALID_COMMAND_OPERATION_CODE);
    assert_eq!(pair.target.port_state(1), AccessState::ActiveOptimized);
}

#[test]
fn a_port_in_transition_refuses_access_until_its_time_is_over() {
    let (mut pair, mut first, mut second) = two_paths();
    let now = pair.time;
    let duration = Duration::from_millis(2_500);
    pair.target
        .begin_port_transition(now, 1, AccessState::ActiveNonOptimized, duration);
    attentions(&mut first, &mut pair, 0);
    attentions(&mut second, &mut pair, 0);
    let refused = second.run_cdb(&mut pair, 0, one_block(), 512);
    assert_eq!(refused.sense(), Sense::ASYMMETRIC_ACCESS_STATE_TRANSITION);
    first.run_cdb(&mut pair, 0, one_block(), 512).good();
    let cdb = Cdb::ReportTargetPortGroups {
        extended_header: true,
        allocation_length: 256,
    };
    let data = second.run_cdb(&mut pair, 0, cdb, 256).good();
    assert_eq!(data[4..6], [0x10, 3], "the transition takes up to 3 s");
    pair.advance(2.4);
    assert_eq!(pair.target.port_state(1), AccessState::Transitioning);
    pair.advance(0.2);
    assert_eq!(
        attentions(&mut second, &mut pair, 0),
        [Sense::ASYMMETRIC_ACCESS_STATE_CHANGED]
    );
    second.run_cdb(&mut pair, 0, one_block(), 512).good();
    attentions(&mut first, &mut pair, 0);
    assert_eq!(
        groups(&mut first, &mut pair)[1].1,
        AccessState::ActiveNonOptimized
    );
}

#[test]
fn a_new_state_ends_a_transition() {
    let (mut pair, _first, mut second) = two_paths();
    let now = pair.time;
    let duration = Duration::from_secs(1);
    pair.target
        .begin_port_transition(now, 1, AccessState::Standby, duration);
    pair.target.set_port_state(1, AccessState::ActiveOptimized);
    pair.advance(2.0);
    attentions(&mut second, &mut pair, 0);
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
