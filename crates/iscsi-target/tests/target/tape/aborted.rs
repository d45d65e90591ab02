//! Commands that are aborted, or whose session ends, while they make data durable.

use hakaru_iscsi_target::{IoFailure, IoOp, IoResult};

use super::durable::{kept, scene};
use super::*;

/// A cartridge with the synchronised block `kept`, and the buffered block `next`.
fn written() -> Scene {
    let mut scene = scene();
    scene.write(false, 4, b"kept").good();
    scene.marks(1).good();
    scene.write(false, 4, b"next").good();
    scene
}

/// Begins a command, and lets the storage end `ended` of its accesses. It holds the next one.
fn begin(scene: &mut Scene, lun: u8, cdb: &[u8], ended: usize) -> ScsiCommand {
    scene.pair.stalled = true;
    let command = scene.initiator.command(lun, cdb, false, false, 0);
    scene.initiator.send_command(&mut scene.pair, &command, &[]);
    for _ in 0..ended {
        scene.pair.release_one();
    }
    assert_eq!(scene.pair.held.len(), 1);
    command
}

/// WRITE FILEMARKS of one filemark without IMMED. Its accesses are a flush and a record.
const MARK: [u8; 6] = [0x10, 0, 0, 0, 1, 0];

/// Checks that the tape has two blocks, each with its filemark.
fn check_whole(scene: &mut Scene) {
    assert_eq!(scene.position(), 4);
    scene.rewind();
    assert_eq!(kept(scene), 4);
    for block in [b"kept", b"next"] {
        assert_eq!(scene.read(false, 4, 4).good(), block);
        assert_eq!(scene.read(false, 4, 4).sense, Some(filemark(4)));
    }
}

#[test]
fn aborted_synchronisation_loses_nothing() {
    for ended in [0, 1] {
        let mut scene = written();
        let command = begin(&mut scene, DRIVES[0], &MARK, ended);
        scene.abort(&command);
        assert!(scene.pair.received_nothing(scene.initiator.connection));
        scene.pair.release();
        scene.aborted();
        check_whole(&mut scene);
    }
}

#[test]
fn end_of_the_session_during_a_synchronisation_loses_nothing() {
    for ended in [0, 1] {
        let mut scene = written();
        begin(&mut scene, DRIVES[0], &MARK, ended);
        let (now, connection) = (scene.pair.time, scene.initiator.connection);
        scene.pair.target.handle_closed(now, connection);
        scene.pair.release();
        scene.initiator = scene.log_in(2);
        check_whole(&mut scene);
    }
}

#[test]
fn data_that_is_lost_after_the_abort_is_a_deferred_error_of_one_later_command() {
    let mut scene = written();
    let command = begin(&mut scene, DRIVES[0], &MARK, 0);
    scene.abort(&command);
    let io = scene.pair.held.remove(0);
    assert!(matches!(io.op, IoOp::FlushPart { .. }));
    let (now, failed) = (scene.pair.time, IoResult::Failed(IoFailure::Write));
    scene.pair.target.handle_io_done(now, io.id, failed);
    scene.pair.release();
    scene.aborted();
    let reported = scene.run(DRIVES[0], Cdb::TestUnitReady, 0);
    assert_eq!(reported.sense(), Sense::WRITE_ERROR.as_deferred());
    scene.run(DRIVES[0], Cdb::TestUnitReady, 0).good();
    // The tape ends at the last synchronisation.
    assert_eq!(scene.position(), 2);
    assert_eq!(scene.read(false, 4, 4).sense(), Sense::END_OF_DATA_DETECTED);
    scene.write(false, 4, b"next").good();
    scene.marks(1).good();
    check_whole(&mut scene);
}

#[test]
fn record_that_fails_after_the_abort_is_written_by_the_next_synchronisation() {
    let mut scene = written();
    let command = begin(&mut scene, DRIVES[0], &MARK, 1);
    scene.abort(&command);
    let io = scene.pair.held.remove(0);
    assert!(matches!(io.op, IoOp::Write { fua: true, .. }));
    let (now, failed) = (scene.pair.time, IoResult::Failed(IoFailure::Write));
    scene.pair.target.handle_io_done(now, io.id, failed);
    scene.pair.release();
    scene.aborted();
    assert_eq!(kept(&scene), 2);
    check_whole(&mut scene);
}

#[test]
fn blocks_after_an_aborted_synchronisation_follow_those_before() {
    for ended in [0, 1] {
        let mut scene = written();
        let command = begin(&mut scene, DRIVES[0], &MARK, ended);
        scene.abort(&command);
        scene.pair.release();
        scene.aborted();
        // Nothing but the blocks that were synchronised before may be missing after a crash.
        scene.write(false, 4, b"last").good();
        assert!(kept(&scene) >= 2);
        scene.marks(0).good();
        assert_eq!(kept(&scene), 5);
        scene.space(SpaceCode::Blocks, -1).good();
        assert_eq!(scene.read(false, 4, 4).good(), b"last");
    }
}

#[test]
fn cartridge_that_leaves_its_drive_in_an_aborted_move_is_made_durable_later() {
    let mut scene = written();
    let [high, low] = DRIVE.to_be_bytes();
    let [slot_high, slot_low] = SLOT.to_be_bytes();
    let cdb = [0xa5, 0, 0, 0, high, low, slot_high, slot_low, 0, 0, 0, 0];
    let command = begin(&mut scene, CHANGER, &cdb, 0);
    scene.abort(&command);
    scene.pair.release();
    scene.aborted();
    assert_eq!(kept(&scene), 2);
    let (lun, records) = scene.pair.target.synchronise_tapes().unwrap();
    assert_eq!((lun, records.len()), (CHANGER, 1));
    drop(records);
    scene.move_medium(SLOT, DRIVE).good();
    assert_eq!(kept(&scene), 3);
    scene.run(DRIVES[0], Cdb::TestUnitReady, 0);
    assert_eq!(scene.read(false, 4, 4).good(), b"kept");
}

#[test]
fn path_lost_in_mid_tape_leaves_the_cartridge_readable_to_its_last_filemark() {
    let mut scene = written();
    // The storage has neither ended nor begun a further block.
    scene.pair.stalled = true;
    let cdb = [0x0a, 0, 0, 0, 4, 0];
    let command = scene.initiator.command(DRIVES[0], &cdb, false, true, 4);
    scene
        .initiator
        .send_command(&mut scene.pair, &command, b"lost");
    let (now, connection) = (scene.pair.time, scene.initiator.connection);
    scene.pair.target.handle_closed(now, connection);
    assert_eq!(kept(&scene), 2);
    scene.pair.release();
    scene.initiator = scene.log_in(2);
    // Buffered blocks are still there, and the block of the command that got no status is not.
    assert_eq!(scene.position(), 3);
    scene.rewind();
    assert_eq!(scene.read(false, 4, 4).good(), b"kept");
    assert_eq!(scene.read(false, 4, 4).sense, Some(filemark(4)));
    assert_eq!(scene.read(false, 4, 4).good(), b"next");
    assert_eq!(scene.read(false, 4, 4).sense(), Sense::END_OF_DATA_DETECTED);
}
