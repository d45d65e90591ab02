//! RESERVE and RELEASE of SPC-2, and their interaction with persistent reservations.
use super::scene::{CONFLICT, OTHER, WRITE_EXCLUSIVE, held, reads, two_sessions, writes};
use crate::pair::control::{attentions, order, register};
use crate::pair::{INITIATOR, Initiator};
use hakaru_wire::iscsi::text::emit_pair;
use hakaru_wire::iscsi::{
    CmdSn, Itt, LoginStatus, Lun, Opcode, Stage, TaskManagementFunction as Function,
    TaskManagementRequest,
};
use hakaru_wire::scsi::{Cdb, ReserveOut, Sense};

#[test]
fn reserve_excludes_other_nexuses_until_it_is_released_or_the_nexus_or_the_lu_is_reset() {
    let (mut pair, mut first, mut second) = two_sessions();
    first.run_cdb(&mut pair, 0, Cdb::Reserve, 0).good();
    first.run_cdb(&mut pair, 0, Cdb::Reserve, 0).good();
    let refused = second.run_cdb(&mut pair, 0, Cdb::Reserve, 0);
    assert_eq!(refused.status, CONFLICT);
    assert!(!reads(&mut second, &mut pair) && writes(&mut first, &mut pair));
    second.run_cdb(&mut pair, 0, Cdb::Release, 0).good();
    assert!(
        !reads(&mut second, &mut pair),
        "only the holder can release the reservation"
    );
    let mixed = order(&mut first, &mut pair, ReserveOut::Register, 0, (0, 1));
    assert_eq!(mixed.status, CONFLICT, "the two kinds exclude each other");
    first.run_cdb(&mut pair, 0, Cdb::Release, 0).good();
    assert!(reads(&mut second, &mut pair));

    second.run_cdb(&mut pair, 0, Cdb::Reserve, 0).good();
    pair.target.handle_closed(pair.time, second.connection);
    assert!(
        reads(&mut first, &mut pair),
        "the reservation ends with its nexus"
    );

    let mut third = pair.log_in_as(OTHER, 3, &[]);
    third.run_cdb(&mut pair, 0, Cdb::Reserve, 0).good();
    let mut header = [0; 48];
    TaskManagementRequest {
        immediate: true,
        function: Function::LogicalUnitReset,
        lun: Lun::new(0),
        itt: Itt(0x7000_0000),
        referenced_task_tag: Itt::RESERVED,
        cmd_sn: CmdSn(first.cmd_sn),
        exp_stat_sn: first.exp_stat_sn,
        ref_cmd_sn: CmdSn(0),
        exp_data_sn: 0,
    }
    .emit(&mut header);
    first.send(&mut pair, &header, &[]);
    assert_eq!(
        first.receive_one(&mut pair).opcode(),
        Opcode::TaskManagementResponse
    );
    assert_eq!(
        attentions(&mut first, &mut pair, 0),
        [Sense::BUS_DEVICE_RESET_FUNCTION]
    );
    assert!(reads(&mut first, &mut pair));
}

#[test]
fn reserve_and_release_of_a_registrant_with_access_have_no_effect() {
    let (mut pair, mut first, mut second) = two_sessions();
    register(&mut first, &mut pair, 1);
    assert_eq!(
        first.run_cdb(&mut pair, 0, Cdb::Reserve, 0).status,
        CONFLICT
    );
    order(
        &mut first,
        &mut pair,
        ReserveOut::Reserve,
        WRITE_EXCLUSIVE,
        (1, 0),
    )
    .good();
    first.run_cdb(&mut pair, 0, Cdb::Reserve, 0).good();
    first.run_cdb(&mut pair, 0, Cdb::Release, 0).good();
    assert_eq!(held(&mut second, &mut pair), Some((1, WRITE_EXCLUSIVE)));
    assert_eq!(
        second.run_cdb(&mut pair, 0, Cdb::Release, 0).status,
        CONFLICT
    );
}

#[test]
fn the_end_of_a_discovery_session_leaves_the_reservation_of_its_initiator_port() {
    let (mut pair, mut first, mut second) = two_sessions();
    first.run_cdb(&mut pair, 0, Cdb::Reserve, 0).good();
    let connection = pair.connect();
    // The ISID of the first session.
    let mut discovery = Initiator::new(connection, 1);
    assert_eq!(discovery.isid, first.isid);
    let mut text = Vec::new();
    emit_pair(&mut text, "InitiatorName", INITIATOR);
    emit_pair(&mut text, "SessionType", "Discovery");
    let (stage, next) = (Stage::OperationalNegotiation, Stage::FullFeaturePhase);
    let (response, _) = discovery.login(&mut pair, stage, Some(next), &text);
    assert_eq!(response.status, LoginStatus::SUCCESS);
    pair.target.handle_closed(pair.time, connection);
    assert!(writes(&mut first, &mut pair));
    assert!(!reads(&mut second, &mut pair), "the reservation was lost");
}
