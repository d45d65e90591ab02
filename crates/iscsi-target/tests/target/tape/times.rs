//! Commands that let the tape of a drive move.

use hakaru_iscsi_target::IoOp;
use hakaru_tape::timing::Motion;

use super::*;

/// Runs a command whose accesses the storage holds, and returns the motions among them.
fn motions(scene: &mut Scene, lun: u8, cdb: Cdb) -> Vec<(u8, Motion)> {
    scene.pair.stalled = true;
    let initiator = &mut scene.initiator;
    let length = if lun == CHANGER { 12 } else { 10 };
    let cdb = cdb.emit();
    let command = initiator.command(lun, &cdb[..length.min(cdb.len())], false, false, 0);
    initiator.send_command(&mut scene.pair, &command, &[]);
    let mut motions = Vec::new();
    while let Some(io) = scene.pair.held.first() {
        if let IoOp::Tape { drive, motion } = io.op {
            motions.push((drive, motion));
            let lun = DRIVES[usize::from(drive)];
            let mut busy = scene.run(lun, Cdb::TestUnitReady, 0);
            if busy.status == Status::CHECK_CONDITION.0 {
                assert_eq!(busy.sense(), Sense::MEDIUM_MAY_HAVE_CHANGED);
                busy = scene.run(lun, Cdb::TestUnitReady, 0);
            }
            assert_eq!(busy.status, Status::BUSY.0, "the tape moves");
        }
        scene.pair.release_one();
    }
    scene.pair.stalled = false;
    Answer::of(scene.initiator.receive(&mut scene.pair), command.itt).good();
    motions
}

/// A library whose drives take time.
fn timed() -> Scene {
    let mut config = with_library(false);
    for lu in &mut config.lus {
        if let hakaru_iscsi_target::DeviceKind::Changer(library) = &mut lu.kind {
            library.library.timed = true;
        }
    }
    Scene::empty(config, &[])
}

#[test]
fn commands_move_the_tape_as_their_position_changes() {
    let mut scene = timed();
    let moving = |source, destination| {
        Cdb::Changer(ChangerCommand::MoveMedium {
            transport: 0,
            source,
            destination,
        })
    };
    let load = motions(&mut scene, CHANGER, moving(SLOT + 1, DRIVE + 1));
    assert_eq!(load, [(1, Motion::Load)]);
    let load = motions(&mut scene, CHANGER, moving(SLOT, DRIVE));
    assert_eq!(load, [(0, Motion::Load)]);
    scene.write(false, 700, &[1; 700]).good();
    let stream = |command| Cdb::Stream(command);
    let mark = |immediate| StreamCommand::WriteFilemarks {
        immediate,
        count: 1,
    };
    let drive = DRIVES[0];
    assert_eq!(motions(&mut scene, drive, stream(mark(true))), []);
    let flushed = motions(&mut scene, drive, stream(mark(false)));
    assert_eq!(flushed, [(0, Motion::Flush)]);
    let immediate = false;
    let rewind = || stream(StreamCommand::Rewind { immediate });
    let rewound = motions(&mut scene, drive, rewind());
    assert_eq!(rewound, [(0, Motion::Locate { to: 0 })]);
    let end = stream(StreamCommand::Space {
        code: SpaceCode::EndOfData,
        count: 0,
    });
    // A block occupies a multiple of 512 bytes, and filemarks occupy none.
    let spaced = motions(&mut scene, drive, end);
    assert_eq!(spaced, [(0, Motion::Locate { to: 1024 })]);
    let back = motions(&mut scene, CHANGER, moving(DRIVE, SLOT));
    assert_eq!(back, [(0, Motion::Unload)]);
    let exchanged = motions(&mut scene, CHANGER, moving(DRIVE + 1, DRIVE));
    assert_eq!(exchanged, [(1, Motion::Unload), (0, Motion::Load)]);
    let exchange = |source, first_destination, second_destination| {
        Cdb::Changer(ChangerCommand::ExchangeMedium {
            transport: 0,
            source,
            first_destination,
            second_destination,
        })
    };
    let swapped = motions(&mut scene, CHANGER, exchange(SLOT, DRIVE, SLOT));
    assert_eq!(swapped, [(0, Motion::Unload), (0, Motion::Load)]);
    let moved = motions(&mut scene, CHANGER, exchange(SLOT, DRIVE, DRIVE + 1));
    let expected = [(0, Motion::Unload), (1, Motion::Load), (0, Motion::Load)];
    assert_eq!(moved, expected);
    // Both drives unload before one of them loads.
    let swapped = motions(&mut scene, CHANGER, exchange(DRIVE, DRIVE + 1, DRIVE));
    let kinds: Vec<Motion> = swapped.iter().map(|(_, motion)| *motion).collect();
    let (unload, load) = (Motion::Unload, Motion::Load);
    assert_eq!(kinds, [unload, unload, load, load]);
}

#[test]
fn immediate_commands_end_before_the_tape_stands() {
    let mut scene = timed();
    scene.move_medium(SLOT, DRIVE).good();
    scene.run(DRIVES[0], Cdb::TestUnitReady, 0);
    for fill in 1..=3 {
        scene.write(false, 700, &[fill; 700]).good();
    }
    let immediate = true;
    let load = |load| StreamCommand::LoadUnload {
        immediate,
        load,
        retension: false,
        end_of_tape: false,
    };
    let rewind = StreamCommand::Rewind { immediate };
    let locate = StreamCommand::Locate {
        immediate,
        partition: None,
        object: 2,
    };
    let long = false;
    let erase = StreamCommand::Erase { long, immediate };
    let positioning = Sense::OPERATION_IN_PROGRESS;
    for (command, motion, meanwhile) in [
        (rewind, Motion::Locate { to: 0 }, positioning),
        (locate, Motion::Locate { to: 2048 }, positioning),
        (erase, Motion::Flush, positioning),
        (load(false), Motion::Unload, positioning),
        (load(true), Motion::Load, Sense::BECOMING_READY),
    ] {
        scene.pair.stalled = true;
        scene.stream(command, 0).good();
        let [held] = &scene.pair.held[..] else {
            panic!("{command:?} moves the tape");
        };
        assert_eq!(held.op, IoOp::Tape { drive: 0, motion });
        for _ in 0..2 {
            let test = scene.run(DRIVES[0], Cdb::TestUnitReady, 0);
            assert_eq!(test.sense(), meanwhile, "{command:?}");
        }
        assert_eq!(scene.read(false, 700, 700).sense(), meanwhile);
        // The state, and what does not concern the tape.
        let sense = scene.run(DRIVES[0], Cdb::parse(&[3, 0, 0, 0, 18, 0]).unwrap(), 18);
        let sense = sense.good();
        let additional = [meanwhile.additional.code, meanwhile.additional.qualifier];
        assert_eq!((sense[2], &sense[12..14]), (2, &additional[..]));
        let inquiry = Cdb::parse(&[0x12, 0, 0, 0, 36, 0]).unwrap();
        scene.run(DRIVES[0], inquiry, 36).good();
        assert_eq!(scene.move_medium(DRIVE, SLOT).status, Status::BUSY.0);
        scene.pair.release();
        let test = scene.run(DRIVES[0], Cdb::TestUnitReady, 0);
        if command == load(false) {
            assert_eq!(test.sense(), Sense::MEDIUM_NOT_PRESENT);
        } else {
            test.good();
        }
    }
    assert_eq!(scene.read(false, 700, 700).good(), [1; 700]);
    assert_eq!(scene.read(false, 700, 700).good(), [2; 700]);
    let end = scene.read(false, 700, 700);
    assert_eq!(end.sense(), Sense::END_OF_DATA_DETECTED);
}
